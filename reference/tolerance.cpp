#include "reference/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace low::reference {
namespace {

constexpr double function_error = 8;      // of exp, tanh, …, in units of u
constexpr double score_size = 2;          // RMS of what a softmax is taken of, where it is neither flat nor one-hot
constexpr double more_flips = 3;          // that a tensor may have beyond the mean
constexpr double few_flips = 0.02;        // fewer are expected not to happen
constexpr double rms_allowance = 4;       // times e
constexpr double element_allowance = 16;  // times e
constexpr double fp8_absolute = 0.2, fp8_relative = 0.05, fp8_rms = 0.003;
constexpr double few_fp8_rms = 1.0 / 625;  // of a step

// u: half of the spacing of the format's numbers, relative to their size. Of integers, which have steps of 1: for
// numbers whose RMS is a quarter of the largest one; 64 where the type does not tell how large they are.
double unit_roundoff(DType type) {
  switch (type) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
      return 0x1p-4;
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 0x1p-3;
    case DType::i16:
    case DType::u16:
      return 0x1p-14;
    default:
      return 0x1p-6;
  }
}

// The format that operations on `type` compute in.
double compute_roundoff(DType type) { return unit_roundoff(type == DType::f64 ? DType::f64 : DType::f32); }

ErrorBound merge(const ErrorBound& a, const ErrorBound& b) {
  return {.error = std::max(a.error, b.error),
          .steady_error = std::max(a.steady_error, b.steady_error),
          .flips = std::max(a.flips, b.flips),
          .step = std::max(a.step, b.step),
          .terms = std::max(a.terms, b.terms),
          .depth = std::max(a.depth, b.depth),
          .format = unit_roundoff(a.format) >= unit_roundoff(b.format) ? a.format : b.format,
          .from_input = a.from_input || b.from_input,
          .fp8 = a.fp8 || b.fp8};
}

ErrorBound merge(std::span<const ErrorBound> bounds) {
  ErrorBound all;
  for (const ErrorBound& bound : bounds) all = merge(all, bound);
  return all;
}

ErrorBound plus(ErrorBound bound, double own) {
  bound.error = std::hypot(bound.error, own);
  bound.steady_error = std::hypot(bound.steady_error, own);
  return bound;
}

// Rounded from another type of number, or after arithmetic in f32.
ErrorBound rounded(ErrorBound bound, DType to, int64_t elements) {
  const double u = unit_roundoff(to);
  bound.fp8 = bound.fp8 || (is_fp8(to) && bound.from_input);
  if (u > unit_roundoff(bound.format)) bound.format = to;
  if (bound.error == 0 || elements == 0) return bound;
  if (to == DType::f64 || to == DType::f32) return plus(bound, u);
  const double h = 2 * u, n = static_cast<double>(elements);
  bound.step = std::max(bound.step, h);
  bound.flips += n * std::min(bound.steady_error / h, 1.0);
  bound.steady_error = 0;  // equal again
  bound.error =
      std::hypot(bound.error, std::sqrt(std::min(h * bound.error, h * h / 4)) + h * std::sqrt(more_flips / n));
  return bound;
}

bool is_few_fp8(const ErrorBound& bound) { return bound.fp8 && bound.flips < few_flips; }

ErrorBound converted(const ErrorBound& bound, DType from, DType to, int64_t elements) {
  const bool widens = is_float(from) && is_float(to) && unit_roundoff(to) <= unit_roundoff(from);
  return from == to || widens || !is_float(from) ? bound : rounded(bound, to, elements);
}

// A sum or a normalization in `accumulate`, over so many terms.
ErrorBound summed(ErrorBound bound, DType accumulate, int64_t terms) {
  ++bound.depth;
  if (!is_float(accumulate)) return bound;
  bound.terms = std::max(bound.terms, terms);
  if (unit_roundoff(accumulate) > unit_roundoff(bound.format)) bound.format = accumulate;
  return plus(bound, unit_roundoff(accumulate) * std::sqrt(static_cast<double>(std::max<int64_t>(terms, 1))));
}

// A softmax's weights: exp makes an error of a score, e times its size, one of the weight relative to it.
ErrorBound exponentiated(ErrorBound bound) {
  bound.error *= score_size;
  bound.steady_error *= score_size;
  return bound;
}

