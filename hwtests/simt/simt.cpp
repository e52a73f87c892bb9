#include "hwtests/simt/simt.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "compiler/kernels/device/amd/simt_shim.h"
#include "hwtests/simt/fiber.h"
#include "hwtests/simt/matrix.h"
#include "runtime/host/code.h"

namespace low::simt {
namespace {

constexpr size_t most_findings = 20;

struct Memory {
  unsigned char* begin;
  Shadow shadow;
  bool read_only;
};

// Where a lane is.
struct Lane {
  enum class At { running, barrier, meeting, end } at = At::running;
  uint32_t site = 0;
  const void* in = nullptr;  // of a meeting
  void* out = nullptr;
  WaveFunction function = nullptr;
  const device::MatrixInstruction* row = nullptr;
  std::optional<Fiber> fiber;
};

std::string place_of(const Lane& lane) {
  switch (lane.at) {
    case Lane::At::barrier:
      return fmt::format("waits at the barrier of line {}", lane.site);
    case Lane::At::meeting:
      return fmt::format("waits for its wave at line {}", lane.site);
    case Lane::At::end:
      return "has ended";
    case Lane::At::running:
      break;
  }
  return "runs";
}

}  // namespace

const device::Chip& chip_of(std::string_view target) {
  const auto found =
      std::ranges::find_if(device::chips, [&](const device::Chip* chip) { return target.ends_with(chip->target); });
  LOW_CHECK(found != std::end(device::chips));
  return **found;
}

struct Gpu::State {
  explicit State(const device::Chip& known) : chip(known), matrices(known), stacks(thread_stacks()) {}

  const device::Chip& chip;
  MatrixModel matrices;
  const FiberStacks& stacks;
  std::deque<Memory> memories;
  std::vector<std::string> findings;
  uint64_t accesses = 0, meetings = 0, now = 0;
  uint32_t launches = 0;

  // Of the workgroup that runs.
  Code::Entry entry = nullptr;
  const abi::Launch* launch = nullptr;
  uint32_t workgroup = 0, lane = 0, epoch = 0, lds_bytes = 0;
  std::array<Lane, device::workgroup_lanes> lanes{};
  std::vector<unsigned char> lds;
  std::optional<Shadow> lds_shadow;
  alignas(64) unsigned char elsewhere[64] = {};  // where accesses go that are errors

  // Made once: a page fault for each page of them is most of what a short launch costs.
  static const FiberStacks& thread_stacks() {
    static thread_local const FiberStacks stacks(device::workgroup_lanes);
    return stacks;
  }

  // The device whose kernels this thread runs.
  static thread_local State* current;

  Actor actor() const { return {.launch = launches, .workgroup = workgroup, .epoch = epoch, .lane = lane}; }

  void find(std::string_view what, uint32_t site) {
    if (findings.size() < most_findings)
      findings.push_back(fmt::format("workgroup {}, lane {}, line {}: {}", workgroup, lane, site, what));
  }
  void* error_place() {
    std::fill(std::begin(elsewhere), std::end(elsewhere), 0xff);
    return elsewhere;
  }

  void* global(const void* p, uint32_t bytes, Access access, uint32_t site) {
    ++accesses;
    const auto address = reinterpret_cast<uintptr_t>(p);
    for (Memory& memory : memories) {
      const auto begin = reinterpret_cast<uintptr_t>(memory.begin);
      if (address < begin || address - begin >= memory.shadow.size()) continue;
      const uint64_t offset = address - begin;
      if (bytes > memory.shadow.size() - offset) break;
      if (access == Access::write && memory.read_only) {
        find("writes to memory that may only be read", site);
        return error_place();
      }
      if (address % bytes != 0) find(fmt::format("{} bytes at an address that is no multiple", bytes), site);
      const std::string_view problem = access == Access::read ? memory.shadow.read(offset, bytes, actor())
                                                              : memory.shadow.write(offset, bytes, actor());
      if (!problem.empty()) find(fmt::format("{} (byte {} of a memory)", problem, offset), site);
      return memory.begin + offset;
    }
    find(fmt::format("{} {} bytes outside of all memories", access == Access::read ? "reads" : "writes", bytes), site);
    return error_place();
  }

