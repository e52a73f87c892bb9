// lowc: the command line. Options only; the work is in the other files.

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>

#include "compiler/lowc/support.h"
#include "runtime/base/error.h"

namespace {

using namespace low::lowc;

int usage(const std::string& message) { return report({low::ErrorKind::usage, message + "; see lowc --help"}); }

// A file that lowc opens must not become its standard output because that was closed. Writing to what is opened here
// fails, as it does on a closed stream.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) static_cast<void>(open("/dev/null", O_RDONLY));
  }
}

// The code, or that of a failure to write what was printed.
int close_stdout(int code) {
  const bool failed_before = std::ferror(stdout) != 0;
  const bool flushed = std::fflush(stdout) == 0;
  const std::string reason = flushed ? "" : std::string(": ") + std::strerror(errno);
  if ((flushed && !failed_before) || code != 0) return code;
  return report({low::ErrorKind::invalid, "standard output: cannot write all of the data" + reason});
}

template <typename T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Checks for CLI11: what is wrong, or nothing. Its own let NaN through, and take -1 for the largest number.
std::string tolerance(const std::string& text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) && *value >= 0 ? "" : "\"" + text + "\" is not a finite number of 0 or more";
}
std::string whole_number(const std::string& text) {
  return parse_number<uint64_t>(text) ? "" : "\"" + text + "\" is not a whole number of 0 or more";
}

// `threads` counts for running and compiling alike.
void add_model_options(CLI::App& app, ModelOptions& options, const std::string& what) {
  app.add_option("model", options.model, what)->required();
  app.add_option("--dim", options.dimensions, "bind a symbolic dimension: name=N (tensors given with --input do, too)")
      ->take_all();
  app.add_option("--shape", options.shapes, "shape of an input with symbolic or unknown dimensions: name=2,3")
      ->take_all();
  app.add_option("--target", options.targets, "kind of code: host, host-x86-64-v3, host-x86-64-v4, …")->take_all();
  app.add_option("--machine", options.machine, "machine to plan for (default: what the target implies)");
  app.add_option("--tiles", options.tiles, "logical tiles of the host")->check(CLI::Range(1u, 65536u));
  app.add_option("--plan", options.plan_files, "replay this plan instead of searching; several: the best of them")
      ->take_all();
  app.add_option("--attention", options.attention, "the only algorithm for attention: flash or materialized")
      ->check(CLI::IsMember({"flash", "materialized"}));
  app.add_option("--finalists", options.finalists, "plans that are expanded in full")->check(CLI::Range(1, 64));
  app.add_option("--threads", options.threads, "worker threads (0: one for each core); changes no result")
      ->check(CLI::Range(0, 1024));
  app.add_option("--clang", options.clang, "clang program that compiles kernels");
  app.add_flag("-v,--verbose", options.verbose, "log the time of each stage to standard error");
}

void add_input_options(CLI::App& app, InputOptions& options) {
  app.add_option("--input", options.inputs,
                 "name=file (.npy, .npz, .pb, .bin); says the model's open dimensions, replaces a default value")
      ->take_all();
  app.add_flag("--random", options.random, "random data for inputs that are not given");
  app.add_option("--seed", options.seed, "of the random data")->check(whole_number);
}

// `code` becomes the exit code when the command has run.
void add_compile(CLI::App& app, CompileCommand& compile, int& code) {
  CLI::App* compile_app = app.add_subcommand("compile", "compile a model into a package");
  add_model_options(*compile_app, compile.model, "ONNX model");
  auto* output = compile_app->add_option("-o,--output", compile.output, "package to write (.low)");
  auto* print =
      compile_app->add_option("--print", compile.print,
                              "print a stage: import, graph, plan, finalists (all plans), tiles, cost, placement, "
                              "schedule, source, program");
  auto* explain = compile_app->add_flag("--explain", compile.explain, "print the finalists side by side");
  auto* compile_json = compile_app->add_flag("--json", compile.json, "report as JSON");
  compile_app->add_flag("--keep-repeats", compile.keep_repeats,
                        "keep repeats of one iteration, which are replaced by their bodies otherwise");
  auto* benchmark = compile_app->add_flag("--benchmark-search", compile.benchmark_search,
                                          "time the search for the machine, or for each machine where none is named");
  auto* runs = compile_app->add_option("--runs", compile.runs, "timed runs of a benchmark, after one that warms up")
                   ->check(CLI::Range(1, 1000));
  compile_app
      ->add_flag("--exhaustive", compile.exhaustive, "compare the search with the best of all plans (small models)")
      ->needs(benchmark);
  auto* expansion = compile_app->add_flag("--benchmark-expansion", compile.benchmark_expansion,
                                          "time the expansion of the finalists, through its caches");
  auto* uncached = compile_app->add_flag("--benchmark-expansion-uncached", compile.benchmark_expansion_uncached,
                                         "the same without caches; with both flags, the two take turns");
  // One text on stdout.
  print->excludes(explain)->excludes(compile_json);
  explain->excludes(compile_json);
  for (CLI::Option* mode : {benchmark, expansion, uncached})
    for (CLI::Option* other : {print, explain, output}) mode->excludes(other);
  benchmark->excludes(expansion)->excludes(uncached);
  compile_app->callback([&compile, &code, runs, benchmark, expansion, uncached] {
    if (runs->count() > 0 && benchmark->count() + expansion->count() + uncached->count() == 0)
      throw CLI::RequiresError("--runs", "a benchmark");
    set_verbosity(compile.model.verbose);
    code = compile_command(compile);
  });
}

