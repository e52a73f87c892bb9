// The subcommands of lowc. Each takes its command line as a plain struct and returns an exit code (an ErrorKind's
// value, or 0); data goes to stdout, messages to stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace low::lowc {

// What says how a model is compiled: shared by all commands that take a model.
struct ModelOptions {
  std::string model;                    // .onnx, or .low where a package will do
  std::vector<std::string> dimensions;  // name=N
  std::vector<std::string> shapes;      // name=a,b,c
  std::vector<std::string> targets;
  std::string machine;
  std::optional<uint32_t> tiles;
  std::vector<std::string> plan_files;
  std::string attention;  // flash, materialized; empty: whichever is faster
  int finalists = 4;
  int threads = 0;  // 0: one for each core
  std::string clang;
  int verbose = 0;
};

struct InputOptions {
  std::vector<std::string> inputs;  // name=file
  bool random = false;
  uint64_t seed = 1;
};

struct CompileCommand {
  ModelOptions model;
  std::string output;  // empty: none is written
  std::string print;   // a stage's name
  bool explain = false;
  bool json = false;
  bool keep_repeats = false;  // of one iteration
  bool benchmark_expansion = false, benchmark_expansion_uncached = false;
  bool benchmark_search = false;
  int runs = 5;             // of the search, to time it
  bool exhaustive = false;  // compare with the best of all plans
};
int compile_command(const CompileCommand& command);

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string device = "host";
  std::vector<std::string> outputs;  // name=file
  std::string output_dir;
  bool json = false;
};
int run_command(const RunCommand& command);

struct VerifyCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string device = "host";
  std::string package;  // judged instead of compiling
  bool interpret = false;
  std::optional<double> absolute, relative, rms;  // without one: from what the model computes with
  bool json = false;
};
int verify_command(const VerifyCommand& command);

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string device = "host";
  int runs = 10;
  bool json = false;
};
int bench_command(const BenchCommand& command);

struct InspectCommand {
  std::string package;
  std::string extract;  // an entry to write to stdout
  bool json = false;
};
int inspect_command(const InspectCommand& command);

struct WorkloadCommand {
  std::string name;
  std::string output;
  std::optional<int> repeat, unrolled;
  bool list = false;
};
int workload_command(const WorkloadCommand& command);

std::string version_text();  // two lines: lowc's version, and that of the clang that compiles kernels
int devices_command(bool json);
int machines_command(bool json);

}  // namespace low::lowc
