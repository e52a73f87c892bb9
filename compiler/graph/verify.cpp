// The rules of graph.h, one function for each kind of operation. Each returns the violation, or "".
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "compiler/base/overloaded.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/kind_names.h"
#include "compiler/graph/shapes.h"

namespace low {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, int depth) : graph_(graph), depth_(depth) {}

  Result<void> run() {
    size_t values = 0;
    size_t inputs = 0;
    size_t outputs = 0;
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      op_ = &op;
      const std::string error = check(op, OpId(i), values);
      if (!error.empty()) {
        return fail(ErrorKind::internal, fmt::format("operation {} ({}{}): {}", i, kind_name(op.attributes),
                                                     op.name.empty() ? "" : " \"" + op.name + "\"", error));
      }
      values += op.results.count;
      const bool is_input = std::holds_alternative<Input>(op.attributes);
      const bool is_output = std::holds_alternative<Output>(op.attributes);
      if ((is_input && (inputs >= graph_.inputs().size() || graph_.inputs()[inputs++] != OpId(i))) ||
          (is_output && (outputs >= graph_.outputs().size() || graph_.outputs()[outputs++] != OpId(i)))) {
        return fail(ErrorKind::internal, fmt::format("operation {}: not in the graph's list of inputs or outputs", i));
      }
    }
    if (values != graph_.value_count() || inputs != graph_.inputs().size() || outputs != graph_.outputs().size()) {
      return fail(
          ErrorKind::internal,
          fmt::format("{} values, {} inputs and {} outputs are listed, but operations make "
                      "{}, {} and {}",
                      graph_.value_count(), graph_.inputs().size(), graph_.outputs().size(), values, inputs, outputs));
    }
    return {};
  }

 private:
  const Type& operand(size_t i) const { return graph_.type(graph_.operands(*op_)[i]); }
  size_t operands() const { return op_->operands.count; }
  const Type& result() const { return graph_.type(graph_.result(*op_)); }

  std::string check(const Op& op, OpId id, size_t values) const {
    if (op.results.begin != values || values + op.results.count > graph_.value_count()) return "results out of order";
    for (const ValueId value : graph_.operands(op)) {
      if (value.index >= values)
        return fmt::format("operand %{} is not the result of an earlier operation", value.index);
    }
    for (uint32_t i = 0; i < op.results.count; ++i) {
      const Value& value = graph_.value(graph_.result(op, i));
      if (value.producer != id || value.result != i) return "a result that names another producer";
      if (static_cast<int>(value.type.dtype) >= dtype_count) return "a result of unknown dtype";
      if (!checked_elements(value.type.shape.extents())) {
        return fmt::format("result {} has the illegal shape {}", i, to_string(value.type.shape));
      }
    }
    return std::visit(Overloaded{
                          [&](const Input&) { return counts(0, 0, 1); },
                          [&](const Constant& a) { return constant(a); },
                          [&](const Output&) { return counts(1, 1, 0); },
                          [&](const Pointwise& a) { return pointwise(a); },
                          [&](const Matmul& a) { return matmul(a); },
                          [&](const Reshape&) { return reshape(); },
                          [&](const Transpose& a) { return transpose(a); },
                          [&](const Slice& a) { return slice(a); },
                          [&](const Expand&) { return expand(); },
                          [&](const Quantize& a) { return quantize(a); },
                          [&](const Dequantize& a) { return dequantize(a); },
                          [&](const Cast&) { return cast(); },
                          [&](const Repeat& a) { return repeat(a); },
                          [&](const Concat& a) { return concat(a); },
                          [&](const Pad& a) { return pad(a); },
                          [&](const Gather& a) { return gather(a); },
                          [&](const Reduce& a) { return reduce(a); },
                          [&](const Cumulative& a) { return cumulative(a); },
                          [&](const Rowwise& a) { return rowwise(a); },
                          [&](const Attention& a) { return attention(a); },
                      },
                      op.attributes);
  }

  std::string counts(size_t least, size_t most, size_t results) const {
    if (operands() < least || operands() > most) {
      return fmt::format("{} operands; {} are needed", operands(),
                         least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
    }
    if (op_->results.count != results) return fmt::format("{} results; {} are needed", op_->results.count, results);
    return "";
  }

  // The result must be of this type.
  std::string expect(const Type& type) const {
    if (result() == type) return "";
    return fmt::format("its result is {}; {} was expected", to_string(result()), to_string(type));
  }

  // Operand `i` must broadcast to the result's shape.
  std::string broadcasts(size_t i) const {
    const std::optional<Shape> joined = broadcast(operand(i).shape, result().shape);
    if (joined && *joined == result().shape) return "";
    return fmt::format("operand {} {} does not broadcast to {}", i, to_string(operand(i)), to_string(result()));
  }

  std::string constant(const Constant& a) const {
    if (std::string error = counts(0, 0, 1); !error.empty()) return error;
    if (a.tensor == nullptr) return "no tensor";
    if (static_cast<int64_t>(a.tensor->bytes().size()) !=
        a.tensor->elements() * static_cast<int64_t>(byte_size(a.tensor->dtype()))) {
      return "a tensor without its bytes";
    }
    return expect({a.tensor->dtype(), a.tensor->shape()});
  }

  // `inputs`: the dtypes that the expression is given; `gives`: the dtype that it must have.
  std::string expression(const Expr& expr, std::span<const DType> inputs, DType gives) const {
    if (const Result<void> verified = verify(expr, "expression"); !verified) return verified.error().message;
    if (expr.inputs != inputs.size()) {
      return fmt::format("its expression has {} inputs; {} are given", expr.inputs, inputs.size());
    }
    for (const ExprNode& node : expr.nodes) {
      if (node.op == ExprOp::input && node.dtype != inputs[node.argument]) {
        return fmt::format("its expression reads input {} as {}; it is {}", node.argument, name(node.dtype),
                           name(inputs[node.argument]));
      }
    }
    if (expr.result_type() != gives) {
      return fmt::format("its expression gives {}; {} is needed", name(expr.result_type()), name(gives));
    }
    return "";
  }

  // An epilogue over the accumulator and the operands from `first` on.
  std::string epilogue(const std::optional<Expr>& expr, DType accumulator, size_t first) const {
    if (!expr) return "";
    std::vector<DType> inputs = {accumulator};
    for (size_t i = first; i < operands(); ++i) {
      if (std::string error = broadcasts(i); !error.empty()) return error;
      inputs.push_back(operand(i).dtype);
    }
    return expression(*expr, inputs, result().dtype);
  }

  std::string pointwise(const Pointwise& a) const {
    if (std::string error = counts(0, UINT16_MAX, 1); !error.empty()) return error;
    std::vector<DType> inputs;
    for (size_t i = 0; i < operands(); ++i) {
      if (std::string error = broadcasts(i); !error.empty()) return error;
      inputs.push_back(operand(i).dtype);
    }
    return expression(a.expr, inputs, result().dtype);
  }

  static std::string check_accumulator(DType a, DType b, DType accumulate) {
    if (a == DType::boolean || b == DType::boolean) return "operands may not be bool";
    if (is_float(a) || is_float(b)) {
      const DType expected = a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
      if (accumulate == expected) return "";
    } else if (accumulate == DType::i32 || accumulate == DType::i64 || accumulate == DType::u32 ||
               accumulate == DType::u64) {
      return "";
    }
    return fmt::format("{} x {} cannot be accumulated in {}", name(a), name(b), name(accumulate));
  }

  std::string matmul(const Matmul& a) const {
    if (std::string error = counts(2, a.epilogue ? UINT16_MAX : 2, 1); !error.empty()) return error;
    const Shape& left = operand(0).shape;
    const Shape& right = operand(1).shape;
    if (left.rank() < 2 || right.rank() < 2) {
      return fmt::format("operands {} and {} must have a rank of at least 2", to_string(operand(0)),
                         to_string(operand(1)));
    }
    const int lr = left.rank();
    const int rr = right.rank();
    const int64_t m = left[lr - (a.transpose_a ? 1 : 2)];
    const int64_t k = left[lr - (a.transpose_a ? 2 : 1)];
    const int64_t other_k = right[rr - (a.transpose_b ? 1 : 2)];
    const int64_t n = right[rr - (a.transpose_b ? 2 : 1)];
    const std::optional<Shape> batch = broadcast(Shape(left.extents().first(static_cast<size_t>(lr - 2))),
                                                 Shape(right.extents().first(static_cast<size_t>(rr - 2))));
    if (k != other_k || !batch) {
      return fmt::format("operands {} and {} do not multiply", to_string(operand(0)), to_string(operand(1)));
    }
    if (std::string error = check_accumulator(operand(0).dtype, operand(1).dtype, a.accumulate); !error.empty()) {
      return error;
    }
    Shape shape = *batch;
    shape.append(m);
    shape.append(n);
    if (std::string error = expect({result().dtype, shape}); !error.empty()) return error;
    return epilogue(a.epilogue, a.accumulate, 2);
  }

  std::string reshape() const {
    if (std::string error = counts(1, 1, 1); !error.empty()) return error;
    if (operand(0).dtype == result().dtype && operand(0).shape.elements() == result().shape.elements()) return "";
    return fmt::format("{} cannot become {}", to_string(operand(0)), to_string(result()));
  }

  std::string transpose(const Transpose& a) const {
    if (std::string error = counts(1, 1, 1); !error.empty()) return error;
    const Shape& from = operand(0).shape;
    if (a.permutation.rank() != from.rank()) {
      return fmt::format("permutation {} of {}", to_string(a.permutation), to_string(operand(0)));
    }
    Shape shape;
    unsigned seen = 0;
    for (const int64_t axis : a.permutation) {
      if (axis < 0 || axis >= from.rank() || (seen >> axis & 1u) != 0) {
        return fmt::format("{} is not a permutation", to_string(a.permutation));
      }
      seen |= 1u << axis;
      shape.append(from[static_cast<int>(axis)]);
    }
    return expect({operand(0).dtype, shape});
  }

  std::string slice(const Slice& a) const {
    if (std::string error = counts(1, 1, 1); !error.empty()) return error;
    const Shape& from = operand(0).shape;
    const Shape& to = result().shape;
    if (result().dtype != operand(0).dtype || to.rank() != from.rank() || a.start.rank() != from.rank() ||
        a.step.rank() != from.rank()) {
      return fmt::format("start {} and step {} of {} to {}", to_string(a.start), to_string(a.step),
                         to_string(operand(0)), to_string(result()));
    }
    for (int i = 0; i < from.rank(); ++i) {
      if (a.step[i] == 0) return fmt::format("step 0 on axis {}", i);
      if (to[i] == 0) continue;
      int64_t last = 0;
      if (__builtin_mul_overflow(to[i] - 1, a.step[i], &last) || __builtin_add_overflow(last, a.start[i], &last) ||
          a.start[i] < 0 || a.start[i] >= from[i] || last < 0 || last >= from[i]) {
        return fmt::format("axis {}: {} elements from {} in steps of {} leave the extent {}", i, to[i], a.start[i],
                           a.step[i], from[i]);
      }
    }
    return "";
  }

  std::string expand() const {
    if (std::string error = counts(1, 1, 1); !error.empty()) return error;
    if (operand(0).dtype != result().dtype) return expect({operand(0).dtype, result().shape});
    return broadcasts(0);
  }

  std::string concat(const Concat& a) const {
    if (std::string error = counts(1, UINT16_MAX, 1); !error.empty()) return error;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < operands(); ++i) {
      if (operand(i).dtype != operand(0).dtype) return fmt::format("operand {} is {}", i, to_string(operand(i)));
      shapes.push_back(operand(i).shape);
    }
    const std::optional<Shape> shape = concat_shape(shapes, a.axis);
    if (!shape) return fmt::format("operands do not join along axis {}", a.axis);
    return expect({operand(0).dtype, *shape});
  }

  std::string pad(const Pad& a) const {
    const size_t needed = a.mode == Pad::Mode::constant ? 2 : 1;
    if (std::string error = counts(needed, needed, 1); !error.empty()) return error;
    const Shape& from = operand(0).shape;
    const Shape& to = result().shape;
    if (a.mode > Pad::Mode::wrap) return "unknown mode";
    if (needed == 2 && operand(1) != Type{operand(0).dtype, Shape()}) {
      return fmt::format("a fill of type {} for {}", to_string(operand(1)), to_string(operand(0)));
    }
    if (result().dtype != operand(0).dtype || to.rank() != from.rank() || a.before.rank() != from.rank()) {
      return fmt::format("{} before {} to {}", to_string(a.before), to_string(operand(0)), to_string(result()));
    }
    for (int i = 0; i < from.rank(); ++i) {
      // No extent is negative: a sum of two could overflow, a difference could not.
      if (a.before[i] < 0 || a.before[i] > to[i] || to[i] - a.before[i] < from[i]) {
        return fmt::format("axis {}: {} elements before {} of {}", i, a.before[i], from[i], to[i]);
      }
      if (needed == 1 && from[i] == 0 && to[i] != 0) return fmt::format("axis {} is empty", i);
    }
    return "";
  }

  std::string gather(const Gather& a) const {
    if (std::string error = counts(2, 2, 1); !error.empty()) return error;
    if (a.mode > Gather::Mode::nd || (a.mode == Gather::Mode::nd ? a.axis : a.batch_axes) != 0) return "bad mode";
    if (operand(1).dtype != DType::i32 && operand(1).dtype != DType::i64) {
      return fmt::format("indices of type {}", to_string(operand(1)));
    }
    const std::optional<Shape> shape = gather_shape(a, operand(0).shape, operand(1).shape);
    if (!shape) {
      return fmt::format("indices {} do not fit data {}", to_string(operand(1)), to_string(operand(0)));
    }
    return expect({operand(0).dtype, *shape});
  }

  std::string reduce(const Reduce& a) const {
    if (std::string error = counts(1, a.epilogue ? UINT16_MAX : 1, 1); !error.empty()) return error;
    const Shape& from = operand(0).shape;
    if (a.kind > Reduce::Kind::index_min) return "unknown kind";
    if (!are_axes(a.axes, from.rank())) return fmt::format("axes {} of {}", to_string(a.axes), to_string(operand(0)));
    if (a.accumulate != DType::f32 && a.accumulate != DType::f64 && !is_integer(a.accumulate)) {
      return fmt::format("accumulated in {}", name(a.accumulate));
    }
    const bool is_index = a.kind == Reduce::Kind::index_max || a.kind == Reduce::Kind::index_min;
    if (a.last && !is_index) return "only an index can be the last";
    if (std::string error = expect({result().dtype, reduced_shape(from, a.axes)}); !error.empty()) return error;
    if (is_index) {
      if (a.axes.rank() != 1) return fmt::format("an index along {} axes", a.axes.rank());
      if (from[static_cast<int>(a.axes[0])] == 0 && result().shape.elements() != 0) return "an index of no elements";
    }
    if (a.map) {
      const DType input = operand(0).dtype;
      if (std::string error = expression(*a.map, {&input, 1}, a.accumulate); !error.empty()) return "map: " + error;
    } else if (operand(0).dtype == DType::boolean) {
      return "of bool, without a map";
    }
    return epilogue(a.epilogue, is_index ? DType::i64 : a.accumulate, 1);
  }

  std::string cumulative(const Cumulative& a) const {
    if (std::string error = counts(1, 1, 1); !error.empty()) return error;
    if (a.axis < 0 || a.axis >= operand(0).shape.rank()) return fmt::format("axis {}", a.axis);
    if (operand(0).dtype == DType::boolean || is_fp8(operand(0).dtype)) return "of " + to_string(operand(0));
    return expect(operand(0));
  }

  std::string rowwise(const Rowwise& a) const {
    if (std::string error = counts(1, a.epilogue ? UINT16_MAX : 1, 1); !error.empty()) return error;
    const bool is_norm = a.kind == Rowwise::Kind::layer_norm || a.kind == Rowwise::Kind::rms_norm;
    if (static_cast<size_t>(a.kind) >= rowwise_kinds.size()) return "unknown kind";
    if (a.axes.rank() == 0 || !are_axes(a.axes, operand(0).shape.rank())) {
      return fmt::format("axes {} of {}", to_string(a.axes), to_string(operand(0)));
    }
    if (!is_float(operand(0).dtype)) return "of " + to_string(operand(0));
    // Also refuses NaN.
    if (!(a.epsilon >= 0) || std::isinf(a.epsilon) || (!is_norm && a.epsilon != 0)) {
      return fmt::format("epsilon {}", a.epsilon);
    }
    if (std::string error = expect({result().dtype, operand(0).shape}); !error.empty()) return error;
    if (!a.epilogue && !is_float(result().dtype)) return "to " + to_string(result());
    return epilogue(a.epilogue, operand(0).dtype == DType::f64 ? DType::f64 : DType::f32, 1);
  }

  std::string attention(const Attention& a) const {
    const size_t fixed = a.masked ? 4 : 3;
    if (std::string error = counts(fixed, a.epilogue ? UINT16_MAX : fixed, 1); !error.empty()) return error;
    for (size_t i = 0; i < 3; ++i) {
      if (!is_float(operand(i).dtype)) return "of " + to_string(operand(i));
    }
    const std::optional<Shape> shape = attention_shape(a, operand(0).shape, operand(1).shape, operand(2).shape);
    if (!shape) {
      return fmt::format("q {}, k {} and v {} do not fit {} and {} heads", to_string(operand(0)), to_string(operand(1)),
                         to_string(operand(2)), a.q_heads, a.kv_heads);
    }
    // Also refuses NaN.
    if (!std::isfinite(a.scale)) return fmt::format("scale {}", a.scale);
    if (!std::isfinite(a.softcap) || a.softcap < 0) return fmt::format("softcap {}", a.softcap);
    if (std::string error = expect({result().dtype, *shape}); !error.empty()) return error;
    if (std::string error = mask(a); !error.empty()) return error;
    const bool chooses = a.masked && operand(3).dtype == DType::boolean;
    if (std::isnan(a.masked_score) || a.masked_score > max_finite(DType::f64) ||
        (!chooses && std::isfinite(a.masked_score)))
      return fmt::format("masked_score {}{}", a.masked_score, chooses ? "" : " without a mask of bool");
    if (!a.epilogue && !is_float(result().dtype)) return "to " + to_string(result());
    return epilogue(a.epilogue, attention_type(operand(0).dtype, operand(1).dtype, operand(2).dtype), fixed);
  }

  std::string mask(const Attention& a) const {
    if (!a.masked) return a.mask_heads == 1 ? "" : fmt::format("{} heads of no mask", a.mask_heads);
    const Type& type = operand(3);
    if (type.dtype != DType::boolean && !is_float(type.dtype)) return "masked by " + to_string(type);
    int64_t heads = 0;
    if (__builtin_mul_overflow(operand(0).shape[0], a.q_heads, &heads)) return "too many heads";
    if (a.mask_heads < 1 || heads % a.mask_heads != 0) {
      return fmt::format("a mask of {} heads for {}", a.mask_heads, heads);
    }
    const Shape full{heads / a.mask_heads, a.mask_heads, operand(0).shape[1], operand(1).shape[1]};
    bool fits = type.shape.rank() == 4;
    for (int i = 0; fits && i < 4; ++i) fits = type.shape[i] == 1 || type.shape[i] == full[i];
    return fits ? "" : fmt::format("a mask {} for {}", to_string(type), to_string(full));
  }

  // Scale and zero point (of dtype `storage`) of a quantization of `shape`.
  std::string parameters(const Shape& shape, std::optional<int> axis, DType storage) const {
    if (!is_float(operand(1).dtype) || is_fp8(operand(1).dtype)) {
      return fmt::format("a scale of dtype {}", name(operand(1).dtype));
    }
    Shape expected;
    if (axis) {
      if (*axis < 0 || *axis >= shape.rank()) return fmt::format("axis {} of {}", *axis, to_string(shape));
      expected.append(shape[*axis]);
    }
    for (size_t i = 1; i < operands(); ++i) {
      if (!(operand(i).shape == expected)) {
        return fmt::format("operand {} has the shape {}; {} was expected", i, to_string(operand(i).shape),
                           to_string(expected));
      }
    }
    if (operands() > 2 && operand(2).dtype != storage) {
      return fmt::format("a zero point of dtype {}; {} was expected", name(operand(2).dtype), name(storage));
    }
    return "";
  }

  static bool is_storage(DType type) {
    return is_fp8(type) || type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16;
  }

  std::string quantize(const Quantize& a) const {
    if (std::string error = counts(2, 3, 1); !error.empty()) return error;
    if (std::string error = expect({result().dtype, operand(0).shape}); !error.empty()) return error;
    if (!is_storage(result().dtype)) return fmt::format("to {}", name(result().dtype));
    if (operand(0).dtype == DType::boolean) return "of bool";
    return parameters(operand(0).shape, a.axis, result().dtype);
  }

  std::string dequantize(const Dequantize& a) const {
    if (std::string error = counts(2, 3, 1); !error.empty()) return error;
    if (std::string error = expect({result().dtype, operand(0).shape}); !error.empty()) return error;
    if (!is_storage(operand(0).dtype) && operand(0).dtype != DType::i32) {
      return fmt::format("of {}", name(operand(0).dtype));
    }
    if (!is_float(result().dtype)) return fmt::format("to {}", name(result().dtype));
    return parameters(operand(0).shape, a.axis, operand(0).dtype);
  }

  std::string cast() const {
    if (std::string error = counts(1, 1, 1); !error.empty()) return error;
    return expect({result().dtype, operand(0).shape});
  }

  std::string repeat(const Repeat& a) const {
    if (a.body == nullptr) return "no body";
    if (a.count < 0) return fmt::format("count {}", a.count);
    const uint64_t needed = uint64_t{a.carried} + a.invariant + a.iterated;
    const uint64_t made = uint64_t{a.carried} + a.collected;
    if (operands() != needed) return fmt::format("{} operands; {} are needed", operands(), needed);
    if (op_->results.count != made) return fmt::format("{} results; {} are needed", op_->results.count, made);
    if (depth_ >= max_region_depth) return fmt::format("more than {} nested regions", max_region_depth);
    if (const Result<void> verified = Verifier(*a.body, depth_ + 1).run(); !verified) {
      return fmt::format("body: {}", verified.error().message);
    }
    const Graph& body = *a.body;
    if (body.inputs().size() != needed || body.outputs().size() != made) {
      return fmt::format("a body of {} inputs and {} outputs; {} and {} are needed", body.inputs().size(),
                         body.outputs().size(), needed, made);
    }
    for (size_t i = 0; i < needed; ++i) {
      const Type& inner = body.type(body.result(body.op(body.inputs()[i])));
      const bool per_iteration = i >= size_t{a.carried} + a.invariant;
      if (!matches(operand(i), inner, per_iteration, a.count)) {
        return fmt::format("operand {} is {}; the body's input is {}", i, to_string(operand(i)), to_string(inner));
      }
    }
    for (size_t i = 0; i < made; ++i) {
      const Type& inner = body.type(body.operands(body.op(body.outputs()[i]))[0]);
      const Type& outer = graph_.type(graph_.result(*op_, static_cast<uint32_t>(i)));
      if (!matches(outer, inner, i >= a.carried, a.count)) {
        return fmt::format("result {} is {}; the body's output is {}", i, to_string(outer), to_string(inner));
      }
      if (i < a.carried && outer != operand(i)) {
        return fmt::format("carried value {} begins as {} and ends as {}", i, to_string(operand(i)), to_string(outer));
      }
    }
    return "";
  }

  // Whether `outer` is `inner`, or [count, inner…] of a value per iteration.
  static bool matches(const Type& outer, const Type& inner, bool per_iteration, int64_t count) {
    if (!per_iteration) return outer == inner;
    return outer.dtype == inner.dtype && outer.shape.rank() == inner.shape.rank() + 1 && outer.shape[0] == count &&
           std::ranges::equal(outer.shape.extents().subspan(1), inner.shape.extents());
  }

  const Graph& graph_;
  int depth_;
  const Op* op_ = nullptr;
};

}  // namespace

Result<void> verify(const Graph& graph) { return Verifier(graph, 0).run(); }

}  // namespace low
