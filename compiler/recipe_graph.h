// Graphs that a few bytes ask for, with extents as a hostile model has them: none, one, primes, powers of two and their
// neighbours, billions. For fuzzers and tests: any bytes give a valid graph, neighbouring bytes a similar one. All
// extents are the inputs'; constants are small.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace low {

class RecipeGraph {
 public:
  explicit RecipeGraph(std::span<const uint8_t> recipe) : recipe_(recipe) {}

  Graph make() && {
    const int64_t inputs = 1 + below(3);
    for (int64_t i = 0; i < inputs; ++i) new_input(new_shape(below(5)));
    add_operations(most_operations);
    return finish();
  }

 private:
  static constexpr int most_operations = 24;
  static constexpr std::array<int64_t, 24> extents = {
      0,  1,  2,   3,   4,    5,    7,     8,     12,      15,      16,         17,
      31, 64, 127, 256, 1000, 4099, 65536, 99990, 1 << 20, 1000003, 16'777'216, int64_t{1} << 31};

  RecipeGraph(std::span<const uint8_t>& recipe, int depth) : recipe_(recipe), depth_(depth) {}

  // The next byte; 0 behind the last.
  int64_t next() {
    if (recipe_.empty()) return 0;
    const uint8_t byte = recipe_[0];
    recipe_ = recipe_.subspan(1);
    return byte;
  }
  int64_t below(int64_t n) { return n <= 1 ? 0 : n <= 256 ? next() % n : (next() | next() << 8 | next() << 16) % n; }
  bool chance(int64_t of_256) { return next() < of_256; }
  int64_t extent() { return extents[static_cast<size_t>(below(extents.size()))]; }

  const Type& type(ValueId value) const { return builder_.type(value); }
  const Shape& shape(ValueId value) const { return builder_.type(value).shape; }
  static bool fits(const Shape& shape) {
    const auto elements = checked_elements(shape.extents());
    return elements && *elements <= max_tensor_bytes / 8;  // in any dtype
  }
  // With extents that are too large for a tensor replaced by 1.
  static Shape limited(const Shape& wanted) {
    Shape result;
    for (const int64_t extent : wanted) {
      result.append(extent);
      if (!fits(result)) result[result.rank() - 1] = 1;
    }
    return result;
  }
  Shape new_shape(int64_t rank) {
    Shape result;
    for (int64_t i = 0; i < rank; ++i) result.append(extent());
    return limited(result);
  }
  ValueId new_input(const Shape& of, DType dtype = DType::f32) {
    const ValueId value = depth_ == 0 ? builder_.input("x" + std::to_string(inputs_++), {dtype, of}) : ValueId();
    if (!value.valid()) return keep(small_constant(of, dtype));
    return dtype == DType::f32 ? keep(value) : value;
  }
  // In a body, where only the repeat has inputs: a constant that is broadcast.
  ValueId small_constant(const Shape& of, DType dtype) {
    const ValueId scalar = builder_.constant(Tensor(dtype, {}));
    return of.rank() == 0 ? scalar : builder_.expand(scalar, of);
  }
  ValueId keep(ValueId value) {
    values_.push_back(value);
    return value;
  }
  ValueId pick() {
    if (values_.empty()) new_input({});
    return values_[values_.size() - 1 - static_cast<size_t>(below(static_cast<int64_t>(values_.size())))];
  }

  void add_operations(int most) {
    for (int i = 0; i < most && !recipe_.empty(); ++i) add_operation();
  }

  void add_operation() {
    switch (below(18)) {
      case 0:
        return matmul();
      case 1:
        return unary();
      case 2:
        return binary();
      case 3:
        return transpose();
      case 4:
      case 5:
        return reshape();
      case 6:
        return cut();
      case 7:
        return expand();
      case 8:
        return concat();
      case 9:
        return pad();
      case 10:
        return gather();
      case 11:
        return reduce();
      case 12:
        return cumulative();
      case 13:
        return rowwise();
      case 14:
        return attention();
      case 15:
        return scatter();
      case 16:
        return top_k();
      default:
        return repeat();
    }
  }

  Shape some_axes(int rank) {
    const int64_t certain = below(rank);
    const int64_t others = next();
    Shape axes;
    for (int axis = 0; axis < rank; ++axis)
      if (axis == certain || (others >> axis & 1) != 0) axes.append(axis);
    return axes;
  }

