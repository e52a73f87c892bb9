// The model as a whole: parsing, opsets, inputs and their shapes, outputs.
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <new>
#include <set>

#include "compiler/frontend/frontend.h"
#include "compiler/frontend/importer.h"
#include "onnx.pb.h"
#include "runtime/tensor/tensor_file.h"
#include "runtime/tensor/tensor_proto.h"

namespace low {
namespace {

constexpr int64_t oldest_opset = 7;
constexpr int64_t newest_opset = 28;
constexpr int64_t newest_ir_version = 14;  // adds data types, which are refused by name

template <typename Imports>
Result<Opsets> read_opsets(const Imports& imports) {
  Opsets opsets;
  for (const onnx::OperatorSetIdProto& entry : imports) {
    const std::string domain = entry.domain() == "ai.onnx" ? "" : entry.domain();
    const auto [place, is_new] = opsets.try_emplace(domain, entry.version());
    if (!is_new && place->second != entry.version()) {
      return fail(ErrorKind::invalid, fmt::format("domain {} is imported in opsets {} and {}",
                                                  in_quotes(entry.domain()), place->second, entry.version()));
    }
    if (domain.empty() && (entry.version() < oldest_opset || entry.version() > newest_opset)) {
      return fail(ErrorKind::unsupported,
                  fmt::format("opset {} is not supported, {} to {} are", entry.version(), oldest_opset, newest_opset));
    }
  }
  return opsets;
}

Result<Opsets> check_model(const onnx::ModelProto& model) {
  const auto missing = [](std::string_view what) {
    return fail(ErrorKind::invalid, fmt::format("this is no ONNX model: it has no {}", what));
  };
  if (!model.has_ir_version() || model.ir_version() <= 0) return missing("ir_version");
  if (!model.has_graph()) return missing("graph");
  if (model.opset_import().empty()) return missing("opset_import");
  if (model.ir_version() > newest_ir_version) {
    return fail(ErrorKind::unsupported,
                fmt::format("IR version {} is not supported, up to {} is", model.ir_version(), newest_ir_version));
  }
  for (const onnx::FunctionProto& function : model.functions()) {
    auto opsets = read_opsets(function.opset_import());
    if (!opsets) return in_context("function " + in_quotes(function.name()), opsets.error());
  }
  return read_opsets(model.opset_import());
}

// Extents of the model's inputs from the file and from the options.
class InputShapes {
 public:
  explicit InputShapes(const FrontendOptions& options) : options_(options) {
    dimensions_.insert(options.dimensions.begin(), options.dimensions.end());
  }

  // First for all inputs: a stated shape also says what its symbolic dimensions are.
  Result<void> learn(const onnx::ValueInfoProto& input) {
    known_inputs_.insert(input.name());
    const auto& type = input.type().tensor_type();
    for (const auto& dim : type.shape().dim()) {
      if (dim.has_dim_param()) known_dimensions_.insert(dim.dim_param());
    }
    const auto stated = options_.shapes.find(input.name());
    if (stated == options_.shapes.end() || !type.has_shape()) return {};
    const auto disagree = [&] {
      return fail(ErrorKind::usage,
                  fmt::format("input {}: the stated shape {} contradicts the model's {}", in_quotes(input.name()),
                              to_string(stated->second), declared(type.shape())));
    };
    if (type.shape().dim_size() != stated->second.rank()) return disagree();
    for (int i = 0; i < stated->second.rank(); ++i) {
      const auto& dim = type.shape().dim(i);
      const int64_t extent = stated->second[i];
      if (dim.has_dim_value() && dim.dim_value() != extent) return disagree();
      if (dim.dim_param().empty()) continue;
      const auto [place, is_new] = dimensions_.try_emplace(dim.dim_param(), extent);
      if (!is_new && place->second != extent) {
        return fail(ErrorKind::usage,
                    fmt::format("input {}: dimension {} is {} here and {} elsewhere", in_quotes(input.name()),
                                in_quotes(dim.dim_param()), extent, place->second));
      }
    }
    return {};
  }

  Result<Shape> bind(const onnx::ValueInfoProto& input) const {
    const auto& type = input.type().tensor_type();
    const std::string who = "input " + in_quotes(input.name());
    const auto checked = [&](const Shape& shape) -> Result<Shape> {
      if (!checked_elements(shape.extents())) {
        return fail(ErrorKind::usage, fmt::format("{}: shape {} is negative or too large", who, to_string(shape)));
      }
      return shape;
    };
    const auto stated = options_.shapes.find(input.name());
    if (stated != options_.shapes.end()) return checked(stated->second);
    if (!type.has_shape()) {
      return fail(ErrorKind::usage, fmt::format("{} has no shape; state it with --shape {}=…", who, input.name()));
    }
    if (type.shape().dim_size() > max_rank) {
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: rank {} exceeds the largest rank, {}", who, type.shape().dim_size(), max_rank));
    }
    Shape shape;
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const auto& dim = type.shape().dim(i);
      if (dim.has_dim_value()) {
        if (dim.dim_value() < 0) {
          return fail(ErrorKind::invalid, fmt::format("{}: dimension {} is {}", who, i, dim.dim_value()));
        }
        shape.append(dim.dim_value());
        continue;
      }
      if (dim.dim_param().empty()) {
        return fail(ErrorKind::usage, fmt::format("{}: dimension {} is unknown; state the shape with --shape {}=…", who,
                                                  i, input.name()));
      }
      const auto found = dimensions_.find(dim.dim_param());
      if (found == dimensions_.end()) {
        return fail(ErrorKind::usage, fmt::format("{}: dimension {} is symbolic; bind it with --dim {}=N", who,
                                                  in_quotes(dim.dim_param()), dim.dim_param()));
      }
      shape.append(found->second);
    }
    return checked(shape);
  }

