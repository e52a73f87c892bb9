// Local simplification of movement, casts and quantization; simplify_compute.cpp and simplify_pieces.cpp have the rest.
#include <algorithm>

#include "compiler/graph/passes/rewriter.h"
#include "compiler/graph/passes/simplify_expr.h"

namespace low {
namespace {

std::optional<ValueId> simplify_reshape(Rewriter& r, ValueId x, const Type& type, const std::string& name) {
  if (r.type(x).shape == type.shape) return x;
  if (r.producer<Reshape>(x)) return r.emit(Reshape{}, {r.producer_operand(x)}, type, name);
  return std::nullopt;
}

std::optional<ValueId> simplify_transpose(Rewriter& r, const Transpose& transpose, ValueId x, const Type& type,
                                          const std::string& name) {
  const Shape& permutation = transpose.permutation;
  // Axes of one element move freely: when the others keep their order, no element moves.
  const Shape from = r.type(x).shape;
  int64_t last = -1;
  bool ordered = true;
  bool identity = true;
  for (int i = 0; i < permutation.rank(); ++i) {
    identity = identity && permutation[i] == i;
    if (from[static_cast<int>(permutation[i])] == 1) continue;
    ordered = ordered && permutation[i] > last;
    last = permutation[i];
  }
  if (identity) return x;
  if (ordered) return r.emit(Reshape{}, {x}, type, name);
  if (const std::optional<Transpose> inner = r.producer<Transpose>(x)) {
    Shape composed;
    for (const int64_t axis : permutation) composed.append(inner->permutation[static_cast<int>(axis)]);
    return r.emit(Transpose{composed}, {r.producer_operand(x)}, type, name);
  }
  return std::nullopt;
}

std::optional<ValueId> simplify_slice(Rewriter& r, const Slice& slice, ValueId x, const Type& type,
                                      const std::string& name) {
  const Shape from = r.type(x).shape;
  // What is not read has one form.
  Slice normal = slice;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (type.shape[i] == 0) normal.start[i] = 0;
    if (type.shape[i] <= 1) normal.step[i] = 1;
  }
  // The whole extent in steps forward is the operand itself.
  if (from == type.shape && std::ranges::all_of(normal.step, [](int64_t step) { return step > 0; })) return x;
  if (const std::optional<Slice> inner = r.producer<Slice>(x)) {
    for (int i = 0; i < type.shape.rank(); ++i) {
      if (type.shape[i] == 0) continue;
      normal.start[i] = inner->start[i] + normal.start[i] * inner->step[i];
      // Steps of more than one element are below the extent, so that the product fits.
      normal.step[i] = type.shape[i] == 1 ? 1 : normal.step[i] * inner->step[i];
    }
    return r.emit(normal, {r.producer_operand(x)}, type, name);
  }
  if (normal == slice) return std::nullopt;
  return r.emit(normal, {x}, type, name);
}

std::optional<ValueId> simplify_expand(Rewriter& r, ValueId x, const Type& type, const std::string& name) {
  const Shape from = r.type(x).shape;
  if (from == type.shape) return x;
  if (r.producer<Expand>(x)) return r.emit(Expand{}, {r.producer_operand(x)}, type, name);
  if (from.elements() == type.shape.elements()) return r.emit(Reshape{}, {x}, type, name);
  return std::nullopt;
}

// (operand at the lower rank, then the operation, then a reshape) for an operation with one full operand.
template <typename Kind>
std::optional<ValueId> sink_below(Rewriter& r, const Kind& kind, std::span<const ValueId> operands, const Type& type,
                                  const std::string& name) {
  const std::optional<SunkReshape> sunk = sink_reshape(r, operands.first(1), type.shape);
  if (!sunk) return std::nullopt;
  std::vector<ValueId> moved(operands.begin(), operands.end());
  moved[0] = sunk->operands[0];
  return r.reshape(r.emit(kind, moved, {type.dtype, sunk->shape}, name), type.shape, name);
}

std::optional<ValueId> simplify_cast(Rewriter& r, const Cast& cast, ValueId x, const Type& type,
                                     const std::string& name) {
  const Type from = r.type(x);
  if (from.dtype == type.dtype) return x;
  if (r.producer<Cast>(x)) {
    const ValueId inner = r.producer_operand(x);
    if (is_redundant_conversion(r.type(inner).dtype, from.dtype, type.dtype)) return r.emit(cast, {inner}, type, name);
  }
  // Only the FP8 formats know saturation.
  if (cast.overflow == Overflow::saturate && !is_fp8(type.dtype)) return r.emit(Cast{}, {x}, type, name);
  return sink_below(r, cast, std::span(&x, 1), type, name);
}

bool is_zero(const std::shared_ptr<const Tensor>& tensor) {
  if (tensor == nullptr) return false;
  for (int64_t i = 0; i < tensor->elements(); ++i) {
    if (tensor->value(i) != 0) return false;
  }
  return true;
}

// For quantize and dequantize alike.
template <typename Kind>
std::optional<ValueId> simplify_quantization(Rewriter& r, const Kind& kind, std::span<const ValueId> operands,
                                             const Type& type, const std::string& name) {
  if (operands.size() == 3 && is_zero(r.tensor(operands[2]))) return r.emit(kind, operands.first(2), type, name);
  if (kind.axis && type.shape[*kind.axis] == 1) {
    std::vector<ValueId> scalars(operands.begin(), operands.end());
    for (size_t i = 1; i < scalars.size(); ++i) scalars[i] = r.reshape(scalars[i], Shape(), name);
    Kind scalar = kind;
    scalar.axis = std::nullopt;
    return r.emit(scalar, scalars, type, name);
  }
  const std::optional<SunkReshape> sunk = sink_reshape(r, operands.first(1), type.shape);
  if (!sunk) return std::nullopt;
  Kind moved = kind;
  if (kind.axis) {
    // The axis has to exist before the reshape, with as many elements behind it.
    const Strides after = type.shape.row_major_strides();
    const Strides before = sunk->shape.row_major_strides();
    moved.axis = std::nullopt;
    for (int i = 0; i < before.rank(); ++i) {
      if (before[i] == after[*kind.axis] && sunk->shape[i] == type.shape[*kind.axis]) moved.axis = i;
    }
    if (!moved.axis || type.shape.elements() == 0) return std::nullopt;
  }
  return sink_below(r, moved, operands, type, name);
}

}  // namespace

