#include "hwtests/node_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "compiler/frontend/frontend.h"
#include "onnx.pb.h"
#include "reference/reference.h"
#include "runtime/tensor/tensor_file.h"

namespace low::node_tests {
namespace {

namespace fs = std::filesystem;

// Operators with inputs that have to be known when compiling.
struct ConstantInputs {
  std::string_view op;
  std::vector<int> inputs;
};
const std::vector<ConstantInputs>& constant_inputs() {
  static const std::vector<ConstantInputs> table = {
      {"ConstantOfShape", {0}},
      {"CumSum", {1}},
      {"Dropout", {1, 2}},
      {"Expand", {1}},
      {"If", {0}},
      {"Loop", {0, 1}},
      {"OneHot", {1}},
      {"Pad", {1, 3}},
      {"Range", {0, 1, 2}},
      {"ReduceL1", {1}},
      {"ReduceL2", {1}},
      {"ReduceLogSum", {1}},
      {"ReduceLogSumExp", {1}},
      {"ReduceMax", {1}},
      {"ReduceMean", {1}},
      {"ReduceMin", {1}},
      {"ReduceProd", {1}},
      {"ReduceSum", {1}},
      {"ReduceSumSquare", {1}},
      {"Reshape", {1}},
      {"Slice", {1, 2, 3, 4}},
      {"Split", {1}},
      {"Squeeze", {1}},
      {"Tile", {1}},
      {"TopK", {1}},
      {"Trilu", {1}},
      {"Unsqueeze", {1}},
  };
  return table;
}

Result<onnx::ModelProto> read_model(const std::string& path) {
  LOW_TRY(const AlignedBytes bytes, read_file(path));
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(ErrorKind::invalid, path + " is not an ONNX model");
  }
  return model;
}

std::string data_path(const std::string& data_set, std::string_view kind, int index) {
  return fmt::format("{}/{}_{}.pb", data_set, kind, index);
}

Result<Tensor> read_tensor_proto(const std::string& path) {
  LOW_TRY(const AlignedBytes bytes, read_file(path));
  LOW_TRY(NamedTensor named, parse_tensor_proto(bytes, fs::path(path).filename().string()));
  return std::move(named.tensor);
}

// Adds the names of graph inputs (and of other values) that a node needs as constants, or that such a constant is
// computed from, in the nodes' graphs too. Names are unique in ONNX's cases. A value's shape is known without its
// elements.
void add_needed_constants(const onnx::GraphProto& graph, std::set<std::string>& names, int depth = 0) {
  constexpr int max_depth = 8;  // ONNX's cases nest a few graphs deep
  if (depth > max_depth) return;
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto& node = graph.node(i);
    const auto is_needed = [&](const std::string& output) { return names.contains(output); };
    const bool needed = std::ranges::any_of(node.output(), is_needed);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      if (needed) {
        for (const onnx::ValueInfoProto& output : attribute.g().output()) names.insert(output.name());
      }
      add_needed_constants(attribute.g(), names, depth + 1);
    }
    const auto found = std::ranges::find(constant_inputs(), node.op_type(), &ConstantInputs::op);
    if (found != constant_inputs().end()) {
      for (const int index : found->inputs) {
        if (index < node.input_size()) names.insert(node.input(index));
      }
    }
    if (node.op_type() == "Shape" || node.op_type() == "Size") continue;
    if (needed) names.insert(node.input().begin(), node.input().end());
  }
}

// A model's inputs in the order of its files.
struct Bound {
  onnx::ModelProto model;           // the needed inputs as initializers
  std::vector<std::string> inputs;  // names of all inputs of the original
};

