// Kernel contracts: everything that picks one compiled kernel, and nothing that places it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/expr.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace low {

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
// "gemm", as in texts and in the names of kernels.
std::string_view name(Family family);

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

// What is wrong with a contract by itself, without a run, views or a machine; empty: nothing.
std::string problem(const KernelContract& contract);
// Of equal contracts the same.
uint64_t hash_of(const KernelContract& contract);

}  // namespace low
