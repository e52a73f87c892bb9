// Scatters, in terms of one that updates rows of a matrix: their indices become numbers of rows.
#include <fmt/format.h>

#include "compiler/base/named.h"
#include "compiler/frontend/importer.h"

namespace low {
namespace {

// The numbers of the rows that `indices` name, as a list: the sum of index * stride over some axes. Input i of the
// expression is the index along an axis; one that is no element of the axis, counted from the end when negative, makes
// the number -1, which no row has. Inputs behind them are added as they are.
struct NamedAxis {
  int64_t extent = 1, stride = 1;
};
Result<ModelValue> row_numbers(Node& node, std::span<const ModelValue> operands, std::span<const NamedAxis> axes,
                               std::span<const int64_t> other_strides) {
  ExprBuilder expr(operands.size());
  const auto number = [&](int64_t value) { return expr.constant_bits(DType::i64, static_cast<uint64_t>(value)); };
  uint16_t sum = number(0), named = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    uint16_t index = expr.convert(expr.input(static_cast<uint16_t>(i), operands[i].dtype()), DType::i64);
    const bool is_index = i < axes.size();
    if (is_index) {
      const uint16_t from_end = expr.binary(ExprOp::add, index, number(axes[i].extent));
      index = expr.where(expr.binary(ExprOp::less, index, number(0)), from_end, index);
      const uint16_t begins = expr.binary(ExprOp::greater_equal, index, number(0));
      const uint16_t ends = expr.binary(ExprOp::less, index, number(axes[i].extent));
      const uint16_t within = expr.binary(ExprOp::logical_and, begins, ends);
      named = i == 0 ? within : expr.binary(ExprOp::logical_and, named, within);
    }
    const int64_t stride = is_index ? axes[i].stride : other_strides[i - axes.size()];
    sum = expr.binary(ExprOp::add, sum, expr.binary(ExprOp::mul, index, number(stride)));
  }
  int64_t rows = 1;
  for (const NamedAxis& axis : axes) rows = std::max(rows, axis.extent * axis.stride);
  for (size_t i = 0; i < other_strides.size(); ++i)
    rows = std::max(rows, other_strides[i] * operands[axes.size() + i].shape().elements());
  uint16_t result = expr.where(named, sum, number(-1));
  if (rows <= INT32_MAX) result = expr.convert(result, DType::i32);  // half as much to read
  LOW_TRY(const ModelValue numbers, node.emit().pointwise(std::move(expr).finish(result), operands));
  return node.emit().reshape(numbers, {numbers.shape().elements()});
}

Result<Scatter> scatter_of(Node& node) {
  const ModelValue& indices = node.input(1);
  if (indices.dtype() != DType::i32 && indices.dtype() != DType::i64)
    return node.invalid(fmt::format("the indices are {}, i32 or i64 is expected", to_string(indices.type)));
  LOW_TRY(const std::string stated, node.text("reduction", "none"));
  const std::optional<Scatter::Kind> kind =
      stated == "none" ? Scatter::Kind::replace : named<Scatter::Kind>(stated, scatter_kinds);
  if (!kind || stated == "replace") return node.invalid(fmt::format("reduction \"{}\"", stated));
  if (*kind != Scatter::Kind::replace && node.input(0).dtype() == DType::boolean)
    return node.unsupported(fmt::format("reduction \"{}\" of booleans", stated));
  return Scatter{*kind};
}

// `rows` x `columns` elements of data; a row of updates for each of the numbers.
Handled scatter(Node& node, const Scatter& attributes, const ModelValue& numbers, int64_t rows, int64_t columns) {
  const ModelValue& data = node.input(0);
  LOW_TRY(const ModelValue matrix, node.emit().reshape(data, {rows, columns}));
  LOW_TRY(const ModelValue updates, node.emit().reshape(node.input(2), {numbers.shape()[0], columns}));
  const ModelValue operands[] = {matrix, numbers, updates};
  LOW_TRY(const ModelValue result, node.emit().add(attributes, operands, matrix.type));
  return one(node.emit().reshape(result, data.shape()));
}

// Scatter and ScatterElements: data[i… with i[axis] = indices[i…]] <- updates[i…].
Handled import_scatter_elements(Node& node) {
  if (node.op_type() == "Scatter" && node.opset() > 10)
    return node.invalid(fmt::format("opset {} has no such operator; ScatterElements is expected", node.opset()));
  const ModelValue &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  LOW_TRY(const int64_t stated, node.integer("axis", 0));
  LOW_TRY(const int axis, normalize_axis(node, stated, data.rank()));
  LOW_TRY(const Scatter attributes, scatter_of(node));
  bool fits = indices.rank() == data.rank() && updates.type == Type{data.dtype(), indices.shape()};
  for (int i = 0; fits && i < data.rank(); ++i) fits = i == axis || indices.shape()[i] <= data.shape()[i];
  if (!fits) {
    return node.invalid(fmt::format("indices {} and updates {} do not fit data {}", to_string(indices.type),
                                    to_string(updates.type), to_string(data.type)));
  }
  const Strides strides = data.shape().row_major_strides();
  const NamedAxis named[] = {{data.shape()[axis], strides[axis]}};
  std::vector<ModelValue> operands{indices};
  std::vector<int64_t> other_strides;
  for (int i = 0; i < data.rank(); ++i) {
    if (i == axis || indices.shape()[i] == 1) continue;
    LOW_TRY(const ModelValue places, node.emit().iota(indices.shape()[i], data.rank() - 1 - i));
    operands.push_back(places);
    other_strides.push_back(strides[i]);
  }
  LOW_TRY(const ModelValue numbers, row_numbers(node, operands, named, other_strides));
  return scatter(node, attributes, numbers, data.shape().elements(), 1);
}

// data[indices[i…, 0], indices[i…, 1], …] <- updates[i…], slices of the axes behind.
Handled import_scatter_nd(Node& node) {
  const ModelValue &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  LOW_TRY(const Scatter attributes, scatter_of(node));
  const int leading = indices.rank() - 1;
  const int64_t depth = leading < 0 ? 0 : indices.shape()[leading];
  if (depth < 1 || depth > data.rank())
    return node.invalid(
        fmt::format("indices {}, a last axis of 1 to {} elements is expected", to_string(indices.type), data.rank()));
  std::vector<int64_t> expected;
  for (int i = 0; i < leading; ++i) expected.push_back(indices.shape()[i]);
  for (int i = static_cast<int>(depth); i < data.rank(); ++i) expected.push_back(data.shape()[i]);
  const std::optional<Shape> shape = shape_of(expected);
  if (!shape || updates.type != Type{data.dtype(), *shape}) {
    return node.invalid(fmt::format("updates {} do not fit indices {} and data {}", to_string(updates.type),
                                    to_string(indices.type), to_string(data.type)));
  }
  std::vector<ModelValue> operands;
  std::vector<NamedAxis> named(static_cast<size_t>(depth));
  int64_t rows = 1, columns = 1;
  for (int i = data.rank() - 1; i >= 0; --i) {
    if (i >= depth) {
      columns *= data.shape()[i];
    } else {
      named[static_cast<size_t>(i)] = {data.shape()[i], rows};
      rows *= data.shape()[i];
    }
  }
  Shape start, step, extents = indices.shape();
  for (int i = 0; i <= leading; ++i) {
    start.append(0);
    step.append(1);
  }
  extents[leading] = 1;
  for (int64_t i = 0; i < depth; ++i) {
    start[leading] = i;
    LOW_TRY(const ModelValue along, node.emit().slice(indices, start, step, extents));
    operands.push_back(along);
  }
  LOW_TRY(const ModelValue numbers, row_numbers(node, operands, named, {}));
  return scatter(node, attributes, numbers, rows, columns);
}

}  // namespace

std::span<const OperatorInfo> scatter_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Scatter", 9, 3, 3, 1, "axis", import_scatter_elements},
      {"", "ScatterElements", 11, 3, 3, 1, "axis", import_scatter_elements},
      {"", "ScatterElements", 16, 3, 3, 1, "axis reduction", import_scatter_elements},
      {"", "ScatterND", 11, 3, 3, 1, "", import_scatter_nd},
      {"", "ScatterND", 16, 3, 3, 1, "reduction", import_scatter_nd},
  };
  return rows;
}

}  // namespace low