// One operation in the type of its result, which is a float.
ErrorBound computed(const ErrorBound& bound, DType type, double roundoffs, int64_t elements) {
  ErrorBound result = plus(bound, roundoffs * compute_roundoff(type));
  if (type != DType::f64 && type != DType::f32) return rounded(result, type, elements);
  if (unit_roundoff(type) > unit_roundoff(result.format)) result.format = type;
  return result;
}

ErrorBound node_bound(const ExprNode& node, std::span<const ErrorBound> operands, DType operand_type,
                      int64_t elements) {
  const ErrorBound all = merge(operands);
  switch (node.op) {
    case ExprOp::convert:
      return converted(all, operand_type, node.dtype, elements);
    case ExprOp::neg:
    case ExprOp::abs:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::where:
      return all;
    // Steps of whole numbers.
    case ExprOp::round_even:
    case ExprOp::floor:
    case ExprOp::ceil:
    case ExprOp::sign:
    case ExprOp::modulo:
      return is_float(operand_type) ? rounded(all, DType::i32, elements) : all;
    case ExprOp::is_nan:
    case ExprOp::equal:
    case ExprOp::not_equal:
    case ExprOp::less:
    case ExprOp::less_equal:
    case ExprOp::greater:
    case ExprOp::greater_equal:
      return is_float(operand_type) ? rounded(all, DType::boolean, elements) : all;
    case ExprOp::exp:
    case ExprOp::log:
    case ExprOp::erf:
    case ExprOp::tanh:
    case ExprOp::sigmoid:
    case ExprOp::sin:
    case ExprOp::cos:
    case ExprOp::pow:
      return is_float(node.dtype) ? computed(all, node.dtype, function_error, elements) : all;
    default:
      return is_float(node.dtype) ? computed(all, node.dtype, 1, elements) : all;
  }
}

ErrorBound expression_bound(const Expr& expr, std::span<const ErrorBound> inputs, int64_t elements) {
  std::vector<ErrorBound> bounds;
  for (const ExprNode& node : expr.nodes) {
    if (node.op == ExprOp::input) {
      bounds.push_back(inputs[node.argument]);
    } else if (node.op == ExprOp::constant) {
      bounds.emplace_back();
    } else {
      std::vector<ErrorBound> operands;
      for (int i = 0; i < info(node.op).arity; ++i) operands.push_back(bounds[node.operand[i]]);
      bounds.push_back(node_bound(node, operands, expr.nodes[node.operand[0]].dtype, elements));
    }
  }
  return bounds.back();
}

std::vector<ErrorBound> graph_bounds(const Graph& graph, std::span<const ErrorBound> inputs);

// The bound of an operation's results; those of a repeat differ, all others have one.
class Walker {
 public:
  Walker(const Graph& graph, const Op& op, std::span<const ErrorBound> operands)
      : graph_(graph), op_(op), operands_(operands) {}

