// ONNX's own node tests: one folder a case, with model.onnx and test_data_set_N/{input_I,output_I}.pb, as
// make_node_tests.py writes them.
//
// All cases count. A committed list says of each whether it must pass or must be refused (an operator, a type or a form
// that low does not have), so that neither a new failure nor a new success goes unnoticed. A backend runs the imported
// graph: the reference, or a compiled package.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.h"
#include "runtime/base/error.h"
#include "runtime/base/thread_pool.h"
#include "runtime/tensor/tensor.h"

namespace low::node_tests {

// Inputs in the order of the graph's inputs.
struct GraphRun {
  Graph graph;
  std::vector<Tensor> inputs;
};
// Outputs in the order of the graph's outputs.
using RunResult = Result<std::vector<Tensor>>;
// Takes many runs at once, so that a compiler need not start for each; a result for each of them.
using Backend = std::function<std::vector<RunResult>(std::span<const GraphRun>)>;
Backend one_by_one(std::function<RunResult(const GraphRun&)> backend);

enum class Outcome {
  passed,
  mismatch,  // ran, with another result
  refused,   // ErrorKind::unsupported from the frontend, the tensor reader or the backend
  error,     // any other error: never right
};
std::string_view name(Outcome outcome);

struct CaseResult {
  std::string name;
  Outcome outcome = Outcome::error;
  std::string message;  // one line, empty when passed
};

struct Expectation {
  std::string name;
  bool pass = false;
  std::string reason;  // why it is refused: for readers
};

// Names of the cases that `folder` holds, sorted.
Result<std::vector<std::string>> case_names(const std::string& folder);

// Runs all data sets of a case. What ONNX hands over as an input but low needs when it compiles (a shape, axes, a trip
// count) becomes a constant of the model first; symbolic dimensions are bound to those of the data. Results compare
// with a relative tolerance of 1e-3 and an absolute one of 1e-7, as in ONNX's own runner, and two units in the last
// place of bf16, as there, and of f16: composed functions round after other steps than numpy. Integers, booleans and
// FP8 exactly.
CaseResult run_case(const std::string& folder, const std::string& name, const Backend& backend);
// In the order of `names`. The backend gets batches of cases, concurrently on the pool.
std::vector<CaseResult> run_cases(const std::string& folder, std::span<const std::string> names, const Backend& backend,
                                  ThreadPool& pool);

// "NAME pass" or "NAME refuse REASON" a line; # starts a comment line. ErrorKind::invalid names the line.
Result<std::vector<Expectation>> parse_expectations(std::string_view text);
// The list that `results` fulfil: what passed, passes; what else happened, is refused (`error` and `mismatch` included,
// with a reason that says so: fix them, rather than commit such a line).
std::string expectations_text(std::span<const CaseResult> results);
// One sentence for each case that differs from the list: failed, passes although refused, error of the wrong kind, not
// listed, listed but absent.
std::vector<std::string> differences(std::span<const CaseResult> results, std::span<const Expectation> expectations);

// Runs all cases against the list at `list_path`, prints the summary and writes it to `summary_path`; the differences.
Result<std::vector<std::string>> judge(const std::string& folder, const std::string& list_path,
                                       const std::string& summary_path, std::string_view backend_name,
                                       const Backend& backend, ThreadPool& pool);

// How many pass and how many are refused; then what the refusals are about, the most frequent first:
//   ONNX node tests: BACKEND passes 301 of 320, refuses 19
//     12 operators: Resize 9, Conv 3
//     7 data types: STRING 7
std::string summary(std::string_view backend, std::span<const CaseResult> results);

}  // namespace low::node_tests