  // What the options name must be there.
  Result<void> check_used() const {
    for (const auto& [name, extent] : options_.dimensions) {
      if (!known_dimensions_.contains(name)) {
        return fail(ErrorKind::usage, fmt::format("no input has a dimension {}", in_quotes(name)));
      }
    }
    for (const auto& [name, shape] : options_.shapes) {
      if (!known_inputs_.contains(name)) {
        return fail(ErrorKind::usage, fmt::format("there is no input {} to give a shape to", in_quotes(name)));
      }
    }
    return {};
  }

 private:
  static std::string declared(const onnx::TensorShapeProto& shape) {
    std::string text;
    for (const auto& dim : shape.dim()) {
      if (!text.empty()) text += ",";
      text += dim.has_dim_value()       ? fmt::format("{}", dim.dim_value())
              : dim.dim_param().empty() ? "?"
                                        : dim.dim_param();
    }
    return "[" + text + "]";
  }

  const FrontendOptions& options_;
  std::map<std::string, int64_t> dimensions_;
  std::set<std::string> known_dimensions_;
  std::set<std::string> known_inputs_;
};

Result<DType> element_type(const onnx::TypeProto& type) {
  if (type.value_case() != onnx::TypeProto::kTensorType) {
    return fail(
        type.value_case() == onnx::TypeProto::VALUE_NOT_SET ? ErrorKind::invalid : ErrorKind::unsupported,
        type.value_case() == onnx::TypeProto::VALUE_NOT_SET ? "its type is missing" : "it is not a dense tensor");
  }
  const int number = type.tensor_type().elem_type();
  const auto dtype = dtype_from_onnx(number);
  if (dtype) return *dtype;
  if (number == onnx::TensorProto::UNDEFINED) return fail(ErrorKind::invalid, "its data type is missing");
  return fail(ErrorKind::unsupported, fmt::format("data type {} is not supported", onnx_data_type_name(number)));
}

Result<void> import_inputs(Scope& scope, const onnx::GraphProto& graph, const FrontendOptions& options) {
  InputShapes shapes(options);
  std::vector<const onnx::ValueInfoProto*> inputs;
  std::set<std::string> seen;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (input.name().empty()) return fail(ErrorKind::invalid, "an input has no name");
    if (!seen.insert(input.name()).second) {
      return fail(ErrorKind::invalid, fmt::format("input {} occurs twice", in_quotes(input.name())));
    }
    if (const auto found = scope.values.find(input.name()); found != scope.values.end()) {
      // An initializer: a default value, which is no input of the user's.
      LOW_TRY_VOID(check_declared_type(input.type(), found->second.type, "initializer " + in_quotes(input.name())));
      continue;
    }
    LOW_TRY_VOID(shapes.learn(input));
    inputs.push_back(&input);
  }
  LOW_TRY_VOID(shapes.check_used());
  for (const onnx::ValueInfoProto* input : inputs) {
    const auto dtype = element_type(input->type());
    if (!dtype) return in_context("input " + in_quotes(input->name()), dtype.error());
    LOW_TRY(const Shape shape, shapes.bind(*input));
    const Type type{*dtype, shape};
    if (auto size = check_size(type); !size) return in_context("input " + in_quotes(input->name()), size.error());
    LOW_TRY_VOID(define(scope, input->name(), scope.emit.input(input->name(), type)));
  }
  return {};
}

Result<Graph> import_model(const onnx::ModelProto& proto, const std::string& path, const FrontendOptions& options) {
  LOW_TRY(const Opsets opsets, check_model(proto));
  ModelContext model{.model = &proto, .folder = std::filesystem::path(path).parent_path().string()};
  Emitter emit(model.fold_budget);
  Scope scope{model, emit, opsets, 0, {}};
  const onnx::GraphProto& graph = proto.graph();
  LOW_TRY_VOID(import_initializers(scope, graph));
  LOW_TRY_VOID(import_inputs(scope, graph, options));
  if (graph.output().empty()) return fail(ErrorKind::invalid, "the graph has no outputs");
  std::set<std::string> names;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    if (!names.insert(output.name()).second) {
      return fail(ErrorKind::invalid, fmt::format("output {} occurs twice", in_quotes(output.name())));
    }
  }
  LOW_TRY(const std::vector<ModelValue> outputs, import_graph(scope, graph));
  for (int i = 0; i < graph.output_size(); ++i) {
    emit.output(graph.output(i).name(), outputs[static_cast<size_t>(i)]);
  }
  return std::move(emit).finish();
}

}  // namespace