Result<Bound> bind_constants(const onnx::ModelProto& original, const std::string& data_set) {
  Bound bound{.model = original};
  std::set<std::string> needed;
  add_needed_constants(original.graph(), needed);
  onnx::GraphProto& graph = *bound.model.mutable_graph();
  graph.clear_input();
  for (int i = 0; i < original.graph().input_size(); ++i) {
    const onnx::ValueInfoProto& input = original.graph().input(i);
    bound.inputs.push_back(input.name());
    if (!needed.contains(input.name()) || !input.type().has_tensor_type()) {
      *graph.add_input() = input;
      continue;
    }
    LOW_TRY(const AlignedBytes bytes, read_file(data_path(data_set, "input", i)));
    onnx::TensorProto& tensor = *graph.add_initializer();
    if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return fail(ErrorKind::invalid, fmt::format("input_{}.pb is not a tensor", i));
    }
    tensor.set_name(input.name());
  }
  return bound;
}

// Values for dimensions that the model leaves open, from the data.
Result<FrontendOptions> options_for(const onnx::GraphProto& graph, const Bound& bound, const std::string& data_set) {
  FrontendOptions options;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!input.type().has_tensor_type()) continue;
    const onnx::TypeProto::Tensor& type = input.type().tensor_type();
    const bool is_open = !type.has_shape() || std::ranges::any_of(type.shape().dim(), [](const auto& dimension) {
      return dimension.dim_value() <= 0;  // of a symbol, too
    });
    if (!is_open) continue;
    const auto index = std::ranges::find(bound.inputs, input.name()) - bound.inputs.begin();
    LOW_TRY(const Tensor tensor, read_tensor_proto(data_path(data_set, "input", static_cast<int>(index))));
    options.shapes.emplace(input.name(), tensor.shape());
    for (int axis = 0; type.has_shape() && axis < std::min(type.shape().dim_size(), tensor.shape().rank()); ++axis) {
      const std::string& symbol = type.shape().dim(axis).dim_param();
      if (!symbol.empty()) options.dimensions.emplace(symbol, tensor.shape()[axis]);
    }
  }
  return options;
}

reference::Tolerance tolerance_for(DType dtype) {
  if (!is_float(dtype) || is_fp8(dtype)) return {.absolute = 0, .relative = 0};
  const double relative = dtype == DType::bf16 ? 0x1p-6 : dtype == DType::f16 ? 0x1p-9 : 1e-3;
  return {.absolute = 1e-7, .relative = relative};
}

// Nothing, or how the results differ from the files.
Result<std::optional<std::string>> check_outputs(const Graph& graph, std::span<const Tensor> results,
                                                 std::span<const std::string> names, const std::string& data_set) {
  if (results.size() != graph.outputs().size()) {
    return fail(ErrorKind::internal, fmt::format("{} results for {} outputs", results.size(), graph.outputs().size()));
  }
  std::map<std::string, const Tensor*> by_name;
  for (size_t i = 0; i < results.size(); ++i) by_name[graph.op(graph.outputs()[i]).name] = &results[i];
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = by_name.find(names[i]);
    if (found == by_name.end()) return std::optional("output " + names[i] + " is missing");
    LOW_TRY(const Tensor expected, read_tensor_proto(data_path(data_set, "output", static_cast<int>(i))));
    const auto comparison = reference::compare(*found->second, expected, tolerance_for(expected.dtype()));
    if (!comparison) return std::optional(fmt::format("output {}: {}", i, comparison.error().message));
    if (!comparison->passed()) {
      return std::optional(fmt::format("output {}: {} of {} elements differ; element {} is {}, expected {}", i,
                                       comparison->mismatches, comparison->elements, comparison->worst_index,
                                       comparison->worst_actual, comparison->worst_expected));
    }
  }
  return std::optional<std::string>();
}

struct DataSet {
  std::string folder;
  std::vector<std::string> outputs;  // names, in the order of the files
  GraphRun run;
};