  void* local(uint32_t offset, uint32_t bytes, Access access, uint32_t site) {
    ++accesses;
    if (offset > lds_bytes || bytes > lds_bytes - offset) {
      find(fmt::format("{} bytes at {} of {} bytes of LDS", bytes, offset, lds_bytes), site);
      return error_place();
    }
    if (offset % bytes != 0) find(fmt::format("{} bytes of LDS at {}, which is no multiple", bytes, offset), site);
    const std::string_view problem =
        access == Access::read ? lds_shadow->read(offset, bytes, actor()) : lds_shadow->write(offset, bytes, actor());
    if (!problem.empty()) find(fmt::format("{} (byte {} of LDS)", problem, offset), site);
    return lds.data() + offset;
  }

  // Each lane says so; the first one of a workgroup counts.
  void set_lds_size(uint32_t bytes) {
    if (lds_bytes != 0) return;
    const auto available = static_cast<uint32_t>(chip.lds_bytes);
    if (bytes > available) find(fmt::format("declares {} bytes of LDS; there are {}", bytes, available), 0);
    lds_bytes = std::min(bytes, available);
    if (lds.size() >= lds_bytes) return;  // what it holds is another workgroup's, which nobody may read
    lds.assign(lds_bytes, 0xff);
    lds_shadow.emplace(lds_bytes, false, true);
  }

  void wait_at(Lane::At at, uint32_t site) {
    Lane& self = lanes[lane];
    self.at = at;
    self.site = site;
    self.fiber->wait();
  }

  void meet(const void* in, void* out, WaveFunction function, const device::MatrixInstruction* row, uint32_t site) {
    Lane& self = lanes[lane];
    self.in = in;
    self.out = out;
    self.function = function;
    self.row = row;
    wait_at(Lane::At::meeting, site);
  }

  static void run_lane(void* argument) {
    auto* const state = static_cast<State*>(argument);
    state->entry(*state->launch);
    state->lanes[state->lane].at = Lane::At::end;
  }

  // Lets waves that have met go on; false if there are none.
  bool let_waves_go() {
    bool any = false;
    for (uint32_t first = 0; first < lanes.size(); first += chip.wave_lanes) {
      const std::span<Lane> wave(&lanes[first], chip.wave_lanes);
      const bool met = std::ranges::all_of(wave, [&](const Lane& one) {
        return one.at == Lane::At::meeting && one.site == wave[0].site && one.function == wave[0].function &&
               one.row == wave[0].row;
      });
      if (!met) continue;
      const void* in[device::workgroup_lanes];
      void* out[device::workgroup_lanes];
      for (size_t i = 0; i < wave.size(); ++i) {
        in[i] = wave[i].in;
        out[i] = wave[i].out;
      }
      if (wave[0].row != nullptr) {
        matrices.multiply(*wave[0].row, in, out);
      } else {
        wave[0].function(in, out);
      }
      ++meetings;
      for (Lane& one : wave) one.at = Lane::At::running;
      any = true;
    }
    return any;
  }

  // All lanes wait at one barrier.
  bool let_workgroup_go() {
    const bool all = std::ranges::all_of(
        lanes, [&](const Lane& one) { return one.at == Lane::At::barrier && one.site == lanes[0].site; });
    if (!all) return false;
    for (Lane& one : lanes) one.at = Lane::At::running;
    ++epoch;
    return true;
  }

  void run_workgroup(Code::Entry code, const abi::Launch& with, uint32_t number) {
    entry = code;
    launch = &with;
    workgroup = number;
    epoch = 0;
    lds_bytes = 0;
    for (uint32_t i = 0; i < lanes.size(); ++i) {
      lanes[i].at = Lane::At::running;
      lanes[i].fiber.emplace(stacks.bottom(i), run_lane, this);
    }
    State* const outer = std::exchange(current, this);
    while (true) {
      for (lane = 0; lane < lanes.size(); ++lane)
        while (lanes[lane].at == Lane::At::running) lanes[lane].fiber->resume();
      if (let_waves_go() || let_workgroup_go()) continue;
      if (std::ranges::all_of(lanes, [](const Lane& one) { return one.at == Lane::At::end; })) break;
      report_divergence();
      break;
    }
    current = outer;
  }

