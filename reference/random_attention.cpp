#include "reference/random_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace low::reference {
namespace {

class AttentionMaker {
 public:
  AttentionMaker(GraphBuilder& builder, RandomBits& random, ValueId value, ValueId other, bool narrow)
      : builder_(builder), random_(random), value_(value), other_(other), narrow_(narrow) {}

  ValueId make() {
    split_queries();
    const ValueId q = narrowed(builder_.reshape(value_, {batch_, rows_, width_}));
    operands_ = {q};
    add_keys();
    accumulate_ = attention_type(builder_.type(operands_[0]).dtype, builder_.type(operands_[1]).dtype,
                                 builder_.type(operands_[2]).dtype);
    keys_ = builder_.type(operands_[1]).shape[1];
    attributes_.scale = chance(10) ? -0.5 : 1 / std::sqrt(static_cast<double>(width_ / attributes_.q_heads));
    if (chance(25)) attributes_.softcap = 3;
    if (chance(40)) add_diagonal();
    if (chance(60)) add_mask();
    if (may_be_empty_) attributes_.empty_is_zero = chance(40);
    const DType result = narrow_ && chance(30) ? narrow_type() : DType::f32;
    add_epilogue(result);
    return builder_.cast(builder_.attention(attributes_, operands_, result), DType::f32);
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_.next() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  int64_t or_one(int64_t extent) { return chance(50) ? 1 : extent; }
  // Of 0, which each number divides: 0.
  int64_t divisor_of(int64_t n) {
    std::vector<int64_t> divisors;
    for (int64_t i = 1; i <= n; ++i) {
      if (n % i == 0) divisors.push_back(i);
    }
    return divisors.empty() ? 0 : divisors[static_cast<size_t>(below(static_cast<int64_t>(divisors.size())))];
  }
  ValueId constant(const Shape& shape) { return builder_.constant(random_tensor(DType::f32, shape, random_.next())); }
  DType narrow_type() {
    constexpr std::array types = {DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2};
    return types[static_cast<size_t>(below(types.size()))];
  }
  ValueId narrowed(ValueId value) {
    if (narrow_ && chance(50)) return builder_.cast(value, narrow_type(), Overflow::saturate);
    return chance(4) ? builder_.cast(value, DType::f64) : value;
  }

  void split_queries() {
    const Shape& shape = builder_.type(value_).shape;
    const int rank = shape.rank();
    width_ = shape[rank - 1];
    rows_ = rank > 1 ? shape[rank - 2] : 1;
    batch_ = 1;
    for (int axis = 0; axis < rank - 2; ++axis) batch_ *= shape[axis];
    if (chance(20)) {
      batch_ *= rows_;
      rows_ = 1;
    } else if (chance(20)) {
      rows_ *= batch_;
      batch_ = 1;
    }
  }

  // The first elements of the other value, if it has as many, or a constant.
  ValueId elements(const Shape& shape) {
    const int64_t has = builder_.type(other_).shape.elements();
    if (has < shape.elements() || has == 0 || chance(40)) return constant(shape);
    const ValueId flat = builder_.reshape(other_, {has});
    return builder_.reshape(builder_.slice(flat, {0}, {1}, {shape.elements()}), shape);
  }

  void add_keys() {
    constexpr std::array<int64_t, 11> extents = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33};
    attributes_.q_heads = divisor_of(width_);
    attributes_.kv_heads = chance(50) ? attributes_.q_heads : divisor_of(attributes_.q_heads);
    const int64_t d = width_ / attributes_.q_heads;
    if (attributes_.kv_heads == attributes_.q_heads && rows_ > 0 && chance(40)) {
      const ValueId q = operands_[0];
      operands_ = {q, q, q};
      return;
    }
    const int64_t kv_batch = divisor_of(batch_);
    const int64_t keys = extents[static_cast<size_t>(below(extents.size()))];
    operands_.push_back(narrowed(elements({kv_batch, keys, attributes_.kv_heads * d})));
    if (chance(20)) {
      operands_.push_back(operands_[1]);
    } else {
      const int64_t dv = chance(30) ? d : 1 + below(5);
      operands_.push_back(narrowed(elements({kv_batch, keys, attributes_.kv_heads * dv})));
    }
  }

  void add_diagonal() {
    const std::array<int64_t, 6> diagonals = {0, below(4), -1 - below(4), keys_ - rows_, 1000000, -1000000};
    attributes_.diagonal = diagonals[static_cast<size_t>(below(chance(90) ? 4 : 6))];
    may_be_empty_ = *attributes_.diagonal < 0;
  }

