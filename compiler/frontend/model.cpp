// The model as a whole: parsing, opsets, inputs and their shapes, outputs.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <new>
#include <set>

#include "compiler/frontend/frontend.h"
#include "compiler/frontend/importer.h"
#include "compiler/frontend/large_data.h"
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

using Dimension = onnx::TensorShapeProto::Dimension;

// "", "?", "-1" and "None" are what exporters call a dimension that they do not know; two of them need not be equal.
bool is_unknown_name(std::string_view name) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_' || c >= 0x80; };
  return name == "None" || std::ranges::none_of(name, is_letter);
}
bool is_symbol(const Dimension& dim) { return dim.has_dim_param() && !is_unknown_name(dim.dim_param()); }
bool is_number(const Dimension& dim) { return dim.has_dim_value() && dim.dim_value() > 0; }

// "n,3,?"; `unknown` stands for what is not known.
std::string dimensions_text(const onnx::TensorShapeProto& shape, std::string_view unknown = "?") {
  std::string text;
  for (const Dimension& dim : shape.dim()) {
    if (!text.empty()) text += ",";
    text += is_number(dim) ? fmt::format("{}", dim.dim_value()) : is_symbol(dim) ? dim.dim_param() : unknown;
  }
  return text;
}

// Extents of the model's inputs from the file and from the options.
class InputShapes {
 public:
  explicit InputShapes(const FrontendOptions& options) : options_(options) {
    for (const auto& [name, extent] : options.dimensions) dimensions_[name] = {extent, "by --dim"};
    for (const auto& [name, shape] : options.shapes) stated_[name] = {shape, "--shape"};
  }

