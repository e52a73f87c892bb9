// Local simplification of pointwise, matmul, reduce and rowwise.
#include <algorithm>

#include "compiler/graph/passes/rewriter.h"
#include "compiler/graph/passes/simplify_expr.h"

namespace low {
namespace {

// A value that broadcasts to `shape` as `value` does, without operations that only repeat elements or add leading axes
// of 1. A reshape to `shape` itself stays: it can be moved behind the operation.
ValueId without_broadcast(const Rewriter& r, ValueId value, const Shape& shape) {
  while (true) {
    if (r.producer<Expand>(value)) {
      value = r.producer_operand(value);
      continue;
    }
    if (!r.producer<Reshape>(value)) return value;
    const ValueId inner = r.producer_operand(value);
    const Shape from = r.type(inner).shape;
    const Shape to = r.type(value).shape;
    const int extra = to.rank() - from.rank();
    if (to == shape || extra <= 0 || !std::equal(from.begin(), from.end(), to.begin() + extra)) return value;
    value = inner;
  }
}

// The expression and its operands without those that it does not read, and with equal ones once. Inputs below `fixed`
// stay.
struct Compact {
  Expr expr;
  std::vector<ValueId> operands;
};
Compact compact(const Rewriter& r, const Expr& expr, std::span<const ValueId> operands, uint16_t fixed,
                const Shape& shape) {
  const Expr simple = simplify_expr(expr);
  std::vector<uint16_t> renamed(simple.inputs, UINT16_MAX);
  std::vector<std::optional<DType>> types(simple.inputs);
  for (const ExprNode& node : simple.nodes) {
    if (node.op == ExprOp::input) types[node.argument] = node.dtype;
  }
  Compact out;
  for (uint16_t i = 0; i < simple.inputs; ++i) {
    if (i < fixed) {
      renamed[i] = i;
      continue;
    }
    if (!types[i]) continue;
    const ValueId operand = without_broadcast(r, operands[i - fixed], shape);
    const auto found = std::ranges::find(out.operands, operand);
    renamed[i] = static_cast<uint16_t>(fixed + (found - out.operands.begin()));
    if (found == out.operands.end()) out.operands.push_back(operand);
  }
  ExprBuilder builder(static_cast<int>(fixed + out.operands.size()));
  std::vector<uint16_t> arguments(simple.inputs);
  for (uint16_t i = 0; i < simple.inputs; ++i) {
    if (types[i]) arguments[i] = builder.input(renamed[i], *types[i]);
  }
  out.expr = std::move(builder).finish(builder.inline_expr(simple, arguments));
  return out;
}

Expr conversion(DType from, DType to) {
  ExprBuilder builder(1);
  const uint16_t value = builder.input(0, from);
  return std::move(builder).finish(builder.convert(value, to));
}

// Collapses the batch of a into its rows when b has none: one large product. The reshapes are views.
std::optional<ValueId> collapse_batch(Rewriter& r, const Matmul& matmul, std::span<const ValueId> operands,
                                      const Type& type, const std::string& name) {
  const Shape a = r.type(operands[0]).shape;
  const Shape b = r.type(operands[1]).shape;
  const auto batch_of = [](const Shape& shape) { return shape.extents().first(static_cast<size_t>(shape.rank() - 2)); };
  const auto all_ones = [](std::span<const int64_t> extents) {
    return std::ranges::all_of(extents, [](int64_t extent) { return extent == 1; });
  };
  const int rank = type.shape.rank();
  if (rank == 2 || !all_ones(batch_of(b))) return std::nullopt;
  const bool ones = all_ones(batch_of(a));
  if (matmul.transpose_a && !ones) return std::nullopt;
  int64_t batch = 1;
  for (const int64_t extent : batch_of(a)) batch *= extent;
  const auto last_two = [](const Shape& shape) { return Shape{shape[shape.rank() - 2], shape[shape.rank() - 1]}; };
  Shape left = last_two(a);
  Shape result = last_two(type.shape);
  left[0] *= batch;
  result[0] *= batch;
  // Extras: along columns only, or with all rows of all batches.
  std::vector<Shape> extras;
  for (const ValueId operand : operands.subspan(2)) {
    const Shape from = r.type(operand).shape;
    const std::span<const int64_t> rows = from.extents().first(static_cast<size_t>(std::max(from.rank() - 1, 0)));
    if (all_ones(rows)) {
      extras.push_back(from.rank() == 0 ? Shape() : Shape{from[from.rank() - 1]});
    } else if (from.rank() == rank && std::equal(from.begin(), from.end() - 1, type.shape.begin())) {
      extras.push_back({result[0], from[rank - 1]});
    } else {
      return std::nullopt;
    }
  }
  std::vector<ValueId> moved = {r.reshape(operands[0], left, name), r.reshape(operands[1], last_two(b), name)};
  for (size_t i = 0; i < extras.size(); ++i) moved.push_back(r.reshape(operands[i + 2], extras[i], name));
  return r.reshape(r.emit(matmul, moved, {type.dtype, result}, name), type.shape, name);
}

// The operand of a transpose that swaps the last two axes and nothing else.
std::optional<ValueId> swapped_operand(const Rewriter& r, ValueId value) {
  const std::optional<Transpose> transpose = r.producer<Transpose>(value);
  if (!transpose) return std::nullopt;
  const Shape& p = transpose->permutation;
  const int rank = p.rank();
  for (int i = 0; i < rank - 2; ++i) {
    if (p[i] != i) return std::nullopt;
  }
  if (rank < 2 || p[rank - 2] != rank - 1) return std::nullopt;
  return r.producer_operand(value);
}

}  // namespace

std::optional<Expr> compact_epilogue(const Rewriter& r, const Expr& expr, std::span<const ValueId> extras,
                                     DType accumulator, const Type& type, std::vector<ValueId>& operands) {
  Compact epilogue = compact(r, expr, extras, 1, type.shape);
  if (epilogue.operands.empty() && epilogue.expr == conversion(accumulator, type.dtype)) return std::nullopt;
  operands.insert(operands.end(), epilogue.operands.begin(), epilogue.operands.end());
  return std::move(epilogue.expr);
}

std::optional<ValueId> simplify_pointwise(Rewriter& r, const Pointwise& pointwise, std::span<const ValueId> operands,
                                          const Type& type, const std::string& name) {
  const Compact simple = compact(r, pointwise.expr, operands, 0, type.shape);
  if (simple.expr.nodes.size() == 1 && simple.expr.nodes[0].op == ExprOp::input) {
    return r.emit(Expand{}, simple.operands, type, name);
  }
  if (const std::optional<SunkReshape> sunk = sink_reshape(r, simple.operands, type.shape)) {
    return r.reshape(r.emit(Pointwise{simple.expr}, sunk->operands, {type.dtype, sunk->shape}, name), type.shape, name);
  }
  if (simple.expr == pointwise.expr && std::ranges::equal(simple.operands, operands)) return std::nullopt;
  return r.emit(Pointwise{simple.expr}, simple.operands, type, name);
}

// Axes of one element are not reduced, map and epilogue lose what they do not need; without axes, a reduction is
// pointwise.
std::optional<ValueId> simplify_reduce(Rewriter& r, const Reduce& reduce, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name) {
  const Type from = r.type(operands[0]);
  Reduce simple = reduce;
  const bool is_index = reduce.kind == Reduce::Kind::index_max || reduce.kind == Reduce::Kind::index_min;
  if (!is_index) {
    simple.axes = Shape();
    for (const int64_t axis : reduce.axes) {
      if (from.shape[static_cast<int>(axis)] != 1) simple.axes.append(axis);
    }
  }
  const Expr no_map = conversion(from.dtype, reduce.accumulate);
  if (reduce.map) {
    simple.map = simplify_expr(*reduce.map);
    if (*simple.map == no_map && from.dtype != DType::boolean) simple.map.reset();
  }
  std::vector<ValueId> values = {operands[0]};
  if (reduce.epilogue) {
    simple.epilogue = compact_epilogue(r, *reduce.epilogue, operands.subspan(1),
                                       is_index ? DType::i64 : reduce.accumulate, type, values);
  }
  if (simple.axes.rank() == 0) {
    ExprBuilder builder(static_cast<int>(values.size()));
    std::vector<uint16_t> inputs;
    for (size_t i = 0; i < values.size(); ++i) {
      inputs.push_back(builder.input(static_cast<int>(i), r.type(values[i]).dtype));
    }
    inputs[0] = builder.inline_expr(simple.map.value_or(no_map), {inputs.data(), 1});
    const Expr last = simple.epilogue.value_or(conversion(reduce.accumulate, type.dtype));
    Expr expr = std::move(builder).finish(builder.inline_expr(last, inputs));
    return r.emit(Pointwise{std::move(expr)}, values, type, name);
  }
  if (simple == reduce && std::ranges::equal(values, operands)) return std::nullopt;
  return r.emit(simple, values, type, name);
}

std::optional<ValueId> simplify_rowwise(Rewriter& r, const Rowwise& rowwise, std::span<const ValueId> operands,
                                        const Type& type, const std::string& name) {
  if (!rowwise.epilogue) return std::nullopt;
  Rowwise simple = rowwise;
  std::vector<ValueId> values = {operands[0]};
  const DType accumulator = r.type(operands[0]).dtype == DType::f64 ? DType::f64 : DType::f32;
  simple.epilogue = compact_epilogue(r, *rowwise.epilogue, operands.subspan(1), accumulator, type, values);
  if (simple == rowwise && std::ranges::equal(values, operands)) return std::nullopt;
  return r.emit(simple, values, type, name);
}

std::optional<ValueId> simplify_matmul(Rewriter& r, const Matmul& matmul, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name) {
  Matmul simple = matmul;
  std::vector<ValueId> values(operands.begin(), operands.end());
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (const std::optional<ValueId> inner = swapped_operand(r, values[side])) {
      values[side] = *inner;
      bool& transposed = side == 0 ? simple.transpose_a : simple.transpose_b;
      transposed = !transposed;
    }
  }
  if (matmul.epilogue) {
    values.resize(2);
    simple.epilogue = compact_epilogue(r, *matmul.epilogue, operands.subspan(2), matmul.accumulate, type, values);
  }
  if (const std::optional<ValueId> collapsed = collapse_batch(r, simple, values, type, name)) return collapsed;
  if (simple == matmul && std::ranges::equal(values, operands)) return std::nullopt;
  return r.emit(simple, values, type, name);
}

}  // namespace low
