#include "reference/random_graph.h"

#include <algorithm>
#include <array>

#include "reference/random_attention.h"
#include "runtime/tensor/random_tensor.h"

namespace low::reference {
namespace {

constexpr std::array<int64_t, 12> extents = {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33};

class Maker {
 public:
  Maker(const RandomGraphOptions& options, RandomBits& random, int depth)
      : options_(options), random_(random), depth_(depth) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_.next() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  int64_t extent() {
    if (depth_ == 0 && chance(1)) return 0;
    return extents[static_cast<size_t>(below(extents.size()))];
  }
  Shape shape(int rank) {
    Shape result;
    for (int i = 0; i < rank; ++i) result.append(extent());
    return result;
  }
  ValueId pick() { return pool_[static_cast<size_t>(below(static_cast<int64_t>(pool_.size())))]; }
  const Shape& shape_of(ValueId value) const { return builder_.type(value).shape; }
  ValueId constant(const Shape& extent_list, DType dtype = DType::f32) {
    return builder_.constant(random_tensor(dtype, extent_list, random_.next()));
  }
  void keep(ValueId value) { pool_.push_back(value); }

  // All values of the pool are f32, so that any two can meet.
  void add_operation() {
    if (options_.attention && chance(20)) {
      keep(attention(pick()));
      return;
    }
    switch (below(options_.repeats && depth_ < 2 ? 22 : 21)) {
      case 0:
      case 1:
        keep(matmul());
        break;
      case 2:
      case 3:
        keep(unary(pick()));
        break;
      case 4:
      case 5:
        keep(binary());
        break;
      case 6:
        keep(transpose(pick()));
        break;
      case 7:
        keep(reshape(pick()));
        break;
      case 8:
        keep(cut(pick()));
        break;
      case 9:
        keep(expand(pick()));
        break;
      case 10:
        keep(options_.narrow_floats ? through_narrow(pick()) : unary(pick()));
        break;
      case 11:
        keep(options_.narrow_floats ? through_quantize(pick()) : binary());
        break;
      case 12:
        keep(normalize(pick()));
        break;
      case 13:
        keep(reduce(pick()));
        break;
      case 14:
        keep(concat(pick()));
        break;
      case 15:
        keep(pad(pick()));
        break;
      case 16:
        keep(gather(pick()));
        break;
      case 17:
        keep(cumulative(pick()));
        break;
      case 18:
        keep(place_of_extreme());
        break;
      case 19:
        keep(scatter(pick()));
        break;
      case 20:
        keep(top_k(pick()));
        break;
      default:
        repeat();
        break;
    }
  }

  int64_t axis_of(ValueId value) { return below(shape_of(value).rank()); }
  // At least one axis, ascending.
  Shape some_axes(int rank) {
    const int64_t certain = below(rank);
    Shape axes;
    for (int axis = 0; axis < rank; ++axis) {
      if (axis == certain || chance(30)) axes.append(axis);
    }
    return axes;
  }
  ValueId scaled(ValueId value, double factor) {
    ExprBuilder expr(1);
    const uint16_t product = expr.binary(ExprOp::mul, expr.input(0, DType::f32), expr.constant(DType::f32, factor));
    const ValueId operands[] = {value};
    return builder_.pointwise(std::move(expr).finish(product), operands);
  }
  // The value, unless it is too large to go on with.
  ValueId limited(ValueId value, ValueId instead) { return shape_of(value).elements() > 20000 ? instead : value; }