std::optional<SunkReshape> sink_reshape(Rewriter& r, std::span<const ValueId> operands, const Shape& shape) {
  std::optional<Shape> target;
  for (const ValueId operand : operands) {
    if (!(r.type(operand).shape == shape) || !r.producer<Reshape>(operand)) continue;
    const Shape before = r.type(r.producer_operand(operand)).shape;
    if (before.rank() < shape.rank() && before.rank() > 0) target = before;
    if (target) break;
  }
  if (!target) return std::nullopt;
  const bool keeps_last = (*target)[target->rank() - 1] == shape[shape.rank() - 1];
  SunkReshape sunk{{}, *target};
  std::vector<Shape> shapes;
  for (const ValueId operand : operands) {
    const Shape from = r.type(operand).shape;
    const int64_t last = from.rank() == 0 ? 1 : from[from.rank() - 1];
    const bool only_last = std::ranges::all_of(from.extents().first(static_cast<size_t>(std::max(from.rank() - 1, 0))),
                                               [](int64_t extent) { return extent == 1; });
    const bool all_but_last =
        from.rank() == shape.rank() && last == 1 && std::equal(from.begin(), from.end() - 1, shape.begin());
    if (from == shape) {
      shapes.push_back(*target);
    } else if (only_last && last == 1) {
      shapes.push_back(Shape());
    } else if (only_last && keeps_last) {
      shapes.push_back({last});
    } else if (all_but_last && keeps_last && shape[shape.rank() - 1] != 0) {
      Shape column = *target;
      column[column.rank() - 1] = 1;
      shapes.push_back(column);
    } else {
      return std::nullopt;
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) sunk.operands.push_back(r.reshape(operands[i], shapes[i], ""));
  return sunk;
}

std::optional<ValueId> simplify_op(Rewriter& r, const Attributes& attributes, std::span<const ValueId> operands,
                                   const Type& type, const std::string& name) {
  if (std::holds_alternative<Reshape>(attributes)) return simplify_reshape(r, operands[0], type, name);
  if (std::holds_alternative<Expand>(attributes)) return simplify_expand(r, operands[0], type, name);
  if (const auto* a = std::get_if<Transpose>(&attributes)) return simplify_transpose(r, *a, operands[0], type, name);
  if (const auto* a = std::get_if<Slice>(&attributes)) return simplify_slice(r, *a, operands[0], type, name);
  if (const auto* a = std::get_if<Cast>(&attributes)) return simplify_cast(r, *a, operands[0], type, name);
  if (const auto* a = std::get_if<Quantize>(&attributes)) return simplify_quantization(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Dequantize>(&attributes)) return simplify_quantization(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Pointwise>(&attributes)) return simplify_pointwise(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Concat>(&attributes)) return simplify_concat(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Gather>(&attributes)) return simplify_gather(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Reduce>(&attributes)) return simplify_reduce(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Rowwise>(&attributes)) return simplify_rowwise(r, *a, operands, type, name);
  if (const auto* a = std::get_if<Attention>(&attributes)) return simplify_attention(r, *a, operands, type, name);
  if (std::holds_alternative<Pad>(attributes) && r.type(operands[0]) == type) return operands[0];
  if (const auto* a = std::get_if<Cumulative>(&attributes); a != nullptr && !a->exclusive && type.shape[a->axis] <= 1)
    return operands[0];
  if (const auto* a = std::get_if<Matmul>(&attributes)) return simplify_matmul(r, *a, operands, type, name);
  return std::nullopt;
}

}  // namespace low
