// Reductions, positions of extremes and running sums.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/frontend/importer.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

// Ascending.
Result<Shape> axes_of(const Node& node, int axes_input_since) {
  std::optional<std::vector<int64_t>> stated;
  if (node.opset() < axes_input_since) {
    LOW_TRY(stated, node.integers("axes"));
  } else if (node.has(1)) {
    LOW_TRY(stated, node.constant_integers(1, "axes"));
  }
  LOW_TRY(const int64_t noop, node.integer("noop_with_empty_axes", 0));
  const int rank = node.input(0).rank();
  const bool empty = !stated || stated->empty();
  std::vector<bool> flags(static_cast<size_t>(rank), empty && noop == 0);
  if (!empty) {
    LOW_TRY(flags, mark_axes(node, *stated, rank));
  }
  Shape axes;
  for (int axis = 0; axis < rank; ++axis) {
    if (flags[static_cast<size_t>(axis)]) axes.append(axis);
  }
  return axes;
}

// A function of one value of the accumulator's dtype.
template <typename Function>
Expr function_of(DType from, DType compute, DType to, const Function& function) {
  Formula formula(1, compute);
  const Term result = function(formula.input(0, from));
  return std::move(formula).finish(result, to);
}

Result<ModelValue> without_axes(Node& node, const ModelValue& value, const Shape& axes, int64_t keep) {
  if (keep != 0) return value;
  Shape shape;
  for (int axis = 0; axis < value.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) shape.append(value.shape()[axis]);
  }
  return node.emit().reshape(value, shape);
}

// log(sum(exp(x - m))) + m, where m is the maximum, or 0 where that is not finite: nothing overflows that does not have
// to.
Result<ModelValue> log_sum_exp(Node& node, const ModelValue& x, const Shape& axes, DType compute) {
  const auto finite = [](Term m) {
    return where(abs(m) < std::numeric_limits<double>::infinity(), m, number_like(m, 0));
  };
  Reduce most{.kind = Reduce::Kind::max, .axes = axes, .accumulate = compute};
  LOW_TRY(const ModelValue maximum, node.emit().reduce(most, std::span(&x, 1), compute));
  Formula shifted(2, compute);
  const Term value = shifted.input(0, x.dtype());
  const Term power = exp(value - finite(shifted.input(1, compute)));
  const ModelValue pair[] = {x, maximum};
  LOW_TRY(const ModelValue powers, node.emit().pointwise(std::move(shifted).finish(power, compute), pair));
  Formula last(2, compute);
  const Term sum = last.input(0, compute);
  const Term result = log(sum) + finite(last.input(1, compute));
  Reduce total{.axes = axes, .accumulate = compute};
  total.epilogue = std::move(last).finish(result, x.dtype());
  const ModelValue operands[] = {powers, maximum};
  return node.emit().reduce(total, operands, x.dtype());
}

int64_t group_size(const Shape& shape, const Shape& axes) {
  int64_t size = 1;
  for (const int64_t axis : axes) size *= shape[static_cast<int>(axis)];
  return size;
}

Handled import_reduce(Node& node) {
  const ModelValue& x = node.input(0);
  const std::string_view name = std::string_view(node.op_type()).substr(6);  // without "Reduce"
  LOW_TRY(const Shape axes, axes_of(node, name == "Sum" ? 13 : 18));
  LOW_TRY(const int64_t keep, node.integer("keepdims", 1));
  const DType type = x.dtype();
  const bool extreme = name == "Max" || name == "Min";
  if (!is_arithmetic_float(type) && !is_integer(type) && !(extreme && type == DType::boolean)) {
    return node.invalid(fmt::format("input 0 is {}, which this operator does not take", to_string(x.type)));
  }
  // Integers stay integers where the result is one by nature; other functions of them are computed in f64 and
  // truncated.
  const bool exact = extreme || name == "Sum" || name == "Prod" || name == "L1" || name == "SumSquare";
  const DType compute = is_float(type)           ? compute_type(type)
                        : type == DType::boolean ? DType::u8
                        : exact                  ? type
                                                 : DType::f64;
  Reduce reduce{.axes = axes, .accumulate = compute};
  if (name == "Max") reduce.kind = Reduce::Kind::max;
  if (name == "Min") reduce.kind = Reduce::Kind::min;
  if (name == "Prod") reduce.kind = Reduce::Kind::product;
  const auto map = [&](const auto& function) { reduce.map = function_of(type, compute, compute, function); };
  const auto finally = [&](const auto& function) { reduce.epilogue = function_of(compute, compute, type, function); };
  Result<ModelValue> result = ModelValue{};
  if (name == "LogSumExp") {
    result = log_sum_exp(node, x, axes, compute);
  } else {
    if (type == DType::boolean) map([](Term a) { return a; });
    if (name == "L1") map([](Term a) { return abs(a); });
    if (name == "L2" || name == "SumSquare") map([](Term a) { return a * a; });
    if (name == "L2") finally([](Term a) { return sqrt(a); });
    if (name == "LogSum") finally([](Term a) { return log(a); });
    if (name == "Mean") {
      const auto size = static_cast<double>(group_size(x.shape(), axes));
      finally([&](Term a) { return a / size; });
    }
    result = node.emit().reduce(reduce, std::span(&x, 1), type);
  }
  if (!result) return std::unexpected(result.error());
  return one(without_axes(node, *result, axes, keep));
}