Result<void> import_initializers(Scope& scope, const onnx::GraphProto& graph) {
  if (!graph.sparse_initializer().empty()) return fail(ErrorKind::unsupported, "sparse initializers are not supported");
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    if (initializer.name().empty()) return fail(ErrorKind::invalid, "an initializer has no name");
    LOW_TRY(Tensor tensor, load_tensor(scope.model, initializer, "initializer " + in_quotes(initializer.name())));
    LOW_TRY_VOID(define(scope, initializer.name(), constant_value(std::move(tensor))));
  }
  return {};
}

Result<void> check_declared_type(const onnx::TypeProto& declared, const Type& actual, std::string_view what) {
  if (declared.value_case() == onnx::TypeProto::VALUE_NOT_SET) return {};
  if (declared.value_case() != onnx::TypeProto::kTensorType) {
    return fail(ErrorKind::invalid, fmt::format("{} is {}, but not a tensor as declared", what, to_string(actual)));
  }
  const auto& tensor = declared.tensor_type();
  if (tensor.elem_type() != onnx::TensorProto::UNDEFINED && dtype_from_onnx(tensor.elem_type()) != actual.dtype) {
    return fail(ErrorKind::invalid, fmt::format("{} is declared as {}, but is {}", what,
                                                onnx_data_type_name(tensor.elem_type()), to_string(actual)));
  }
  if (!tensor.has_shape()) return {};
  bool agrees = tensor.shape().dim_size() == actual.shape.rank();
  for (int i = 0; agrees && i < actual.shape.rank(); ++i) {
    const auto& dim = tensor.shape().dim(i);
    agrees = !dim.has_dim_value() || dim.dim_value() == actual.shape[i];
  }
  if (agrees) return {};
  std::string text;
  for (const auto& dim : tensor.shape().dim()) {
    if (!text.empty()) text += ",";
    text += dim.has_dim_value() ? fmt::format("{}", dim.dim_value()) : "?";
  }
  return fail(ErrorKind::invalid,
              fmt::format("{} is declared with shape [{}], but is {}", what, text, to_string(actual)));
}

Result<void> check_declared_types(const Scope& scope, const onnx::GraphProto& graph) {
  const auto check = [&](const onnx::ValueInfoProto& info) -> Result<void> {
    const auto found = scope.values.find(info.name());
    if (found == scope.values.end()) return {};
    return check_declared_type(info.type(), found->second.type, "value " + in_quotes(info.name()));
  };
  for (const onnx::ValueInfoProto& info : graph.value_info()) LOW_TRY_VOID(check(info));
  for (const onnx::ValueInfoProto& info : graph.output()) LOW_TRY_VOID(check(info));
  return {};
}

Result<std::vector<ModelValue>> import_graph(Scope& scope, const onnx::GraphProto& graph) {
  // The main graph's initializers are bound before its inputs, so that defaults are told from inputs.
  if (scope.depth > 0) LOW_TRY_VOID(import_initializers(scope, graph));
  std::vector<const onnx::NodeProto*> nodes;
  for (const onnx::NodeProto& node : graph.node()) nodes.push_back(&node);
  LOW_TRY_VOID(import_nodes(scope, nodes));
  LOW_TRY_VOID(check_declared_types(scope, graph));
  std::vector<ModelValue> outputs;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    const auto found = scope.values.find(output.name());
    if (found == scope.values.end()) {
      return fail(ErrorKind::invalid, fmt::format("output {} is not defined", in_quotes(output.name())));
    }
    outputs.push_back(found->second);
  }
  return outputs;
}

Result<Graph> import_onnx(std::span<const std::byte> bytes, const std::string& path, const FrontendOptions& options) {
  try {
    onnx::ModelProto model;
    if (bytes.empty()) return fail(ErrorKind::invalid, path + ": this is no ONNX model: it is empty");
    if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
      return fail(ErrorKind::unsupported,
                  path + ": a model of 2 GiB or more cannot be parsed; keep its weights in external data");
    }
    if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return fail(ErrorKind::invalid, path + ": this is no ONNX model, or it is truncated");
    }
    auto graph = import_model(model, path, options);
    if (!graph) return in_context(path, graph.error());
    return graph;
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::unsupported, path + ": there is not enough memory for this model");
  }
}

Result<Graph> import_onnx_file(const std::string& path, const FrontendOptions& options) {
  LOW_TRY(const AlignedBytes bytes, read_file(path));
  return import_onnx(bytes, path, options);
}

}  // namespace low
