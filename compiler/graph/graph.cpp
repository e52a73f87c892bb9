#include "compiler/graph/graph.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace low {

bool Repeat::operator==(const Repeat& other) const {
  return count == other.count && carried == other.carried && invariant == other.invariant &&
         iterated == other.iterated && collected == other.collected && *body == *other.body;
}

bool operator==(const Graph& a, const Graph& b) {
  if (a.op_count() != b.op_count() || a.value_count() != b.value_count()) return false;
  for (size_t i = 0; i < a.op_count(); ++i) {
    const Op& x = a.op(OpId(i));
    const Op& y = b.op(OpId(i));
    if (x.name != y.name || x.results != y.results || !std::ranges::equal(a.operands(x), b.operands(y)) ||
        x.attributes != y.attributes) {
      return false;
    }
  }
  for (size_t i = 0; i < a.value_count(); ++i) {
    if (a.type(ValueId(i)) != b.type(ValueId(i))) return false;
  }
  return true;
}

OpId GraphBuilder::add(Attributes attributes, std::span<const ValueId> operands, std::span<const Type> results,
                       std::string name) {
  const OpId id(graph_.ops_.size());
  if (std::holds_alternative<Input>(attributes)) graph_.inputs_.push_back(id);
  if (std::holds_alternative<Output>(attributes)) graph_.outputs_.push_back(id);
  Op op;
  op.attributes = std::move(attributes);
  // A copy first: the operands may lie in the pool that grows here.
  op.operands = append(graph_.operand_pool_, std::vector<ValueId>(operands.begin(), operands.end()));
  op.results = {static_cast<uint32_t>(graph_.values_.size()), static_cast<uint32_t>(results.size())};
  op.name = std::move(name);
  for (uint32_t i = 0; i < results.size(); ++i) graph_.values_.push_back({results[i], id, i});
  graph_.ops_.push_back(std::move(op));
  return id;
}

ValueId GraphBuilder::input(std::string name, const Type& type) { return add_one(Input{}, {}, type, std::move(name)); }

ValueId GraphBuilder::constant(std::shared_ptr<const Tensor> tensor, std::string name) {
  const Type type{tensor->dtype(), tensor->shape()};
  return add_one(Constant{std::move(tensor)}, {}, type, std::move(name));
}

ValueId GraphBuilder::constant(Tensor tensor, std::string name) {
  return constant(std::make_shared<const Tensor>(std::move(tensor)), std::move(name));
}

void GraphBuilder::output(std::string name, ValueId value) { add(Output{}, {&value, 1}, {}, std::move(name)); }

ValueId GraphBuilder::add_one(Attributes attributes, std::span<const ValueId> operands, const Type& type,
                              std::string name) {
  return graph_.result(graph_.op(add(std::move(attributes), operands, {&type, 1}, std::move(name))));
}

ValueId GraphBuilder::pointwise(Expr expr, std::span<const ValueId> inputs, std::string name) {
  Shape shape;
  for (const ValueId input : inputs) {
    const std::optional<Shape> joined = broadcast(shape, type(input).shape);
    LOW_CHECK(joined.has_value());
    shape = *joined;
  }
  const Type result{expr.result_type(), shape};
  return add_one(Pointwise{std::move(expr)}, inputs, result, std::move(name));
}

ValueId GraphBuilder::matmul(Matmul attributes, std::span<const ValueId> operands, DType result, std::string name) {
  LOW_CHECK(operands.size() >= 2);
  const Shape& a = type(operands[0]).shape;
  const Shape& b = type(operands[1]).shape;
  LOW_CHECK(a.rank() >= 2 && b.rank() >= 2);
  const std::optional<Shape> batch = broadcast(Shape(a.extents().first(static_cast<size_t>(a.rank() - 2))),
                                               Shape(b.extents().first(static_cast<size_t>(b.rank() - 2))));
  LOW_CHECK(batch.has_value());
  Shape shape = *batch;
  shape.append(a[a.rank() - (attributes.transpose_a ? 1 : 2)]);
  shape.append(b[b.rank() - (attributes.transpose_b ? 2 : 1)]);
  return add_one(std::move(attributes), operands, {result, shape}, std::move(name));
}

ValueId GraphBuilder::reshape(ValueId value, const Shape& shape, std::string name) {
  if (type(value).shape == shape) return value;
  return add_one(Reshape{}, {&value, 1}, {type(value).dtype, shape}, std::move(name));
}

ValueId GraphBuilder::transpose(ValueId value, const Shape& permutation, std::string name) {
  const Type operand = type(value);
  LOW_CHECK(permutation.rank() == operand.shape.rank());
  Shape shape;
  bool identity = true;
  for (int i = 0; i < permutation.rank(); ++i) {
    LOW_CHECK(permutation[i] >= 0 && permutation[i] < operand.shape.rank());
    shape.append(operand.shape[static_cast<int>(permutation[i])]);
    identity = identity && permutation[i] == i;
  }
  if (identity) return value;
  return add_one(Transpose{permutation}, {&value, 1}, {operand.dtype, shape}, std::move(name));
}

