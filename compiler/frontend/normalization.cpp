// Softmax and normalizations: a Rowwise, and a formula for scale and bias that fusion makes its epilogue.
#include <fmt/format.h>

#include <cmath>

#include "compiler/frontend/importer.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

Result<void> check_float(const Node& node, const ModelValue& x, int least_rank) {
  if (!is_float(x.dtype()) || is_fp8(x.dtype())) {
    return node.invalid(fmt::format("input 0 is {}, f16, bf16, f32 or f64 is expected", to_string(x.type)));
  }
  if (x.rank() < least_rank) {
    return node.invalid(fmt::format("input 0 is {}, a rank of at least {} is expected", to_string(x.type), least_rank));
  }
  return {};
}

Shape axes_from(int first, int rank) {
  Shape axes;
  for (int axis = first; axis < rank; ++axis) axes.append(axis);
  return axes;
}

// `epsilon` of the model. A negative one could make a root of a negative number; nothing else than an error would be
// sensible.
Result<double> epsilon_of(const Node& node) {
  LOW_TRY(const float epsilon, node.number("epsilon", 1e-5F));
  if (!(epsilon >= 0) || std::isinf(epsilon)) return node.invalid(fmt::format("epsilon is {}", epsilon));
  return static_cast<double>(epsilon);
}

// normalized * scale + bias, in the type of `normalized` (f32 or f64), rounded to `to`. The bias may be missing.
Result<ModelValue> scaled(Node& node, const ModelValue& normalized, const ModelValue& scale, const ModelValue* bias,
                          DType to) {
  std::vector<ModelValue> operands = {normalized, scale};
  if (bias != nullptr) operands.push_back(*bias);
  for (size_t i = 1; i < operands.size(); ++i) {
    const auto joined = broadcast(normalized.shape(), operands[i].shape());
    if (!is_float(operands[i].dtype()) || !joined || *joined != normalized.shape()) {
      return node.invalid(fmt::format("{} is {}, which does not fit {}", i == 1 ? "the scale" : "the bias",
                                      to_string(operands[i].type), to_string(normalized.type)));
    }
  }
  Formula formula(static_cast<int>(operands.size()), normalized.dtype());
  Term result = formula.input(0, normalized.dtype()) * formula.input(1, scale.dtype());
  if (bias != nullptr) result = result + formula.input(2, bias->dtype());
  return node.emit().pointwise(std::move(formula).finish(result, to), operands);
}

// A 1-D parameter of `extent` elements, as [extent, 1, …] with `trailing` ones.
Result<ModelValue> channel_parameter(Node& node, int i, int64_t extent, int trailing) {
  const ModelValue& value = node.input(i);
  if (value.rank() != 1 || value.shape()[0] != extent || !is_float(value.dtype())) {
    return node.invalid(fmt::format("input {} is {}, {} elements are expected", i, to_string(value.type), extent));
  }
  Shape shape{extent};
  for (int j = 0; j < trailing; ++j) shape.append(1);
  return node.emit().reshape(value, shape);
}

// Elements behind the second axis, of [N, C, …].
Result<int64_t> spatial_elements(const Node& node, const Shape& shape) {
  int64_t elements = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    if (__builtin_mul_overflow(elements, shape[axis], &elements)) return node.unsupported("the input is too large");
  }
  return elements;
}

// One axis since opset 13; before, all axes from `axis` on are one group.
Handled import_softmax(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 1));
  LOW_TRY(const int64_t stated, node.integer("axis", node.opset() < 13 ? 1 : -1));
  LOW_TRY(const int axis, normalize_axis(node, stated, x.rank()));
  Rowwise rowwise;
  rowwise.kind = node.op_type() == "Softmax" ? Rowwise::Kind::softmax : Rowwise::Kind::log_softmax;
  rowwise.axes = node.opset() < 13 ? axes_from(axis, x.rank()) : Shape{axis};
  return one(node.emit().rowwise(rowwise, std::span(&x, 1), x.dtype()));
}

