// Source -> code objects, with clang and lld as programs.
#include <algorithm>
#include <cctype>
#include <optional>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/codegen/code_object.h"
#include "compiler/codegen/codegen.h"
#include "compiler/codegen/subprocess.h"
#include "compiler/codegen/targets.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

constexpr std::string_view linker = "ld.lld";

// Programs to try, in order.
std::vector<std::string> candidates(const ToolchainOptions& options, const CodeKind& kind) {
  if (!options.clang.empty()) return {options.clang};
  std::vector<std::string> programs(kind.compilers.begin(), kind.compilers.end());
  if (!kind.built_with.empty()) programs.insert(programs.begin(), std::string(kind.built_with));
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

// "/usr/lib/llvm-19/bin/ld.lld": the line that names clang's linker; without a folder where clang knows none.
std::string parse_linker(const std::string& output) {
  for (const auto line : std::views::split(output, '\n')) {
    const std::string_view text(line.begin(), line.end());
    if (text == linker || text.ends_with(fmt::format("/{}", linker))) return std::string(text);
  }
  return std::string(linker);
}

struct Compiler {
  const CodeKind* kind;  // that it is for
  std::string program;
  std::string version;
  std::string linker;  // program
};

Result<Compiler> find_compiler(const ToolchainOptions& options, const CodeKind& kind) {
  LOW_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const std::vector<std::string> programs = candidates(options, kind);
  for (const std::string& program : programs) {
    const std::string arguments[] = {program, "--no-default-config", "-v", fmt::format("-print-prog-name={}", linker)};
    LOW_TRY(const ProcessResult result, run_process(arguments, "", folder));
    if (!result.started || result.status != 0) continue;
    if (std::optional<std::string> version = parse_version(result.output))
      return Compiler{&kind, program, std::move(*version), parse_linker(result.output)};
  }
  return fail(ErrorKind::unsupported,
              fmt::format("compiling kernels needs clang 19 or newer, and {} {} not a program that runs and says "
                          "so; install {}, or name another with --clang",
                          fmt::join(programs, ", "), programs.size() == 1 ? "is" : "are", kind.packages));
}

// Of clang, up to the source.
std::vector<std::string> arguments_of(const Compiler& compiler, const CodegenTarget& target) {
  std::vector<std::string> arguments = {compiler.program, "--no-default-config"};
  arguments.insert(arguments.end(), target.kind->options.begin(), target.kind->options.end());
  arguments.insert(arguments.end(), target.options.begin(), target.options.end());
  arguments.push_back(fmt::format("-D{}", target.macro));
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
         diagnostic.find("unsupported option") != std::string::npos ||
         diagnostic.find("GPU arch") != std::string::npos || diagnostic.find("target ID") != std::string::npos;
}

// Runs clang or its linker for a file in `folder`, whose bytes it returns.
Result<std::string> run_tool(const Compiler& compiler, const CodegenTarget& target, std::vector<std::string> arguments,
                             const std::string& source, const std::string& file, const TemporaryFolder& folder) {
  const std::string output = folder.path() + "/" + file;
  arguments.insert(arguments.end(), {"-o", output});
  LOW_TRY(const ProcessResult result, run_process(arguments, source, folder));
  if (result.started && result.status == 0) return read_whole_file(output);
  const std::string& program = arguments.front();
  const std::string diagnostic = first_diagnostic(result.output);
  if (unknown_to_clang(diagnostic)) {
    return fail(ErrorKind::unsupported,
                fmt::format("{} ({}) cannot compile for target {}, which {} can: {}", program, compiler.version,
                            target.name, compiler.kind->packages, diagnostic));
  }
  if (!result.started)
    return fail(ErrorKind::unsupported,
                fmt::format("compiling kernels needs {}, which {} names, and it does not run; install {}", program,
                            compiler.program, compiler.kind->packages));
  // A complaint about the source is about what we emitted; the rest (no linker, no space, a signal) is about the
  // installation.
  const bool ours = diagnostic.find("<stdin>") != std::string::npos;
  return fail(ours ? ErrorKind::internal : ErrorKind::unsupported,
              fmt::format("{} ({}) refused the kernels for target {} with status {}: {}", program, compiler.version,
                          target.name, result.status, diagnostic));
}

// "kernels.o" in the folder, of the source: an object to link, or what clang itself links for the target's kind.
Result<std::string> compile_source(const Compiler& compiler, const CodegenTarget& target, const std::string& source,
                                   std::span<const std::string> macros, const TemporaryFolder& folder) {
  std::vector<std::string> arguments = arguments_of(compiler, target);
  for (const std::string& macro : macros) arguments.push_back("-D" + macro);
  arguments.insert(arguments.end(), {"-c", "-"});
  return run_tool(compiler, target, std::move(arguments), source, "kernels.o", folder);
}

// The code object of "kernels.o" and routines.
Result<CodeObject> link_kernels(const Compiler& compiler, const CodegenTarget& target, const CodeObject* routines,
                                const TemporaryFolder& folder) {
  std::vector<std::string> arguments = {compiler.linker};
  arguments.insert(arguments.end(), target.kind->link_options.begin(), target.kind->link_options.end());
  arguments.push_back(folder.path() + "/kernels.o");
  if (routines != nullptr) {
    const std::string file = folder.path() + "/routines.o";
    LOW_TRY_VOID(write_file(file, std::as_bytes(std::span(routines->bytes))));
    arguments.push_back(file);
  }
  CodeObject object{.target = std::string(target.name), .bytes = {}, .clang_version = compiler.version};
  LOW_TRY(object.bytes, run_tool(compiler, target, std::move(arguments), "",
                                 "kernels" + std::string(target.kind->object_suffix), folder));
  return object;
}

// What one run of clang makes: an object of its target, and of others that differ from it by routines.
struct Unit {
  const CodegenTarget* target;
  std::vector<const CodegenTarget*> variants;
};

class KernelCompiler {
 public:
  KernelCompiler(std::span<const CodeObject> routines, const std::string& source)
      : routines_(routines), source_(source) {}

  Result<void> find_compilers(std::span<const std::string> targets, const ToolchainOptions& options) {
    for (const std::string& name : targets) {
      const CodeKind* const kind = find_target(name)->kind;
      if (std::ranges::find(compilers_, kind, &Compiler::kind) != compilers_.end()) continue;
      LOW_TRY(compilers_.emplace_back(), find_compiler(options, *kind));
    }
    return {};
  }

  // Null when there are none of the compiler's version.
  const CodeObject* routines_for(const CodegenTarget& target) const {
    const auto found = std::ranges::find_if(routines_, [&](const CodeObject& object) {
      return object.target == target.name && object.clang_version == compiler_for(target).version;
    });
    return found == routines_.end() ? nullptr : &*found;
  }

  Result<std::vector<CodeObject>> compile(const Unit& unit) const {
    LOW_TRY(const TemporaryFolder folder, TemporaryFolder::create());
    const Compiler& compiler = compiler_for(*unit.target);
    const CodeObject* const own = routines_for(*unit.target);
    std::vector<std::string> macros;
    if (own != nullptr) macros.emplace_back("LOW_ROUTINE=extern template");
    if (!unit.target->base.empty()) macros.emplace_back(without_other_entries);
    LOW_TRY(std::string compiled, compile_source(compiler, *unit.target, source_, macros, folder));
    std::vector<CodeObject> objects;
    if (compiler.kind->link_options.empty()) {
      LOW_TRY(std::vector<KernelInfo> entries, entry_infos(std::as_bytes(std::span(compiled)), unit.target->name));
      objects.push_back({.target = std::string(unit.target->name),
                         .bytes = std::move(compiled),
                         .clang_version = compiler.version,
                         .entries = std::move(entries)});
      return objects;
    }
    LOW_TRY(objects.emplace_back(), link_kernels(compiler, *unit.target, own, folder));
    for (const CodegenTarget* variant : unit.variants) {
      LOW_TRY(objects.emplace_back(), link_kernels(compiler, *variant, routines_for(*variant), folder));
    }
    return objects;
  }

 private:
  const Compiler& compiler_for(const CodegenTarget& target) const {
    return *std::ranges::find(compilers_, target.kind, &Compiler::kind);
  }

  std::vector<Compiler> compilers_;
  std::span<const CodeObject> routines_;
  const std::string& source_;
};

}  // namespace

