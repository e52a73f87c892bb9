// Graph passes. Each is a pure function Graph -> Graph; regions are handled recursively.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"

namespace low {

// How a machine's kernels want the operands of products.
struct ProductForms {
  std::vector<DType> fp8;       // the FP8 formats that are multiplied
  std::vector<DType> matrices;  // what matrix instructions multiply
};

struct PassOptions {
  // Keeps repeats of one iteration as they are written, with the operands that their iterations share or have each for
  // themselves: to compare what becomes of one block with what becomes of several.
  bool keep_single_repeats = false;
  // For legalize_products; nothing: kernels decode any operands, as they lie, while they pack them.
  std::optional<ProductForms> products = {};
};

// Before: whatever a frontend emits. After: dead operations are gone, equal operations are one, constant operands are
// folded (results of up to `fold_limit_bytes`, and all together no more than is in proportion to the constants that
// there are: what is left over is an operation like others), reshape/transpose/slice/expand/cast/concat chains are
// composed and identities dropped, gathers with constant evenly spaced indices are slices, reductions of single
// elements are pointwise, repeats of 0 iterations are replaced by their initial values and those of 1 by their bodies
// (unless `keep_single_repeats`), invariant operands that a body merely passes on, or that are constants, are resolved,
// and unused region inputs are removed. Constants come right before their first reader, and inputs of a region, within
// their kind, in the order of their first use: so that a model means one graph however it is written. Runs to a fixed
// point; first and last of the passes.
Result<Graph> canonicalize(const Graph& graph, const PassOptions& options = {});

// Before: attention written out, or operations `attention` whose heads the model splits and joins with transposes.
//   y = matmul(softmax(scale * matmul(q, transpose k) + mask), v), with q, k, v transposes of packed [batch, rows,
//   heads * d]
// After: one `attention` with the packed heads as operands, and nothing between; tensors [batch, heads, rows, d] that
// come from elsewhere are operands of batch * heads one-headed rows. Precondition: canonical.
// Taken: numbers multiplied with q, k or the scores (either way round), softcap, masks that are added or choose (Where,
// with -infinity or a number below -1e4), keys and values shared by groups of heads, casts between floats. In the
// model, f16 and bf16 scores and weights are rounded after each operation; an `attention` keeps them in f32, which is
// more precise, and what everybody does. Not taken: scores or weights that something else reads, a softmax along
// another axis, f64 together with narrower floats, anything quantized in between. Comes before the folding of
// dequantizations and fusion, which would put what surrounds the products into epilogues.
Result<Graph> fuse_attention(const Graph& graph);

// Before: matmul(dequantize(a, sa), dequantize(b, sb)) with FP8 or 8-bit integer storage. After: matmul(a, b, sa, sb,
// …) whose epilogue scales the accumulator. Precondition: canonical. Folds a scale per tensor on either side, per row
// (axis m) of a and per output channel (axis n) of b; a scale along k, or integers with a non-zero zero point, stays as
// it is. Looks through reshape, transpose and expand between the dequantize and the matmul (moving the dequantize below
// them). Comes before fusion, which would absorb the dequantize into pointwise expressions.
Result<Graph> fold_dequantize(const Graph& graph);

// Before: matmul and attention of FP8 operands in any formats. After: in formats of `forms.fp8`, else in bf16, which
// holds them all; the operands' values are the same but for factors of two, which the epilogue or the scale takes back.
//   matmul(a: f8e4m3fn, b: f8e4m3fn)  ->  4 * matmul(a / 2: f8e4m3fnuz, b / 2: f8e4m3fnuz), each by its bits
// E5M2 becomes E5M2FNUZ where it can hold no infinity, as a constant or saturated; FNUZ becomes OCP's formats where it is
// a constant that they hold. Products with an operand in another format than FP8 stay as they are. Constants b [k, n] of
// `forms.matrices` become [n, k] (transpose_b), so that lanes read runs along k. Constants are converted here, what the
// iterations of a body share before them. Precondition: canonical; comes before fusion, which makes conversions part of
// what computes their operands.
Result<Graph> legalize_products(const Graph& graph, const ProductForms& forms);

// Before: quantize, dequantize, cast and pointwise operations, one node each. After: chains and diamonds of
// single-purpose pointwise operations are one `pointwise`; those that only consume the result of one matmul, reduce,
// rowwise or attention (at its shape) are its epilogue, up to and including a final quantize or cast, and one of one
// operand that only feeds a reduce is its map. quantize, dequantize and cast become expressions. A producer is
// duplicated into its consumers only when it is a scalar-cheap (no transcendental) expression of constants or broadcast
// operands.
Result<Graph> fuse(const Graph& graph);

// Before: a model with its layers written out one after another. After: a run of N >= 2 layers is one `repeat` with the
// layer as its body.
//   y0 = matmul(x, w0); z0 = gelu(y0); y1 = matmul(z0, w1); z1 = gelu(y1)
//   z1 = repeat(x, [w0, w1]) { gelu(matmul(carried, iterated)) }
// Layers are consecutive operations with equal attributes and types. What flows from a layer to the next one is carried
// (there is at least one such value, and it depends on the one before); what is the same for all, equal constants
// included, is invariant; constants that differ are stacked along a new axis 0 and iterated, scalars too; a layer's
// value that operations after the run read is collected, and they read a slice of it, unless it is what the last layer
// hands on. Refused: operands that are none of these (other values that differ between layers, values of two layers
// before), results or constants of max_rank dimensions, and layers of fewer than 4 computing operations without a
// matmul or the like. The run that saves most operations comes first, then the shortest layer; runs in regions and
// several runs of one graph are rolled, and a graph without layers is returned as it is. Comes first: canonicalization
// and fusion move operations across the borders of layers and turn constants into literals, after which the first layer
// is unlike the second.
Result<Graph> roll_layers(const Graph& graph);

// For machines without global memory, after run_passes. Before: reduce and rowwise over any axes, cumulative along any
// axis, pad. After: those three along the last axis alone, with transposes and reshapes around them (a reduce over
// several axes takes the last one first, where it is among them); pads are concats, axis by axis.
//   reduce {1} x[2, 3, 5]  ->  reshape [2, 1, 5] of reduce {1} of reshape [10, 3] of transpose {0, 2, 1} x
//   pad edge before {2} x[4] to [6]  ->  concat(expand [2] of slice [1] x, x)
// The result is canonical, unless that would undo it. A graph without such operations is returned as it is.
Result<Graph> legalize_for_distributed_memory(const Graph& graph, const PassOptions& options = {});

// roll_layers, canonicalize, fuse_attention, canonicalize, fold_dequantize, canonicalize, legalize_products
// (if asked for), canonicalize, fuse, canonicalize.
Result<Graph> run_passes(const Graph& graph, const PassOptions& options = {});

}  // namespace low