// 1 for the first largest element of each group, 0 for the others.
Handled import_hardmax(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 1));
  LOW_TRY(const int64_t stated, node.integer("axis", node.opset() < 13 ? 1 : -1));
  LOW_TRY(int axis, normalize_axis(node, stated, x.rank()));
  ModelValue grouped = x;
  if (node.opset() < 13) {
    Shape flat{1, 1};
    for (int i = 0; i < x.rank(); ++i) {
      int64_t& extent = flat[i < axis ? 0 : 1];
      if (__builtin_mul_overflow(extent, x.shape()[i], &extent)) return node.unsupported("the input is too large");
    }
    LOW_TRY(grouped, node.emit().reshape(x, flat));
    axis = 1;
  }
  if (grouped.shape().elements() == 0) return std::vector{x};
  const Reduce most{.kind = Reduce::Kind::index_max, .axes = {axis}, .accumulate = compute_type(x.dtype())};
  LOW_TRY(const ModelValue place, node.emit().reduce(most, std::span(&grouped, 1), DType::i64));
  LOW_TRY(const ModelValue places, node.emit().iota(grouped.shape()[axis], grouped.rank() - 1 - axis));
  ExprBuilder expr(2);
  const uint16_t own = expr.input(0, DType::i64);
  const uint16_t equal = expr.binary(ExprOp::equal, own, expr.input(1, DType::i64));
  const ModelValue pair[] = {place, places};
  LOW_TRY(const ModelValue result, node.emit().pointwise(std::move(expr).finish(expr.convert(equal, x.dtype())), pair));
  return one(node.emit().reshape(result, x.shape()));
}

// Outputs: Y, and the mean and 1 / deviation of each group, in f32.
Handled import_layer_normalization(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 1));
  LOW_TRY_VOID(check_stash_type(node));
  LOW_TRY(const int64_t stated, node.integer("axis", -1));
  LOW_TRY(const int axis, normalize_axis(node, stated, x.rank()));
  LOW_TRY(const double epsilon, epsilon_of(node));
  const bool centred = node.op_type() == "LayerNormalization";
  const Shape axes = axes_from(axis, x.rank());
  const DType compute = compute_type(x.dtype());
  const Rowwise rowwise{
      .kind = centred ? Rowwise::Kind::layer_norm : Rowwise::Kind::rms_norm, .axes = axes, .epsilon = epsilon};
  LOW_TRY(const ModelValue normalized, node.emit().rowwise(rowwise, std::span(&x, 1), compute));
  std::vector<ModelValue> results;
  LOW_TRY(results.emplace_back(),
          scaled(node, normalized, node.input(1), node.has(2) ? &node.input(2) : nullptr, x.dtype()));
  if (!node.wants_output(1) && !node.wants_output(2)) return results;
  double size = 1;
  for (const int64_t i : axes) size *= static_cast<double>(x.shape()[static_cast<int>(i)]);
  const auto average = [&](const ModelValue& value, bool inverse_root) {
    Formula formula(1, compute);
    Term mean = formula.input(0, compute) / size;
    if (inverse_root) mean = 1.0 / sqrt(mean + epsilon);
    Reduce reduce{.axes = axes, .accumulate = compute};
    reduce.epilogue = std::move(formula).finish(mean, compute);
    return node.emit().reduce(reduce, std::span(&value, 1), compute);
  };
  LOW_TRY(const ModelValue mean, average(x, false));
  Formula formula(2, compute);
  const Term difference = formula.input(0, x.dtype()) - formula.input(1, compute);
  const ModelValue pair[] = {x, mean};
  LOW_TRY(const ModelValue squares,
          node.emit().pointwise(std::move(formula).finish(difference * difference, compute), pair));
  LOW_TRY(const ModelValue inverse, average(squares, true));
  LOW_TRY(results.emplace_back(), node.emit().cast(mean, DType::f32));
  LOW_TRY(results.emplace_back(), node.emit().cast(inverse, DType::f32));
  return results;
}