Result<std::string> toolchain_version(const ToolchainOptions& options, std::string_view target) {
  LOW_TRY(Compiler compiler, find_compiler(options, *find_target(target)->kind));
  return std::move(compiler.version);
}

Result<CodeObject> compile_routines(std::string_view target, const ToolchainOptions& options) {
  const CodegenTarget* const known = find_target(target);
  LOW_CHECK(known != nullptr);
  LOW_TRY(const Compiler compiler, find_compiler(options, *known->kind));
  LOW_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const std::string macros[] = {"LOW_ROUTINE=template"};
  CodeObject object{.target = std::string(target), .bytes = {}, .clang_version = compiler.version};
  LOW_TRY(object.bytes, compile_source(compiler, *known, emit_routines(target), macros, folder));
  return object;
}

Result<std::vector<CodeObject>> compile_kernels(const KernelSet& kernels, const std::string& source,
                                                std::span<const std::string> targets, const ToolchainOptions& options,
                                                ThreadPool& pool) {
  const auto with_dots =
      static_cast<size_t>(std::ranges::count_if(std::views::iota(size_t{0}, kernels.entries.size()),
                                                [&](size_t entry) { return gains_by_dots(kernels, entry); }));
  std::vector<uint64_t> scratch;
  for (const std::string& name : targets) {
    LOW_TRY(scratch.emplace_back(), scratch_bytes(kernels, name));
  }
  KernelCompiler kernel_compiler(options.routines, source);
  LOW_TRY_VOID(kernel_compiler.find_compilers(targets, options));
  std::vector<Unit> units;
  for (const std::string& name : targets) {
    const CodegenTarget* const target = find_target(name);
    if (target->base.empty()) units.push_back({target, {}});
  }
  for (const std::string& name : targets) {
    const CodegenTarget* const target = find_target(name);
    if (target->base.empty() || with_dots == 0) continue;
    const auto base = std::ranges::find_if(units, [&](const Unit& unit) { return unit.target->name == target->base; });
    const bool relinks = base != units.end() && kernel_compiler.routines_for(*target) != nullptr &&
                         kernel_compiler.routines_for(*base->target) != nullptr && dots_are_routines(kernels);
    if (relinks) {
      base->variants.push_back(target);
    } else {
      units.push_back({target, {}});
    }
  }
  std::vector<std::optional<Result<std::vector<CodeObject>>>> results(units.size());
  pool.parallel_for(static_cast<int64_t>(units.size()), [&](int64_t i) {
    results[static_cast<size_t>(i)] = kernel_compiler.compile(units[static_cast<size_t>(i)]);
  });
  std::vector<CodeObject> objects;
  for (size_t i = 0; i < units.size(); ++i) {
    LOW_TRY(std::vector<CodeObject> made, std::move(*results[i]));
    if (with_dots < kernels.entries.size()) made.front().base = units[i].target->base;
    std::ranges::move(made, std::back_inserter(objects));
  }
  std::ranges::sort(objects, {}, [&](const CodeObject& object) { return std::ranges::find(targets, object.target); });
  for (CodeObject& object : objects)
    object.scratch_bytes = scratch[static_cast<size_t>(std::ranges::find(targets, object.target) - targets.begin())];
  return objects;
}

}  // namespace low