  void unary() {
    ExprBuilder expr(1);
    const uint16_t result = expr.unary(chance(128) ? ExprOp::tanh : ExprOp::neg, expr.input(0, DType::f32));
    const ValueId operands[] = {pick()};
    keep(builder_.pointwise(std::move(expr).finish(result), operands));
  }

  void binary() {
    const ValueId a = pick();
    ValueId b = pick();
    if (!broadcast(shape(a), shape(b)) || !fits(*broadcast(shape(a), shape(b))) || chance(64)) {
      Shape other = shape(a);
      const int64_t kept = next();
      for (int axis = 0; axis < other.rank(); ++axis)
        if ((kept >> axis & 1) == 0) other[axis] = 1;
      b = new_input(other);
    }
    ExprBuilder expr(2);
    const uint16_t result = expr.binary(ExprOp::add, expr.input(0, DType::f32), expr.input(1, DType::f32));
    const ValueId operands[] = {a, b};
    keep(builder_.pointwise(std::move(expr).finish(result), operands));
  }

  void matmul() {
    const ValueId a = pick();
    const int rank = shape(a).rank();
    if (rank < 2) return reshape();
    Matmul attributes{.transpose_a = chance(64), .transpose_b = chance(64)};
    const int64_t k = shape(a)[attributes.transpose_a ? rank - 2 : rank - 1], n = extent();
    Shape other, result;
    const bool batches = chance(96);
    for (int axis = 0; axis + 2 < rank; ++axis) {
      result.append(shape(a)[axis]);
      if (batches) other.append(shape(a)[axis]);
    }
    other.append(attributes.transpose_b ? n : k);
    other.append(attributes.transpose_b ? k : n);
    result.append(shape(a)[attributes.transpose_a ? rank - 1 : rank - 2]);
    result.append(n);
    if (!fits(other) || !fits(result)) return;
    const ValueId operands[] = {a, new_input(other)};
    keep(builder_.matmul(attributes, operands, DType::f32));
  }

  void transpose() {
    const ValueId value = pick();
    std::vector<int64_t> order;
    for (int axis = 0; axis < shape(value).rank(); ++axis)
      order.insert(order.begin() + below(static_cast<int64_t>(order.size()) + 1), axis);
    keep(builder_.transpose(value, Shape(order)));
  }