Handled import_arg_extreme(Node& node) {
  const ModelValue& x = node.input(0);
  if (!is_arithmetic_float(x.dtype()) && !is_integer(x.dtype())) {
    return node.invalid(fmt::format("input 0 is {}, numbers are expected", to_string(x.type)));
  }
  LOW_TRY(const int64_t stated, node.integer("axis", 0));
  LOW_TRY(const int axis, normalize_axis(node, stated, x.rank()));
  LOW_TRY(const int64_t keep, node.integer("keepdims", 1));
  LOW_TRY(const int64_t last, node.integer("select_last_index", 0));
  Reduce reduce{.kind = node.op_type() == "ArgMax" ? Reduce::Kind::index_max : Reduce::Kind::index_min,
                .axes = {axis},
                .accumulate = is_float(x.dtype()) ? compute_type(x.dtype()) : x.dtype(),
                .last = last != 0};
  if (x.shape()[axis] == 0 && reduced_shape(x.shape(), reduce.axes).elements() != 0) {
    return node.invalid(fmt::format("axis {} of {} is empty", axis, to_string(x.type)));
  }
  LOW_TRY(const ModelValue result, node.emit().reduce(reduce, std::span(&x, 1), DType::i64));
  return one(without_axes(node, result, reduce.axes, keep));
}

Handled import_cum_sum(Node& node) {
  const ModelValue& x = node.input(0);
  if (!is_arithmetic_float(x.dtype()) && !is_integer(x.dtype())) {
    return node.invalid(fmt::format("input 0 is {}, numbers are expected", to_string(x.type)));
  }
  LOW_TRY(const std::vector<int64_t> stated, node.constant_integers(1, "the axis"));
  if (stated.size() != 1) return node.invalid(fmt::format("{} axes, one is expected", stated.size()));
  LOW_TRY(const int axis, normalize_axis(node, stated[0], x.rank()));
  LOW_TRY(const int64_t exclusive, node.integer("exclusive", 0));
  LOW_TRY(const int64_t reverse, node.integer("reverse", 0));
  return one(node.emit().cumulative(Cumulative{axis, exclusive != 0, reverse != 0}, x));
}

}  // namespace

std::span<const OperatorInfo> reduce_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "ArgMax", 1, 1, 1, 1, "axis keepdims", import_arg_extreme},
      {"", "ArgMax", 12, 1, 1, 1, "axis keepdims select_last_index", import_arg_extreme},
      {"", "ArgMin", 1, 1, 1, 1, "axis keepdims", import_arg_extreme},
      {"", "ArgMin", 12, 1, 1, 1, "axis keepdims select_last_index", import_arg_extreme},
      {"", "CumSum", 11, 2, 2, 1, "exclusive reverse", import_cum_sum},
      {"", "ReduceL1", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceL1", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceL2", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceL2", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceLogSum", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceLogSum", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceLogSumExp", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceLogSumExp", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceMax", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceMax", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceMean", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceMean", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceMin", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceMin", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceProd", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceProd", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceSum", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceSum", 13, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
      {"", "ReduceSumSquare", 1, 1, 1, 1, "axes keepdims", import_reduce},
      {"", "ReduceSumSquare", 18, 1, 2, 1, "keepdims noop_with_empty_axes", import_reduce},
  };
  return rows;
}

}  // namespace low
