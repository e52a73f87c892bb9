// ONNX bytes -> Graph. Maps every ONNX operator to core operations, with our own type and shape inference.
//
// Refuses (ErrorKind::unsupported, exit 4) what it does not know, naming node, operator, domain and opset; (invalid,
// exit 3) what contradicts itself or the file; (usage, exit 2) a dimension that nothing in the options says, or that
// they contradict. In an input's declared shape a number below 1, or a name without letters ("?"), is an unknown
// dimension: exporters write all of these. Expressions, constants and shapes that do not depend on inputs are folded.
// Sequences, optionals and strings are unsupported.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "compiler/graph/graph.h"

namespace low {

struct FrontendOptions {
  std::map<std::string, int64_t> dimensions;  // values of symbolic dimensions (--dim batch=2)
  // Shapes for inputs with symbolic or unknown dimensions, or without a shape at all (--shape x=2,3).
  std::map<std::string, Shape> shapes;
  // Files with tensors that the model is to run with, by input (--input x=x.npy): a shape in them is stated, too. An
  // input that is also an initializer, and so a constant, becomes a true input where a tensor is given, unless
  // `constant_initializers` forbids it.
  std::map<std::string, std::string> inputs;
  bool constant_initializers = false;
};

// `path` names the model in messages; external data is looked for beside it and must stay inside its folder.
Result<Graph> import_onnx(std::span<const std::byte> bytes, const std::string& path, const FrontendOptions& options);
// Reads the file, then as above.
Result<Graph> import_onnx_file(const std::string& path, const FrontendOptions& options);

}  // namespace low