  // Into factors that divide the number of elements, whatever the old extents.
  void reshape() {
    constexpr std::array<int64_t, 16> factors = {1, 2, 3, 5, 7, 8, 11, 15, 16, 31, 64, 101, 1000, 1024, 4099, 65536};
    const ValueId value = pick();
    int64_t rest = shape(value).elements();
    Shape to;
    const int64_t count = below(5);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t factor = factors[static_cast<size_t>(below(factors.size()))];
      if (rest % factor != 0) continue;
      to.append(factor);
      rest /= factor;
    }
    if (chance(128)) {
      to.append(rest);
    } else {
      Shape first{rest};
      for (const int64_t extent : to) first.append(extent);
      to = first;
    }
    if (fits(to)) keep(builder_.reshape(value, to));
  }

  void cut() {
    const ValueId value = pick();
    Shape start, step, to;
    for (const int64_t extent : shape(value)) {
      const bool backwards = chance(64);
      const int64_t stride = chance(128) ? 1 : 1 + below(7);
      const int64_t count = extent == 0 ? 0 : 1 + below((extent - 1) / stride + 1);
      const int64_t reach = count == 0 ? 0 : (count - 1) * stride;
      const int64_t slack = extent == 0 ? 0 : below(extent - reach);
      start.append(backwards ? slack + reach : slack);
      step.append(backwards ? -stride : stride);
      to.append(count);
    }
    keep(builder_.slice(value, start, step, to));
  }

  void expand() {
    const ValueId value = pick();
    Shape to;
    if (shape(value).rank() < max_rank) to.append(extent());
    for (const int64_t own : shape(value)) to.append(own == 1 ? extent() : own);
    if (fits(to)) keep(builder_.expand(value, to));
  }

  void concat() {
    const ValueId value = pick();
    if (shape(value).rank() == 0) return;
    const auto axis = static_cast<int>(below(shape(value).rank()));
    std::vector<ValueId> parts{value};
    const int64_t count = chance(32) ? 64 + next() : 1 + below(4);
    ValueId other = value;
    if (chance(128)) {
      Shape own = shape(value);
      own[axis] = extent();
      if (fits(own)) other = new_input(own);
    }
    for (int64_t i = 0; i < count; ++i) parts.push_back(i % 2 == 0 ? other : value);
    std::vector<Shape> shapes;
    for (const ValueId part : parts) shapes.push_back(shape(part));
    const auto whole = concat_shape(shapes, axis);
    if (whole && fits(*whole)) keep(builder_.concat(parts, axis));
  }

  void pad() {
    const ValueId value = pick();
    Pad attributes{.mode = std::array{Pad::Mode::constant, Pad::Mode::edge, Pad::Mode::reflect,
                                      Pad::Mode::wrap}[static_cast<size_t>(below(4))]};
    Shape after, to;
    for (const int64_t own : shape(value)) {
      if (own == 0) attributes.mode = Pad::Mode::constant;
      attributes.before.append(chance(128) ? extent() : 0);
      after.append(chance(128) ? extent() : 0);
      to.append(own + attributes.before[after.rank() - 1] + after[after.rank() - 1]);
    }
    if (!fits(to)) return;
    std::vector<ValueId> operands{value};
    if (attributes.mode == Pad::Mode::constant) operands.push_back(builder_.constant(Tensor(DType::f32, {})));
    keep(builder_.pad(attributes, operands, after));
  }

  void gather() {
    const ValueId value = pick();
    if (shape(value).rank() == 0 || shape(value).elements() == 0) return;
    Gather attributes{.axis = static_cast<int>(below(shape(value).rank()))};
    Shape list = new_shape(below(3));
    const int64_t mode = below(3);
    if (mode == 1) {
      attributes.mode = Gather::Mode::elements;
      list = shape(value);
      list[attributes.axis] = extent();
    } else if (mode == 2) {
      attributes = {.mode = Gather::Mode::nd, .axis = 0, .batch_axes = 0};
      list.append(1 + below(shape(value).rank()));
    }
    if (!fits(list)) return;
    const auto result = gather_shape(attributes, shape(value), list);
    if (!result || !fits(*result)) return;
    keep(builder_.gather(attributes, value,
                         depth_ == 0 ? new_input(list, DType::i64) : small_constant(list, DType::i64)));
  }

  void reduce() {
    const ValueId value = pick();
    if (shape(value).rank() == 0) return;
    Reduce attributes{.kind = chance(128) ? Reduce::Kind::sum : Reduce::Kind::max,
                      .axes = some_axes(shape(value).rank())};
    const ValueId operands[] = {value};
    keep(builder_.reduce(attributes, operands, DType::f32));
  }

  void scatter() {
    const ValueId value = pick();
    if (shape(value).elements() == 0) return;
    const int64_t columns = shape(value).rank() > 0 ? shape(value)[shape(value).rank() - 1] : 1;
    const Shape matrix{shape(value).elements() / columns, columns};
    const Shape list{extent()}, updates{list[0], columns};
    if (!fits(list) || !fits(updates)) return;
    const ValueId operands[] = {builder_.reshape(value, matrix),
                                depth_ == 0 ? new_input(list, DType::i64) : small_constant(list, DType::i64),
                                new_input(updates)};
    const Scatter attributes{chance(128) ? Scatter::Kind::replace : Scatter::Kind::add};
    keep(builder_.add_one(attributes, operands, {DType::f32, matrix}));
  }

  void top_k() {
    const ValueId value = pick();
    if (shape(value).rank() == 0) return;
    TopK attributes{.axis = static_cast<int>(below(shape(value).rank()))};
    Type places{DType::i64, shape(value)};
    attributes.k = below(places.shape[attributes.axis] + 1);
    places.shape[attributes.axis] = attributes.k;
    const ValueId found = builder_.add_one(attributes, {{value}}, places);
    keep(builder_.gather({.mode = Gather::Mode::elements, .axis = attributes.axis}, value, found));
  }

  void cumulative() {
    const ValueId value = pick();
    if (shape(value).rank() == 0) return;
    keep(builder_.cumulative({.axis = static_cast<int>(below(shape(value).rank()))}, value));
  }

  void rowwise() {
    const ValueId value = pick();
    if (shape(value).rank() == 0) return;
    const ValueId operands[] = {value};
    keep(builder_.rowwise({.kind = Rowwise::Kind::softmax, .axes = some_axes(shape(value).rank())}, operands,
                          DType::f32));
  }

  void attention() {
    const ValueId q = pick();
    if (shape(q).rank() != 3) return;
    const Shape of_q = shape(q);
    Attention attributes;
    for (const int64_t heads : {64, 8, 3, 2})
      if (chance(64) && of_q[2] % heads == 0) attributes.q_heads = heads;
    attributes.kv_heads = chance(128) ? attributes.q_heads : 1;
    if (of_q[2] == 0) return;
    const int64_t d = of_q[2] / attributes.q_heads, n = std::max<int64_t>(extent(), 1), dv = chance(128) ? d : 1;
    const int64_t kv_batch = chance(128) ? of_q[0] : 1;
    const Shape of_k{kv_batch, n, attributes.kv_heads * d}, of_v{kv_batch, n, attributes.kv_heads * dv};
    if (kv_batch == 0 || !fits(of_k) || !fits(of_v)) return;
    std::vector<ValueId> operands{q, new_input(of_k), new_input(of_v)};
    if (chance(64)) {
      const Shape of_mask{1, 1, chance(128) ? of_q[1] : 1, chance(128) ? n : 1};
      if (!fits(of_mask)) return;
      attributes.masked = true;
      operands.push_back(new_input(of_mask));
    }
    if (chance(64)) attributes.diagonal = below(9) - 4;
    const auto result = attention_shape(attributes, of_q, of_k, of_v);
    if (!result || !fits(*result)) return;
    keep(builder_.attention(attributes, operands, DType::f32));
  }

  void repeat() {
    if (depth_ == 2) return unary();
    Repeat attributes{.count = extent()};
    RecipeGraph body(recipe_, depth_ + 1);
    std::vector<ValueId> operands;
    std::vector<ValueId> carried;
    attributes.carried = static_cast<uint32_t>(below(3));
    attributes.invariant = static_cast<uint32_t>(below(2));
    for (uint32_t i = 0; i < attributes.carried + attributes.invariant; ++i) {
      operands.push_back(pick());
      carried.push_back(body.builder_.input("b" + std::to_string(i), type(operands.back())));
      body.keep(carried.back());
    }
    carried.resize(attributes.carried);
    if (chance(128)) {
      Shape all{attributes.count};
      const Shape one = new_shape(below(3));
      for (const int64_t extent : one) all.append(extent);
      if (fits(all)) {
        attributes.iterated = 1;
        operands.push_back(new_input(all));
        body.keep(body.builder_.input("each", {DType::f32, one}));
      }
    }
    body.recipe_ = recipe_;
    body.add_operations(static_cast<int>(1 + body.below(4)));
    std::vector<ValueId> outputs;
    for (const ValueId value : carried) {
      // The last value of the same type.
      const auto same = std::find_if(body.values_.rbegin(), body.values_.rend(),
                                     [&](ValueId other) { return body.type(other) == body.type(value); });
      outputs.push_back(same == body.values_.rend() ? value : *same);
    }
    if (body.chance(128) && !body.values_.empty()) {
      const ValueId value = body.pick();
      Shape all{attributes.count};
      if (body.shape(value).rank() < max_rank) {
        for (const int64_t extent : body.shape(value)) all.append(extent);
        if (fits(all)) {
          attributes.collected = 1;
          outputs.push_back(value);
        }
      }
    }
    recipe_ = body.recipe_;
    if (outputs.empty()) return;
    for (size_t i = 0; i < outputs.size(); ++i) body.builder_.output("o" + std::to_string(i), outputs[i]);
    auto graph = std::move(body.builder_).finish();
    LOW_CHECK(graph.has_value());
    attributes.body = std::make_shared<const Graph>(std::move(*graph));
    for (const ValueId result : builder_.repeat(attributes, operands)) keep(result);
  }

  // The last value is an output, and every other one that is left to choose.
  Graph finish() {
    builder_.output("y0", values_.back());
    const int64_t others = below(3);
    for (int64_t i = 0; i < others; ++i) builder_.output("y" + std::to_string(i + 1), pick());
    auto graph = std::move(builder_).finish();
    LOW_CHECK(graph.has_value());
    return std::move(*graph);
  }

  std::span<const uint8_t> recipe_;
  int depth_ = 0;
  int inputs_ = 0;
  GraphBuilder builder_;
  std::vector<ValueId> values_;  // all f32
};

}  // namespace low
