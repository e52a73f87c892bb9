// The importer's context: scopes of named values, one node with its attributes, and the table of operators.
//
// ONNX operators change between opsets. Each change that matters here is a row of the table (domain, name, first opset)
// with the handler that understands it; the row with the largest `since` that is not above the model's opset counts.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/emitter.h"
#include "runtime/base/error.h"

namespace low {

namespace onnx {
class AttributeProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
class TypeProto;
}  // namespace onnx

// Bounds on what a hostile model can make us do: nesting of bodies and functions, nodes after inlining functions, and
// of these nodes those that are in functions, once for each call: a dozen functions that each call another twice are
// thousands, in a file of a few hundred bytes, and passes and search take some seconds for so many.
inline constexpr int max_nesting = 32;
inline constexpr int64_t max_nodes = 1'000'000;
inline constexpr int64_t max_inlined_nodes = 50'000;
// A function's constants are loaded once for each call.
inline constexpr int64_t max_function_bytes = int64_t{1} << 30;

using Opsets = std::map<std::string, int64_t, std::less<>>;  // domain ("" is the standard one) -> version

// What all scopes of one model share.
struct ModelContext {
  const onnx::ModelProto* model = nullptr;
  std::string folder;  // external data is beside the model
  // Of the main graph's initializers, where the message lacks it; see large_data.h.
  std::span<const std::span<const std::byte>> raw_data = {};
  int64_t nodes = 0;                       // imported so far, those of inlined functions once for each call
  int64_t inlined_nodes = 0;               // of these, those of functions
  int64_t fold_budget = int64_t{1} << 26;  // bytes of constants that the importer may still make
  int calls = 0;                           // function calls that are being inlined
  int64_t function_bytes = 0;              // of constants in functions, once for each call
};

// Names seen by the nodes of one (sub)graph or function body.
struct Scope {
  ModelContext& model;
  Emitter& emit;
  const Opsets& opsets;
  int depth = 0;
  std::map<std::string, ModelValue, std::less<>> values;
};

class Node {
 public:
  Node(Scope& scope, const onnx::NodeProto& proto, int64_t opset) : scope_(scope), proto_(proto), opset_(opset) {}

  Scope& scope() { return scope_; }
  Emitter& emit() { return scope_.emit; }
  const onnx::NodeProto& proto() const { return proto_; }
  int64_t opset() const { return opset_; }
  const std::string& op_type() const;

  int input_count() const { return static_cast<int>(inputs.size()); }
  bool has(int i) const { return i < input_count() && inputs[static_cast<size_t>(i)].has_value(); }
  const ModelValue& input(int i) const { return *inputs[static_cast<size_t>(i)]; }
  int output_count() const;
  bool wants_output(int i) const;

  bool has_attribute(std::string_view name) const;
  Result<int64_t> integer(std::string_view name, int64_t otherwise) const;
  Result<float> number(std::string_view name, float otherwise) const;
  Result<std::string> text(std::string_view name, std::string_view otherwise) const;
  // Nothing if absent.
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view name) const;
  Result<std::optional<std::vector<float>>> numbers(std::string_view name) const;
  Result<Tensor> tensor(std::string_view name) const;                  // required
  Result<const onnx::GraphProto*> graph(std::string_view name) const;  // required
  // The dtype that an attribute's TensorProto.DataType stands for; nothing if it is absent or 0.
  Result<std::optional<DType>> dtype(std::string_view name) const;
  // Values of an integer input that has to be constant.
  Result<std::vector<int64_t>> constant_integers(int i, std::string_view what) const;

  // Errors that begin with the operator's name.
  std::unexpected<Error> invalid(std::string_view message) const;
  std::unexpected<Error> unsupported(std::string_view message) const;

  std::vector<std::optional<ModelValue>> inputs;

 private:
  // Null if absent; an error if it is there with another type.
  Result<const onnx::AttributeProto*> find(std::string_view name, int type, std::string_view type_name) const;

  Scope& scope_;
  const onnx::NodeProto& proto_;
  int64_t opset_;
};