Result<DataSet> prepare(const onnx::ModelProto& original, const std::string& data_set) {
  LOW_TRY(const Bound bound, bind_constants(original, data_set));
  LOW_TRY(const FrontendOptions options, options_for(bound.model.graph(), bound, data_set));
  const std::string bytes = bound.model.SerializeAsString();
  LOW_TRY(Graph graph, import_onnx(std::as_bytes(std::span(bytes)), "model.onnx", options));
  std::vector<Tensor> inputs;
  for (const OpId id : graph.inputs()) {
    const auto index = std::ranges::find(bound.inputs, graph.op(id).name) - bound.inputs.begin();
    LOW_TRY(Tensor input, read_tensor_proto(data_path(data_set, "input", static_cast<int>(index))));
    inputs.push_back(std::move(input));
  }
  std::vector<std::string> outputs;
  for (const onnx::ValueInfoProto& output : original.graph().output()) outputs.push_back(output.name());
  return DataSet{.folder = data_set,
                 .outputs = std::move(outputs),
                 .run = {.graph = std::move(graph), .inputs = std::move(inputs)}};
}

// Sorted names of the folders in `folder` that begin with `prefix`.
Result<std::vector<std::string>> folders(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string entry_name = entry->path().filename().string();
    if (entry_name.starts_with(prefix)) names.push_back(std::move(entry_name));
  }
  if (error) return fail(ErrorKind::invalid, folder + " cannot be read: " + error.message());
  std::ranges::sort(names);
  return names;
}

Result<std::vector<DataSet>> prepare_case(const std::string& case_folder) {
  LOW_TRY(const onnx::ModelProto model, read_model(case_folder + "/model.onnx"));
  LOW_TRY(const std::vector<std::string> names, folders(case_folder, "test_data_set_"));
  if (names.empty()) return fail(ErrorKind::invalid, case_folder + " has no data set");
  std::vector<DataSet> data_sets;
  for (const std::string& data_set : names) {
    LOW_TRY(DataSet prepared, prepare(model, case_folder + "/" + data_set));
    data_sets.push_back(std::move(prepared));
  }
  return data_sets;
}

CaseResult failed(const std::string& case_name, const Error& error) {
  if (error.kind == ErrorKind::unsupported) return {case_name, Outcome::refused, error.message};
  return {case_name, Outcome::error, fmt::format("{} (error kind {})", error.message, static_cast<int>(error.kind))};
}

std::vector<CaseResult> run_batch(const std::string& folder, std::span<const std::string> names,
                                  const Backend& backend) {
  std::vector<CaseResult> results;
  std::vector<DataSet> data_sets;  // of all cases that could be prepared
  std::vector<size_t> case_of;     // for each of them
  std::vector<GraphRun> runs;
  for (const std::string& case_name : names) {
    Result<std::vector<DataSet>> prepared = prepare_case(folder + "/" + case_name);
    if (!prepared) {
      results.push_back(failed(case_name, prepared.error()));
      continue;
    }
    for (DataSet& data_set : *prepared) {
      runs.push_back(std::move(data_set.run));
      case_of.push_back(results.size());
      data_sets.push_back(std::move(data_set));
    }
    results.push_back({case_name, Outcome::passed, ""});
  }
  const std::vector<RunResult> outputs = backend(runs);
  LOW_CHECK(outputs.size() == runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    CaseResult& result = results[case_of[i]];
    if (result.outcome != Outcome::passed) continue;
    if (!outputs[i]) {
      result = failed(result.name, outputs[i].error());
      continue;
    }
    const auto difference = check_outputs(runs[i].graph, *outputs[i], data_sets[i].outputs, data_sets[i].folder);
    if (!difference) {
      result = failed(result.name, difference.error());
    } else if (*difference) {
      result = {result.name, Outcome::mismatch,
                fs::path(data_sets[i].folder).filename().string() + ", " + **difference};
    }
  }
  return results;
}

// What a refusal is about, for counting: its message without the places in the model that it names first.
struct Reason {
  std::string group;
  std::string detail;
};

