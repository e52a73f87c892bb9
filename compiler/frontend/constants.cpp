// Operators whose results are known while importing.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

Tensor float_tensor(std::span<const float> values, const Shape& shape) {
  Tensor tensor(DType::f32, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.set_bits(static_cast<int64_t>(i), std::bit_cast<uint32_t>(values[i]));
  }
  return tensor;
}

Handled import_constant(Node& node) {
  constexpr std::string_view forms[] = {"value", "value_float", "value_floats", "value_int", "value_ints"};
  if (std::ranges::count_if(forms, [&](std::string_view form) { return node.has_attribute(form); }) != 1) {
    return node.invalid("just one of the attributes value, value_float(s) and value_int(s) is expected");
  }
  if (node.has_attribute("value")) {
    LOW_TRY(Tensor tensor, node.tensor("value"));
    return std::vector{constant_value(std::move(tensor))};
  }
  if (node.has_attribute("value_float")) {
    LOW_TRY(const float value, node.number("value_float", 0));
    return std::vector{constant_value(float_tensor(std::span(&value, 1), Shape{}))};
  }
  if (node.has_attribute("value_int")) {
    LOW_TRY(const int64_t value, node.integer("value_int", 0));
    return std::vector{constant_value(integer_scalar(value))};
  }
  if (node.has_attribute("value_floats")) {
    LOW_TRY(const auto values, node.numbers("value_floats"));
    return std::vector{constant_value(float_tensor(*values, Shape{static_cast<int64_t>(values->size())}))};
  }
  LOW_TRY(const auto values, node.integers("value_ints"));
  return std::vector{constant_value(integer_tensor(*values))};
}

Handled import_constant_of_shape(Node& node) {
  LOW_TRY(const std::vector<int64_t> extents, node.constant_integers(0, "the shape"));
  if (std::ranges::any_of(extents, [](int64_t extent) { return extent < 0; })) {
    return node.invalid(fmt::format("shape [{}] has a negative extent", fmt::join(extents, ",")));
  }
  if (extents.size() > static_cast<size_t>(max_rank) || !checked_elements(extents)) {
    return node.unsupported(fmt::format("shape [{}] is too large", fmt::join(extents, ",")));
  }
  Tensor value(DType::f32, Shape{});
  if (node.has_attribute("value")) {
    LOW_TRY(value, node.tensor("value"));
    if (value.elements() != 1) return node.invalid("attribute value does not have one element");
  }
  LOW_TRY(const ModelValue scalar, node.emit().reshape(constant_value(std::move(value)), Shape{}));
  return one(node.emit().expand(scalar, Shape(extents)));
}

// The extents from `start` to before `end`, both clamped to the rank after counting negative ones from it.
Handled import_shape(Node& node) {
  const ModelValue& x = node.input(0);
  LOW_TRY(const int64_t stated_start, node.integer("start", 0));
  LOW_TRY(const int64_t stated_end, node.integer("end", x.rank()));
  const auto place = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + x.rank() : axis, 0, x.rank()); };
  const int64_t start = place(stated_start);
  const int64_t end = std::max(start, place(stated_end));
  const auto extents = x.shape().extents().subspan(static_cast<size_t>(start), static_cast<size_t>(end - start));
  return std::vector{constant_value(integer_tensor(extents))};
}

Handled import_size(Node& node) {
  return std::vector{constant_value(integer_scalar(node.input(0).shape().elements()))};
}

// Inference: the input itself, and a mask of ones (of the input's dtype before opset 10, boolean since).
Handled import_dropout(Node& node) {
  const ModelValue& x = node.input(0);
  if (node.has(2)) {
    const ModelValue& training = node.input(2);
    if (training.dtype() != DType::boolean || training.shape().elements() != 1) {
      return node.invalid(fmt::format("training_mode is {}, a boolean scalar is expected", to_string(training.type)));
    }
    if (!training.constant || training.constant->integer(0) != 0) return node.unsupported("training is not supported");
  }
  std::vector<ModelValue> results{x};
  if (node.wants_output(1)) {
    Tensor one_element(node.opset() < 10 ? x.dtype() : DType::boolean, Shape{});
    one_element.set_value(0, 1);
    LOW_TRY(results.emplace_back(), node.emit().expand(constant_value(std::move(one_element)), x.shape()));
  }
  return results;
}

}  // namespace

std::span<const OperatorInfo> constant_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Constant", 1, 0, 0, 1, "value", import_constant},
      {"", "Constant", 12, 0, 0, 1, "value value_float value_floats value_int value_ints", import_constant},
      {"", "ConstantOfShape", 9, 1, 1, 1, "value", import_constant_of_shape},
      {"", "Dropout", 7, 1, 1, 2, "ratio", import_dropout},
      {"", "Dropout", 12, 1, 3, 2, "seed", import_dropout},
      {"", "Shape", 1, 1, 1, 1, "", import_shape},
      {"", "Shape", 15, 1, 1, 1, "start end", import_shape},
      {"", "Size", 1, 1, 1, 1, "", import_size},
  };
  return rows;
}

}  // namespace low