// [N, C, …] as [N, groups, C / groups, …]; scale and bias have one element a group in opset 18, one a channel since 21.
Handled import_group_normalization(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 2));
  LOW_TRY_VOID(check_stash_type(node));
  LOW_TRY(const double epsilon, epsilon_of(node));
  LOW_TRY(const int64_t groups, node.integer("num_groups", 0));
  const int64_t channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0) {
    return node.invalid(fmt::format("num_groups is {}, a divisor of {} is expected", groups, channels));
  }
  LOW_TRY(const int64_t spatial, spatial_elements(node, x.shape()));
  const Shape shape{x.shape()[0], groups, channels / groups, spatial};
  LOW_TRY(const ModelValue grouped, node.emit().reshape(x, shape));
  const Rowwise rowwise{.kind = Rowwise::Kind::layer_norm, .axes = {2, 3}, .epsilon = epsilon};
  LOW_TRY(const ModelValue normalized, node.emit().rowwise(rowwise, std::span(&grouped, 1), compute_type(x.dtype())));
  const bool per_group = node.opset() < 21;
  ModelValue parameters[2];
  for (int i = 0; i < 2; ++i) {
    LOW_TRY(const ModelValue given, channel_parameter(node, i + 1, per_group ? groups : channels, 0));
    LOW_TRY(parameters[i],
            node.emit().reshape(given, per_group ? Shape{groups, 1, 1} : Shape{groups, channels / groups, 1}));
  }
  LOW_TRY(const ModelValue result, scaled(node, normalized, parameters[0], &parameters[1], x.dtype()));
  return one(node.emit().reshape(result, x.shape()));
}

Handled import_instance_normalization(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 3));
  LOW_TRY(const double epsilon, epsilon_of(node));
  LOW_TRY(const int64_t spatial, spatial_elements(node, x.shape()));
  LOW_TRY(const ModelValue flat, node.emit().reshape(x, Shape{x.shape()[0], x.shape()[1], spatial}));
  const Rowwise rowwise{.kind = Rowwise::Kind::layer_norm, .axes = {2}, .epsilon = epsilon};
  LOW_TRY(const ModelValue normalized, node.emit().rowwise(rowwise, std::span(&flat, 1), compute_type(x.dtype())));
  LOW_TRY(const ModelValue scale, channel_parameter(node, 1, x.shape()[1], 1));
  LOW_TRY(const ModelValue bias, channel_parameter(node, 2, x.shape()[1], 1));
  LOW_TRY(const ModelValue result, scaled(node, normalized, scale, &bias, x.dtype()));
  return one(node.emit().reshape(result, x.shape()));
}

// With the given statistics: (x - mean) / sqrt(variance + epsilon) * scale + bias, all of them one a channel.
Handled import_batch_normalization(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 1));
  LOW_TRY(const double epsilon, epsilon_of(node));
  LOW_TRY(const int64_t training, node.integer("training_mode", 0));
  LOW_TRY(const int64_t spatial, node.integer("spatial", 1));
  if (training != 0 || node.wants_output(1)) return node.unsupported("training is not supported");
  if (spatial != 1) return node.unsupported("statistics for each position (spatial=0) are not supported");
  const int64_t channels = x.rank() > 1 ? x.shape()[1] : 1;
  std::vector<ModelValue> operands = {x};
  for (int i = 1; i < 5; ++i) {
    LOW_TRY(operands.emplace_back(), channel_parameter(node, i, channels, std::max(x.rank() - 2, 0)));
  }
  Formula formula(5, compute_type(x.dtype()));
  std::vector<Term> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(formula.input(i, operands[static_cast<size_t>(i)].dtype()));
  const Term factor = inputs[1] / sqrt(inputs[4] + epsilon);
  const Term result = (inputs[0] - inputs[3]) * factor + inputs[2];
  return one(node.emit().pointwise(std::move(formula).finish(result, x.dtype()), operands));
}