  std::vector<ErrorBound> operator()(const Pointwise& pointwise) const {
    return {expression_bound(pointwise.expr, operands_, elements())};
  }
  std::vector<ErrorBound> operator()(const Matmul& matmul) const {
    const Shape& a = operand_type(0).shape;
    const int64_t terms = a[a.rank() - (matmul.transpose_a ? 2 : 1)];
    return {
        finished(summed(merge(operands_.first(2)), matmul.accumulate, terms), matmul.accumulate, matmul.epilogue, 2)};
  }
  std::vector<ErrorBound> operator()(const Quantize&) const { return {rounded(scaled(), type().dtype, elements())}; }
  std::vector<ErrorBound> operator()(const Dequantize&) const {
    return {converted(scaled(), compute_type(type().dtype), type().dtype, elements())};
  }
  std::vector<ErrorBound> operator()(const Cast&) const {
    return {converted(operands_[0], operand_type(0).dtype, type().dtype, elements())};
  }
  std::vector<ErrorBound> operator()(const Gather&) const {
    const ErrorBound& indices = operands_[1];
    return {merge(operands_[0], indices.error > 0 ? rounded(indices, DType::boolean, elements()) : indices)};
  }
  std::vector<ErrorBound> operator()(const Scatter& scatter) const {
    const ErrorBound& indices = operands_[1];
    const ErrorBound chosen = indices.error > 0 ? rounded(indices, DType::boolean, elements()) : indices;
    const ErrorBound values = merge(operands_[0], operands_[2]);
    if (scatter.kind != Scatter::Kind::add && scatter.kind != Scatter::Kind::mul) return {merge(values, chosen)};
    return {merge(converted(summed(values, compute_type(type().dtype), operand_type(1).shape.elements()),
                            compute_type(type().dtype), type().dtype, elements()),
                  chosen)};
  }
  std::vector<ErrorBound> operator()(const TopK&) const { return {rounded(operands_[0], DType::i64, elements())}; }
  std::vector<ErrorBound> operator()(const Reduce& reduce) const {
    const ErrorBound& value = operands_[0];
    const ErrorBound mapped =
        reduce.map ? expression_bound(*reduce.map, operands_.first(1), operand_type(0).shape.elements())
                   : converted(value, operand_type(0).dtype, reduce.accumulate, operand_type(0).shape.elements());
    switch (reduce.kind) {
      case Reduce::Kind::sum:
      case Reduce::Kind::product:
        return {finished(summed(mapped, reduce.accumulate, terms_along(reduce.axes)), reduce.accumulate,
                         reduce.epilogue, 1)};
      case Reduce::Kind::max:
      case Reduce::Kind::min:
        return {finished(mapped, reduce.accumulate, reduce.epilogue, 1)};
      case Reduce::Kind::index_max:
      case Reduce::Kind::index_min:
        break;
    }
    return {finished(rounded(mapped, DType::i64, elements()), DType::i64, reduce.epilogue, 1)};
  }
  std::vector<ErrorBound> operator()(const Cumulative& cumulative) const {
    const DType accumulate = compute_type(type().dtype);
    return {converted(summed(operands_[0], accumulate, type().shape[cumulative.axis]), accumulate, type().dtype,
                      elements())};
  }
  std::vector<ErrorBound> operator()(const Rowwise& rowwise) const {
    const DType compute = compute_type(operand_type(0).dtype);
    const bool norm = rowwise.kind == Rowwise::Kind::layer_norm || rowwise.kind == Rowwise::Kind::rms_norm;
    const ErrorBound of = norm ? operands_[0] : exponentiated(operands_[0]);
    const ErrorBound sum =
        computed(summed(of, compute, terms_along(rowwise.axes)), compute, function_error, elements());
    return {finished(sum, compute, rowwise.epilogue, 1)};
  }
  std::vector<ErrorBound> operator()(const Attention& attention) const {
    const DType compute = compute_type(operand_type(0).dtype);
    const size_t operands = attention.masked ? 4 : 3;
    const Shape& q = operand_type(0).shape;
    const int64_t keys = operand_type(1).shape[1];
    ErrorBound bound = summed(merge(operands_.first(operands)), compute, q[2] / attention.q_heads);
    bound = computed(summed(exponentiated(bound), compute, keys), compute, function_error, elements());
    return {finished(summed(bound, compute, keys), compute, attention.epilogue, operands)};
  }
  std::vector<ErrorBound> operator()(const Repeat& repeat) const {
    std::vector<ErrorBound> carried(operands_.begin(), operands_.begin() + repeat.carried);
    std::vector<ErrorBound> collected(repeat.collected);
    for (int64_t iteration = 0; iteration < repeat.count; ++iteration) {
      std::vector<ErrorBound> inputs = carried;
      inputs.insert(inputs.end(), operands_.begin() + repeat.carried, operands_.end());
      const std::vector<ErrorBound> outputs = graph_bounds(*repeat.body, inputs);
      for (uint32_t i = 0; i < repeat.collected; ++i) collected[i] = merge(collected[i], outputs[repeat.carried + i]);
      std::vector<ErrorBound> next(outputs.begin(), outputs.begin() + repeat.carried);
      if (next == carried) break;  // and so it stays
      carried = std::move(next);
    }
    carried.insert(carried.end(), collected.begin(), collected.end());
    return carried;
  }
  // Movement: no arithmetic.
  template <typename Other>
  std::vector<ErrorBound> operator()(const Other&) const {
    return {merge(operands_)};
  }

