#include "compiler/frontend/importer.h"

#include <fmt/format.h>

#include <limits>

#include "onnx.pb.h"
#include "runtime/tensor/tensor_proto.h"

namespace low {
namespace {

// Whether `name` is one of the blank-separated words of `list`.
bool contains_word(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

std::string_view domain_of(const onnx::NodeProto& node) {
  return node.domain() == "ai.onnx" ? std::string_view() : std::string_view(node.domain());
}

std::string operator_text(const onnx::NodeProto& node, std::optional<int64_t> opset) {
  const std::string_view domain = domain_of(node);
  // Names come from the file; those that are not plain words are quoted.
  const std::string full = fmt::format("{}.{}", domain.empty() ? "ai.onnx" : domain, node.op_type());
  const std::string shown = in_quotes(full) == '"' + full + '"' ? full : in_quotes(full);
  return opset ? fmt::format("operator {} (opset {})", shown, *opset) : fmt::format("operator {}", shown);
}

Result<void> check_node(const Node& node, const OperatorInfo& info) {
  if (node.input_count() > info.max_inputs) {
    return node.invalid(fmt::format("{} inputs, at most {} are expected", node.input_count(), info.max_inputs));
  }
  for (int i = 0; i < info.min_inputs; ++i) {
    if (!node.has(i)) return node.invalid(fmt::format("input {} is missing", i));
  }
  if (node.output_count() > info.max_outputs) {
    return node.invalid(fmt::format("{} outputs, at most {} are expected", node.output_count(), info.max_outputs));
  }
  const auto& attributes = node.proto().attribute();
  for (int i = 0; i < attributes.size(); ++i) {
    const std::string& name = attributes[i].name();
    if (!contains_word(info.attributes, name)) {
      return node.unsupported(fmt::format("attribute {} is not supported in opset {}", in_quotes(name), node.opset()));
    }
    for (int j = 0; j < i; ++j) {
      if (attributes[j].name() == name) return node.invalid(fmt::format("attribute {} occurs twice", in_quotes(name)));
    }
    if (!attributes[i].ref_attr_name().empty()) {
      return node.invalid(
          fmt::format("attribute {} refers to a function's attribute outside a function", in_quotes(name)));
    }
  }
  return {};
}

Result<std::vector<ModelValue>> import_node(Scope& scope, const onnx::NodeProto& proto) {
  std::vector<ModelValue> results;
  const std::string_view domain = domain_of(proto);
  const auto version = scope.opsets.find(domain);
  const auto opset = version == scope.opsets.end() ? std::nullopt : std::optional(version->second);
  const OperatorInfo* info = opset ? find_operator(domain, proto.op_type(), *opset) : nullptr;
  if (info == nullptr) {
    LOW_TRY(const bool is_function, import_function_call(scope, proto, results));
    if (is_function) return results;
    if (!opset) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} is of a domain that the model does not import", operator_text(proto, std::nullopt)));
    }
    return fail(ErrorKind::unsupported, operator_text(proto, opset) + " is not supported");
  }
  Node node(scope, proto, *opset);
  for (const std::string& name : proto.input()) {
    if (name.empty()) {
      node.inputs.emplace_back();
      continue;
    }
    const auto found = scope.values.find(name);
    if (found == scope.values.end()) {
      return node.invalid(
          fmt::format("input {} is not defined by an earlier node, an initializer or an input", in_quotes(name)));
    }
    node.inputs.emplace_back(found->second);
  }
  LOW_TRY_VOID(check_node(node, *info));
  scope.emit.set_origin(!proto.name().empty() ? proto.name() : proto.output_size() > 0 ? proto.output(0) : "");
  auto handled = info->handler(node);
  if (!handled) {
    // The emitter's errors do not know the operator.
    const Error& error = handled.error();
    const std::string prefix = node.op_type() + ": ";
    if (error.message.starts_with(prefix) || error.message.starts_with("node ")) return handled;
    return in_context(node.op_type(), error);
  }
  return handled;
}

}  // namespace

const std::string& Node::op_type() const { return proto_.op_type(); }
int Node::output_count() const { return proto_.output_size(); }
bool Node::wants_output(int i) const { return i < proto_.output_size() && !proto_.output(i).empty(); }

std::unexpected<Error> Node::invalid(std::string_view message) const {
  return fail(ErrorKind::invalid, fmt::format("{}: {}", op_type(), message));
}

std::unexpected<Error> Node::unsupported(std::string_view message) const {
  return fail(ErrorKind::unsupported, fmt::format("{}: {}", op_type(), message));
}

bool Node::has_attribute(std::string_view name) const {
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return true;
  }
  return false;
}

Result<const onnx::AttributeProto*> Node::find(std::string_view name, int type, std::string_view type_name) const {
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.type() != type)
      return invalid(fmt::format("attribute {} is not of type {}", in_quotes(name), type_name));
    return &attribute;
  }
  return static_cast<const onnx::AttributeProto*>(nullptr);
}

Result<int64_t> Node::integer(std::string_view name, int64_t otherwise) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::INT, "INT"));
  return attribute != nullptr ? attribute->i() : otherwise;
}

Result<float> Node::number(std::string_view name, float otherwise) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::FLOAT, "FLOAT"));
  return attribute != nullptr ? attribute->f() : otherwise;
}

Result<std::string> Node::text(std::string_view name, std::string_view otherwise) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::STRING, "STRING"));
  return attribute != nullptr ? attribute->s() : std::string(otherwise);
}