  void report_divergence() {
    const auto other = std::ranges::find_if(
        lanes, [&](const Lane& one) { return one.at != lanes[0].at || one.site != lanes[0].site; });
    lane = static_cast<uint32_t>(other == lanes.end() ? 0 : other - lanes.begin());
    find(fmt::format("lanes do not come to the same place: this one {}, lane 0 {}", place_of(lanes[lane]),
                     place_of(lanes[0])),
         lanes[lane].site);
  }
};

thread_local Gpu::State* Gpu::State::current = nullptr;

struct Code::Library {
  HostCode code;
};

Code::Code() = default;
Code::Code(Code&&) noexcept = default;
Code::~Code() = default;

Result<Code> Code::load(std::span<const std::byte> object, uint32_t entries, std::string_view what) {
  using State = Gpu::State;
  static constexpr Shim shim{.workgroup = [] { return State::current->workgroup; },
                             .lane = [] { return State::current->lane; },
                             .ticks = [] { return ++State::current->now; },
                             .global = [](const void* p, uint32_t bytes, Access access,
                                          uint32_t site) { return State::current->global(p, bytes, access, site); },
                             .lds_size = [](uint32_t bytes) { State::current->set_lds_size(bytes); },
                             .lds = [](uint32_t offset, uint32_t bytes, Access access,
                                       uint32_t site) { return State::current->local(offset, bytes, access, site); },
                             .barrier = [](uint32_t site) { State::current->wait_at(Lane::At::barrier, site); },
                             .meet = [](const void* in, void* out, WaveFunction function,
                                        uint32_t site) { State::current->meet(in, out, function, nullptr, site); },
                             .multiply = [](const MatrixItems& in, void* out, const device::MatrixInstruction& row,
                                            uint32_t site) { State::current->meet(&in, out, nullptr, &row, site); }};
  LOW_TRY(HostCode library, HostCode::load(object, entries, what));
  auto** const place = static_cast<const Shim**>(library.symbol("low_simt_shim"));
  if (place == nullptr)
    return fail(ErrorKind::invalid, fmt::format("{}: is no code of a SIMT target: it has no low_simt_shim", what));
  *place = &shim;
  Code code;
  for (uint32_t i = 0; i < entries; ++i)
    code.entries_.push_back(reinterpret_cast<Entry>(library.symbol(fmt::format("low_entry_{}", i).c_str())));
  code.library_ = std::make_unique<Library>(std::move(library));
  return code;
}

Gpu::Gpu(const device::Chip& chip) : state_(std::make_unique<State>(chip)) {}
Gpu::~Gpu() = default;

void Gpu::add_memory(std::span<unsigned char> memory, bool written, bool read_only) {
  state_->memories.push_back({memory.data(), Shadow(memory.size(), written), read_only});
}

void Gpu::set_written(const unsigned char* begin, uint64_t bytes) {
  for (Memory& memory : state_->memories) {
    if (begin < memory.begin || begin >= memory.begin + memory.shadow.size()) continue;
    memory.shadow.set_written(static_cast<uint64_t>(begin - memory.begin), bytes);
    return;
  }
  LOW_CHECK(bytes == 0);
}

void Gpu::launch(Code::Entry entry, const abi::Launch& launch, std::span<const uint32_t> workgroups) {
  ++state_->launches;
  for (const uint32_t workgroup : workgroups) state_->run_workgroup(entry, launch, workgroup);
}

const std::vector<std::string>& Gpu::findings() const { return state_->findings; }
uint64_t Gpu::accesses() const { return state_->accesses; }
uint64_t Gpu::meetings() const { return state_->meetings; }

}  // namespace low::simt
