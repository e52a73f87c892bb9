// Scan, Loop and If. Scan and Loop become `repeat`; the bodies' outer values become invariant operands, or constants of
// the body where they are constant. The branch of an If whose condition is known is imported in place.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/frontend/importer.h"
#include "onnx.pb.h"

namespace low {
namespace {

constexpr int64_t most_iterations = int64_t{1} << 31;
// Names that a graph uses but does not define, each once, in the order of first use.
class OuterNames {
 public:
  explicit OuterNames(const onnx::GraphProto& graph) { collect(graph); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void collect(const onnx::GraphProto& graph) {
    std::set<std::string> defined;
    for (const auto& input : graph.input()) defined.insert(input.name());
    for (const auto& initializer : graph.initializer()) defined.insert(initializer.name());
    for (const auto& node : graph.node()) defined.insert(node.output().begin(), node.output().end());
    scopes_.push_back(std::move(defined));
    for (const auto& node : graph.node()) {
      for (const std::string& name : node.input()) use(name);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) collect(attribute.g());
        for (const auto& inner : attribute.graphs()) collect(inner);
      }
    }
    for (const auto& output : graph.output()) use(output.name());
    scopes_.pop_back();
  }
  void use(const std::string& name) {
    const auto defines = [&](const std::set<std::string>& scope) { return scope.contains(name); };
    if (name.empty() || std::ranges::any_of(scopes_, defines)) return;
    if (seen_.insert(name).second) names_.push_back(name);
  }

  std::vector<std::set<std::string>> scopes_;
  std::set<std::string> seen_;
  std::vector<std::string> names_;
};

// Whether a body's node or output mentions the name.
bool mentions(const onnx::GraphProto& graph, const std::string& name) {
  const auto names_it = [&](const auto& output) { return output.name() == name; };
  return std::ranges::any_of(graph.output(), names_it) ||
         std::ranges::any_of(graph.node(), [&](const onnx::NodeProto& node) {
           return std::ranges::find(node.input(), name) != node.input().end() ||
                  std::ranges::any_of(node.attribute(), [&](const onnx::AttributeProto& attribute) {
                    return (attribute.has_g() && mentions(attribute.g(), name)) ||
                           std::ranges::any_of(attribute.graphs(),
                                               [&](const auto& inner) { return mentions(inner, name); });
                  });
         });
}

const ModelValue* find_outer(const Scope& scope, const std::string& name) {
  const auto found = scope.values.find(name);
  return found == scope.values.end() ? nullptr : &found->second;
}

// A body under construction: its inputs are added in the order that `repeat` prescribes.
class Body {
 public:
  Body(Node& node, const onnx::GraphProto& proto)
      : node_(node),
        proto_(proto),
        emit_(node.scope().model.fold_budget),
        scope_{node.scope().model, emit_, node.scope().opsets, node.scope().depth + 1, {}} {}

  Result<void> bind(int input, ModelValue value) {
    const std::string& name = proto_.input(input).name();
    LOW_TRY_VOID(
        check_declared_type(proto_.input(input).type(), value.type, fmt::format("body input {}", in_quotes(name))));
    return name.empty() ? Result<void>() : define(scope_, name, std::move(value));
  }
  Result<void> add_input(int input, const Type& type) {
    return bind(input, emit_.input(proto_.input(input).name(), type));
  }
  // Adds the outer values that the body uses.
  Result<void> add_captured() {
    const OuterNames outer_names(proto_);  // a temporary would not live through the loop
    for (const std::string& name : outer_names.names()) {
      const ModelValue* const outer = find_outer(node_.scope(), name);
      if (outer == nullptr)
        return node_.invalid(fmt::format("the body uses {}, which is not defined", in_quotes(name)));
      if (outer->constant) {
        LOW_TRY_VOID(define(scope_, name, *outer));
        continue;
      }
      captured_.push_back(*outer);
      LOW_TRY_VOID(define(scope_, name, emit_.input(name, outer->type)));
    }
    return {};
  }
  Result<std::vector<ModelValue>> import_nodes() { return import_graph(scope_, proto_); }
  void output(int index, const ModelValue& value) { emit_.output(proto_.output(index).name(), value); }
  Result<std::shared_ptr<const Graph>> finish() {
    LOW_TRY(Graph graph, std::move(emit_).finish());
    return std::make_shared<const Graph>(std::move(graph));
  }
  const std::vector<ModelValue>& captured() const { return captured_; }

