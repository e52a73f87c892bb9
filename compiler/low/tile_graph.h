// TileGraph: shards, copies and kernel runs, explicit, before placement.
//
// Flat vectors addressed by typed 32-bit ids; variable lists are spans into pools. TensorType, Geometry, KernelContract
// and CopyDescriptor are interned: equal means same id, and finish() numbers them by first use, so that ids depend on
// nothing else.
//
// Semantics
//  - An allocation is storage with a home: global memory, or one tile's memory. A view is a box inside an allocation:
//      element (i0, i1, …) lies at  offset + sum of i * stride + sum over terms of (iteration[level] mod period) *
//      stride
//    in elements of the allocation's storage.
//  - A superstep is: exchanges, barrier, then commands; each tile does its own in order. A tile may read what itself
//    wrote earlier in the superstep; what another tile wrote it may read in a later superstep only. No two tiles write
//    the same element in a superstep, and none writes what another reads in it.
//  - A region is a list of steps; Repeat runs its region `count` times, `iteration[level]` counting from 0.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/ids.h"
#include "compiler/graph/graph.h"
#include "compiler/low/constant_box.h"
#include "compiler/machine/machine.h"

namespace low {

using TypeId = Id<struct TensorTypeTag>;
using GeometryId = Id<struct GeometryTag>;
using ContractId = Id<struct ContractTag>;
using DescriptorId = Id<struct DescriptorTag>;
using AllocationId = Id<struct AllocationTag>;
using RunId = Id<struct RunTag>;
using CopyId = Id<struct CopyTag>;
using ExchangeId = Id<struct ExchangeTag>;
using SuperstepId = Id<struct SuperstepTag>;
using RepeatId = Id<struct RepeatTag>;
using RegionId = Id<struct RegionTag>;
using TileId = Id<struct TileTag>;

struct TensorType {
  DType dtype = DType::f32;
  Shape extents;  // row-major
  bool operator==(const TensorType&) const = default;
};

// The box of a view: extents, and their strides in elements.
struct Geometry {
  Shape extents;
  Strides strides;
  bool operator==(const Geometry&) const = default;
};

enum class Role : uint8_t { input, output, parameter, intermediate };

struct Allocation {
  TypeId type;
  TileId home;  // none: global memory
  Role role = Role::intermediate;
  uint32_t binding = 0;  // input / output: which one; parameter: index into TileGraph::constants()
};

struct Term {
  uint32_t level = 0;   // of the enclosing Repeats, 0 is outermost
  uint32_t period = 1;  // at least 1
  int64_t stride = 0;   // elements
  bool operator==(const Term&) const = default;
};

struct View {
  AllocationId allocation;
  GeometryId geometry;
  int64_t offset = 0;  // elements
  Span32 terms;        // TileGraph::terms()
};

enum class Family : uint8_t {
  gemm,       // result[m, n] = epilogue(sum over k of a[m, k] * b[k, n], extras…[m, n])
  pointwise,  // result[i…] = expression(operands…[i…])
  // The iteration space of these is (outer axes…, inner axes…), `inner` counting the last ones.
  // Inner axes are reduced, normalized or summed along. x is over all axes.
  reduce,      // result[o…] = epilogue(combined over i… of map(x[o…, i…]), extras…[o…]); see Reduce in graph.h
  rowwise,     // result[o…, i…] = epilogue(normalized x[o…, i…], extras…[o…, i…]); see Rowwise
  cumulative,  // result[o…, i] = running sum of x[o…, i]; inner = 1; see Cumulative
  // result[o…] = data[o…, indices[o…, 0], indices[o…, 1], …], an index for each inner axis; negative ones count from
  // the end, others are clamped. An axis along which data does not vary (broadcast) has extent 1 in data's view, which
  // is the box of all that may be read.
  gather,
  // One head of attention for m rows of q and a panel of n keys, with the softmax taken as the keys come by (flash
  // attention):
  //   score[i, j] = (sum over d of q[i, d] k[j, d]) * scale, softcap, mask as in Attention, -infinity where j > i +
  //   diagonal m'[i] = max(m[i], max over j of score[i, j]); p[i, j] = exp(score[i, j] - m'[i])
  //   l'[i] = l[i] * exp(m[i] - m'[i]) + sum over j of p[i, j]
  //   o'[i, c] = o[i, c] * exp(m[i] - m'[i]) + sum over j of p[i, j] v[j, c]
  // with m = -infinity, l = 0, o = 0 at first, and exp(-infinity - m') = 0 also where m' is -infinity. q, k and v are
  // rounded to `math`, p is not. A state holds (o, m, l) of a row as `accumulate` [m, dv + 2]: o in columns [0, dv),
  // then m, then l; it may be updated in place. The last panel's result[i, c] = epilogue(o'[i, c] / l'[i], extras…[i,
  // c]). See Attention for rows in which nothing takes part. Where v of a key that takes part in no row is not finite,
  // NaN may come of it or not.
  attention,
};

// How an operand's storage runs along an axis of the kernel's iteration space.
enum class Access : uint8_t {
  broadcast,  // stride 0, or the axis has extent 1
  unit,       // stride 1
  strided,    // any stride, given by the run
};

struct OperandContract {
  DType dtype = DType::f32;
  // One for each axis. gemm: a over (m, k), b over (k, n), extras and result over (m, n). pointwise, rowwise,
  // cumulative: all axes of the iteration space. reduce: x all axes, extras and result the outer ones. gather: data all
  // axes, indices the outer ones and one of as many elements as there are inner axes, result the outer ones. attention:
  // see AttentionKind.
  std::vector<Access> access;
  bool operator==(const OperandContract&) const = default;
};

// Everything that picks one compiled kernel, and nothing that places it.
struct KernelContract {
  Family family = Family::pointwise;
  Shape extents;                  // gemm: (m, n, k) of one run; others: the iteration space, at least one outer axis
  DType math = DType::f32;        // gemm: a is converted to this before it is multiplied; others: see below
  DType math_b = DType::f32;      // gemm: b, likewise; f32 in others
  DType accumulate = DType::f32;  // gemm, reduce, cumulative: of the sums; rowwise: f32 or f64, in which it computes
  int64_t stage_k = 0;            // gemm: depth in which the kernel stages operands; a hint that changes no result
  // gemm: a, b, extras…, result; pointwise: inputs…, result; reduce, rowwise: x, extras…, result; cumulative: x,
  // result; gather: data, indices, result.
  std::vector<OperandContract> operands;
  // gemm, reduce: input 0 is the accumulator (i64 for an index), then the extras. rowwise, attention: input 0 is the
  // normalized element, then the extras. pointwise: the body. Never without nodes, but for cumulative, gather and
  // partial attention, which have none.
  Expr expr;
  int inner = 0;            // reduce, rowwise, cumulative, gather: number of inner axes; at least 1, but for gather
  uint8_t kind = 0;         // of Reduce::Kind or Rowwise::Kind
  double epsilon = 0;       // rowwise
  bool last = false;        // reduce: index_max, index_min
  bool exclusive = false;   // cumulative
  bool reverse = false;     // cumulative
  std::optional<Expr> map;  // reduce: applied to each element; gives `accumulate`. Without one, elements are converted
  // attention: extents are (m, n, d, dv); math is what products are computed from, accumulate f32 or f64 (of the state,
  // too). operands: q [m, d], k [n, d], v [n, dv], then [m, n] of a mask if `masked`, then [1] i32, the diagonal, if
  // `causal`, then the state [m, dv + 2] that an earlier panel left if `continues`, then, in a last panel, extras [m,
  // dv], and the result: [m, dv], or the state [m, dv + 2] if `partial`.
  struct AttentionKind {
    bool masked = false, causal = false, continues = false, partial = false, empty_is_zero = false;
    double scale = 1, softcap = 0;
    double masked_score = -std::numeric_limits<double>::infinity();  // as in Attention
    bool operator==(const AttentionKind&) const = default;
  };
  AttentionKind attention;
  bool operator==(const KernelContract&) const = default;
};
// Extents of operand `index` of a contract: what its views have. The contract's rank and `inner` are right.
Shape operand_extents(const KernelContract& contract, size_t index);
// The outer and the inner axes of a contract's iteration space.
Shape outer_extents(const KernelContract& contract);
Shape inner_extents(const KernelContract& contract);
// gemm and reduce: the dtype of the expression's input 0, the accumulator. rowwise and attention: that of the
// normalized element.
DType leading_type(const KernelContract& contract);
// Number of the expression's inputs that are no operands, and the first operand that is one.
struct ExprOperands {
  size_t leading = 0, first = 0;
};
ExprOperands expr_operands(const KernelContract& contract);
// attention: which operands these are; 0 where there is none. `extras` is the first one behind them, the result if
// there are no extras.
struct AttentionOperands {
  size_t mask = 0, diagonal = 0, state = 0, extras = 3;
};
AttentionOperands attention_operands(const KernelContract& contract);
// Matrix operations of one run, a multiply-add counting two: 2 m n k of gemm, 2 m n (d + dv) of attention, 0 of others.
double matrix_flop(const KernelContract& contract);

struct KernelRun {
  ContractId contract;
  TileId tile;
  Span32 operands;  // TileGraph::views(): as the contract's operands; each view's geometry has the contract's axes
};

// Movement of elements as nested loops around a contiguous chunk, relative to both ends' origins: for counts (c0, c1,
// …) and chunk n,
//   destination[sum i * destination_stride + j] = convert(source[sum i * source_stride + j]),  j < n.
struct CopyDescriptor {
  DType source = DType::f32, destination = DType::f32;
  Overflow overflow = Overflow::propagate;
  Shape counts;            // loops from outermost to innermost; may be rank 0
  Strides source_strides;  // elements
  Strides destination_strides;
  int64_t chunk = 1;  // elements
  bool operator==(const CopyDescriptor&) const = default;
};

struct LocalCopy {
  DescriptorId descriptor;
  View source, destination;  // where the origins are; both views' geometry is the box that is moved
  TileId tile;
};

// From one tile (or global memory) to others; elements are moved in the row-major order of the boxes, which have equal
// extents.
struct Exchange {
  View source;
  Span32 destinations;  // TileGraph::views()
};

struct Command {
  enum class Kind : uint8_t { run, copy } kind = Kind::run;
  uint32_t index = 0;  // of a KernelRun or LocalCopy
  bool operator==(const Command&) const = default;
};

struct Superstep {
  Span32 exchanges;  // consecutive ExchangeIds: begin is the first
  Span32 commands;   // TileGraph::commands(): a tile's own in its order, tiles in ascending order
};

struct Step {
  enum class Kind : uint8_t { superstep, repeat } kind = Kind::superstep;
  uint32_t index = 0;
  bool operator==(const Step&) const = default;
};

// Of Repeats in Repeats; bounds recursion.
inline constexpr size_t max_nested_repeats = 64;

struct RepeatStep {
  uint32_t level = 0;
  uint64_t count = 1;  // at least 1
  RegionId body;
};

struct Region {
  Span32 steps;  // TileGraph::steps()
};

// A tensor of the model's interface lies dense and row-major in an allocation, from `offset` on. The allocation of an
// input lives from the start of a run, that of an output to its end, whatever its role.
struct InterfaceTensor {
  std::string name;
  Type type;
  AllocationId allocation;
  int64_t offset = 0;  // elements
  bool operator==(const InterfaceTensor&) const = default;
};

class TileGraph {
 public:
  const std::string& machine() const { return machine_; }
  uint32_t tiles() const { return tiles_; }
  std::span<const TensorType> types() const { return types_; }
  std::span<const Geometry> geometries() const { return geometries_; }
  std::span<const KernelContract> contracts() const { return contracts_; }
  std::span<const CopyDescriptor> descriptors() const { return descriptors_; }
  std::span<const Allocation> allocations() const { return allocations_; }
  std::span<const KernelRun> runs() const { return runs_; }
  std::span<const LocalCopy> copies() const { return copies_; }
  std::span<const Exchange> exchanges() const { return exchanges_; }
  std::span<const Superstep> supersteps() const { return supersteps_; }
  std::span<const RepeatStep> repeats() const { return repeats_; }
  std::span<const Region> regions() const { return regions_; }
  RegionId root() const { return root_; }
  std::span<const ConstantBox> constants() const { return constants_; }
  std::span<const InterfaceTensor> inputs() const { return inputs_; }
  std::span<const InterfaceTensor> outputs() const { return outputs_; }