Result<std::optional<std::vector<int64_t>>> Node::integers(std::string_view name) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::INTS, "INTS"));
  if (attribute == nullptr) return std::optional<std::vector<int64_t>>();
  return std::optional(std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end()));
}

Result<std::optional<std::vector<float>>> Node::numbers(std::string_view name) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::FLOATS, "FLOATS"));
  if (attribute == nullptr) return std::optional<std::vector<float>>();
  return std::optional(std::vector<float>(attribute->floats().begin(), attribute->floats().end()));
}

Result<Tensor> Node::tensor(std::string_view name) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::TENSOR, "TENSOR"));
  if (attribute == nullptr) return invalid(fmt::format("attribute {} is missing", in_quotes(name)));
  auto loaded = load_tensor(scope_.model, attribute->t(), fmt::format("attribute {}", in_quotes(name)));
  if (!loaded) return in_context(op_type(), loaded.error());
  return loaded;
}

Result<const onnx::GraphProto*> Node::graph(std::string_view name) const {
  LOW_TRY(const auto* attribute, find(name, onnx::AttributeProto::GRAPH, "GRAPH"));
  if (attribute == nullptr) return invalid(fmt::format("attribute {} is missing", in_quotes(name)));
  return &attribute->g();
}

Result<std::optional<DType>> Node::dtype(std::string_view name) const {
  LOW_TRY(const int64_t number, integer(name, 0));
  if (number == 0) return std::optional<DType>();
  if (number < 0 || number > std::numeric_limits<int32_t>::max()) {
    return invalid(fmt::format("attribute {} is {}, which is no data type", in_quotes(name), number));
  }
  const auto type = dtype_from_onnx(static_cast<int>(number));
  if (!type)
    return unsupported(fmt::format("data type {} is not supported", onnx_data_type_name(static_cast<int>(number))));
  return type;
}

Result<std::vector<int64_t>> Node::constant_integers(int i, std::string_view what) const {
  const ModelValue& value = input(i);
  if (value.dtype() != DType::i64 && value.dtype() != DType::i32) {
    return invalid(fmt::format("{} is {}, integers are expected", what, to_string(value.type)));
  }
  if (value.rank() > 1) return invalid(fmt::format("{} is {}, one dimension is expected", what, to_string(value.type)));
  if (!value.constant) return unsupported(fmt::format("{} is not known before the model runs", what));
  std::vector<int64_t> integers;
  for (int64_t j = 0; j < value.constant->elements(); ++j) integers.push_back(value.constant->integer(j));
  return integers;
}

Result<void> check_stash_type(const Node& node) {
  LOW_TRY(const int64_t stash_type, node.integer("stash_type", 1));
  constexpr int64_t f32 = 1;
  if (stash_type == f32) return {};
  return node.unsupported(fmt::format("stash_type {} is not supported, only 1 (f32) is", stash_type));
}

Result<int> normalize_axis(const Node& node, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return node.invalid(fmt::format("axis {} is out of range for rank {}", axis, rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<bool>> mark_axes(const Node& node, std::span<const int64_t> axes, int rank) {
  std::vector<bool> flags(static_cast<size_t>(rank));
  for (const int64_t axis : axes) {
    LOW_TRY(const int index, normalize_axis(node, axis, rank));
    if (flags[static_cast<size_t>(index)]) return node.invalid(fmt::format("axis {} is listed twice", axis));
    flags[static_cast<size_t>(index)] = true;
  }
  return flags;
}

std::string in_quotes(std::string_view name) {
  constexpr size_t longest = 200;
  std::string text = "\"";
  for (const char c : name.substr(0, longest)) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return text + (name.size() > longest ? "…\"" : "\"");
}

Result<void> define(Scope& scope, const std::string& name, ModelValue value) {
  if (!scope.values.try_emplace(name, std::move(value)).second) {
    return fail(ErrorKind::invalid, fmt::format("value {} is defined twice", in_quotes(name)));
  }
  return {};
}

Result<void> import_nodes(Scope& scope, std::span<const onnx::NodeProto* const> nodes) {
  if (scope.depth > max_nesting) {
    return fail(ErrorKind::unsupported, fmt::format("bodies and functions nest deeper than {}", max_nesting));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const onnx::NodeProto& node = *nodes[i];
    const auto context = [&] { return fmt::format("node {} (#{})", in_quotes(node.name()), i); };
    if (scope.model.calls > 0 && ++scope.model.inlined_nodes > max_inlined_nodes) {
      return fail(
          ErrorKind::unsupported,
          fmt::format("the model's functions have more than {} nodes, counted for each call", max_inlined_nodes));
    }
    if (++scope.model.nodes > max_nodes) {
      return fail(ErrorKind::unsupported, fmt::format("the model has more than {} nodes", max_nodes));
    }
    auto results = import_node(scope, node);
    if (!results) return in_context(context(), results.error());
    for (int j = 0; j < node.output_size(); ++j) {
      if (node.output(j).empty()) continue;
      const auto index = static_cast<size_t>(j);
      if (index >= results->size()) {
        return in_context(context(), Error{ErrorKind::invalid,
                                           fmt::format("{} has only {} outputs", node.op_type(), results->size())});
      }
      if (auto defined = define(scope, node.output(j), (*results)[index]); !defined) {
        return in_context(context(), defined.error());
      }
    }
  }
  return {};
}

}  // namespace low
