// Operators whose elements are picked, or made, by index.
#include <fmt/format.h>

#include <cmath>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

// ONNX leaves constant indices that are out of range undefined; they are mistakes. `extent_of(i)`: the extent that
// index i is for.
template <typename Extent>
Result<void> check_indices(const Node& node, const ModelValue& indices, const Extent& extent_of) {
  if (indices.dtype() != DType::i32 && indices.dtype() != DType::i64) {
    return node.invalid(fmt::format("the indices are {}, i32 or i64 is expected", to_string(indices.type)));
  }
  if (!indices.constant) return {};
  for (int64_t i = 0; i < indices.constant->elements(); ++i) {
    const int64_t index = indices.constant->integer(i);
    const int64_t extent = extent_of(i);
    if (index < -extent || index >= extent) {
      return node.invalid(fmt::format("index {} is out of range for {} elements", index, extent));
    }
  }
  return {};
}

Handled gather(Node& node, const Gather& attributes) {
  const ModelValue& data = node.input(0);
  const ModelValue& indices = node.input(1);
  if (!gather_shape(attributes, data.shape(), indices.shape())) {
    return node.invalid(fmt::format("indices {} do not fit data {}", to_string(indices.type), to_string(data.type)));
  }
  return one(node.emit().gather(attributes, data, indices));
}

// A constant scalar, as ONNX's Range and OneHot have it: rank 0, or one element.
Result<ConstantPtr> constant_scalar(const Node& node, int i, std::string_view what) {
  const ModelValue& value = node.input(i);
  if (value.shape().elements() != 1) {
    return node.invalid(fmt::format("{} is {}, a scalar is expected", what, to_string(value.type)));
  }
  if (!value.constant) return node.unsupported(fmt::format("{} is not known before the model runs", what));
  return value.constant;
}

// column - row of the last two axes of `shape`, as [rows, columns] that broadcasts.
struct Grid {
  ModelValue rows, columns;
};
Result<Grid> grid(Node& node, int64_t rows, int64_t columns) {
  Grid result;
  LOW_TRY(result.rows, node.emit().iota(rows, 1));
  LOW_TRY(result.columns, node.emit().iota(columns, 0));
  return result;
}

// Nodes of an expression whose inputs 0 and 1 are the grid: column - row <op> k.
uint16_t compare_diagonal(ExprBuilder& expr, ExprOp op, int64_t k) {
  const uint16_t row = expr.input(0, DType::i64);
  const uint16_t column = expr.input(1, DType::i64);
  const uint16_t difference = expr.binary(ExprOp::sub, column, row);
  return expr.binary(op, difference, expr.constant_bits(DType::i64, static_cast<uint64_t>(k)));
}

Handled import_gather(Node& node) {
  const ModelValue& data = node.input(0);
  LOW_TRY(const int64_t stated, node.integer("axis", 0));
  LOW_TRY(const int axis, normalize_axis(node, stated, data.rank()));
  LOW_TRY_VOID(check_indices(node, node.input(1), [&](int64_t) { return data.shape()[axis]; }));
  if (data.rank() - 1 + node.input(1).rank() > max_rank) {
    return node.unsupported(fmt::format("a result of rank {} exceeds the largest rank, {}",
                                        data.rank() - 1 + node.input(1).rank(), max_rank));
  }
  return gather(node, Gather{.mode = Gather::Mode::axis, .axis = axis});
}

Handled import_gather_elements(Node& node) {
  const ModelValue& data = node.input(0);
  LOW_TRY(const int64_t stated, node.integer("axis", 0));
  LOW_TRY(const int axis, normalize_axis(node, stated, data.rank()));
  LOW_TRY_VOID(check_indices(node, node.input(1), [&](int64_t) { return data.shape()[axis]; }));
  return gather(node, Gather{.mode = Gather::Mode::elements, .axis = axis});
}

Handled import_gather_nd(Node& node) {
  const ModelValue& data = node.input(0);
  const ModelValue& indices = node.input(1);
  LOW_TRY(const int64_t batch, node.integer("batch_dims", 0));
  if (batch < 0 || batch >= data.rank() || batch >= indices.rank()) {
    return node.invalid(
        fmt::format("batch_dims is {} for {} and {}", batch, to_string(data.type), to_string(indices.type)));
  }
  const int64_t depth = indices.shape()[indices.rank() - 1];
  if (depth < 1 || depth > data.rank() - batch) {
    return node.invalid(
        fmt::format("the last axis of the indices has {} elements, 1 to {} are expected", depth, data.rank() - batch));
  }
  if (indices.rank() - 1 + data.rank() - batch - depth > max_rank) {
    return node.unsupported(fmt::format("the rank of the result exceeds the largest rank, {}", max_rank));
  }
  LOW_TRY_VOID(
      check_indices(node, indices, [&](int64_t i) { return data.shape()[static_cast<int>(batch + i % depth)]; }));
  return gather(node, Gather{.mode = Gather::Mode::nd, .batch_axes = static_cast<int>(batch)});
}

