// What several subcommands need: reporting errors, loading models and packages, binding inputs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "compiler/lowc/commands.h"
#include "compiler/package/package_writer.h"
#include "runtime/session.h"

namespace low::lowc {

// "lowc: message" on stderr, control characters escaped so that it stays one line; the exit code.
int report(const Error& error);
// 0, or that of the error, which it reports.
int exit_code(const Result<void>& result);
// Data for the user. A failure shows when main closes stdout.
void write_stdout(std::string_view text);
// Sets the log's level: 0 warnings, 1 info, 2 debug. The log goes to stderr.
void set_verbosity(int verbose);
void log_stage(std::string_view stage, double milliseconds);

Result<CompileOptions> compile_options(const ModelOptions& options);
struct LoadedModel {
  Graph graph;  // as the frontend made it
  Provenance provenance;
};
// The tensors that are given say what dimensions the model leaves open, and replace initializers that are inputs too
// (unless the model is to agree with a package).
Result<LoadedModel> load_model(const ModelOptions& options, ThreadPool& pool, const InputOptions& inputs = {},
                               bool as_in_package = false);
bool is_package(const std::string& path);  // by extension: .low

// A package from a .low file, or compiled from a model. ErrorKind::usage for options that a package has no use for.
Result<std::shared_ptr<const Package>> package_of(const ModelOptions& options, const InputOptions& inputs,
                                                  ThreadPool& pool);

// A named tensor of a model's or a program's interface.
struct Slot {
  std::string name;
  DType dtype;
  Shape shape;
  bool operator==(const Slot&) const = default;
};
std::vector<Slot> input_slots(const Program& program);
std::vector<Slot> input_slots(const Graph& graph);
std::vector<Slot> output_slots(const Program& program);
std::vector<Slot> output_slots(const Graph& graph);
// Files for the named inputs; random data for all others if asked for, otherwise ErrorKind::usage naming what is
// missing.
Result<std::vector<Tensor>> bind_inputs(const std::vector<Slot>& slots, const InputOptions& options);
// "name=value" split at the first '='; ErrorKind::usage with `what` otherwise.
Result<std::pair<std::string, std::string>> split_pair(const std::string& text, std::string_view what);

// One line for a person: name, type, and minimum, maximum, mean, RMS of the elements.
std::string summary(std::string_view name, const Tensor& tensor);

}  // namespace low::lowc