void add_run(CLI::App& app, RunCommand& run, int& code) {
  CLI::App* run_app = app.add_subcommand("run", "run a package or a model");
  add_model_options(*run_app, run.model, "package or ONNX model");
  add_input_options(*run_app, run.inputs);
  run_app->add_option("--device", run.device, "device to run on");
  run_app->add_option("--output", run.outputs, "name=file (.npy, .npz, .pb, .bin)")->take_all();
  run_app->add_option("--output-dir", run.output_dir, "write every output as .npy into this folder");
  run_app->add_flag("--json", run.json, "report as JSON");
  run_app->callback([&] {
    set_verbosity(run.model.verbose);
    code = run_command(run);
  });
}

void add_verify(CLI::App& app, VerifyCommand& verify, int& code) {
  CLI::App* verify_app =
      app.add_subcommand("verify", "compare a device's or the interpreter's results with the reference");
  add_model_options(*verify_app, verify.model, "ONNX model");
  add_input_options(*verify_app, verify.inputs);
  verify_app->add_option("--device", verify.device, "device to run on");
  verify_app->add_option("--package", verify.package, "judge this package instead of compiling the model");
  verify_app->add_flag("--interpret", verify.interpret, "judge the placed and scheduled program in the interpreter");
  const std::string by_default = " (default: from what the model computes with)";
  verify_app->add_option("--atol", verify.absolute, "absolute tolerance of an element" + by_default)->check(tolerance);
  verify_app->add_option("--rtol", verify.relative, "relative tolerance of an element" + by_default)->check(tolerance);
  verify_app->add_option("--rms", verify.rms, "bound on the RMS of the error over the reference's" + by_default)
      ->check(tolerance);
  verify_app->add_flag("--json", verify.json, "report as JSON");
  verify_app->callback([&] {
    set_verbosity(verify.model.verbose);
    code = verify_command(verify);
  });
}

void add_bench(CLI::App& app, BenchCommand& bench, int& code) {
  CLI::App* bench_app = app.add_subcommand("bench", "time runs of a package or a model");
  add_model_options(*bench_app, bench.model, "package or ONNX model");
  add_input_options(*bench_app, bench.inputs);
  bench_app->add_option("--device", bench.device, "device to run on");
  bench_app->add_option("--runs", bench.runs, "timed runs, after one that warms up")->check(CLI::Range(1, 100000));
  bench_app->add_flag("--json", bench.json, "report as JSON");
  bench_app->callback([&] {
    set_verbosity(bench.model.verbose);
    code = bench_command(bench);
  });
}

void add_inspect(CLI::App& app, InspectCommand& inspect, int& code) {
  CLI::App* inspect_app = app.add_subcommand("inspect", "show what a package holds");
  inspect_app->add_option("package", inspect.package, "package (.low)")->required();
  inspect_app->add_option("--extract", inspect.extract, "write one entry to standard output");
  inspect_app->add_flag("--json", inspect.json, "report as JSON");
  inspect_app->callback([&] { code = inspect_command(inspect); });
}

void add_workload(CLI::App& app, WorkloadCommand& workload, int& code) {
  CLI::App* workload_app = app.add_subcommand("workload", "write a canonical model");
  workload_app->add_option("name", workload.name, "workload");
  workload_app->add_option("-o,--output", workload.output, "ONNX file to write");
  auto* repeat =
      workload_app->add_option("--repeat", workload.repeat, "number of blocks, as a Scan")->check(CLI::Range(0, 1024));
  workload_app->add_option("--unrolled", workload.unrolled, "number of blocks, written out")
      ->check(CLI::Range(1, 1024))
      ->excludes(repeat);
  workload_app->add_flag("--list", workload.list, "list the names");
  workload_app->callback([&] { code = workload_command(workload); });
}

int run(int argc, char** argv) {
  CLI::App app("low: compiles ONNX models to tile programs and runs them", "lowc");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "print the version of lowc, and of the clang that compiles kernels");
  int code = 0;

  CompileCommand compile;
  add_compile(app, compile, code);
  RunCommand run_options;
  add_run(app, run_options, code);
  VerifyCommand verify;
  add_verify(app, verify, code);
  BenchCommand bench;
  add_bench(app, bench, code);
  InspectCommand inspect;
  add_inspect(app, inspect, code);
  WorkloadCommand workload;
  add_workload(app, workload, code);
  bool devices_json = false, machines_json = false;
  CLI::App* devices_app = app.add_subcommand("devices", "list devices");
  devices_app->add_flag("--json", devices_json, "report as JSON");
  devices_app->callback([&] { code = devices_command(devices_json); });
  CLI::App* machines_app = app.add_subcommand("machines", "list machines that can be planned for");
  machines_app->add_flag("--json", machines_json, "report as JSON");
  machines_app->callback([&] { code = machines_command(machines_json); });

  if (argc > 1 && argv[1][0] != '-') {
    const std::vector<CLI::App*> commands = app.get_subcommands(nullptr);
    const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (std::ranges::none_of(commands, is_named)) return usage(std::string("there is no command \"") + argv[1] + "\"");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return usage(error.what());
    app.exit(error);  // --help, --version
  }
  return code;
}

// Finalists are expanded one after the other, each into tens of megabytes: what one gives back the next one gets,
// without going by way of the system, which hands out pages one by one and zeroed. Both are glibc's names; the largest
// block that it keeps is of 32 MiB.
void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  open_standard_streams();
  try {
    return close_stdout(run(argc, argv));
  } catch (const std::bad_alloc&) {
    return report({low::ErrorKind::unsupported, "there is not enough memory for this"});
  } catch (const std::length_error&) {
    return report({low::ErrorKind::unsupported, "there is not enough memory for this"});
  } catch (const std::exception& error) {
    return report({low::ErrorKind::internal, std::string("internal error: ") + error.what()});
  }
}