  const TensorType& type(AllocationId id) const { return types_[allocations_[id.index].type.index]; }
  const Allocation& allocation(AllocationId id) const { return allocations_[id.index]; }
  const Geometry& geometry(const View& view) const { return geometries_[view.geometry.index]; }
  const KernelContract& contract(const KernelRun& run) const { return contracts_[run.contract.index]; }
  const CopyDescriptor& descriptor(const LocalCopy& copy) const { return descriptors_[copy.descriptor.index]; }
  std::span<const View> operands(const KernelRun& run) const { return slice(views_, run.operands); }
  std::span<const View> destinations(const Exchange& exchange) const { return slice(views_, exchange.destinations); }
  std::span<const Term> terms(const View& view) const { return slice(terms_, view.terms); }
  std::span<const Command> commands(const Superstep& step) const { return slice(commands_, step.commands); }
  std::span<const Step> steps(const Region& region) const { return slice(steps_, region.steps); }
  TileId tile(const Command& command) const {
    return command.kind == Command::Kind::run ? runs_[command.index].tile : copies_[command.index].tile;
  }
  int64_t storage_elements(AllocationId id) const { return type(id).extents.elements(); }
  uint64_t storage_bytes(AllocationId id) const {
    return static_cast<uint64_t>(storage_elements(id)) * byte_size(type(id).dtype);
  }