 private:
  Node& node_;
  const onnx::GraphProto& proto_;
  Emitter emit_;
  Scope scope_;
  std::vector<ModelValue> captured_;
};

// A carried value has one type in all iterations.
Result<void> check_carried(const Node& node, int index, const Type& initial, const Type& next) {
  if (initial == next) return {};
  const std::string message = fmt::format("carried value {} is {} before the first iteration and {} after one", index,
                                          to_string(initial), to_string(next));
  return initial.dtype == next.dtype ? Result<void>(node.unsupported(message)) : node.invalid(message);
}

Result<Shape> without_front(const Node& node, const ModelValue& value) {
  if (value.rank() == 0) return node.invalid("a scalar has no axis to iterate over");
  return Shape(value.shape().extents().subspan(1));
}

Result<ModelValue> reverse_front(Node& node, const ModelValue& value) {
  Shape start;
  Shape step;
  for (int axis = 0; axis < value.rank(); ++axis) {
    start.append(axis == 0 ? std::max<int64_t>(0, value.shape()[0] - 1) : 0);
    step.append(axis == 0 ? -1 : 1);
  }
  return node.emit().slice(value, start, step, value.shape());
}

Result<ModelValue> axis_to_front(Node& node, const ModelValue& value, int axis) {
  Shape permutation{axis};
  for (int i = 0; i < value.rank(); ++i) {
    if (i != axis) permutation.append(i);
  }
  return node.emit().transpose(value, permutation);
}

Result<ModelValue> front_to_axis(Node& node, const ModelValue& value, int axis) {
  Shape permutation;
  for (int i = 0; i < value.rank(); ++i) permutation.append(i == axis ? 0 : i < axis ? i + 1 : i);
  return node.emit().transpose(value, permutation);
}

// One entry for each of `count` values; all 0 if the attribute is absent.
Result<std::vector<int64_t>> integers_for_each(const Node& node, std::string_view name, size_t count) {
  LOW_TRY(const auto stated, node.integers(name));
  if (!stated) return std::vector<int64_t>(count);
  if (stated->size() != count) {
    return node.invalid(fmt::format("attribute {} has {} entries, {} are expected", name, stated->size(), count));
  }
  return *stated;
}

Result<std::vector<int64_t>> directions_for_each(const Node& node, std::string_view name, size_t count) {
  LOW_TRY(std::vector<int64_t> directions, integers_for_each(node, name, count));
  if (std::ranges::any_of(directions, [](int64_t d) { return d != 0 && d != 1; })) {
    return node.invalid(fmt::format("attribute {} has an entry other than 0 and 1", name));
  }
  return directions;
}

struct ScanForm {
  std::vector<ModelValue> carried;
  std::vector<ModelValue> iterated;  // in the order in which iterations read axis 0
};

// Final carried values, then collected ones, stacked along axis 0 in the order of the iterations.
Handled repeat_scan(Node& node, const ScanForm& form) {
  LOW_TRY(const onnx::GraphProto* const proto, node.graph("body"));
  const size_t inputs = form.carried.size() + form.iterated.size();
  if (static_cast<size_t>(proto->input_size()) != inputs ||
      static_cast<size_t>(proto->output_size()) < form.carried.size()) {
    return node.invalid(
        fmt::format("the body has {} inputs and {} outputs, {} inputs and at least {} outputs are expected",
                    proto->input_size(), proto->output_size(), inputs, form.carried.size()));
  }
  int64_t count = form.iterated[0].rank() > 0 ? form.iterated[0].shape()[0] : 0;
  for (const ModelValue& value : form.iterated) {
    if (value.rank() == 0 || value.shape()[0] != count) {
      return node.invalid(fmt::format("the scan inputs have {} and {} elements along their axes", count,
                                      value.rank() == 0 ? 0 : value.shape()[0]));
    }
  }
  if (count > most_iterations) return node.unsupported(fmt::format("{} iterations are more than are supported", count));
  Body body(node, *proto);
  int input = 0;
  for (const ModelValue& value : form.carried) LOW_TRY_VOID(body.add_input(input++, value.type));
  LOW_TRY_VOID(body.add_captured());
  for (const ModelValue& value : form.iterated) {
    LOW_TRY(const Shape shape, without_front(node, value));
    LOW_TRY_VOID(body.add_input(input++, Type{value.dtype(), shape}));
  }
  LOW_TRY(const std::vector<ModelValue> outputs, body.import_nodes());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < form.carried.size()) {
      LOW_TRY_VOID(check_carried(node, static_cast<int>(i), form.carried[i].type, outputs[i].type));
    }
    body.output(static_cast<int>(i), outputs[i]);
  }
  Repeat repeat;
  repeat.count = count;
  repeat.carried = static_cast<uint32_t>(form.carried.size());
  repeat.invariant = static_cast<uint32_t>(body.captured().size());
  repeat.iterated = static_cast<uint32_t>(form.iterated.size());
  repeat.collected = static_cast<uint32_t>(outputs.size() - form.carried.size());
  std::vector<ModelValue> operands = form.carried;
  operands.insert(operands.end(), body.captured().begin(), body.captured().end());
  operands.insert(operands.end(), form.iterated.begin(), form.iterated.end());
  LOW_TRY(repeat.body, body.finish());
  return node.emit().repeat(std::move(repeat), operands);
}