using Handled = Result<std::vector<ModelValue>>;
using Handler = Handled (*)(Node&);

constexpr int any_number = std::numeric_limits<int>::max();  // of inputs or outputs
struct OperatorInfo {
  std::string_view domain;
  std::string_view name;
  int since = 1;                       // the first opset
  int min_inputs = 0, max_inputs = 0;  // the first min_inputs must be there
  int max_outputs = 1;
  std::string_view attributes;  // names, separated by blanks; others are refused
  Handler handler = nullptr;
};
// Null if the operator is unknown, or newer than the opset.
const OperatorInfo* find_operator(std::string_view domain, std::string_view name, int64_t opset);

// Imports the nodes of a (sub)graph or function in order.
Result<void> import_nodes(Scope& scope, std::span<const onnx::NodeProto* const> nodes);
// Binds the initializers of a (sub)graph, but for those of the names to leave out.
Result<void> import_initializers(Scope& scope, const onnx::GraphProto& graph,
                                 const std::set<std::string>& left_out = {});
// Binds a name; ErrorKind::invalid if it is taken.
Result<void> define(Scope& scope, const std::string& name, ModelValue value);
// A constant of the model, external or not. `what` names it in messages.
// `raw_data`: where the message lacks it.
Result<Tensor> load_tensor(ModelContext& model, const onnx::TensorProto& proto, std::string_view what,
                           std::span<const std::byte> raw_data = {});
// Checks a declared type against the actual one, where the declared one is known. `what` names the value.
Result<void> check_declared_type(const onnx::TypeProto& declared, const Type& actual, std::string_view what);
// The same for value_info and outputs of a graph whose nodes were imported.
Result<void> check_declared_types(const Scope& scope, const onnx::GraphProto& graph);
// Imports a graph whose inputs are bound already; its outputs in order.
Result<std::vector<ModelValue>> import_graph(Scope& scope, const onnx::GraphProto& graph);

// The one output of most operators.
inline Handled one(Result<ModelValue> value) {
  if (!value) return std::unexpected(std::move(value).error());
  return std::vector<ModelValue>{std::move(*value)};
}
// Floats that operators compute with: FP8 is for storage.
inline bool is_arithmetic_float(DType type) { return is_float(type) && !is_fp8(type); }
// Attribute stash_type, the type of intermediate results: f32 or nothing. We compute in that or better.
Result<void> check_stash_type(const Node& node);
// -rank <= axis < rank, made non-negative.
Result<int> normalize_axis(const Node& node, int64_t axis, int rank);
// `flags[i]`: whether axis i of `rank` is listed; ErrorKind::invalid for one that is listed twice.
Result<std::vector<bool>> mark_axes(const Node& node, std::span<const int64_t> axes, int rank);
// In quotes, with bytes that are not printable ASCII escaped, and shortened: names come from the file.
std::string in_quotes(std::string_view name);

// The operators whose handlers stand in a file: one row for each form that we tell apart, sorted by name and opset.
// Changes of allowed dtypes alone do not make a row: newer opsets allow more, and a model that uses them means the same
// in every opset.
std::span<const OperatorInfo> activation_operators();
std::span<const OperatorInfo> attention_operators();
std::span<const OperatorInfo> constant_operators();
std::span<const OperatorInfo> control_flow_operators();
std::span<const OperatorInfo> elementwise_operators();
std::span<const OperatorInfo> indexing_operators();
std::span<const OperatorInfo> matmul_operators();
std::span<const OperatorInfo> movement_operators();
std::span<const OperatorInfo> normalization_operators();
std::span<const OperatorInfo> quantize_operators();
std::span<const OperatorInfo> reduce_operators();
std::span<const OperatorInfo> rotary_embedding_operators();
std::span<const OperatorInfo> scatter_operators();
std::span<const OperatorInfo> slicing_operators();
// A model-local function; null if the model has none of this name.
Result<bool> import_function_call(Scope& scope, const onnx::NodeProto& node,
                                  std::vector<ModelValue>& results);  // functions.cpp

}  // namespace low
