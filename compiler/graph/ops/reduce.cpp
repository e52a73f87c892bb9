#include "compiler/graph/ops/reduce.h"

#include <cmath>
#include <fmt/format.h>

namespace low {
namespace {

uint64_t bits_of(DType type, double value) {
  if (is_float(type)) return encode(type, value, Overflow::propagate);
  Tensor tensor(type, Shape());
  tensor.set_value(0, value);  // clamps
  return tensor.bits(0);
}

uint64_t identity(Reduce::Kind kind, DType type) {
  switch (kind) {
    case Reduce::Kind::product:
      return bits_of(type, 1);
    case Reduce::Kind::max:
      return bits_of(type, -INFINITY);
    case Reduce::Kind::min:
      return bits_of(type, INFINITY);
    default:
      return 0;
  }
}

ExprOp operation(Reduce::Kind kind) {
  switch (kind) {
    case Reduce::Kind::sum:
      return ExprOp::add;
    case Reduce::Kind::product:
      return ExprOp::mul;
    case Reduce::Kind::max:
      return ExprOp::max;
    case Reduce::Kind::min:
      return ExprOp::min;
    case Reduce::Kind::index_max:
      return ExprOp::greater;
    case Reduce::Kind::index_min:
      break;
  }
  return ExprOp::less;
}

// Of the index kinds: whether b is more extreme than a; with `ties`, also when it is as extreme.
bool replaces(const Expr& better, DType type, uint64_t a, uint64_t b, bool ties) {
  const auto is_nan = [&](uint64_t bits) { return is_float(type) && std::isnan(decode(type, bits)); };
  if (is_nan(a) || is_nan(b)) return is_nan(b) && (ties || !is_nan(a));
  if (folding::apply(better, b, a) != 0) return true;
  return ties && folding::apply(better, a, b) == 0;
}

}  // namespace

Shape reduced_shape(const Shape& shape, const Shape& axes) {
  Shape result = shape;
  for (const int64_t axis : axes) result[static_cast<int>(axis)] = 1;
  return result;
}

std::string problem(const Reduce& a, const OpTypes& op) {
  if (std::string error = op.counts(1, a.epilogue ? UINT16_MAX : 1, 1); !error.empty()) return error;
  const Shape& from = op.operand(0).shape;
  if (a.kind > Reduce::Kind::index_min) return "unknown kind";
  if (!are_axes(a.axes, from.rank())) return fmt::format("axes {} of {}", to_string(a.axes), to_string(op.operand(0)));
  if (a.accumulate != DType::f32 && a.accumulate != DType::f64 && !is_integer(a.accumulate)) {
    return fmt::format("accumulated in {}", name(a.accumulate));
  }
  const bool is_index = a.kind == Reduce::Kind::index_max || a.kind == Reduce::Kind::index_min;
  if (a.last && !is_index) return "only an index can be the last";
  if (std::string error = op.expect({op.result().dtype, reduced_shape(from, a.axes)}); !error.empty()) return error;
  if (is_index) {
    if (a.axes.rank() != 1) return fmt::format("an index along {} axes", a.axes.rank());
    if (from[static_cast<int>(a.axes[0])] == 0 && op.result().shape.elements() != 0) return "an index of no elements";
  }
  if (a.map) {
    const DType input = op.operand(0).dtype;
    if (std::string error = op.expression(*a.map, {&input, 1}, a.accumulate); !error.empty()) return "map: " + error;
  } else if (op.operand(0).dtype == DType::boolean) {
    return "of bool, without a map";
  }
  return op.epilogue(a.epilogue, is_index ? DType::i64 : a.accumulate, 1);
}

Tensor fold(const Reduce& reduce, FoldOperands operands, const Type& result) {
  const Tensor& x = *operands[0];
  const Strides full = x.shape().row_major_strides();
  Strides kept = full;  // of the axes that stay; the others have extent 1 in the result
  Strides inner_strides;
  Shape inner;
  for (const int64_t axis : reduce.axes) {
    kept[static_cast<int>(axis)] = 0;
    inner.append(x.shape()[static_cast<int>(axis)]);
    inner_strides.append(full[static_cast<int>(axis)]);
  }
  const DType type = reduce.accumulate;
  const bool is_index = reduce.kind == Reduce::Kind::index_max || reduce.kind == Reduce::Kind::index_min;
  const Expr map = reduce.map ? *reduce.map : folding::conversion(x.dtype(), type);
  const Expr combine = folding::binary(operation(reduce.kind), type);
  folding::FoldEpilogue epilogue(reduce.epilogue, is_index ? DType::i64 : type, operands, 1, result);
  Tensor out(result.dtype, result.shape);
  const int64_t count = out.elements();
  const int64_t reduced = inner.elements();
  folding::Walk outer(result.shape, {kept}, {0});
  for (int64_t i = 0; i < count; ++i, outer.next()) {
    uint64_t value = identity(reduce.kind, type);
    int64_t place = 0;
    folding::Walk walk(inner, {inner_strides}, {outer.offset(0)});
    for (int64_t j = 0; j < reduced; ++j, walk.next()) {
      const uint64_t element = x.bits(walk.offset(0));
      const uint64_t mapped = evaluate(map, {&element, 1});
      if (!is_index) {
        value = folding::apply(combine, value, mapped);
      } else if (j == 0 || replaces(combine, type, value, mapped, reduce.last)) {
        value = mapped;
        place = j;
      }
    }
    out.set_bits(i, epilogue.next(is_index ? static_cast<uint64_t>(place) : value));
  }
  return out;
}

}  // namespace low
