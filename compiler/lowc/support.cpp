#include "compiler/lowc/support.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "compiler/lowc/text.h"
#include "runtime/base/sha256.h"
#include "runtime/base/within_memory.h"
#include "runtime/tensor/random_tensor.h"
#include "runtime/tensor/tensor_file.h"

namespace low::lowc {
namespace {

Result<int64_t> parse_extent(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return fail(ErrorKind::usage, fmt::format("{}: \"{}\" is not a number of 0 or more", what, text));
  return value;
}

std::vector<Slot> slots_of(const std::vector<Binding>& bindings) {
  std::vector<Slot> slots;
  for (const Binding& binding : bindings) slots.push_back({binding.name, binding.dtype, binding.shape});
  return slots;
}

// What says how to compile means nothing for a package: silence would let a user believe that it did something.
Result<void> check_package_options(const ModelOptions& options) {
  const std::pair<std::string_view, bool> given[] = {
      {"--dim", !options.dimensions.empty()}, {"--shape", !options.shapes.empty()},
      {"--target", !options.targets.empty()}, {"--machine", !options.machine.empty()},
      {"--tiles", options.tiles.has_value()}, {"--plan", !options.plan_files.empty()},
      {"--clang", !options.clang.empty()},    {"--attention", !options.attention.empty()},
  };
  for (const auto& [option, is_given] : given)
    if (is_given)
      return fail(ErrorKind::usage,
                  fmt::format("{}: {} is for models; a package is compiled already", options.model, option));
  return {};
}

// By input.
Result<std::map<std::string, std::string>> input_files(const InputOptions& options) {
  std::map<std::string, std::string> files;
  for (const std::string& text : options.inputs) {
    LOW_TRY(const auto pair, split_pair(text, "--input"));
    if (!files.insert(pair).second)
      return fail(ErrorKind::usage, fmt::format("--input: \"{}\" is given twice", pair.first));
  }
  return files;
}

}  // namespace

int report(const Error& error) {
  const std::string line = "lowc: " + one_line(error.message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return static_cast<int>(error.kind);
}

int exit_code(const Result<void>& result) { return result ? 0 : report(result.error()); }

void write_stdout(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Result<std::pair<std::string, std::string>> split_pair(const std::string& text, std::string_view what) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    return fail(ErrorKind::usage, fmt::format("{}: expected name=value, not \"{}\"", what, text));
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Result<CompileOptions> compile_options(const ModelOptions& options) {
  CompileOptions result;
  for (const std::string& text : options.dimensions) {
    LOW_TRY(const auto pair, split_pair(text, "--dim"));
    LOW_TRY(const int64_t extent, parse_extent(pair.second, "--dim " + pair.first));
    const auto [place, is_new] = result.frontend.dimensions.try_emplace(pair.first, extent);
    if (!is_new && place->second != extent)
      return fail(ErrorKind::usage,
                  fmt::format("--dim: \"{}\" is given as {} and as {}", pair.first, place->second, extent));
  }
  for (const std::string& text : options.shapes) {
    LOW_TRY(const auto pair, split_pair(text, "--shape"));
    Shape shape;
    std::string_view rest = pair.second;
    for (bool more = !rest.empty(); more;) {  // nothing at all is a scalar's shape
      const size_t comma = rest.find(',');
      LOW_TRY(const int64_t extent, parse_extent(rest.substr(0, comma), "--shape " + pair.first));
      if (shape.rank() == max_rank)
        return fail(ErrorKind::usage, fmt::format("--shape {}: more than {} dimensions", pair.first, max_rank));
      shape.append(extent);
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
    const auto [place, is_new] = result.frontend.shapes.try_emplace(pair.first, shape);
    if (!is_new && place->second != shape)
      return fail(ErrorKind::usage, fmt::format("--shape: \"{}\" is given as {} and as {}", pair.first,
                                                to_string(place->second), to_string(shape)));
  }
  for (const std::string& target : options.targets)
    if (target != "host" || options.targets.size() > 1 || !options.machine.empty()) result.targets.push_back(target);
  result.machine = options.machine;
  result.tiles = options.tiles;
  result.search.finalists = options.finalists;
  if (!options.attention.empty()) result.search.attention = attention_algorithm(options.attention);
  result.toolchain.clang = options.clang;
  result.finished = log_stage;
  for (const std::string& file : options.plan_files) {
    LOW_TRY(const AlignedBytes bytes, read_file(file));
    result.plans.push_back({std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), file});
  }
  return result;
}

bool is_package(const std::string& path) { return path.ends_with(".low"); }

Result<LoadedModel> load_model(const ModelOptions& options, ThreadPool& pool, const InputOptions& inputs,
                               bool as_in_package) {
  LOW_TRY(CompileOptions compile, compile_options(options));
  LOW_TRY(compile.frontend.inputs, input_files(inputs));
  compile.frontend.constant_initializers = as_in_package;
  StageTimer stages(compile);
  stages.begin("import");
  LOW_TRY(const AlignedBytes bytes, read_file(options.model));
  Result<Graph> graph;
  Provenance provenance;
  pool.parallel_for(2, [&](int64_t half) {
    if (half == 0) {
      graph = within_memory("import", [&] { return import_onnx(bytes, options.model, compile.frontend); });
    } else {
      provenance.model_sha256 = sha256_hex(bytes);
    }
  });
  LOW_TRY_VOID(graph);
  return LoadedModel{.graph = std::move(*graph), .provenance = std::move(provenance)};
}

Result<std::shared_ptr<const Package>> package_of(const ModelOptions& options, const InputOptions& inputs,
                                                  ThreadPool& pool) {
  if (is_package(options.model)) {
    LOW_TRY_VOID(check_package_options(options));
    return Package::open(options.model);
  }
  LOW_TRY(const CompileOptions compile, compile_options(options));
  LOW_TRY(const LoadedModel model, load_model(options, pool, inputs));
  auto compilation = compile_graph(model.graph, compile, pool);
  if (!compilation) return in_context(options.model, compilation.error());
  StageTimer stages(compile);
  stages.begin("write");
  return Package::from_bytes(write_package({&*compilation, 1}, model.provenance), options.model);
}

std::vector<Slot> input_slots(const Program& program) { return slots_of(program.inputs); }
std::vector<Slot> output_slots(const Program& program) { return slots_of(program.outputs); }

std::vector<Slot> input_slots(const Graph& graph) {
  std::vector<Slot> slots;
  for (const OpId id : graph.inputs()) {
    const Type& type = graph.type(graph.result(graph.op(id)));
    slots.push_back({graph.op(id).name, type.dtype, type.shape});
  }
  return slots;
}

std::vector<Slot> output_slots(const Graph& graph) {
  std::vector<Slot> slots;
  for (const OpId id : graph.outputs()) {
    const Type& type = graph.type(graph.operands(graph.op(id))[0]);
    slots.push_back({graph.op(id).name, type.dtype, type.shape});
  }
  return slots;
}

Result<std::vector<Tensor>> bind_inputs(const std::vector<Slot>& slots, const InputOptions& options) {
  LOW_TRY(const auto files, input_files(options));
  std::vector<std::optional<Tensor>> bound(slots.size());
  for (const auto& [name, file] : files) {
    size_t index = 0;
    while (index < slots.size() && slots[index].name != name) ++index;
    if (index == slots.size()) {
      std::vector<std::string> names;
      for (const Slot& slot : slots) names.push_back(slot.name);
      // Models say so before they are compiled.
      return fail(
          ErrorKind::usage,
          fmt::format("--input: the package has no input \"{}\"; the inputs are: {} (the model's initializers are "
                      "constants in it)",
                      name, fmt::join(names, ", ")));
    }
    LOW_TRY(bound[index], read_tensor(file, slots[index].dtype, slots[index].shape));
  }
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!bound[i] && !options.random)
      return fail(ErrorKind::usage,
                  fmt::format("input \"{}\" ({}) is not bound; give --input {}=FILE or --random", slots[i].name,
                              to_string(Type{slots[i].dtype, slots[i].shape}), slots[i].name));
    // Each input has a sequence of its own.
    tensors.push_back(bound[i] ? std::move(*bound[i])
                               : random_tensor(slots[i].dtype, slots[i].shape, options.seed * 1000003 + i));
  }
  return tensors;
}

std::string summary(std::string_view name, const Tensor& tensor) {
  const int64_t count = tensor.elements();
  double minimum = INFINITY, maximum = -INFINITY, sum = 0, squares = 0;
  int64_t nans = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = tensor.value(i);
    if (std::isnan(value)) {
      ++nans;
      continue;
    }
    minimum = std::min(minimum, value);
    maximum = std::max(maximum, value);
    sum += value;
    squares += value * value;
  }
  const auto finite = static_cast<double>(count - nans);
  std::string line = fmt::format("{}: {}", one_line(name), to_string(Type{tensor.dtype(), tensor.shape()}));
  if (count > nans)
    line += fmt::format(" min {:.6g} max {:.6g} mean {:.6g} rms {:.6g}", minimum, maximum, sum / finite,
                        std::sqrt(squares / finite));
  if (nans > 0) line += fmt::format(" NaN {}", nans);
  return line;
}

}  // namespace low::lowc
