// Any model through everything between its bytes and the schedule, for a few machines: a sentence of refusal, or a
// program; never more than a bound of memory and time, whatever the model asks for.
//
// The first byte says which machine; behind it is an ONNX model, or, behind one more byte 'R', a recipe
// (recipe_graph.h).
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "compiler/compile.h"
#include "compiler/recipe_graph.h"

extern "C" {
// Of AddressSanitizer, where the build has it.
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                              void (*free_hook)(const volatile void*)) __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void* p) __attribute__((weak));
}

namespace {

using namespace low;

// A refusal may come late: what is made before it counts. Sanitizers make everything slower by a factor of ten or more.
constexpr int64_t most_live_bytes = int64_t{1} << 30;
constexpr double most_seconds = 20;

std::atomic<int64_t> live_bytes{0};

void count_allocation(const volatile void* /*p*/, size_t bytes) {
  if ((live_bytes += static_cast<int64_t>(bytes)) <= most_live_bytes) return;
  std::fputs("compile_fuzz: too much memory is asked for\n", stderr);
  std::abort();
}
void count_release(const volatile void* p) {
  if (p != nullptr) live_bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(p));
}

Machine machine_of(uint8_t choice) {
  const auto named = [](std::string_view name) { return *find_machine(name); };
  switch (choice % 5) {
    case 0:
      return *with_tiles(named("host"), 4);
    case 1:
      return *with_tiles(named("host"), 61);
    case 2:
      return named("mi300x");
    default:
      break;
  }
  // A small machine without global memory, and one whose tiles hold more.
  Machine machine = named("ipu21");
  machine.tiles = choice % 5 == 3 ? 6 : 23;
  machine.clusters = 1;
  if (choice % 5 == 4) machine.tile_memory_bytes *= 64;
  return machine;
}

void compile(const Graph& model, const Machine& machine) {
  static ThreadPool pool(1);
  CompileOptions options;
  options.search = {.attention = std::nullopt, .finalists = 2, .beam = 4, .candidates_per_op = 64};
  // A sanitized build is ten times slower and larger.
  options.expansion_limits = {.least_pieces = double{1 << 15}, .pieces_per_tile = 64};
  const auto fine = [](const Error& error) {
    if (error.kind == ErrorKind::unsupported && error.message.find("enough memory") == std::string::npos) return;
    std::fprintf(stderr, "compile_fuzz: %s\n", error.message.c_str());
    std::abort();
  };
  const Result<Graph> graph = graph_for(machine, model, options.passes);
  if (!graph) return fine(graph.error());
  const Result<PlannedProgram> planned = plan_program(*graph, machine, options, pool);
  if (!planned) return fine(planned.error());
  const KernelSet kernels = collect_kernels(planned->graph, planned->schedule);
  const auto program = lower_program(planned->graph, planned->placement, planned->schedule, kernels, machine);
  if (!program) fine(program.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool counts = [] {
    return __sanitizer_install_malloc_and_free_hooks != nullptr &&
           __sanitizer_install_malloc_and_free_hooks(count_allocation, count_release) > 0;
  }();
  if (size == 0) return 0;
  const Machine machine = machine_of(data[0]);
  const std::span<const uint8_t> rest(data + 1, size - 1);
  const auto begin = std::chrono::steady_clock::now();
  if (!rest.empty() && rest[0] == 'R') {
    compile(RecipeGraph(rest.subspan(1)).make(), machine);
  } else if (const auto model = import_onnx(std::as_bytes(rest), "no-such-folder/model.onnx", {})) {
    compile(*model, machine);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (seconds > most_seconds) {
    std::fprintf(stderr, "compile_fuzz: %.1f seconds\n", seconds);
    std::abort();
  }
  return 0;
}