  ValueId normalize(ValueId value) {
    if (shape_of(value).rank() == 0) return unary(value);
    // Norms make differences between narrow floats larger.
    constexpr std::array kinds = {Rowwise::Kind::softmax, Rowwise::Kind::masked_softmax, Rowwise::Kind::log_softmax,
                                  Rowwise::Kind::layer_norm, Rowwise::Kind::rms_norm};
    Rowwise attributes;
    attributes.kind = kinds[static_cast<size_t>(below(options_.narrow_floats ? 2 : 4))];
    attributes.axes = some_axes(shape_of(value).rank());
    attributes.epsilon =
        attributes.kind == Rowwise::Kind::layer_norm || attributes.kind == Rowwise::Kind::rms_norm ? 0.1 : 0;
    std::vector<ValueId> operands{value};
    if (chance(50)) {
      // normalized * scale + shift
      Shape scale = shape_of(value);
      for (int axis = 0; axis < scale.rank(); ++axis) {
        if (chance(40)) scale[axis] = 1;
      }
      operands.push_back(constant(scale));
      operands.push_back(constant({}));
      ExprBuilder expr(3);
      const uint16_t product = expr.binary(ExprOp::mul, expr.input(0, DType::f32), expr.input(1, DType::f32));
      attributes.epilogue = std::move(expr).finish(expr.binary(ExprOp::add, product, expr.input(2, DType::f32)));
    }
    return clamped(builder_.rowwise(attributes, operands, DType::f32));
  }

  ValueId attention(ValueId value) {
    const Shape& shape = shape_of(value);
    if (shape.rank() == 0 || shape[shape.rank() - 1] == 0 || shape.elements() > 5000) return unary(value);
    return limited(clamped(random_attention(builder_, random_, value, pick(), options_.narrow_floats)), value);
  }

  ValueId reduce(ValueId value) {
    constexpr std::array kinds = {Reduce::Kind::sum, Reduce::Kind::sum, Reduce::Kind::max, Reduce::Kind::min,
                                  Reduce::Kind::product};
    Reduce attributes;
    attributes.kind = kinds[static_cast<size_t>(below(kinds.size()))];
    const Shape& shape = shape_of(value);
    if (shape.rank() > 0) attributes.axes = some_axes(shape.rank());
    int64_t count = 1;
    for (const int64_t axis : attributes.axes) count *= shape[static_cast<int>(axis)];
    if (count == 0 || (attributes.kind == Reduce::Kind::product && count > 7)) attributes.kind = Reduce::Kind::sum;
    const ValueId operands[] = {value};
    if (attributes.kind == Reduce::Kind::product) return clamped(builder_.reduce(attributes, operands, DType::f32));
    if (attributes.kind != Reduce::Kind::sum) return builder_.reduce(attributes, operands, DType::f32);
    // A mean, or the root of a mean of squares.
    const bool squares = chance(40);
    if (squares) {
      ExprBuilder map(1);
      const uint16_t x = map.input(0, DType::f32);
      attributes.map = std::move(map).finish(map.binary(ExprOp::mul, x, x));
    }
    ExprBuilder expr(1);
    uint16_t result = expr.binary(ExprOp::mul, expr.input(0, DType::f32),
                                  expr.constant(DType::f32, 1.0 / static_cast<double>(std::max<int64_t>(count, 1))));
    if (squares) result = expr.unary(ExprOp::sqrt, result);
    attributes.epilogue = std::move(expr).finish(result);
    return builder_.reduce(attributes, operands, DType::f32);
  }

  ValueId concat(ValueId value) {
    if (shape_of(value).rank() == 0) return unary(value);
    const auto axis = static_cast<int>(axis_of(value));
    std::vector<ValueId> parts;
    const int64_t count = 1 + below(3);
    for (int64_t i = 0; i < count; ++i) {
      Shape other = shape_of(value);
      other[axis] = 1 + below(5);
      parts.push_back(chance(30) ? value : chance(60) ? unary(value) : constant(other));
    }
    return limited(builder_.concat(parts, axis), parts[0]);
  }

  ValueId pad(ValueId value) {
    const Shape& shape = shape_of(value);
    constexpr std::array modes = {Pad::Mode::constant, Pad::Mode::edge, Pad::Mode::reflect, Pad::Mode::wrap};
    Pad attributes;
    attributes.mode = modes[static_cast<size_t>(below(4))];
    Shape after;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 0) attributes.mode = Pad::Mode::constant;
      attributes.before.append(chance(50) ? below(4) : 0);
      after.append(chance(50) ? below(4) : 0);
    }
    std::vector<ValueId> operands{value};
    if (attributes.mode == Pad::Mode::constant) operands.push_back(constant({}));
    return limited(builder_.pad(attributes, operands, after), value);
  }

