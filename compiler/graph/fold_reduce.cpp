// Reductions on constants. Elements are combined by the operations of expressions, so that there is one definition of
// each.
#include <cmath>

#include "compiler/graph/fold_ops.h"

namespace low {
namespace {

Expr conversion(DType from, DType to) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.convert(builder.input(0, from), to));
}

Expr binary(ExprOp op, DType type) {
  ExprBuilder builder(2);
  const uint16_t a = builder.input(0, type);
  const uint16_t b = builder.input(1, type);
  return std::move(builder).finish(builder.binary(op, a, b));
}

uint64_t apply(const Expr& expr, uint64_t a, uint64_t b) {
  const uint64_t inputs[] = {a, b};
  return evaluate(expr, inputs);
}

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
  if (apply(better, b, a) != 0) return true;
  return ties && apply(better, a, b) == 0;
}

}  // namespace

FoldEpilogue::FoldEpilogue(const std::optional<Expr>& expr, DType accumulator, FoldOperands operands, size_t first,
                           const Type& result)
    : expr_(expr ? *expr : conversion(accumulator, result.dtype)),
      extras_(operands.subspan(first)),
      inputs_(1 + extras_.size()),
      walk_(
          result.shape,
          [&] {
            std::vector<Strides> strides;
            for (const Tensor* extra : extras_) strides.push_back(broadcast_strides(extra->shape(), result.shape));
            return strides;
          }(),
          std::vector<int64_t>(extras_.size(), 0)) {}

uint64_t FoldEpilogue::next(uint64_t accumulator) {
  inputs_[0] = accumulator;
  for (size_t i = 0; i < extras_.size(); ++i) inputs_[i + 1] = extras_[i]->bits(walk_.offset(i));
  walk_.next();
  return evaluate(expr_, inputs_);
}

Tensor fold_reduce(const Reduce& reduce, FoldOperands operands, const Type& result) {
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
  const Expr map = reduce.map ? *reduce.map : conversion(x.dtype(), type);
  const Expr combine = binary(operation(reduce.kind), type);
  FoldEpilogue epilogue(reduce.epilogue, is_index ? DType::i64 : type, operands, 1, result);
  Tensor out(result.dtype, result.shape);
  const int64_t count = out.elements();
  const int64_t reduced = inner.elements();
  Walk outer(result.shape, {kept}, {0});
  for (int64_t i = 0; i < count; ++i, outer.next()) {
    uint64_t value = identity(reduce.kind, type);
    int64_t place = 0;
    Walk walk(inner, {inner_strides}, {outer.offset(0)});
    for (int64_t j = 0; j < reduced; ++j, walk.next()) {
      const uint64_t element = x.bits(walk.offset(0));
      const uint64_t mapped = evaluate(map, {&element, 1});
      if (!is_index) {
        value = apply(combine, value, mapped);
      } else if (j == 0 || replaces(combine, type, value, mapped, reduce.last)) {
        value = mapped;
        place = j;
      }
    }
    out.set_bits(i, epilogue.next(is_index ? static_cast<uint64_t>(place) : value));
  }
  return out;
}

Tensor fold_cumulative(const Cumulative& cumulative, FoldOperands operands, const Type& result) {
  const Tensor& x = *operands[0];
  const DType type = !is_float(x.dtype()) || x.dtype() == DType::f64 ? x.dtype() : DType::f32;
  const Expr widen = conversion(x.dtype(), type);
  const Expr narrow = conversion(type, x.dtype());
  const Expr add = binary(ExprOp::add, type);
  Tensor out(result.dtype, result.shape);
  const int64_t extent = result.shape[cumulative.axis];
  if (out.elements() == 0) return out;
  const int64_t stride = result.shape.row_major_strides()[cumulative.axis];
  Shape rows = result.shape;
  rows[cumulative.axis] = 1;
  const int64_t count = rows.elements();
  Walk walk(rows, {result.shape.row_major_strides()}, {0});
  for (int64_t row = 0; row < count; ++row, walk.next()) {
    uint64_t sum = 0;
    for (int64_t j = 0; j < extent; ++j) {
      const int64_t place = walk.offset(0) + stride * (cumulative.reverse ? extent - 1 - j : j);
      const uint64_t element = x.bits(place);
      const uint64_t next = apply(add, sum, evaluate(widen, {&element, 1}));
      const uint64_t& written = cumulative.exclusive ? sum : next;
      out.set_bits(place, evaluate(narrow, {&written, 1}));
      sum = next;
    }
  }
  return out;
}

}  // namespace low