  // First for all inputs: a stated shape also says what its symbolic dimensions are.
  Result<void> learn(const onnx::ValueInfoProto& input) {
    known_inputs_.insert(input.name());
    const auto& type = input.type().tensor_type();
    for (const Dimension& dim : type.shape().dim()) {
      if (is_symbol(dim)) known_dimensions_.insert(dim.dim_param());
    }
    const std::string who = "input " + in_quotes(input.name());
    if (const auto file = options_.inputs.find(input.name()); file != options_.inputs.end()) {
      LOW_TRY(const std::optional<Shape> shape, shape_in_file(file->second));
      const auto [place, is_new] =
          shape ? stated_.try_emplace(input.name(), Stated{*shape, file->second}) : std::pair(stated_.end(), true);
      if (!is_new && place->second.shape != *shape) {
        return fail(ErrorKind::usage,
                    fmt::format("{}: {} says {}, but the tensor in {} is {}", who, place->second.source,
                                to_string(place->second.shape), file->second, to_string(*shape)));
      }
    }
    const auto found = stated_.find(input.name());
    if (found == stated_.end() || !type.has_shape()) return {};
    const auto& [shape, source] = found->second;
    bool agrees = type.shape().dim_size() == shape.rank();
    for (int i = 0; agrees && i < shape.rank(); ++i) {
      agrees = !is_number(type.shape().dim(i)) || type.shape().dim(i).dim_value() == shape[i];
    }
    if (!agrees) {
      return fail(ErrorKind::usage, fmt::format("{}: {} says {}, which contradicts the model's [{}]", who, source,
                                                to_string(shape), dimensions_text(type.shape())));
    }
    for (int i = 0; i < shape.rank(); ++i) {
      if (!is_symbol(type.shape().dim(i))) continue;
      const std::string& symbol = type.shape().dim(i).dim_param();
      const auto [place, is_new] = dimensions_.try_emplace(
          symbol, Extent{shape[i], fmt::format("for {} by {}", in_quotes(input.name()), source)});
      if (!is_new && place->second.extent != shape[i]) {
        return fail(ErrorKind::usage, fmt::format("{}: dimension {} is {} by {}, but {} {}", who, in_quotes(symbol),
                                                  shape[i], source, place->second.extent, place->second.source));
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
    const auto stated = stated_.find(input.name());
    if (stated != stated_.end()) return checked(stated->second.shape);
    if (!type.has_shape()) {
      return fail(ErrorKind::usage, fmt::format("{} has no shape; state it with --shape {}=…", who, input.name()));
    }
    if (type.shape().dim_size() > max_rank) {
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: rank {} exceeds the largest rank, {}", who, type.shape().dim_size(), max_rank));
    }
    Shape shape;
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const Dimension& dim = type.shape().dim(i);
      if (is_number(dim)) {
        shape.append(dim.dim_value());
        continue;
      }
      if (!is_symbol(dim)) {
        return fail(ErrorKind::usage,
                    fmt::format("{}: dimension {} of [{}] is unknown; state the shape with --shape {}={}", who, i,
                                dimensions_text(type.shape()), input.name(), dimensions_text(type.shape(), "N")));
      }
      const auto found = dimensions_.find(dim.dim_param());
      if (found == dimensions_.end()) {
        return fail(ErrorKind::usage, fmt::format("{}: dimension {} ({}) is symbolic; bind it with --dim {}=N", who, i,
                                                  in_quotes(dim.dim_param()), dim.dim_param()));
      }
      shape.append(found->second.extent);
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
  struct Extent {
    int64_t extent = 0;
    std::string source;  // "by --dim", "for "x" by a.npy"
  };
  struct Stated {
    Shape shape;
    std::string source;  // "--shape", "a.npy"
  };
  const FrontendOptions& options_;
  std::map<std::string, Extent> dimensions_;
  std::map<std::string, Stated> stated_;
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

// The names of initializers that are inputs instead, since tensors are given for them.
Result<std::set<std::string>> replaced_initializers(const onnx::GraphProto& graph, const FrontendOptions& options) {
  std::set<std::string> initializers, replaced;
  for (const onnx::TensorProto& initializer : graph.initializer()) initializers.insert(initializer.name());
  std::vector<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (options.constant_initializers && initializers.contains(input.name())) continue;
    inputs.push_back(in_quotes(input.name()));
    if (options.inputs.contains(input.name())) replaced.insert(input.name());
  }
  for (const auto& [name, file] : options.inputs) {
    if (replaced.contains(name)) continue;
    const std::string all =
        inputs.empty() ? "there are none" : fmt::format("the inputs are: {}", fmt::join(inputs, ", "));
    if (initializers.contains(name)) {
      return fail(ErrorKind::usage, fmt::format("{} is an initializer, compiled in as a constant, and no input; {}",
                                                in_quotes(name), all));
    }
    return fail(ErrorKind::usage, fmt::format("there is no input {}; {}", in_quotes(name), all));
  }
  return replaced;
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

Result<Graph> import_model(const onnx::ModelProto& proto, std::span<const std::span<const std::byte>> raw_data,
                           const std::string& path, const FrontendOptions& options) {
  LOW_TRY(const Opsets opsets, check_model(proto));
  ModelContext model{
      .model = &proto, .folder = std::filesystem::path(path).parent_path().string(), .raw_data = raw_data};
  Emitter emit(model.fold_budget);
  Scope scope{model, emit, opsets, 0, {}};
  const onnx::GraphProto& graph = proto.graph();
  LOW_TRY(const std::set<std::string> replaced, replaced_initializers(graph, options));
  LOW_TRY_VOID(import_initializers(scope, graph, replaced));
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

Result<void> import_initializers(Scope& scope, const onnx::GraphProto& graph, const std::set<std::string>& left_out) {
  if (!graph.sparse_initializer().empty()) return fail(ErrorKind::unsupported, "sparse initializers are not supported");
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const onnx::TensorProto& initializer = graph.initializer(i);
    if (initializer.name().empty()) return fail(ErrorKind::invalid, "an initializer has no name");
    if (left_out.contains(initializer.name())) continue;
    const std::span<const std::byte> raw_data = scope.depth == 0 && !scope.model.raw_data.empty()
                                                    ? scope.model.raw_data[static_cast<size_t>(i)]
                                                    : std::span<const std::byte>();
    LOW_TRY(Tensor tensor,
            load_tensor(scope.model, initializer, "initializer " + in_quotes(initializer.name()), raw_data));
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
    agrees = !is_number(dim) || dim.dim_value() == actual.shape[i];
  }
  if (agrees) return {};
  return fail(ErrorKind::invalid, fmt::format("{} is declared with shape [{}], but is {}", what,
                                              dimensions_text(tensor.shape()), to_string(actual)));
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
    const std::optional<CutModel> cut = cut_large_data(bytes);
    if (!cut || !model.ParseFromString(cut->message)) {
      return fail(ErrorKind::invalid, path + ": this is no ONNX model, or it is truncated");
    }
    auto graph = import_model(model, cut->raw_data, path, options);
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