// Values, and where they stand: the values by their places. They are sorted, wanted or not.
Handled import_top_k(Node& node) {
  const ModelValue& x = node.input(0);
  if (x.dtype() == DType::boolean) return node.invalid(fmt::format("input 0 is {}", to_string(x.type)));
  LOW_TRY(const int64_t stated, node.integer("axis", -1));
  LOW_TRY(const int axis, normalize_axis(node, stated, x.rank()));
  LOW_TRY(const int64_t largest, node.integer("largest", 1));
  TopK top{.axis = axis, .smallest = largest == 0};
  if (node.has(1)) {
    LOW_TRY(const std::vector<int64_t> k, node.constant_integers(1, "k"));
    if (k.size() != 1) return node.invalid(fmt::format("k has {} elements, one is expected", k.size()));
    top.k = k[0];
  } else {
    LOW_TRY(top.k, node.integer("k", -1));
  }
  if (top.k < 0 || top.k > x.shape()[axis]) {
    return node.invalid(fmt::format("k is {}, 0 to {} are expected for axis {} of {}", top.k, x.shape()[axis], axis,
                                    to_string(x.type)));
  }
  Type places = x.type;
  places.dtype = DType::i64;
  places.shape[axis] = top.k;
  LOW_TRY(const ModelValue indices, node.emit().add(top, std::span(&x, 1), places));
  LOW_TRY(const ModelValue values, node.emit().gather({.mode = Gather::Mode::elements, .axis = axis}, x, indices));
  return std::vector{values, indices};
}

// on where the index, counted from the end when negative, is the position along the new axis; off elsewhere.
Handled import_one_hot(Node& node) {
  const ModelValue& indices = node.input(0);
  const ModelValue& values = node.input(2);
  LOW_TRY(const ConstantPtr stated_depth, constant_scalar(node, 1, "the depth"));
  LOW_TRY(const int64_t stated, node.integer("axis", -1));
  const double depth_value = stated_depth->value(0);
  if (!(depth_value >= 0 && depth_value < 0x1p40)) return node.invalid(fmt::format("the depth is {}", depth_value));
  const auto depth = static_cast<int64_t>(depth_value);
  if (values.rank() != 1 || values.shape()[0] != 2) {
    return node.invalid(fmt::format("the values are {}, two are expected", to_string(values.type)));
  }
  if (indices.rank() + 1 > max_rank) {
    return node.unsupported(fmt::format("rank {} exceeds the largest rank, {}", indices.rank() + 1, max_rank));
  }
  if (indices.dtype() == DType::boolean || is_fp8(indices.dtype())) {
    return node.invalid(fmt::format("the indices are {}, numbers are expected", to_string(indices.type)));
  }
  LOW_TRY(const int axis, normalize_axis(node, stated, indices.rank() + 1));
  Shape shape;
  for (int i = 0; i <= indices.rank(); ++i) {
    shape.append(i < axis ? indices.shape()[i] : i == axis ? 1 : indices.shape()[i - 1]);
  }
  LOW_TRY(const ModelValue places, node.emit().iota(depth, indices.rank() - axis));
  LOW_TRY(const ModelValue wanted, node.emit().reshape(indices, shape));
  LOW_TRY(const ModelValue off, node.emit().slice(values, {0}, {1}, {1}));
  LOW_TRY(const ModelValue on, node.emit().slice(values, {1}, {1}, {1}));
  ExprBuilder expr(4);
  const uint16_t index = expr.convert(expr.input(0, indices.dtype()), DType::i64);
  const uint16_t place = expr.input(1, DType::i64);
  const uint16_t negative = expr.binary(ExprOp::less, index, expr.constant(DType::i64, 0));
  const uint16_t count = expr.constant_bits(DType::i64, static_cast<uint64_t>(depth));
  const uint16_t from_end = expr.binary(ExprOp::add, index, count);
  const uint16_t chosen = expr.where(negative, from_end, index);
  const uint16_t hit = expr.binary(ExprOp::equal, chosen, place);
  const uint16_t on_value = expr.input(2, values.dtype());
  const uint16_t off_value = expr.input(3, values.dtype());
  const uint16_t result = expr.where(hit, on_value, off_value);
  const ModelValue operands[] = {wanted, places, on, off};
  return one(node.emit().pointwise(std::move(expr).finish(result), operands));
}