// (x - mean) / (deviation + 1e-9): a deviation of 0 gives 0 with 1e-18 under the root as well, and any that is not tiny
// the same.
Handled import_mean_variance_normalization(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 1));
  LOW_TRY(const auto stated, node.integers("axes"));
  LOW_TRY(const std::vector<bool> flags, mark_axes(node, stated.value_or(std::vector<int64_t>{0, 2, 3}), x.rank()));
  Rowwise rowwise{.kind = Rowwise::Kind::layer_norm, .axes = {}, .epsilon = 1e-18};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (flags[static_cast<size_t>(axis)]) rowwise.axes.append(axis);
  }
  if (rowwise.axes.rank() == 0) return node.invalid("there are no axes");
  return one(node.emit().rowwise(rowwise, std::span(&x, 1), x.dtype()));
}

// x / |x| along one axis, with the norm of order 1 or 2; zeros stay zeros.
Handled import_lp_normalization(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY_VOID(check_float(node, x, 1));
  LOW_TRY(const int64_t stated, node.integer("axis", -1));
  LOW_TRY(const int axis, normalize_axis(node, stated, x.rank()));
  LOW_TRY(const int64_t order, node.integer("p", 2));
  if (order != 1 && order != 2) return node.invalid(fmt::format("p is {}, 1 or 2 is expected", order));
  const DType compute = compute_type(x.dtype());
  Reduce reduce{.axes = {axis}, .accumulate = compute};
  Formula map(1, compute);
  const Term element = map.input(0, x.dtype());
  const Term mapped = order == 1 ? abs(element) : element * element;
  reduce.map = std::move(map).finish(mapped, compute);
  LOW_TRY(const ModelValue sum, node.emit().reduce(reduce, std::span(&x, 1), compute));
  Formula formula(2, compute);
  const Term value = formula.input(0, x.dtype());
  const Term total = formula.input(1, compute);
  const Term norm = order == 1 ? total : sqrt(total);
  const Term result = where(norm == 0.0, formula.constant(0), value / norm);
  const ModelValue pair[] = {x, sum};
  return one(node.emit().pointwise(std::move(formula).finish(result, x.dtype()), pair));
}

}  // namespace

std::span<const OperatorInfo> normalization_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "BatchNormalization", 7, 5, 5, 5, "epsilon momentum spatial", import_batch_normalization},
      {"", "BatchNormalization", 9, 5, 5, 5, "epsilon momentum", import_batch_normalization},
      {"", "BatchNormalization", 14, 5, 5, 3, "epsilon momentum training_mode", import_batch_normalization},
      {"", "GroupNormalization", 18, 3, 3, 1, "epsilon num_groups", import_group_normalization},
      {"", "GroupNormalization", 21, 3, 3, 1, "epsilon num_groups stash_type", import_group_normalization},
      {"", "Hardmax", 1, 1, 1, 1, "axis", import_hardmax},
      {"", "InstanceNormalization", 6, 3, 3, 1, "epsilon", import_instance_normalization},
      {"", "LayerNormalization", 17, 2, 3, 3, "axis epsilon stash_type", import_layer_normalization},
      {"", "LogSoftmax", 1, 1, 1, 1, "axis", import_softmax},
      {"", "LpNormalization", 1, 1, 1, 1, "axis p", import_lp_normalization},
      {"", "MeanVarianceNormalization", 9, 1, 1, 1, "axes", import_mean_variance_normalization},
      {"", "RMSNormalization", 23, 2, 2, 1, "axis epsilon stash_type", import_layer_normalization},
      {"", "Softmax", 1, 1, 1, 1, "axis", import_softmax},
  };
  return rows;
}

}  // namespace low
