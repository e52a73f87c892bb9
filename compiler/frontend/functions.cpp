// Model-local functions: a call is replaced by the function's nodes, with the call's inputs and attributes in their
// places.
#include <fmt/format.h>

#include <set>

#include "compiler/frontend/importer.h"
#include "onnx.pb.h"

namespace low {
namespace {

using Attributes = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

const onnx::FunctionProto* find_function(const onnx::ModelProto& model, const onnx::NodeProto& node) {
  const auto same_domain = [](std::string_view a, std::string_view b) {
    return (a == "ai.onnx" ? "" : a) == (b == "ai.onnx" ? "" : b);
  };
  for (const onnx::FunctionProto& function : model.functions()) {
    if (function.name() == node.op_type() && same_domain(function.domain(), node.domain()) &&
        function.overload() == node.overload()) {
      return &function;
    }
  }
  return nullptr;
}

void substitute(onnx::GraphProto& graph, const Attributes& attributes, const std::set<std::string>& absent);

// Puts the call's attributes where the node refers to them, and blanks for optional inputs that the call leaves out.
void substitute(onnx::NodeProto& node, const Attributes& attributes, const std::set<std::string>& absent) {
  for (std::string& name : *node.mutable_input()) {
    if (absent.contains(name)) name.clear();
  }
  auto& own = *node.mutable_attribute();
  for (int i = own.size(); i-- > 0;) {
    if (!own[i].ref_attr_name().empty()) {
      const auto found = attributes.find(own[i].ref_attr_name());
      if (found == attributes.end()) {  // an optional attribute that is not given
        own.DeleteSubrange(i, 1);
        continue;
      }
      const std::string name = own[i].name();
      own[i] = *found->second;
      own[i].set_name(name);
      continue;
    }
    if (own[i].has_g()) substitute(*own[i].mutable_g(), attributes, absent);
    for (onnx::GraphProto& graph : *own[i].mutable_graphs()) substitute(graph, attributes, absent);
  }
}

void substitute(onnx::GraphProto& graph, const Attributes& attributes, const std::set<std::string>& absent) {
  for (onnx::NodeProto& node : *graph.mutable_node()) substitute(node, attributes, absent);
}

Result<std::vector<ModelValue>> import_call(Scope& scope, const onnx::FunctionProto& function,
                                            const onnx::NodeProto& call) {
  const std::string called = in_quotes(function.name());
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
    return fail(ErrorKind::invalid,
                fmt::format("function {} has {} inputs and {} outputs, the call has {} and {}", called,
                            function.input_size(), function.output_size(), call.input_size(), call.output_size()));
  }
  Attributes attributes;
  for (const onnx::AttributeProto& attribute : function.attribute_proto()) attributes[attribute.name()] = &attribute;
  const std::set<std::string, std::less<>> required(function.attribute().begin(), function.attribute().end());
  for (const onnx::AttributeProto& attribute : call.attribute()) {
    if (!required.contains(attribute.name()) && !attributes.contains(attribute.name())) {
      return fail(ErrorKind::invalid,
                  fmt::format("function {} has no attribute {}", called, in_quotes(attribute.name())));
    }
    attributes[attribute.name()] = &attribute;
  }

  Opsets opsets;
  for (const auto& entry : function.opset_import()) {
    opsets[entry.domain() == "ai.onnx" ? "" : entry.domain()] = entry.version();
  }
  Scope inner{scope.model, scope.emit, opsets, scope.depth + 1, {}};
  std::set<std::string> absent;
  for (int i = 0; i < function.input_size(); ++i) {
    const std::string name = i < call.input_size() ? call.input(i) : "";
    if (name.empty()) {
      absent.insert(function.input(i));
      continue;
    }
    const auto found = scope.values.find(name);
    if (found == scope.values.end()) {
      return fail(
          ErrorKind::invalid,
          fmt::format("input {} is not defined by an earlier node, an initializer or an input", in_quotes(name)));
    }
    LOW_TRY_VOID(define(inner, function.input(i), found->second));
  }
  if (inner.depth > max_nesting) {
    return fail(ErrorKind::unsupported, fmt::format("bodies and functions nest deeper than {}", max_nesting));
  }
  for (const onnx::NodeProto& original : function.node()) {
    onnx::NodeProto node = original;
    substitute(node, attributes, absent);
    const onnx::NodeProto* const pointer = &node;
    auto imported = import_nodes(inner, std::span(&pointer, 1));
    if (!imported) return in_context("function " + called, imported.error());
  }
  std::vector<ModelValue> results;
  for (int i = 0; i < call.output_size(); ++i) {
    const auto found = inner.values.find(function.output(i));
    if (found == inner.values.end()) {
      return fail(ErrorKind::invalid,
                  fmt::format("function {}: output {} is not defined", called, in_quotes(function.output(i))));
    }
    results.push_back(found->second);
  }
  return results;
}

}  // namespace

Result<bool> import_function_call(Scope& scope, const onnx::NodeProto& node, std::vector<ModelValue>& results) {
  const onnx::FunctionProto* const function = find_function(*scope.model.model, node);
  if (function == nullptr) return false;
  ++scope.model.calls;
  auto imported = import_call(scope, *function, node);
  --scope.model.calls;
  if (!imported) return std::unexpected(std::move(imported).error());
  results = std::move(*imported);
  return true;
}

}  // namespace low
