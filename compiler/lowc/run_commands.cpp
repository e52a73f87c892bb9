#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <set>

#include "compiler/graph/passes/passes.h"
#include "compiler/interpret/interpret.h"
#include "compiler/lowc/json.h"
#include "compiler/lowc/support.h"
#include "compiler/lowc/text.h"
#include "reference/reference.h"
#include "reference/tolerance.h"
#include "runtime/backends.h"
#include "runtime/tensor/tensor_file.h"

namespace low::lowc {
namespace {

// An output that no kernel wrote reads as this byte: a NaN in every float format but the FNUZ ones, where it is a large
// number.
constexpr std::byte poison{0xff};

struct Loaded {
  std::unique_ptr<Device> device;  // outlives the program
  std::shared_ptr<const LoadedProgram> program;
};

Result<Loaded> load(const ModelOptions& model, const InputOptions& inputs, const std::string& device,
                    ThreadPool& pool) {
  Loaded loaded;
  LOW_TRY(loaded.device, open_device(device, {.threads = model.threads}));
  LOW_TRY(std::shared_ptr<const Package> package, package_of(model, inputs, pool));
  LOW_TRY(loaded.program, LoadedProgram::load(*loaded.device, std::move(package)));
  return loaded;
}

// A file name for an output: letters, digits, '.', '-' and '_' stay.
std::string file_name(const std::string& name) {
  std::string result = name.empty() ? "output" : name;
  for (char& c : result)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-' && c != '_') c = '_';
  return result;
}

Result<void> write_outputs(const RunCommand& command, const std::vector<Binding>& bindings,
                           const std::vector<Tensor>& outputs) {
  for (const std::string& text : command.outputs) {
    LOW_TRY(const auto pair, split_pair(text, "--output"));
    const auto at = std::ranges::find(bindings, pair.first, &Binding::name);
    if (at == bindings.end()) {
      std::vector<std::string> names;
      for (const Binding& binding : bindings) names.push_back(binding.name);
      return fail(ErrorKind::usage, fmt::format("--output: there is no output \"{}\"; the outputs are: {}", pair.first,
                                                fmt::join(names, ", ")));
    }
    LOW_TRY_VOID(write_tensor(pair.second, pair.first, outputs[static_cast<size_t>(at - bindings.begin())]));
  }
  if (command.output_dir.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(command.output_dir, error);
  if (error) return fail(ErrorKind::usage, fmt::format("--output-dir {}: {}", command.output_dir, error.message()));
  std::set<std::string> used;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = file_name(bindings[i].name);
    while (!used.insert(name).second) name += "_";
    LOW_TRY_VOID(write_tensor((std::filesystem::path(command.output_dir) / (name + ".npy")).string(), bindings[i].name,
                              outputs[i]));
  }
  return {};
}

Result<void> run(const RunCommand& command) {
  ThreadPool pool(command.model.threads);
  LOW_TRY(const Loaded loaded, load(command.model, command.inputs, command.device, pool));
  const Program& program = loaded.program->program();
  LOW_TRY(const std::vector<Tensor> inputs, bind_inputs(input_slots(program), command.inputs));
  LOW_TRY(Session session, Session::create(loaded.program));
  LOW_TRY_VOID(session.poison(poison));
  LOW_TRY(const std::vector<Tensor> outputs, session.run(inputs));
  LOW_TRY_VOID(write_outputs(command, program.outputs, outputs));
  if (command.json) {
    JsonWriter json;
    json.begin_object()
        .member("version", 1)
        .member("device", command.device)
        .member("target", loaded.program->target());
    json.key("outputs").begin_array();
    for (size_t i = 0; i < outputs.size(); ++i)
      json.begin_object()
          .member("name", program.outputs[i].name)
          .member("type", to_string(Type{outputs[i].dtype(), outputs[i].shape()}))
          .end_object();
    write_stdout(json.end_array().end_object().text());
  } else if (command.outputs.empty() && command.output_dir.empty()) {
    for (size_t i = 0; i < outputs.size(); ++i) write_stdout(summary(program.outputs[i].name, outputs[i]) + "\n");
  }
  return {};
}

struct Judged {
  std::vector<Tensor> outputs;
  std::vector<std::string> names;
  std::string where;
};

Result<Judged> run_on_device(const VerifyCommand& command, const LoadedModel& model, std::span<const Tensor> inputs,
                             ThreadPool& pool) {
  ModelOptions options = command.model;
  if (!command.package.empty()) {
    if (!is_package(command.package))
      return fail(ErrorKind::usage, fmt::format("--package: {} is not a .low file", command.package));
    options.model = command.package;
    // These say what the model is.
    options.dimensions.clear();
    options.shapes.clear();
  }
  LOW_TRY(const Loaded loaded, load(options, command.inputs, command.device, pool));
  const Program& program = loaded.program->program();
  // A package of another model is a mismatch, not a wrong command line.
  if (input_slots(program) != input_slots(model.graph) || output_slots(program) != output_slots(model.graph))
    return fail(ErrorKind::mismatch,
                fmt::format("{}: its inputs and outputs are not those of {}", options.model, command.model.model));
  LOW_TRY(Session session, Session::create(loaded.program));
  LOW_TRY_VOID(session.poison(poison));
  Judged judged;
  LOW_TRY(judged.outputs, session.run(inputs));
  for (const Binding& binding : program.outputs) judged.names.push_back(binding.name);
  judged.where = fmt::format("{} ({})", command.device, loaded.program->target());
  return judged;
}

Result<Judged> run_interpreted(const VerifyCommand& command, const LoadedModel& model, std::span<const Tensor> inputs,
                               ThreadPool& pool) {
  LOW_TRY(const CompileOptions options, compile_options(command.model));
  LOW_TRY(const Machine machine, select_machine(options));
  StageTimer stages(options);
  stages.begin("passes");
  LOW_TRY(const Graph graph, graph_for(machine, model.graph, options.passes));
  stages.end();
  auto planned = plan_program(graph, machine, options, pool);
  if (!planned) return in_context(command.model.model, planned.error());
  Judged judged;
  LOW_TRY(judged.outputs, interpret(planned->graph, planned->placement, planned->schedule, inputs));
  for (const InterfaceTensor& output : planned->graph.outputs()) judged.names.push_back(output.name);
  judged.where = fmt::format("the interpreter, placed and scheduled for {}", machine.name);
  return judged;
}

reference::Tolerance tolerance_for(const VerifyCommand& command, const reference::ErrorBound& bound,
                                   const Tensor& expected) {
  reference::Tolerance tolerance = reference::tolerance_of(bound, expected);
  tolerance.absolute = command.absolute.value_or(tolerance.absolute);
  tolerance.relative = command.relative.value_or(tolerance.relative);
  tolerance.rms = command.rms.value_or(tolerance.rms);
  return tolerance;
}

// Where the tolerances come from.
std::string tolerance_reason(const VerifyCommand& command, const reference::ErrorBound& bound) {
  std::vector<std::string_view> given;
  if (command.absolute) given.emplace_back("--atol");
  if (command.relative) given.emplace_back("--rtol");
  if (command.rms) given.emplace_back("--rms");
  if (given.empty()) return reference::reason(bound);
  const std::string options = fmt::format("as given with {}", fmt::join(given, ", "));
  return given.size() == 3 ? options : fmt::format("{}; {}", reference::reason(bound), options);
}

void write_json(const std::string& name, const reference::Comparison& comparison, const std::string& reason,
                JsonWriter& json) {
  json.begin_object().member("name", name).member("passed", comparison.passed());
  json.member("elements", comparison.elements).member("mismatches", comparison.mismatches);
  json.member("nonfinite_mismatches", comparison.nonfinite_mismatches);
  if (comparison.nonfinite_mismatches > 0) {
    // As text: JSON has no numbers for them.
    json.key("first_nonfinite").begin_object().member("index", comparison.nonfinite_index);
    json.member("actual", fmt::format("{}", comparison.nonfinite_actual));
    json.member("expected", fmt::format("{}", comparison.nonfinite_expected)).end_object();
  }
  json.member("max_absolute_error", comparison.max_absolute_error);
  json.member("max_relative_error", comparison.max_relative_error).member("max_share", comparison.max_share);
  json.member("rms_error", comparison.rms_error);
  json.member("rms_reference", comparison.rms_reference).member("rms_ratio", comparison.rms_ratio());
  json.key("tolerance").begin_object().member("absolute", comparison.tolerance.absolute);
  json.member("relative", comparison.tolerance.relative).member("rms", comparison.tolerance.rms);
  json.member("reason", reason).end_object().end_object();
}

Result<void> verify(const VerifyCommand& command) {
  if (is_package(command.model.model))
    return fail(ErrorKind::usage, "verify takes the model to judge by; a package is given with --package");
  if (command.interpret && !command.package.empty())
    return fail(ErrorKind::usage, "--interpret and --package exclude each other");
  ThreadPool pool(command.model.threads);
  LOW_TRY(const LoadedModel model, load_model(command.model, pool, command.inputs, !command.package.empty()));
  InputOptions inputs_options = command.inputs;
  inputs_options.random = true;  // whatever is not given
  LOW_TRY(const std::vector<Tensor> inputs, bind_inputs(input_slots(model.graph), inputs_options));
  LOW_TRY(const Judged judged, command.interpret ? run_interpreted(command, model, inputs, pool)
                                                 : run_on_device(command, model, inputs, pool));
  LOW_TRY(const std::vector<Tensor> expected, reference::run(model.graph, inputs, &pool));
  const std::vector<reference::ErrorBound> bounds = reference::error_bounds(model.graph);
  std::vector<std::string> failed;
  JsonWriter json;
  json.begin_object().member("version", 1).member("where", judged.where).key("outputs").begin_array();
  for (size_t i = 0; i < expected.size(); ++i) {
    const reference::Tolerance tolerance = tolerance_for(command, bounds[i], expected[i]);
    const std::string reason = tolerance_reason(command, bounds[i]);
    LOW_TRY(const reference::Comparison comparison, reference::compare(judged.outputs[i], expected[i], tolerance));
    if (!comparison.passed()) failed.push_back(one_line(judged.names[i]));
    if (command.json) {
      write_json(judged.names[i], comparison, reason, json);
    } else {
      write_stdout(fmt::format("output {} on {}:\n{}\ntolerances: {}: {}\n", one_line(judged.names[i]), judged.where,
                               reference::to_string(comparison), reference::to_string(tolerance), reason));
    }
  }
  if (command.json) write_stdout(json.end_array().member("passed", failed.empty()).end_object().text());
  if (!failed.empty())
    return fail(ErrorKind::mismatch,
                fmt::format("{}: output {} does not agree with the reference within its tolerances",
                            command.package.empty() ? command.model.model : command.package, fmt::join(failed, ", ")));
  return {};
}

Result<void> bench(const BenchCommand& command) {
  ThreadPool pool(command.model.threads);
  LOW_TRY(const Loaded loaded, load(command.model, command.inputs, command.device, pool));
  const Program& program = loaded.program->program();
  InputOptions inputs_options = command.inputs;
  inputs_options.random = true;
  LOW_TRY(const std::vector<Tensor> inputs, bind_inputs(input_slots(program), inputs_options));
  LOW_TRY(Session session, Session::create(loaded.program));
  std::vector<double> milliseconds;
  for (int i = 0; i < command.runs + 1; ++i) {
    LOW_TRY_VOID(session.bind(inputs));  // a run may reuse its inputs' storage
    const auto begin = std::chrono::steady_clock::now();
    LOW_TRY_VOID(session.launch());
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) milliseconds.push_back(time.count());  // the first one warms up
  }
  std::vector<double> sorted = milliseconds;
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  const double gflops = program.flop / (median * 1e6);
  if (command.json) {
    JsonWriter json;
    json.begin_object().member("version", 1).member("model", command.model.model).member("device", command.device);
    json.member("description", loaded.device->info().description)
        .member("target", loaded.program->target())
        .key("milliseconds")
        .begin_array();
    for (const double time : milliseconds) json.value(time);
    json.end_array().member("median_milliseconds", median).member("gflop", program.flop / 1e9).member("gflops", gflops);
    write_stdout(json.end_object().text());
  } else {
    write_stdout(
        fmt::format("{} on {} ({}): {} runs, median {:.3f} ms, minimum {:.3f} ms, maximum {:.3f} ms; {:.1f} GFLOP/s\n",
                    command.model.model, command.device, loaded.device->info().description, milliseconds.size(), median,
                    sorted.front(), sorted.back(), gflops));
  }
  return {};
}

}  // namespace

int run_command(const RunCommand& command) { return exit_code(run(command)); }
int verify_command(const VerifyCommand& command) { return exit_code(verify(command)); }
int bench_command(const BenchCommand& command) { return exit_code(bench(command)); }

}  // namespace low::lowc