 private:
  friend class TileGraphBuilder;
  friend class TileGraphFinisher;
  std::string machine_;
  uint32_t tiles_ = 0;
  std::vector<TensorType> types_;
  std::vector<Geometry> geometries_;
  std::vector<KernelContract> contracts_;
  std::vector<CopyDescriptor> descriptors_;
  std::vector<Allocation> allocations_;
  std::vector<View> views_;
  std::vector<Term> terms_;
  std::vector<KernelRun> runs_;
  std::vector<LocalCopy> copies_;
  std::vector<Exchange> exchanges_;
  std::vector<Command> commands_;
  std::vector<Superstep> supersteps_;
  std::vector<Step> steps_;
  std::vector<RepeatStep> repeats_;
  std::vector<Region> regions_;
  RegionId root_;
  std::vector<ConstantBox> constants_;
  std::vector<InterfaceTensor> inputs_, outputs_;
};

// Everything equal, constants by content.
bool operator==(const TileGraph& a, const TileGraph& b);

// Bounds, contracts against views, tiles, homes, nesting, and the superstep rule on top of this header (by boxes;
// conservative overlap is exact for views of one allocation with equal strides). ErrorKind::internal naming superstep,
// tile and operands.
Result<void> verify(const TileGraph& graph);

// "low-tiles 2", the interned tables, allocations, then regions of supersteps of commands.
std::string print(const TileGraph& graph);
Result<TileGraph> parse_tile_graph(std::string_view text, const ConstantsByHash& constants);

}  // namespace low