 private:
  static DType compute_type(DType type) { return is_float(type) && type != DType::f64 ? DType::f32 : type; }
  const Type& type() const { return graph_.type(graph_.result(op_)); }
  const Type& operand_type(size_t i) const { return graph_.type(graph_.operands(op_)[i]); }
  int64_t elements() const { return type().shape.elements(); }
  int64_t terms_along(const Shape& axes) const {
    int64_t terms = 1;
    for (const int64_t axis : axes) terms *= operand_type(0).shape[static_cast<int>(axis)];
    return terms;
  }
  // Multiplied or divided by a scale, and moved by a zero point.
  ErrorBound scaled() const { return plus(merge(operands_), unit_roundoff(DType::f32)); }
  // What the epilogue, or without one a conversion, makes of the accumulator.
  ErrorBound finished(const ErrorBound& accumulator, DType accumulate, const std::optional<Expr>& epilogue,
                      size_t first_extra) const {
    if (!epilogue) return converted(accumulator, accumulate, type().dtype, elements());
    std::vector<ErrorBound> inputs{accumulator};
    inputs.insert(inputs.end(), operands_.begin() + static_cast<std::ptrdiff_t>(first_extra), operands_.end());
    return expression_bound(*epilogue, inputs, elements());
  }

  const Graph& graph_;
  const Op& op_;
  std::span<const ErrorBound> operands_;
};

std::vector<ErrorBound> graph_bounds(const Graph& graph, std::span<const ErrorBound> inputs) {
  Table<ValueId, ErrorBound> values(graph.value_count());
  std::vector<ErrorBound> outputs;
  size_t next_input = 0;
  for (const Op& op : graph.ops()) {
    std::vector<ErrorBound> operands;
    for (const ValueId operand : graph.operands(op)) operands.push_back(values[operand]);
    if (std::holds_alternative<Output>(op.attributes)) {
      outputs.push_back(operands[0]);
      continue;
    }
    if (std::holds_alternative<Input>(op.attributes)) operands.push_back(inputs[next_input++]);
    const std::vector<ErrorBound> results = std::visit(Walker(graph, op, operands), op.attributes);
    for (uint32_t i = 0; i < results.size(); ++i) values[graph.result(op, i)] = results[i];
  }
  return outputs;
}

double rms_of(const Tensor& tensor) {
  long double squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const long double value = tensor.value(i);
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++finite;
  }
  return finite == 0 ? 0 : static_cast<double>(std::sqrt(squares / static_cast<long double>(finite)));
}

}  // namespace

std::vector<ErrorBound> error_bounds(const Graph& graph) {
  const std::vector<ErrorBound> inputs(graph.inputs().size(), {.from_input = true});
  return graph_bounds(graph, inputs);
}

Tolerance tolerance_of(const ErrorBound& bound, const Tensor& expected) {
  if (bound.error == 0) return {.absolute = 0, .relative = 0, .rms = 0};
  const DType type = expected.dtype();
  const double rms = rms_of(expected);
  // The output's own step, relative to its numbers: those of integers are 1 apart. And what a few such steps add to the
  // RMS.
  const double step = is_float(type) ? 2 * unit_roundoff(type) : rms > 0 ? 1 / rms : 0;
  const double integer_step = is_float(type) ? 0 : 1;
  const double few = step * std::sqrt(more_flips / static_cast<double>(std::max<int64_t>(expected.elements(), 1)));
  if (bound.fp8) {
    const double fixed =
        is_few_fp8(bound) ? std::max(few_fp8_rms * bound.step, rms_allowance * bound.steady_error) : fp8_rms;
    return {.absolute = std::max(fp8_absolute, integer_step),
            .relative = std::max(fp8_relative, is_fp8(type) ? step : 0),
            .rms = std::hypot(fixed, few)};
  }
  const double relative = element_allowance * bound.error + bound.step;
  return {.absolute = relative * rms + integer_step,
          .relative = relative,
          .rms = std::hypot(rms_allowance * bound.error, few)};
}

std::string reason(const ErrorBound& bound) {
  if (bound.error == 0) return "exact, since nothing is summed in floats and no function is evaluated";
  if (bound.fp8) return is_few_fp8(bound) ? "few FP8 operands" : "FP8 operands";
  std::string text(name(bound.format));
  if (bound.terms > 0) text += fmt::format(", sums of up to {} terms", bound.terms);
  return text + fmt::format(", depth {}", bound.depth);
}

}  // namespace low::reference