// The number of scan inputs; the rest of `inputs` are initial states.
Result<size_t> scan_input_count(const Node& node, size_t inputs) {
  if (!node.has_attribute("num_scan_inputs")) return node.invalid("attribute num_scan_inputs is missing");
  LOW_TRY(const int64_t count, node.integer("num_scan_inputs", 0));
  if (count < 1 || static_cast<uint64_t>(count) > inputs) {
    return node.invalid(fmt::format("num_scan_inputs is {}, with {} inputs", count, inputs));
  }
  return static_cast<size_t>(count);
}

Result<std::vector<ModelValue>> present_inputs(const Node& node, int first) {
  std::vector<ModelValue> values;
  for (int i = first; i < node.input_count(); ++i) {
    if (!node.has(i)) return node.invalid(fmt::format("input {} is missing", i));
    values.push_back(node.input(i));
  }
  return values;
}

// A constant of one element of this dtype.
Result<int64_t> known_scalar(const Node& node, int i, DType type, std::string_view what) {
  const ModelValue& value = node.input(i);
  if (value.dtype() != type || value.shape().elements() != 1) {
    return node.invalid(
        fmt::format("{} is {}, a scalar of type {} is expected", what, to_string(value.type), name(type)));
  }
  if (!value.constant) return node.unsupported(fmt::format("{} is not known before the model runs", what));
  return value.constant->integer(0);
}

Tensor boolean_scalar(bool value) {
  Tensor tensor(DType::boolean, Shape{});
  tensor.set_bits(0, value ? 1 : 0);
  return tensor;
}

Tensor iteration_numbers(int64_t count) {
  Tensor tensor(DType::i64, Shape{count});
  for (int64_t i = 0; i < count; ++i) tensor.set_bits(i, static_cast<uint64_t>(i));
  return tensor;
}

