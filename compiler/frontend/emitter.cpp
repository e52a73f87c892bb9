#include "compiler/frontend/emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compiler/graph/fold.h"

namespace low {
namespace {

// Folding is for shapes and scalars; larger constants are left to the passes, which know when folding pays.
constexpr int64_t fold_bytes = 32 * 1024;
constexpr int64_t fold_operand_bytes = 1024 * 1024;

int64_t bytes_of(const Type& type) { return type.shape.elements() * static_cast<int64_t>(byte_size(type.dtype)); }

Result<ModelValue> fold_one(Attributes attributes, std::span<const ModelValue> operands,
                            std::span<const Tensor* const> tensors, const Type& result) {
  GraphBuilder scratch;
  std::vector<ValueId> ids;
  for (const ModelValue& operand : operands) ids.push_back(scratch.input("", operand.type));
  const OpId op = scratch.add(std::move(attributes), ids, std::span(&result, 1));
  LOW_TRY(std::vector<Tensor> folded, fold(scratch.peek(), scratch.peek().op(op), tensors));
  return constant_value(std::move(folded[0]));
}

}  // namespace

ModelValue constant_value(ConstantPtr tensor) {
  const Type type{tensor->dtype(), tensor->shape()};
  return ModelValue{type, std::move(tensor), ValueId()};
}

ModelValue constant_value(Tensor tensor) { return constant_value(std::make_shared<const Tensor>(std::move(tensor))); }

Tensor integer_tensor(std::span<const int64_t> values) {
  Tensor tensor(DType::i64, Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.set_bits(static_cast<int64_t>(i), static_cast<uint64_t>(values[i]));
  }
  return tensor;
}

Tensor integer_scalar(int64_t value) {
  Tensor tensor(DType::i64, Shape{});
  tensor.set_bits(0, static_cast<uint64_t>(value));
  return tensor;
}

Result<void> check_size(const Type& type) {
  const auto elements = checked_elements(type.shape.extents());
  if (!elements || *elements > max_tensor_bytes / static_cast<int64_t>(byte_size(type.dtype))) {
    return fail(ErrorKind::unsupported,
                fmt::format("a tensor of type {} is larger than {} bytes", to_string(type), max_tensor_bytes));
  }
  return {};
}

bool Emitter::may_make(const Type& type, int64_t read_bytes) {
  // To read is a small part of the work of making and keeping, but for those who read much for little.
  const int64_t charge = bytes_of(type) + std::max<int64_t>(0, read_bytes - 2 * bytes_of(type)) / 16;
  if (charge > fold_budget_) return false;
  fold_budget_ -= charge;
  return true;
}

ValueId Emitter::materialize(const ModelValue& value) {
  if (!value.constant) return value.id;
  const auto [place, is_new] = materialized_.try_emplace(value.constant.get());
  if (is_new) place->second = builder_.constant(value.constant);
  return place->second;
}

Result<ModelValue> Emitter::add(Attributes attributes, std::span<const ModelValue> operands, const Type& result,
                                bool may_fold) {
  LOW_TRY_VOID(check_size(result));
  if (may_fold && bytes_of(result) <= fold_bytes) {
    std::vector<const Tensor*> tensors;
    int64_t read = 0;
    for (const ModelValue& operand : operands) {
      if (!operand.constant || bytes_of(operand.type) > fold_operand_bytes) continue;
      tensors.push_back(operand.constant.get());
      read += bytes_of(operand.type);
    }
    if (tensors.size() == operands.size() && may_make(result, read)) {
      return fold_one(std::move(attributes), operands, tensors, result);
    }
  }
  std::vector<ValueId> ids;
  for (const ModelValue& operand : operands) ids.push_back(materialize(operand));
  const OpId op = builder_.add(std::move(attributes), ids, std::span(&result, 1), origin_);
  return ModelValue{result, nullptr, builder_.peek().result(builder_.peek().op(op))};
}

ModelValue Emitter::input(std::string name, const Type& type) {
  return ModelValue{type, nullptr, builder_.input(std::move(name), type)};
}

void Emitter::output(std::string name, const ModelValue& value) {
  builder_.output(std::move(name), materialize(value));
}

Result<ModelValue> Emitter::pointwise(Expr expr, std::span<const ModelValue> inputs) {
  Type result{expr.result_type(), Shape{}};
  for (const ModelValue& input : inputs) {
    const auto shape = broadcast(result.shape, input.shape());
    if (!shape) {
      return fail(ErrorKind::invalid,
                  fmt::format("shapes {} and {} do not broadcast", to_string(result.shape), to_string(input.shape())));
    }
    result.shape = *shape;
  }
  return add(Pointwise{std::move(expr)}, inputs, result, true);
}

Result<ModelValue> Emitter::matmul(const Matmul& attributes, const ModelValue& a, const ModelValue& b, DType result) {
  const auto mismatch = [&](std::string_view what) {
    return fail(ErrorKind::invalid, fmt::format("{} of {}{} and {}{} do not match", what, to_string(a.type),
                                                attributes.transpose_a ? " (transposed)" : "", to_string(b.type),
                                                attributes.transpose_b ? " (transposed)" : ""));
  };
  const int ra = a.rank();
  const int rb = b.rank();
  const int64_t m = a.shape()[attributes.transpose_a ? ra - 1 : ra - 2];
  const int64_t ka = a.shape()[attributes.transpose_a ? ra - 2 : ra - 1];
  const int64_t kb = b.shape()[attributes.transpose_b ? rb - 1 : rb - 2];
  const int64_t n = b.shape()[attributes.transpose_b ? rb - 2 : rb - 1];
  if (ka != kb) return mismatch("inner dimensions");
  const auto batch = broadcast(Shape(a.shape().extents().first(static_cast<size_t>(ra - 2))),
                               Shape(b.shape().extents().first(static_cast<size_t>(rb - 2))));
  if (!batch) return mismatch("batch dimensions");
  Type type{result, *batch};
  type.shape.append(m);
  type.shape.append(n);
  const ModelValue operands[] = {a, b};
  return add(attributes, operands, type, false);
}

Result<ModelValue> Emitter::reshape(const ModelValue& value, const Shape& shape) {
  if (shape == value.shape()) return value;
  const Type type{value.dtype(), shape};
  LOW_TRY_VOID(check_size(type));
  if (shape.elements() != value.shape().elements()) {
    return fail(ErrorKind::invalid,
                fmt::format("{} does not have as many elements as shape {}", to_string(value.type), to_string(shape)));
  }
  if (value.constant && bytes_of(type) <= fold_operand_bytes && may_make(type)) {
    Tensor reshaped(value.dtype(), shape);
    if (!reshaped.bytes().empty()) {
      std::memcpy(reshaped.bytes().data(), value.constant->bytes().data(), reshaped.bytes().size());
    }
    return constant_value(std::move(reshaped));
  }
  return add(Reshape{}, std::span(&value, 1), type, false);
}

Result<ModelValue> Emitter::transpose(const ModelValue& value, const Shape& permutation) {
  Type type{value.dtype(), Shape{}};
  bool is_identity = true;
  for (int axis = 0; axis < permutation.rank(); ++axis) {
    type.shape.append(value.shape()[static_cast<int>(permutation[axis])]);
    is_identity = is_identity && permutation[axis] == axis;
  }
  if (is_identity) return value;
  return add(Transpose{permutation}, std::span(&value, 1), type, true);
}

Result<ModelValue> Emitter::slice(const ModelValue& value, const Shape& start, const Shape& step,
                                  const Shape& extents) {
  bool whole = extents == value.shape();
  for (int axis = 0; whole && axis < extents.rank(); ++axis) {
    whole = start[axis] == 0 && (step[axis] == 1 || extents[axis] <= 1);
  }
  if (whole) return value;
  return add(Slice{start, step}, std::span(&value, 1), Type{value.dtype(), extents}, true);
}

Result<ModelValue> Emitter::expand(const ModelValue& value, const Shape& shape) {
  if (shape == value.shape()) return value;
  const auto together = broadcast(value.shape(), shape);
  if (!together || *together != shape) {
    return fail(ErrorKind::invalid,
                fmt::format("{} does not broadcast to {}", to_string(value.type), to_string(shape)));
  }
  return add(Expand{}, std::span(&value, 1), Type{value.dtype(), shape}, true);
}

Result<ModelValue> Emitter::cast(const ModelValue& value, DType to, Overflow overflow) {
  if (to == value.dtype()) return value;
  return add(Cast{overflow}, std::span(&value, 1), Type{to, value.shape()}, true);
}

Result<ModelValue> Emitter::quantize(const Quantize& attributes, std::span<const ModelValue> operands, DType to) {
  return add(attributes, operands, Type{to, operands[0].shape()}, false);
}

Result<ModelValue> Emitter::dequantize(const Dequantize& attributes, std::span<const ModelValue> operands, DType to) {
  return add(attributes, operands, Type{to, operands[0].shape()}, false);
}

Result<ModelValue> Emitter::concat(std::span<const ModelValue> operands, int axis) {
  std::vector<Shape> shapes;
  for (const ModelValue& operand : operands) shapes.push_back(operand.shape());
  const std::optional<Shape> shape = concat_shape(shapes, axis);
  LOW_CHECK(shape.has_value());
  return add(Concat{axis}, operands, Type{operands[0].dtype(), *shape}, true);
}

Result<ModelValue> Emitter::pad(const Pad& attributes, std::span<const ModelValue> operands, const Shape& after) {
  Type result = operands[0].type;
  for (int axis = 0; axis < result.shape.rank(); ++axis) result.shape[axis] += attributes.before[axis] + after[axis];
  return add(attributes, operands, result, true);
}

Result<ModelValue> Emitter::gather(const Gather& attributes, const ModelValue& data, const ModelValue& indices) {
  const std::optional<Shape> shape = gather_shape(attributes, data.shape(), indices.shape());
  LOW_CHECK(shape.has_value());
  const ModelValue operands[] = {data, indices};
  return add(attributes, operands, Type{data.dtype(), *shape}, true);
}

Result<ModelValue> Emitter::reduce(const Reduce& attributes, std::span<const ModelValue> operands, DType to) {
  return add(attributes, operands, Type{to, reduced_shape(operands[0].shape(), attributes.axes)}, true);
}

Result<ModelValue> Emitter::cumulative(const Cumulative& attributes, const ModelValue& value) {
  return add(attributes, std::span(&value, 1), value.type, true);
}

Result<ModelValue> Emitter::rowwise(const Rowwise& attributes, std::span<const ModelValue> operands, DType to) {
  return add(attributes, operands, Type{to, operands[0].shape()}, true);
}

Result<ModelValue> Emitter::attention(const Attention& attributes, std::span<const ModelValue> operands, DType to) {
  const std::optional<Shape> shape =
      attention_shape(attributes, operands[0].shape(), operands[1].shape(), operands[2].shape());
  LOW_CHECK(shape.has_value());
  return add(attributes, operands, Type{to, *shape}, false);
}

Result<Tensor> Emitter::new_constant(const Type& type) {
  LOW_TRY_VOID(check_size(type));
  if (!may_make(type)) {
    return fail(ErrorKind::unsupported,
                fmt::format("a constant of type {} is too large to be made while importing", to_string(type)));
  }
  return Tensor(type.dtype, type.shape);
}

Result<ModelValue> Emitter::iota(int64_t count, int trailing) {
  Type type{DType::i64, {count}};
  for (int i = 0; i < trailing; ++i) type.shape.append(1);
  LOW_TRY(Tensor tensor, new_constant(type));
  for (int64_t i = 0; i < count; ++i) tensor.set_bits(i, static_cast<uint64_t>(i));
  return constant_value(std::move(tensor));
}

Result<std::vector<ModelValue>> Emitter::repeat(Repeat attributes, std::span<const ModelValue> operands) {
  const Graph& body = *attributes.body;
  std::vector<Type> types;
  for (const OpId output : body.outputs()) {
    Type type = body.type(body.operands(body.op(output))[0]);
    if (types.size() >= attributes.carried) {
      Shape shape{attributes.count};
      if (type.shape.rank() + 1 > max_rank) {
        return fail(ErrorKind::unsupported, fmt::format("a collected output of rank {} exceeds the largest rank, {}",
                                                        type.shape.rank() + 1, max_rank));
      }
      for (const int64_t extent : type.shape) shape.append(extent);
      type.shape = shape;
    }
    LOW_TRY_VOID(check_size(type));
    types.push_back(type);
  }
  std::vector<ValueId> ids;
  for (const ModelValue& operand : operands) ids.push_back(materialize(operand));
  const OpId op = builder_.add(std::move(attributes), ids, types, origin_);
  std::vector<ModelValue> results;
  for (size_t i = 0; i < types.size(); ++i) {
    results.push_back(
        ModelValue{types[i], nullptr, builder_.peek().result(builder_.peek().op(op), static_cast<uint32_t>(i))});
  }
  return results;
}

}  // namespace low