Reason reason_of(std::string_view message) {
  constexpr std::string_view places[] = {"model.onnx", "node ",        "input ",    "output ",
                                         "function ",  "initializer ", "attribute "};
  const auto is_place = [&](std::string_view place) { return message.starts_with(place); };
  size_t colon = message.find(": ");
  while (colon != std::string_view::npos && std::ranges::any_of(places, is_place)) {
    message.remove_prefix(colon + 2);
    colon = message.find(": ");
  }
  // The text between two others, if they are there.
  const auto between = [&](std::string_view before, std::string_view after) -> std::optional<std::string> {
    const size_t begin = message.find(before);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::string_view rest = message.substr(begin + before.size());
    const size_t end = rest.find(after);
    if (end == std::string_view::npos) return std::nullopt;
    return std::string(rest.substr(0, end));
  };
  const std::string subject(message.substr(0, colon));
  if (const auto op = between("operator ", " (opset")) {
    constexpr std::string_view standard = "ai.onnx.";
    const bool is_standard = op->starts_with(standard) && op->find('.', standard.size()) == std::string::npos;
    return {"operators", is_standard ? op->substr(standard.size()) : *op};
  }
  if (const auto opset = between("opset ", " is not supported")) return {"opsets", "opset " + *opset};
  if (const auto type = between("data type ", " is not supported")) return {"data types", *type};
  if (message == "it is not a dense tensor") return {"sequences and optionals", "input"};
  if (message.find("not known before the model runs") != std::string_view::npos) {
    return {"values that are known too late", subject};
  }
  return {"forms of operators", subject};
}

// The largest counts first.
using Count = std::pair<std::string, int64_t>;
std::vector<Count> by_count(const std::map<std::string, int64_t>& counts) {
  std::vector<Count> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, {}, [](const Count& count) { return std::pair(-count.second, count.first); });
  return sorted;
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::mismatch:
      return "mismatch";
    case Outcome::refused:
      return "refused";
    case Outcome::error:
      break;
  }
  return "error";
}

Result<std::vector<std::string>> case_names(const std::string& folder) { return folders(folder, "test_"); }

Backend one_by_one(std::function<RunResult(const GraphRun&)> backend) {
  return [backend = std::move(backend)](std::span<const GraphRun> runs) {
    std::vector<RunResult> results;
    for (const GraphRun& run : runs) results.push_back(backend(run));
    return results;
  };
}

CaseResult run_case(const std::string& folder, const std::string& name, const Backend& backend) {
  return std::move(run_batch(folder, {&name, 1}, backend).front());
}

std::vector<CaseResult> run_cases(const std::string& folder, std::span<const std::string> names, const Backend& backend,
                                  ThreadPool& pool) {
  constexpr size_t batch_size = 32;
  const size_t batches = (names.size() + batch_size - 1) / batch_size;
  std::vector<CaseResult> results(names.size());
  pool.parallel_for(static_cast<int64_t>(batches), [&](int64_t i) {
    const size_t begin = static_cast<size_t>(i) * batch_size;
    const size_t count = std::min(batch_size, names.size() - begin);
    std::ranges::move(run_batch(folder, names.subspan(begin, count), backend),
                      results.begin() + static_cast<ptrdiff_t>(begin));
  });
  return results;
}

Result<std::vector<std::string>> judge(const std::string& folder, const std::string& list_path,
                                       const std::string& summary_path, std::string_view backend_name,
                                       const Backend& backend, ThreadPool& pool) {
  LOW_TRY(const AlignedBytes list, read_file(list_path));
  LOW_TRY(const std::vector<Expectation> expectations,
          parse_expectations({reinterpret_cast<const char*>(list.data()), list.size()}));
  LOW_TRY(const std::vector<std::string> names, case_names(folder));
  const std::vector<CaseResult> results = run_cases(folder, names, backend, pool);
  const std::string text = summary(backend_name, results);
  std::fputs(text.c_str(), stdout);
  LOW_TRY_VOID(write_file(summary_path, std::as_bytes(std::span(text))));
  return differences(results, expectations);
}

