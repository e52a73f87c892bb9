#include "compiler/machine/machine.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "compiler/machine/machine_files.h"

namespace low {
namespace {

constexpr uint32_t max_tiles = 65536;

// Whether every value of `type` is a value of `wide`.
bool holds(DType wide, DType type) {
  if (wide == type || wide == DType::f64) return true;
  switch (wide) {
    case DType::f32:
      return type != DType::f64;
    case DType::f16:
    case DType::bf16:
      return is_fp8(type);
    default:
      return false;
  }
}

double rate_of(const Machine& machine, DType a, DType b) {
  for (const MathRate& rate : machine.math) {
    if (rate.a == a && rate.b == b) return rate.flop_per_cycle;
  }
  return 0;
}

std::string known_targets() {
  std::string text = "host";
  for (const std::string_view name : machine_names()) {
    const Result<Machine> machine = find_machine(name);
    LOW_CHECK(machine.has_value());
    for (const std::string& target : machine->targets) text += ", " + target;
  }
  return text;
}

}  // namespace

MathRate matmul_rate(const Machine& machine, DType a, DType b) {
  if (const double rate = rate_of(machine, a, b); rate > 0) return {a, b, rate};
  const DType both[] = {a, b};
  return matmul_rate(machine, both);
}

MathRate matmul_rate(const Machine& machine, std::span<const DType> operands) {
  const DType first = operands.front();
  const auto all = [&](auto is) { return std::ranges::all_of(operands, is); };
  if (all([&](DType type) { return type == first; })) {
    if (const double rate = rate_of(machine, first, first); rate > 0) return {first, first, rate};
  }
  DType computed;
  if (all([](DType type) { return is_float(type); })) {
    // FP8 prefers bf16, which holds all four formats in its normal range: some f16 instructions flush subnormals.
    for (const DType wide : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
      if (!all([&](DType type) { return holds(wide, type); })) continue;
      if (const double rate = rate_of(machine, wide, wide); rate > 0) return {wide, wide, rate};
    }
    computed = all([](DType type) { return type != DType::f64; }) ? DType::f32 : DType::f64;
  } else {
    computed = all([](DType type) { return byte_size(type) <= 4; }) ? DType::i32 : DType::i64;
    if (const double rate = rate_of(machine, computed, computed); rate > 0) return {computed, computed, rate};
  }
  // A multiplication and an addition on the vector unit; lanes of 8 bytes are half as many.
  return {computed, computed, machine.vector_flop_per_cycle / (byte_size(computed) > 4 ? 2 : 1)};
}

std::span<const std::string_view> machine_names() { return machine_file_names(); }

Result<Machine> find_machine(std::string_view name) {
  const std::span<const std::string_view> names = machine_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    return fail(ErrorKind::usage, fmt::format("unknown machine '{}'; known are {}", name, fmt::join(names, ", ")));
  }
  const auto index = static_cast<size_t>(found - names.begin());
  return parse_machine(machine_file_texts()[index], fmt::format("{}.json", name));
}

bool runs(const Machine& machine, std::string_view target) {
  if (target.starts_with(simt_prefix)) target.remove_prefix(simt_prefix.size());
  return std::ranges::find(machine.targets, target) != machine.targets.end();
}

Result<Machine> machine_for_target(std::string_view target) {
  if (target == "host") return find_machine("host");
  for (const std::string_view name : machine_names()) {
    LOW_TRY(Machine machine, find_machine(name));
    if (runs(machine, target)) return machine;
  }
  return fail(ErrorKind::usage, fmt::format("unknown target '{}'; known are {}", target, known_targets()));
}

Result<Machine> with_tiles(const Machine& machine, uint32_t tiles) {
  if (tiles == machine.tiles) return machine;
  if (!machine.logical_tiles) {
    return fail(ErrorKind::usage, fmt::format("machine {} has {} tiles of hardware; {} were asked for", machine.name,
                                              machine.tiles, tiles));
  }
  if (tiles < 1 || tiles > max_tiles) {
    return fail(ErrorKind::usage,
                fmt::format("{} tiles were asked for; machine {} takes 1 to {}", tiles, machine.name, max_tiles));
  }
  Machine changed = machine;
  changed.tiles = tiles;
  changed.clusters = std::min(machine.clusters, tiles);
  // Threads take turns with logical tiles: a tile's share of the memory system stays what it is.
  changed.device_bytes_per_cycle = machine.device_bytes_per_cycle / machine.tiles * tiles;
  changed.shared_cache_bytes_per_cycle = machine.shared_cache_bytes_per_cycle / machine.tiles * tiles;
  return changed;
}

Machine on_processor(const Machine& machine, const Processor& processor) {
  if (!machine.logical_tiles) return machine;
  Machine changed = machine;
  changed.workers = processor.threads;
  changed.clock_hz = processor.clock_hz;
  const double width = processor.f32_flop_per_cycle / matmul_rate(machine, DType::f32, DType::f32).flop_per_cycle;
  for (MathRate& rate : changed.math)
    rate.flop_per_cycle = rate.a == DType::bf16 ? processor.bf16_flop_per_cycle
                          : is_integer(rate.a)  ? processor.int8_flop_per_cycle
                                                : rate.flop_per_cycle * width;
  changed.vector_flop_per_cycle *= width;
  const double clock = processor.clock_hz / machine.clock_hz;
  const double share = static_cast<double>(processor.threads) / machine.tiles;
  changed.across_bytes_per_cycle /= clock;
  changed.device_bytes_per_cycle *= share / clock;
  changed.shared_cache_bytes_per_cycle *= share / clock;
  changed.launch_cycles *= clock;
  changed.transfer_cycles *= clock;
  changed.command_cycles *= clock;
  return changed;
}

}  // namespace low
