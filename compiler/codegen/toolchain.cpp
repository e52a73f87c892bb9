// Source -> code objects, with clang and lld as programs.
#include <algorithm>
#include <cctype>
#include <optional>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/subprocess.h"
#include "compiler/codegen/targets.h"

namespace low {
namespace {

// Programs to try, in order.
std::vector<std::string> candidates(const ToolchainOptions& options) {
  if (!options.clang.empty()) return {options.clang};
  std::vector<std::string> programs = {"clang++-19", "clang++"};
  const std::string built_with = LOW_CLANG;
  if (!built_with.empty()) programs.insert(programs.begin(), built_with);
  return programs;
}

// "clang version 19.1.7" out of "Debian clang version 19.1.7 (3~deb12u1)"; nothing when it is no clang.
std::optional<std::string> parse_version(const std::string& output) {
  constexpr std::string_view key = "clang version ";
  const size_t begin = output.find(key);
  if (begin == std::string::npos) return std::nullopt;
  size_t end = begin + key.size();
  while (end < output.size() && std::isspace(static_cast<unsigned char>(output[end])) == 0) ++end;
  return output.substr(begin, end - begin);
}

struct Compiler {
  std::string program;
  std::string version;
};

Result<Compiler> find_compiler(const ToolchainOptions& options) {
  LOW_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const std::vector<std::string> programs = candidates(options);
  for (const std::string& program : programs) {
    const std::string arguments[] = {program, "--version"};
    LOW_TRY(const ProcessResult result, run_process(arguments, "", folder));
    if (!result.started || result.status != 0) continue;
    if (std::optional<std::string> version = parse_version(result.output))
      return Compiler{program, std::move(*version)};
  }
  return fail(ErrorKind::unsupported,
              fmt::format("compiling kernels needs clang 19 or newer, and {} {} not a program that runs and says "
                          "so; install clang-19 and lld-19, or name another with --clang",
                          fmt::join(programs, ", "), programs.size() == 1 ? "is" : "are"));
}

std::vector<std::string> arguments_of(const std::string& program, const CodegenTarget& target,
                                      const std::string& output) {
  std::vector<std::string> arguments = {program, "--no-default-config"};
  arguments.insert(arguments.end(), target.kind->options.begin(), target.kind->options.end());
  arguments.insert(arguments.end(), target.options.begin(), target.options.end());
  arguments.push_back(fmt::format("-D{}", target.macro));
  if (!target.base.empty()) arguments.push_back(fmt::format("-D{}", without_other_entries));
  arguments.insert(arguments.end(), {"-", "-o", output});
  return arguments;
}

// The line that says what went wrong: the first with "error:", else the first.
std::string first_diagnostic(const std::string& output) {
  const auto line_at = [&](size_t position) {
    const size_t begin = output.rfind('\n', position) + 1;  // npos + 1 is 0
    return output.substr(begin, output.find('\n', position) - begin);
  };
  const size_t error = output.find("error:");
  if (error != std::string::npos) return line_at(error);
  return output.empty() ? "no diagnostic" : output.substr(0, output.find('\n'));
}

// Whether clang says that it does not know the target, rather than that the source is wrong.
bool unknown_to_clang(const std::string& diagnostic) {
  return diagnostic.find("unknown target") != std::string::npos ||
         diagnostic.find("unsupported argument") != std::string::npos ||
         diagnostic.find("unable to create target") != std::string::npos ||
         diagnostic.find("unsupported option") != std::string::npos;
}

Result<CodeObject> compile(const Compiler& compiler, const CodegenTarget& target, const std::string& source) {
  LOW_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const std::string output = folder.path() + "/kernels" + std::string(target.kind->object_suffix);
  LOW_TRY(const ProcessResult result, run_process(arguments_of(compiler.program, target, output), source, folder));
  if (!result.started || result.status != 0) {
    const std::string diagnostic = first_diagnostic(result.output);
    if (unknown_to_clang(diagnostic)) {
      return fail(ErrorKind::unsupported, fmt::format("{} ({}) cannot compile for target {}: {}", compiler.program,
                                                      compiler.version, target.name, diagnostic));
    }
    // A complaint about the source is about what we emitted; the rest (no linker, no space, a signal) is about the
    // installation.
    const bool ours = result.started && diagnostic.find("<stdin>") != std::string::npos;
    return fail(ours ? ErrorKind::internal : ErrorKind::unsupported,
                fmt::format("{} ({}) refused the kernels for target {} with status {}: {}", compiler.program,
                            compiler.version, target.name, result.status, diagnostic));
  }
  CodeObject object;
  object.target = target.name;
  LOW_TRY(object.bytes, read_whole_file(output));
  return object;
}

}  // namespace

Result<std::string> toolchain_version(const ToolchainOptions& options) {
  LOW_TRY(Compiler compiler, find_compiler(options));
  return std::move(compiler.version);
}

Result<std::vector<CodeObject>> compile_kernels(const KernelSet& kernels, const std::string& source,
                                                std::span<const std::string> targets, const ToolchainOptions& options,
                                                ThreadPool& pool) {
  const auto paired = static_cast<size_t>(std::ranges::count_if(
      std::views::iota(size_t{0}, kernels.entries.size()), [&](size_t entry) { return has_pairs(kernels, entry); }));
  struct Job {
    const CodegenTarget* target;
    uint64_t scratch_bytes;
  };
  std::vector<Job> jobs;
  for (const std::string& name : targets) {
    LOW_TRY(const uint64_t bytes, scratch_bytes(kernels, name));
    const CodegenTarget* const target = find_target(name);
    if (target->base.empty() || paired > 0) jobs.push_back({target, bytes});
  }
  LOW_TRY(const Compiler compiler, find_compiler(options));
  std::vector<std::optional<Result<CodeObject>>> results(jobs.size());
  pool.parallel_for(static_cast<int64_t>(jobs.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    results[index] = compile(compiler, *jobs[index].target, source);
  });
  std::vector<CodeObject> objects;
  for (size_t i = 0; i < jobs.size(); ++i) {
    LOW_TRY(CodeObject object, std::move(*results[i]));
    object.scratch_bytes = jobs[i].scratch_bytes;
    object.clang_version = compiler.version;
    if (paired < kernels.entries.size()) object.base = jobs[i].target->base;
    objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace low