Handled import_scan(Node& node) {
  LOW_TRY(const std::vector<ModelValue> inputs, present_inputs(node, 0));
  LOW_TRY(const size_t scanned, scan_input_count(node, inputs.size()));
  const size_t states = inputs.size() - scanned;
  LOW_TRY(const auto axes, integers_for_each(node, "scan_input_axes", scanned));
  LOW_TRY(const auto directions, directions_for_each(node, "scan_input_directions", scanned));
  ScanForm form;
  form.carried.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states));
  for (size_t i = 0; i < scanned; ++i) {
    ModelValue value = inputs[states + i];
    LOW_TRY(const int axis, normalize_axis(node, axes[i], value.rank()));
    LOW_TRY(value, axis_to_front(node, value, axis));
    if (directions[i] == 1) {
      LOW_TRY(value, reverse_front(node, value));
    }
    form.iterated.push_back(value);
  }
  LOW_TRY(std::vector<ModelValue> results, repeat_scan(node, form));
  const size_t collected = results.size() - states;
  LOW_TRY(const auto output_axes, integers_for_each(node, "scan_output_axes", collected));
  LOW_TRY(const auto output_directions, directions_for_each(node, "scan_output_directions", collected));
  for (size_t i = 0; i < collected; ++i) {
    ModelValue& value = results[states + i];
    LOW_TRY(const int axis, normalize_axis(node, output_axes[i], value.rank()));
    if (output_directions[i] == 1) {
      LOW_TRY(value, reverse_front(node, value));
    }
    LOW_TRY(value, front_to_axis(node, value, axis));
  }
  return results;
}

// Opset 8 has a batch axis in front of everything and optional lengths; only a batch of 1 without lengths is the same
// as above.
Handled import_scan_8(Node& node) {
  if (node.has(0)) return node.unsupported("sequence_lens is not supported");
  LOW_TRY(const std::vector<ModelValue> inputs, present_inputs(node, 1));
  LOW_TRY(const size_t scanned, scan_input_count(node, inputs.size()));
  const size_t states = inputs.size() - scanned;
  LOW_TRY(const auto directions, directions_for_each(node, "directions", scanned));
  ScanForm form;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].rank() == 0 || inputs[i].shape()[0] != 1) {
      return node.unsupported(
          fmt::format("input {} is {}; in opset 8, only a batch of 1 is supported", i + 1, to_string(inputs[i].type)));
    }
    LOW_TRY(const Shape shape, without_front(node, inputs[i]));
    LOW_TRY(ModelValue value, node.emit().reshape(inputs[i], shape));
    if (i < states) {
      form.carried.push_back(value);
      continue;
    }
    if (value.rank() > 0 && directions[i - states] == 1) {
      LOW_TRY(value, reverse_front(node, value));
    }
    form.iterated.push_back(value);
  }
  LOW_TRY(std::vector<ModelValue> results, repeat_scan(node, form));
  for (ModelValue& value : results) {
    if (value.rank() == max_rank)
      return node.unsupported(fmt::format("an output of rank {} is not supported", max_rank + 1));
    Shape shape{1};
    for (const int64_t extent : value.shape()) shape.append(extent);
    LOW_TRY(value, node.emit().reshape(value, shape));
  }
  return results;
}