  // In range, counted from either end.
  ValueId indices(const Shape& shape, const std::vector<int64_t>& extents_of_list) {
    const DType dtype = chance(50) ? DType::i64 : DType::i32;
    Tensor tensor(dtype, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const int64_t extent = extents_of_list[static_cast<size_t>(i) % extents_of_list.size()];
      tensor.set_value(i, static_cast<double>(below(2 * extent) - extent));
    }
    return builder_.constant(std::move(tensor));
  }

  ValueId gather(ValueId value) {
    const Shape data = shape_of(value);
    if (data.rank() == 0 || data.elements() == 0) return unary(value);
    Gather attributes;
    attributes.axis = static_cast<int>(axis_of(value));
    const int64_t extent_of_axis = data[attributes.axis];
    if (chance(50)) {
      const Shape list = chance(30) ? Shape{} : chance(50) ? Shape{1 + below(9)} : Shape{1 + below(3), 1 + below(5)};
      if (data.rank() + list.rank() > 6) return unary(value);
      return limited(builder_.gather(attributes, value, indices(list, {extent_of_axis})), value);
    }
    if (chance(50)) {
      attributes.mode = Gather::Mode::elements;
      Shape list = data;
      for (int axis = 0; axis < list.rank(); ++axis) {
        if (axis == attributes.axis || chance(30)) list[axis] = 1 + below(axis == attributes.axis ? 9 : list[axis]);
      }
      return limited(builder_.gather(attributes, value, indices(list, {extent_of_axis})), value);
    }
    attributes = {.mode = Gather::Mode::nd, .axis = 0, .batch_axes = static_cast<int>(below(2))};
    if (attributes.batch_axes >= data.rank()) attributes.batch_axes = 0;
    const int64_t depth = 1 + below(data.rank() - attributes.batch_axes);
    Shape list;
    for (int axis = 0; axis < attributes.batch_axes; ++axis) list.append(data[axis]);
    if (chance(60)) list.append(1 + below(7));
    list.append(depth);
    std::vector<int64_t> extents_of_list;
    for (int64_t i = 0; i < depth; ++i) extents_of_list.push_back(data[attributes.batch_axes + static_cast<int>(i)]);
    return limited(builder_.gather(attributes, value, indices(list, extents_of_list)), value);
  }

  // Rows of the value as a matrix, some of them more than once, some of which there are none.
  ValueId scatter(ValueId value) {
    const Shape& shape = shape_of(value);
    if (shape.elements() == 0) return unary(value);
    const int64_t columns = shape.rank() > 1 && chance(70) ? shape[shape.rank() - 1] : 1;
    const int64_t rows = shape.elements() / columns, updates = below(20);
    Tensor places(chance(50) ? DType::i64 : DType::i32, {updates});
    for (int64_t i = 0; i < updates; ++i) places.set_value(i, static_cast<double>(below(rows + 2) - 1));
    const ValueId operands[] = {builder_.reshape(value, {rows, columns}), builder_.constant(std::move(places)),
                                constant({updates, columns})};
    const Scatter attributes{static_cast<Scatter::Kind>(below(scatter_kinds.size()))};
    const ValueId result = builder_.add_one(attributes, operands, {DType::f32, {rows, columns}});
    return clamped(builder_.reshape(result, shape_of(value)));
  }

  // The values, since rounding could move places.
  ValueId top_k(ValueId value) {
    if (shape_of(value).rank() == 0 || shape_of(value).elements() == 0) return unary(value);
    TopK attributes{.axis = static_cast<int>(axis_of(value)), .smallest = chance(50)};
    Type places{DType::i64, shape_of(value)};
    attributes.k = 1 + below(places.shape[attributes.axis]);
    places.shape[attributes.axis] = attributes.k;
    const ValueId found = builder_.add_one(attributes, {{value}}, places);
    return builder_.gather({.mode = Gather::Mode::elements, .axis = attributes.axis}, value, found);
  }