// Keeps column - row >= k (upper) or <= k (lower) of the last two axes.
Handled import_trilu(Node& node) {
  const ModelValue& x = node.input(0);
  if (x.rank() < 2) return node.invalid(fmt::format("input 0 is {}, a matrix is expected", to_string(x.type)));
  LOW_TRY(const int64_t upper, node.integer("upper", 1));
  int64_t k = 0;
  if (node.has(1)) {
    LOW_TRY(const std::vector<int64_t> stated, node.constant_integers(1, "k"));
    if (stated.size() != 1) return node.invalid(fmt::format("k has {} elements, one is expected", stated.size()));
    k = stated[0];
  }
  LOW_TRY(const Grid places, grid(node, x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]));
  ExprBuilder expr(3);
  const uint16_t kept = compare_diagonal(expr, upper != 0 ? ExprOp::greater_equal : ExprOp::less_equal, k);
  const uint16_t value = expr.input(2, x.dtype());
  const uint16_t result = expr.where(kept, value, expr.constant_bits(x.dtype(), 0));
  const ModelValue operands[] = {places.rows, places.columns, x};
  return one(node.emit().pointwise(std::move(expr).finish(result), operands));
}

Handled import_eye_like(Node& node) {
  const ModelValue& x = node.input(0);
  if (x.rank() != 2) return node.invalid(fmt::format("input 0 is {}, a matrix is expected", to_string(x.type)));
  LOW_TRY(const int64_t k, node.integer("k", 0));
  LOW_TRY(const auto stated, node.dtype("dtype"));
  LOW_TRY(const Grid places, grid(node, x.shape()[0], x.shape()[1]));
  ExprBuilder expr(2);
  const uint16_t diagonal = compare_diagonal(expr, ExprOp::equal, k);
  const uint16_t result = expr.convert(diagonal, stated.value_or(x.dtype()));
  const ModelValue operands[] = {places.rows, places.columns};
  return one(node.emit().pointwise(std::move(expr).finish(result), operands));
}

// start, start + delta, … before limit; all three are known when compiling.
// The elements of all floats are computed in double, so that stash_type's f32 is no limit.
Handled import_range(Node& node) {
  LOW_TRY_VOID(check_stash_type(node));
  ConstantPtr bounds[3];
  constexpr std::string_view names[] = {"the start", "the limit", "the delta"};
  const DType type = node.input(0).dtype();
  for (int i = 0; i < 3; ++i) {
    LOW_TRY(bounds[i], constant_scalar(node, i, names[i]));
    if (bounds[i]->dtype() != type || type == DType::boolean || is_fp8(type)) {
      return node.invalid(fmt::format("input {} is {}", i, to_string(node.input(i).type)));
    }
  }
  const double start = bounds[0]->value(0);
  const double delta = bounds[2]->value(0);
  const double count = std::max(0.0, std::ceil((bounds[1]->value(0) - start) / delta));
  if (!(count < 0x1p40)) return node.invalid("the number of elements is not a number, or too large");
  const Type result{type, Shape{static_cast<int64_t>(count)}};
  LOW_TRY(Tensor tensor, node.emit().new_constant(result));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (is_float(type)) {
      tensor.set_value(i, start + static_cast<double>(i) * delta);
    } else {
      // Integers are exact, also beyond 2^53.
      const auto first = static_cast<uint64_t>(bounds[0]->integer(0));
      const auto step = static_cast<uint64_t>(bounds[2]->integer(0));
      const uint64_t mask = ~uint64_t{0} >> (64 - 8 * byte_size(type));
      tensor.set_bits(i, (first + static_cast<uint64_t>(i) * step) & mask);
    }
  }
  return std::vector{constant_value(std::move(tensor))};
}

}  // namespace

std::span<const OperatorInfo> indexing_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "EyeLike", 9, 1, 1, 1, "dtype k", import_eye_like},
      {"", "Gather", 1, 2, 2, 1, "axis", import_gather},
      {"", "GatherElements", 11, 2, 2, 1, "axis", import_gather_elements},
      {"", "GatherND", 11, 2, 2, 1, "", import_gather_nd},
      {"", "GatherND", 12, 2, 2, 1, "batch_dims", import_gather_nd},
      {"", "OneHot", 9, 3, 3, 1, "axis", import_one_hot},
      {"", "Range", 11, 3, 3, 1, "", import_range},
      {"", "Range", 27, 3, 3, 1, "stash_type", import_range},
      {"", "TopK", 1, 1, 1, 2, "axis k", import_top_k},
      {"", "TopK", 10, 2, 2, 2, "axis", import_top_k},
      {"", "TopK", 11, 2, 2, 2, "axis largest sorted", import_top_k},
      {"", "Trilu", 14, 1, 2, 1, "upper", import_trilu},
  };
  return rows;
}

}  // namespace low