// The number of iterations is known when the trip count is constant and the condition stays true. The body sees a true
// condition (it would not run otherwise), so that a condition that is passed on, or computed from constants, is
// constant.
Handled import_loop(Node& node) {
  LOW_TRY(const onnx::GraphProto* const proto, node.graph("body"));
  LOW_TRY(const std::vector<ModelValue> carried, present_inputs(node, 2));
  const int states = static_cast<int>(carried.size());
  if (proto->input_size() != 2 + states || proto->output_size() < 1 + states) {
    return node.invalid(
        fmt::format("the body has {} inputs and {} outputs, {} inputs and at least {} outputs are expected",
                    proto->input_size(), proto->output_size(), 2 + states, 1 + states));
  }
  std::optional<int64_t> count;
  if (node.has(0)) {
    LOW_TRY(const int64_t trip_count, known_scalar(node, 0, DType::i64, "the trip count"));
    if (trip_count > most_iterations)
      return node.unsupported(fmt::format("a trip count of {} is not supported", trip_count));
    count = std::max<int64_t>(0, trip_count);
  }
  bool starts = true;
  if (node.has(1)) {
    LOW_TRY(const int64_t condition, known_scalar(node, 1, DType::boolean, "the condition"));
    starts = condition != 0;
  }

  Body body(node, *proto);
  for (int i = 0; i < states; ++i) {
    LOW_TRY_VOID(body.add_input(2 + i, carried[static_cast<size_t>(i)].type));
  }
  LOW_TRY_VOID(body.add_captured());
  const bool numbered = mentions(*proto, proto->input(0).name());
  if (numbered) LOW_TRY_VOID(body.add_input(0, Type{DType::i64, Shape{}}));
  LOW_TRY_VOID(body.bind(1, constant_value(boolean_scalar(true))));
  LOW_TRY(const std::vector<ModelValue> outputs, body.import_nodes());

  const ModelValue& condition = outputs[0];
  if (condition.dtype() != DType::boolean || condition.shape().elements() != 1) {
    return node.invalid(
        fmt::format("the body's condition is {}, a boolean scalar is expected", to_string(condition.type)));
  }
  if (!condition.constant) return node.unsupported("a condition that the body computes is not supported");
  const bool continues = condition.constant->integer(0) != 0;
  if (!starts) {
    count = 0;
  } else if (!continues) {
    count = std::min<int64_t>(count.value_or(1), 1);
  } else if (!count) {
    return node.unsupported("a loop without a trip count whose condition stays true is not supported");
  }
  if (numbered) {
    // The iteration numbers are a constant.
    int64_t& budget = node.scope().model.fold_budget;
    if (*count > budget / 8) {
      return node.unsupported(
          fmt::format("a trip count of {} whose iteration number is used is not supported", *count));
    }
    budget -= *count * 8;
  }

  for (int i = 1; i < static_cast<int>(outputs.size()); ++i) {
    const ModelValue& value = outputs[static_cast<size_t>(i)];
    if (i <= states) LOW_TRY_VOID(check_carried(node, i - 1, carried[static_cast<size_t>(i - 1)].type, value.type));
    body.output(i, value);
  }
  Repeat repeat;
  repeat.count = *count;
  repeat.carried = static_cast<uint32_t>(states);
  repeat.invariant = static_cast<uint32_t>(body.captured().size());
  repeat.iterated = numbered ? 1 : 0;
  repeat.collected = static_cast<uint32_t>(outputs.size()) - 1 - static_cast<uint32_t>(states);
  std::vector<ModelValue> operands = carried;
  operands.insert(operands.end(), body.captured().begin(), body.captured().end());
  if (numbered) operands.push_back(constant_value(iteration_numbers(*count)));
  LOW_TRY(repeat.body, body.finish());
  return node.emit().repeat(std::move(repeat), operands);
}

Handled import_if(Node& node) {
  LOW_TRY(const int64_t condition, known_scalar(node, 0, DType::boolean, "the condition"));
  LOW_TRY(const onnx::GraphProto* const branch, node.graph(condition != 0 ? "then_branch" : "else_branch"));
  if (branch->input_size() != 0) return node.invalid("a branch has inputs");
  Scope scope{node.scope().model, node.emit(), node.scope().opsets, node.scope().depth + 1, {}};
  const OuterNames outer_names(*branch);
  for (const std::string& name : outer_names.names()) {
    const ModelValue* const outer = find_outer(node.scope(), name);
    if (outer == nullptr) return node.invalid(fmt::format("the branch uses {}, which is not defined", in_quotes(name)));
    LOW_TRY_VOID(define(scope, name, *outer));
  }
  return import_graph(scope, *branch);
}

}  // namespace

std::span<const OperatorInfo> control_flow_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "If", 1, 1, 1, any_number, "then_branch else_branch", import_if},
      {"", "Loop", 1, 0, any_number, any_number, "body", import_loop},
      {"", "Scan", 8, 0, any_number, any_number, "body num_scan_inputs directions", import_scan_8},
      {"", "Scan", 9, 1, any_number, any_number,
       "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions",
       import_scan},
  };
  return rows;
}

}  // namespace low