  ValueId cumulative(ValueId value) {
    if (shape_of(value).rank() == 0) return unary(value);
    Cumulative attributes;
    attributes.axis = static_cast<int>(axis_of(value));
    attributes.exclusive = chance(30);
    attributes.reverse = chance(30);
    return clamped(scaled(builder_.cumulative(attributes, value), 0.125));
  }

  // Of an input of the whole graph: rounding could move it elsewhere.
  ValueId place_of_extreme() {
    const ValueId value = pool_[0];
    if (depth_ != 0 || shape_of(value).rank() == 0 || shape_of(value).elements() == 0) return unary(pick());
    Reduce attributes;
    attributes.kind = chance(50) ? Reduce::Kind::index_max : Reduce::Kind::index_min;
    attributes.axes = {axis_of(value)};
    attributes.last = chance(50);
    const ValueId operands[] = {value};
    return scaled(builder_.cast(builder_.reduce(attributes, operands, DType::i64), DType::f32), 0.125);
  }

  // clamp(value, -4, 4) keeps errors from growing.
  ValueId clamped(ValueId value) {
    ExprBuilder expr(1);
    const uint16_t x = expr.input(0, DType::f32);
    const uint16_t low = expr.binary(ExprOp::max, x, expr.constant(DType::f32, -4));
    const uint16_t high = expr.binary(ExprOp::min, low, expr.constant(DType::f32, 4));
    const ValueId operands[] = {value};
    return builder_.pointwise(std::move(expr).finish(high), operands);
  }

  ValueId unary(ValueId value) {
    constexpr std::array ops = {ExprOp::neg, ExprOp::abs, ExprOp::tanh, ExprOp::sigmoid, ExprOp::erf, ExprOp::sin};
    ExprBuilder expr(1);
    const uint16_t x = expr.input(0, DType::f32);
    const uint16_t result = expr.unary(ops[static_cast<size_t>(below(ops.size()))], x);
    const ValueId operands[] = {value};
    return builder_.pointwise(std::move(expr).finish(result), operands);
  }

  ValueId binary() {
    const ValueId a = pick();
    ValueId b = pick();
    if (!broadcast(shape_of(a), shape_of(b))) {
      // A constant that matches: some axes stretched, leading ones missing.
      Shape other;
      const Shape& full = shape_of(a);
      for (int axis = static_cast<int>(below(full.rank() + 1)); axis < full.rank(); ++axis)
        other.append(chance(30) ? 1 : full[axis]);
      b = constant(other);
    }
    constexpr std::array ops = {ExprOp::add, ExprOp::sub, ExprOp::mul, ExprOp::min, ExprOp::max};
    ExprBuilder expr(2);
    const uint16_t x = expr.input(0, DType::f32), y = expr.input(1, DType::f32);
    const uint16_t result = expr.binary(ops[static_cast<size_t>(below(ops.size()))], x, y);
    const ValueId operands[] = {a, b};
    const ValueId value = builder_.pointwise(std::move(expr).finish(result), operands);
    return shape_of(value).elements() > 100000 ? a : clamped(value);
  }

  ValueId matmul() {
    ValueId a = pick();
    if (shape_of(a).rank() < 2) a = builder_.reshape(a, {1, shape_of(a).elements()});
    const int rank = shape_of(a).rank();
    const int64_t k = shape_of(a)[rank - 1];
    Matmul attributes;
    attributes.transpose_b = chance(40);
    const int64_t n = extent();
    Shape other;
    if (chance(30))
      for (int axis = 0; axis < rank - 2; ++axis) other.append(chance(30) ? 1 : shape_of(a)[axis]);
    other.append(attributes.transpose_b ? n : k);
    other.append(attributes.transpose_b ? k : n);
    if (chance(30)) {  // a as [k, m]
      attributes.transpose_a = true;
      Shape swapped;
      for (int axis = 0; axis < rank; ++axis) swapped.append(axis < rank - 2 ? axis : 2 * rank - 3 - axis);
      a = builder_.transpose(a, swapped);
    }
    const ValueId operands[] = {a, constant(other)};
    const ValueId product = builder_.matmul(attributes, operands, DType::f32);
    // Sums of k products have a deviation of about sqrt(k): scale, add a bias, squash.
    ExprBuilder expr(2);
    const uint16_t scaled = expr.binary(ExprOp::mul, expr.input(0, DType::f32), expr.constant(DType::f32, 0.25));
    const uint16_t biased = expr.binary(ExprOp::add, scaled, expr.input(1, DType::f32));
    const ValueId pair[] = {product, constant({n})};
    return builder_.pointwise(std::move(expr).finish(expr.unary(ExprOp::tanh, biased)), pair);
  }