Result<std::vector<Expectation>> parse_expectations(std::string_view text) {
  std::vector<Expectation> expectations;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const size_t first = std::min(line.find(' '), line.size());
    const std::string_view rest = line.substr(std::min(first + 1, line.size()));
    const bool pass = rest == "pass";
    if (!pass && !rest.starts_with("refuse ")) {
      return fail(ErrorKind::invalid,
                  fmt::format("line {}: expected 'NAME pass' or 'NAME refuse REASON', found '{}'", line_number, line));
    }
    expectations.push_back({std::string(line.substr(0, first)), pass, std::string(pass ? "" : rest.substr(7))});
  }
  return expectations;
}

std::string expectations_text(std::span<const CaseResult> results) {
  std::string text =
      "# ONNX's node tests: what must pass, and what must be refused, with the message of the refusal.\n"
      "# Written by onnx_node_test --update from the cases of the onnx package; read the difference before you "
      "commit.\n";
  for (const CaseResult& result : results) {
    if (result.outcome == Outcome::passed) {
      text += result.name + " pass\n";
      continue;
    }
    std::string reason = result.message;
    std::ranges::replace(reason, '\n', ' ');
    text += fmt::format("{} refuse {}{}\n", result.name,
                        result.outcome == Outcome::refused ? "" : fmt::format("TO FIX, {}: ", name(result.outcome)),
                        reason);
  }
  return text;
}

std::vector<std::string> differences(std::span<const CaseResult> results, std::span<const Expectation> expectations) {
  std::map<std::string_view, const Expectation*> expected;
  for (const Expectation& expectation : expectations) expected[expectation.name] = &expectation;
  std::vector<std::string> texts;
  for (const CaseResult& result : results) {
    const auto found = expected.find(result.name);
    if (found == expected.end()) {
      texts.push_back(fmt::format("{} is not in the list ({})", result.name, name(result.outcome)));
      continue;
    }
    const bool pass = found->second->pass;
    expected.erase(found);
    if (result.outcome == (pass ? Outcome::passed : Outcome::refused)) continue;
    texts.push_back(fmt::format("{} should {}: {}{}{}", result.name, pass ? "pass" : "be refused", name(result.outcome),
                                result.message.empty() ? "" : ", ", result.message));
  }
  for (const auto& [case_name, expectation] : expected) {
    texts.push_back(fmt::format("{} is in the list but not among the cases", case_name));
  }
  return texts;
}

std::string summary(std::string_view backend, std::span<const CaseResult> results) {
  const auto count = [&](Outcome outcome) { return std::ranges::count(results, outcome, &CaseResult::outcome); };
  std::string text = fmt::format("ONNX node tests: {} passes {} of {}, refuses {}", backend, count(Outcome::passed),
                                 results.size(), count(Outcome::refused));
  for (const Outcome wrong : {Outcome::mismatch, Outcome::error}) {
    if (count(wrong) > 0) text += fmt::format(", {} {}", count(wrong), name(wrong));
  }
  text += '\n';

  std::map<std::string, std::map<std::string, int64_t>> reasons;
  std::map<std::string, int64_t> totals;
  for (const CaseResult& result : results) {
    if (result.outcome != Outcome::refused) continue;
    const Reason reason = reason_of(result.message);
    ++reasons[reason.group][reason.detail];
    ++totals[reason.group];
  }
  for (const auto& [group, total] : by_count(totals)) {
    text += fmt::format("  {} {}: ", total, group);
    constexpr size_t shown = 10;
    const std::vector<Count> details = by_count(reasons[group]);
    for (size_t i = 0; i < std::min(shown, details.size()); ++i) {
      text += fmt::format("{}{} {}", i > 0 ? ", " : "", details[i].first, details[i].second);
    }
    if (details.size() > shown) text += fmt::format(", and {} more", details.size() - shown);
    text += '\n';
  }
  return text;
}

}  // namespace low::node_tests