ValueId GraphBuilder::slice(ValueId value, const Shape& start, const Shape& step, const Shape& extents,
                            std::string name) {
  const Type operand = type(value);
  bool whole = extents == operand.shape;
  for (int i = 0; whole && i < extents.rank(); ++i) whole = start[i] == 0 && (step[i] == 1 || extents[i] <= 1);
  if (whole) return value;
  return add_one(Slice{start, step}, {&value, 1}, {operand.dtype, extents}, std::move(name));
}

ValueId GraphBuilder::expand(ValueId value, const Shape& shape, std::string name) {
  if (type(value).shape == shape) return value;
  return add_one(Expand{}, {&value, 1}, {type(value).dtype, shape}, std::move(name));
}

ValueId GraphBuilder::cast(ValueId value, DType to, Overflow overflow, std::string name) {
  if (type(value).dtype == to) return value;
  return add_one(Cast{overflow}, {&value, 1}, {to, type(value).shape}, std::move(name));
}

ValueId GraphBuilder::quantize(Quantize attributes, std::span<const ValueId> operands, DType to, std::string name) {
  LOW_CHECK(!operands.empty());
  return add_one(attributes, operands, {to, type(operands[0]).shape}, std::move(name));
}

ValueId GraphBuilder::dequantize(Dequantize attributes, std::span<const ValueId> operands, DType to, std::string name) {
  LOW_CHECK(!operands.empty());
  return add_one(attributes, operands, {to, type(operands[0]).shape}, std::move(name));
}

std::vector<ValueId> GraphBuilder::repeat(Repeat attributes, std::span<const ValueId> operands, std::string name) {
  LOW_CHECK(attributes.body != nullptr);
  const Graph& body = *attributes.body;
  const size_t results = size_t{attributes.carried} + attributes.collected;
  LOW_CHECK(body.outputs().size() == results);
  std::vector<Type> types;
  for (size_t i = 0; i < results; ++i) {
    const Type& element = body.type(body.operands(body.op(body.outputs()[i]))[0]);
    if (i < attributes.carried) {
      types.push_back(element);
      continue;
    }
    Shape shape{attributes.count};
    for (const int64_t extent : element.shape) shape.append(extent);
    types.push_back({element.dtype, shape});
  }
  const Op& op = graph_.op(add(std::move(attributes), operands, types, std::move(name)));
  std::vector<ValueId> values;
  for (uint32_t i = 0; i < results; ++i) values.push_back(graph_.result(op, i));
  return values;
}

ValueId GraphBuilder::concat(std::span<const ValueId> values, int axis, std::string name) {
  std::vector<Shape> shapes;
  for (const ValueId value : values) shapes.push_back(type(value).shape);
  const std::optional<Shape> shape = concat_shape(shapes, axis);
  LOW_CHECK(shape.has_value());
  return add_one(Concat{axis}, values, {type(values[0]).dtype, *shape}, std::move(name));
}

ValueId GraphBuilder::pad(Pad attributes, std::span<const ValueId> operands, const Shape& after, std::string name) {
  LOW_CHECK(!operands.empty());
  Type result = type(operands[0]);
  LOW_CHECK(attributes.before.rank() == result.shape.rank() && after.rank() == result.shape.rank());
  for (int i = 0; i < after.rank(); ++i) result.shape[i] += attributes.before[i] + after[i];
  return add_one(attributes, operands, result, std::move(name));
}

ValueId GraphBuilder::gather(Gather attributes, ValueId data, ValueId indices, std::string name) {
  const std::optional<Shape> shape = gather_shape(attributes, type(data).shape, type(indices).shape);
  LOW_CHECK(shape.has_value());
  const ValueId operands[] = {data, indices};
  return add_one(attributes, operands, {type(data).dtype, *shape}, std::move(name));
}

ValueId GraphBuilder::reduce(Reduce attributes, std::span<const ValueId> operands, DType result, std::string name) {
  LOW_CHECK(!operands.empty());
  const Shape shape = reduced_shape(type(operands[0]).shape, attributes.axes);
  return add_one(std::move(attributes), operands, {result, shape}, std::move(name));
}

ValueId GraphBuilder::cumulative(Cumulative attributes, ValueId value, std::string name) {
  const Type result = type(value);
  return add_one(attributes, {&value, 1}, result, std::move(name));
}

ValueId GraphBuilder::rowwise(Rowwise attributes, std::span<const ValueId> operands, DType result, std::string name) {
  LOW_CHECK(!operands.empty());
  const Shape shape = type(operands[0]).shape;
  return add_one(std::move(attributes), operands, {result, shape}, std::move(name));
}

ValueId GraphBuilder::attention(Attention attributes, std::span<const ValueId> operands, DType result,
                                std::string name) {
  LOW_CHECK(operands.size() >= 3);
  const std::optional<Shape> shape =
      attention_shape(attributes, type(operands[0]).shape, type(operands[1]).shape, type(operands[2]).shape);
  LOW_CHECK(shape.has_value());
  return add_one(std::move(attributes), operands, {result, *shape}, std::move(name));
}

Result<Graph> GraphBuilder::finish() && {
  LOW_TRY_VOID(verify(graph_));
  return std::move(graph_);
}

}  // namespace low