  void add_mask() {
    attributes_.masked = true;
    const int64_t heads = batch_ * attributes_.q_heads;
    attributes_.mask_heads = std::max<int64_t>(divisor_of(heads), 1);
    const Shape shape{or_one(heads / attributes_.mask_heads), or_one(attributes_.mask_heads), or_one(rows_),
                      or_one(keys_)};
    const bool boolean = chance(50), first_key = chance(50);
    const DType dtype = boolean ? DType::boolean : narrow_ && chance(50) ? DType::bf16 : DType::f32;
    Tensor tensor = random_tensor(dtype, shape, random_.next());
    if (boolean && chance(30)) {
      constexpr std::array fills = {-5.0, -1e9, -3.4028234663852886e38};
      attributes_.masked_score = fills[static_cast<size_t>(below(fills.size()))];
    }
    const bool infinities = boolean || chance(40);
    for (int64_t i = 0; infinities && i < tensor.elements(); ++i) {
      const bool takes_part = (first_key && i % shape[3] == 0) || chance(60);
      if (boolean) {
        tensor.set_bits(i, takes_part ? 1 : 0);
      } else if (!takes_part) {
        tensor.set_value(i, -std::numeric_limits<double>::infinity());
      }
    }
    // Behind a diagonal, the first key may be all that a row has.
    may_be_empty_ = may_be_empty_ || (infinities && !first_key && std::isinf(attributes_.masked_score));
    ValueId mask = builder_.constant(std::move(tensor));
    if (chance(30)) mask = computed(mask, dtype);
    operands_.push_back(mask);
  }

  // The same elements, but that nothing knows them before the run.
  ValueId computed(ValueId mask, DType dtype) {
    Reduce largest;
    largest.kind = Reduce::Kind::max;
    for (int axis = 0; axis < builder_.type(value_).shape.rank(); ++axis) largest.axes.append(axis);
    const ValueId one = builder_.reshape(builder_.reduce(largest, {{value_}}, DType::f32), {1, 1, 1, 1});
    ExprBuilder expr(2);
    const uint16_t in = expr.input(0, dtype);
    const uint16_t low = expr.constant(DType::f32, -1e30), x = expr.input(1, DType::f32);
    const uint16_t usual = expr.binary(ExprOp::less, low, x);
    const uint16_t result = dtype == DType::boolean ? expr.binary(ExprOp::logical_and, in, usual)
                                                    : expr.where(usual, in, expr.constant(dtype, 0));
    return builder_.pointwise(std::move(expr).finish(result), {{mask, one}});
  }

  void add_epilogue(DType result) {
    const bool nan = may_be_empty_ && !attributes_.empty_is_zero;
    if (!nan && chance(50)) return;
    const auto extras = static_cast<int>(below(3));
    ExprBuilder expr(1 + extras);
    uint16_t x = expr.input(0, accumulate_);
    if (nan) x = expr.where(expr.unary(ExprOp::is_nan, x), expr.constant(accumulate_, 0), x);
    const Shape full{batch_, rows_, attributes_.q_heads * builder_.type(operands_[2]).shape[2] / attributes_.kv_heads};
    for (int i = 0; i < extras; ++i) {
      const Shape broadcast{or_one(rows_), or_one(full[2])};
      const ValueId extra = chance(40) ? elements(full) : chance(30) ? constant({}) : constant(broadcast);
      operands_.push_back(extra);
      const uint16_t y = expr.convert(expr.input(1 + i, DType::f32), accumulate_);
      x = expr.binary(i == 0 ? ExprOp::mul : ExprOp::add, x, y);
    }
    attributes_.epilogue = std::move(expr).finish(expr.convert(x, result, Overflow::saturate));
  }

  GraphBuilder& builder_;
  RandomBits& random_;
  const ValueId value_, other_;
  const bool narrow_;
  Attention attributes_;
  std::vector<ValueId> operands_;
  int64_t batch_ = 1, rows_ = 1, width_ = 1, keys_ = 1;
  DType accumulate_ = DType::f32;
  bool may_be_empty_ = false;
};

}  // namespace

ValueId random_attention(GraphBuilder& builder, RandomBits& random, ValueId value, ValueId other, bool narrow) {
  return AttentionMaker(builder, random, value, other, narrow).make();
}

}  // namespace low::reference
