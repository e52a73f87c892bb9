// The families of kernels: what each computes, and the fields of its contracts besides operands and expression. Each
// names its fields once, `fields(contract, visit)` calls visit(name, field) for each of them, in the order of their
// text; a kind comes with the names of its values, visit(name, field, names).
//
// Extents are those of a run: they follow from its views. A contract holds only those that its kernel unrolls, and
// fields that say how the kernel goes about runs (its configuration); the latter change no result but by rounding.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/graph.h"
#include "runtime/tensor/dtype.h"

namespace low {

// result[m, n] = epilogue(sum over k of a[m, k] * b[k, n], extras…[m, n]). A run's extents are (m, n, k); operands a
// over (m, k), b over (k, n), extras… and result over (m, n).
struct GemmKernel {
  static constexpr std::string_view name = "gemm";
  DType math_a = DType::f32, math_b = DType::f32;  // a and b are converted to these before they are multiplied
  DType accumulate = DType::f32;                   // of the sums
  int64_t stage_k = 0;      // depth in which the kernel stages operands; a hint that changes no result
  std::optional<int> rows;  // m of every run, where it is so small that the kernel unrolls it
  bool operator==(const GemmKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("math_a", self.math_a);
    visit("math_b", self.math_b);
    visit("accumulate", self.accumulate);
    visit("stage_k", self.stage_k);
    visit("rows", self.rows);
  }
};

// result[i…] = expression(operands…[i…]); all operands are over all axes.
struct PointwiseKernel {
  static constexpr std::string_view name = "pointwise";
  bool operator==(const PointwiseKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};

// The iteration space of the next four is (outer axes…, inner axes…), `inner` counting the last ones, at least one
// outer axis. A group is what differs in inner axes only. `columns` is an outer axis along which x is contiguous: groups
// that are neighbours there are computed side by side; without it, one group goes after the other.

// result[o…] = epilogue(combined over i… of map(x[o…, i…]), extras…[o…]); see Reduce in graph.h. Operands: x over all
// axes, extras… and result over the outer ones.
struct ReduceKernel {
  static constexpr std::string_view name = "reduce";
  int inner = 1;
  Reduce::Kind kind = Reduce::Kind::sum;
  DType accumulate = DType::f32;  // elements are converted to this and combined in it
  bool last = false;              // index_max, index_min: of equal elements the last
  std::optional<int> columns;
  std::optional<Expr> map;  // applied to each element instead of the conversion; gives `accumulate`
  bool operator==(const ReduceKernel&) const = default;
  bool is_index() const { return kind == Reduce::Kind::index_max || kind == Reduce::Kind::index_min; }

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("inner", self.inner);
    visit("kind", self.kind, reduce_kinds);
    visit("accumulate", self.accumulate);
    visit("last", self.last);
    visit("columns", self.columns);
    visit("map", self.map);
  }
};

// result[o…, i…] = epilogue(normalized x[o…, i…], extras…[o…, i…]); see Rowwise in graph.h. All operands are over all
// axes.
struct RowwiseKernel {
  static constexpr std::string_view name = "rowwise";
  int inner = 1;
  Rowwise::Kind kind = Rowwise::Kind::softmax;
  DType accumulate = DType::f32;  // f32 or f64, in which it computes
  double epsilon = 0;
  std::optional<int> columns;
  bool long_rows = false;  // a group is too long to be kept in scratch: it is read again, piece by piece
  bool operator==(const RowwiseKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("inner", self.inner);
    visit("kind", self.kind, rowwise_kinds);
    visit("accumulate", self.accumulate);
    visit("epsilon", self.epsilon);
    visit("columns", self.columns);
    visit("long_rows", self.long_rows);
  }
};

// result[o…, i] = running sum of x[o…, i]; see Cumulative in graph.h. One inner axis; x and result are over all axes.
struct CumulativeKernel {
  static constexpr std::string_view name = "cumulative";
  static constexpr int inner = 1;
  DType accumulate = DType::f32;  // of the sums
  bool exclusive = false, reverse = false;
  std::optional<int> columns;
  bool operator==(const CumulativeKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("accumulate", self.accumulate);
    visit("exclusive", self.exclusive);
    visit("reverse", self.reverse);
    visit("columns", self.columns);
  }
};

// result[o…] = data[o…, indices[o…, 0], indices[o…, 1], …], an index for each inner axis, of which there may be none;
// negative ones count from the end, others are clamped. Operands: data over all axes, indices over the outer ones and
// one of as many elements as there are inner axes, result over the outer ones. An axis along which data does not vary
// (broadcast) has extent 1 in data's view, which is the box of all that may be read.
struct GatherKernel {
  static constexpr std::string_view name = "gather";
  int inner = 1;
  bool operator==(const GatherKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("inner", self.inner);
  }
};

// One head of attention for m rows of q and a panel of n keys, with the softmax taken as the keys come by (flash
// attention):
//
//   score[i, j] = (sum over d of q[i, d] k[j, d]) * scale, softcap, mask as in Attention, -infinity where j > i +
//   diagonal
//
//   m'[i] = max(m[i], max over j of score[i, j]); p[i, j] = exp(score[i, j] - m'[i])
//
//   l'[i] = l[i] * exp(m[i] - m'[i]) + sum over j of p[i, j]
//
//   o'[i, c] = o[i, c] * exp(m[i] - m'[i]) + sum over j of p[i, j] v[j, c]
//
// with m = -infinity, l = 0, o = 0 at first, and exp(-infinity - m') = 0 also where m' is -infinity. q, k and v are
// rounded to `math`, p is not. A state holds (o, m, l) of a row as `accumulate` [m, dv + 2]: o in columns [0, dv), then
// m, then l; it may be updated in place. The last panel's result[i, c] = epilogue(o'[i, c] / l'[i], extras…[i, c]). See
// Attention in graph.h for rows in which nothing takes part. Where v of a key that takes part in no row is not finite,
// NaN may come of it or not.
//
// A run's extents are (m, n, d, dv). Operands: q [m, d], k [n, d], v [n, dv], then [m, n] of a mask if `masked`, then [1] i32,
// the diagonal, if `causal`, then the state [m, dv + 2] that an earlier panel left if `continues`, then, in a last
// panel, extras [m, dv], and the result: [m, dv], or the state [m, dv + 2] if `partial`, without an expression.
struct AttentionKernel {
  static constexpr std::string_view name = "attention";
  int64_t d = 1, dv = 1;          // of every run
  DType math = DType::f32;        // what products are computed from
  DType accumulate = DType::f32;  // f32 or f64: of sums and of the state
  bool masked = false, causal = false, continues = false, partial = false, empty_is_zero = false;
  double scale = 1, softcap = 0;
  double masked_score = -std::numeric_limits<double>::infinity();  // as in Attention
  bool operator==(const AttentionKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("d", self.d);
    visit("dv", self.dv);
    visit("math", self.math);
    visit("accumulate", self.accumulate);
    visit("scale", self.scale);
    visit("softcap", self.softcap);
    visit("masked_score", self.masked_score);
    visit("masked", self.masked);
    visit("causal", self.causal);
    visit("continues", self.continues);
    visit("partial", self.partial);
    visit("empty_is_zero", self.empty_is_zero);
  }
};

}  // namespace low