  ValueId transpose(ValueId value) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < shape_of(value).rank(); ++axis) axes.push_back(axis);
    for (size_t i = axes.size(); i > 1; --i)
      std::swap(axes[i - 1], axes[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    return builder_.transpose(value, Shape(axes));
  }

  ValueId reshape(ValueId value) {
    const Shape& from = shape_of(value);
    Shape to;
    int axis = 0;
    while (axis < from.rank()) {
      if (axis + 1 < from.rank() && chance(50)) {
        to.append(from[axis] * from[axis + 1]);
        axis += 2;
      } else if (to.rank() < 4 && from.rank() < 5 && from[axis] % 3 == 0 && from[axis] > 0 && chance(50)) {
        to.append(3);
        to.append(from[axis] / 3);
        ++axis;
      } else {
        to.append(from[axis]);
        ++axis;
      }
    }
    return builder_.reshape(value, to);
  }

  ValueId cut(ValueId value) {
    const Shape& from = shape_of(value);
    Shape start, step, to;
    for (int axis = 0; axis < from.rank(); ++axis) {
      const bool backwards = chance(30);
      const int64_t stride = 1 + below(2);
      const int64_t count = from[axis] == 0 ? 0 : 1 + below((from[axis] - 1) / stride + 1);
      const int64_t reach = count == 0 ? 0 : (count - 1) * stride;
      const int64_t slack = from[axis] == 0 ? 0 : below(from[axis] - reach);
      start.append(backwards ? slack + reach : slack);
      step.append(backwards ? -stride : stride);
      to.append(count);
    }
    return builder_.slice(value, start, step, to);
  }

  ValueId expand(ValueId value) {
    const Shape& from = shape_of(value);
    if (from.elements() > 5000 || from.rank() > 4) return unary(value);
    Shape to{1 + below(3)};
    for (const int64_t extent_of_axis : from) to.append(extent_of_axis == 1 ? 1 + below(4) : extent_of_axis);
    return builder_.expand(value, to);
  }

  ValueId through_narrow(ValueId value) {
    constexpr std::array types = {DType::f16,    DType::bf16,       DType::f8e4m3fn,
                                  DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};
    const DType narrow = types[static_cast<size_t>(below(types.size()))];
    return builder_.cast(builder_.cast(value, narrow, Overflow::saturate), DType::f32);
  }

  ValueId through_quantize(ValueId value) {
    constexpr std::array types = {DType::f8e4m3fn, DType::f8e5m2, DType::i8};
    const DType narrow = types[static_cast<size_t>(below(types.size()))];
    const Shape& from = shape_of(value);
    std::optional<int> axis;
    if (from.rank() > 0 && chance(40)) axis = static_cast<int>(below(from.rank()));
    Tensor scale(DType::f32, axis ? Shape{from[*axis]} : Shape{});
    for (int64_t i = 0; i < scale.elements(); ++i) scale.set_value(i, 0.03125 * static_cast<double>(1 + below(3)));
    const ValueId factor = builder_.constant(std::move(scale));
    const ValueId in[] = {value, factor};
    const ValueId quantized = builder_.quantize({.axis = axis}, in, narrow);
    const ValueId out[] = {quantized, factor};
    return builder_.dequantize({.axis = axis}, out, DType::f32);
  }

  void repeat() {
    constexpr std::array<int64_t, 5> counts = {0, 1, 3, 3, 27};
    Repeat attributes;
    attributes.count = counts[static_cast<size_t>(below(counts.size()))];
    std::vector<ValueId> operands;
    Maker body(options_, random_, depth_ + 1);
    std::vector<ValueId> carried;
    attributes.carried = static_cast<uint32_t>(1 + below(2));
    for (uint32_t i = 0; i < attributes.carried; ++i) {
      operands.push_back(pick());
      carried.push_back(body.builder_.input("carried" + std::to_string(i), builder_.type(operands.back())));
    }
    attributes.invariant = static_cast<uint32_t>(below(2));
    for (uint32_t i = 0; i < attributes.invariant; ++i) {
      operands.push_back(pick());
      body.keep(body.builder_.input("invariant" + std::to_string(i), builder_.type(operands.back())));
    }
    attributes.iterated = static_cast<uint32_t>(below(3));
    for (uint32_t i = 0; i < attributes.iterated; ++i) {
      Shape all{attributes.count};
      const Shape one = body.shape(static_cast<int>(1 + below(2)));
      for (const int64_t n : one) all.append(n);
      operands.push_back(constant(all));
      body.keep(body.builder_.input("iterated" + std::to_string(i), {DType::f32, one}));
    }
    for (const ValueId value : carried) body.keep(value);
    const int64_t operations = 1 + below(4);
    for (int64_t i = 0; i < operations; ++i) body.add_operation();
    for (uint32_t i = 0; i < attributes.carried; ++i) {
      // The next value: the old one (or the other, when they have one shape: a swap), with something added that fits.
      ValueId old = carried[i];
      if (attributes.carried == 2 && body.builder_.type(carried[0]) == body.builder_.type(carried[1]) &&
          body.chance(50))
        old = carried[1 - i];
      ValueId next = old;
      const ValueId other = body.pick();
      if (broadcast(body.shape_of(old), body.shape_of(other)) == body.shape_of(old) && body.chance(85)) {
        ExprBuilder expr(2);
        const uint16_t half = expr.binary(ExprOp::mul, expr.input(1, DType::f32), expr.constant(DType::f32, 0.5));
        const uint16_t sum = expr.binary(ExprOp::sub, half, expr.input(0, DType::f32));
        const ValueId pair[] = {old, other};
        next = body.clamped(body.builder_.pointwise(std::move(expr).finish(sum), pair));
      }
      body.builder_.output("next" + std::to_string(i), next);
    }
    attributes.collected = static_cast<uint32_t>(below(3));
    for (uint32_t i = 0; i < attributes.collected; ++i)
      body.builder_.output("collected" + std::to_string(i), body.pick());
    auto graph = std::move(body.builder_).finish();
    LOW_CHECK(graph.has_value());
    attributes.body = std::make_shared<const Graph>(std::move(*graph));
    for (const ValueId result : builder_.repeat(attributes, operands)) {
      // Values that grew by a factor of 27 would slow tests down.
      if (shape_of(result).elements() < 20000) keep(result);
    }
  }

  const RandomGraphOptions& options_;
  RandomBits& random_;
  int depth_;
  GraphBuilder builder_;
  std::vector<ValueId> pool_;
};

}  // namespace

RandomGraph random_graph(const RandomGraphOptions& options) {
  RandomBits random(options.seed);
  Maker maker(options, random, 0);
  RandomGraph result;
  const int64_t inputs = 1 + maker.below(3);
  for (int64_t i = 0; i < inputs; ++i) {
    const Type type{DType::f32, maker.shape(static_cast<int>(maker.below(4)))};
    maker.keep(maker.builder_.input("x" + std::to_string(i), type));
    result.inputs.push_back(random_tensor(type.dtype, type.shape, random.next()));
  }
  for (int i = 0; i < options.operations; ++i) maker.add_operation();
  // The last value and some others; an input may be an output.
  const int64_t outputs = 1 + maker.below(3);
  maker.builder_.output("y0", maker.pool_.back());
  for (int64_t i = 1; i < outputs; ++i) maker.builder_.output("y" + std::to_string(i), maker.pick());
  auto graph = std::move(maker.builder_).finish();
  LOW_CHECK(graph.has_value());
  result.graph = std::move(*graph);
  // A narrow float that is rounded the other way differs by up to a quarter (E5M2) of its value, and is added up.
  result.tolerance = options.narrow_floats ? 0.3 : 1e-3;
  return result;
}

}  // namespace low::reference
