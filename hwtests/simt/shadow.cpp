#include "hwtests/simt/shadow.h"

#include <span>

namespace low::simt {
namespace {

// Fields of a packed actor. The largest lane and workgroup stand for several.
constexpr int lane_bits = 11, epoch_bits = 16, workgroup_bits = 17, launch_bits = 20;
constexpr uint64_t mask(int bits) { return (uint64_t{1} << bits) - 1; }
constexpr int epoch_shift = lane_bits, workgroup_shift = epoch_shift + epoch_bits,
              launch_shift = workgroup_shift + workgroup_bits;
constexpr uint64_t several_lanes = mask(lane_bits), several_workgroups = mask(workgroup_bits) << workgroup_shift;

uint64_t packed(const Actor& actor) {
  return (uint64_t{actor.launch} + 1) % (uint64_t{1} << launch_bits) << launch_shift |
         (actor.workgroup & mask(workgroup_bits)) << workgroup_shift | (actor.epoch & mask(epoch_bits)) << epoch_shift |
         actor.lane;
}

// The fields that two actors share from the launch down: whether one of them may have acted at any time as seen from the
// other.
bool races(uint64_t earlier, uint64_t now) {
  const uint64_t differing = earlier ^ now;
  if (differing >> launch_shift != 0) return false;
  if (differing >> workgroup_shift != 0) return true;
  return differing >> epoch_shift == 0 && (differing & mask(lane_bits)) != 0;
}

// Of those who read: one of them, or several.
uint64_t joined(uint64_t earlier, uint64_t now) {
  const uint64_t differing = earlier ^ now;
  if (differing >> launch_shift != 0) return now;
  if (differing >> workgroup_shift != 0) return now | several_workgroups;
  if (differing >> epoch_shift != 0) return now;
  return differing != 0 ? now | several_lanes : now;
}

}  // namespace

void Shadow::set_written(uint64_t begin, uint64_t bytes) {
  for (Byte& byte : std::span(bytes_).subspan(begin, bytes)) byte.write = before;
}

uint64_t Shadow::seen(uint64_t earlier, uint64_t now) const {
  return of_workgroups_ && (earlier ^ now) >> workgroup_shift != 0 ? 0 : earlier;
}

std::string_view Shadow::read(uint64_t begin, uint32_t bytes, const Actor& actor) {
  const uint64_t now = packed(actor);
  std::string_view problem;
  for (Byte& byte : std::span(bytes_).subspan(begin, bytes)) {
    const uint64_t write = seen(byte.write, now);
    if (write == 0) problem = "reads what nobody wrote";
    if (races(write, now)) problem = "reads what another lane writes, without a barrier between them";
    byte.read = joined(seen(byte.read, now), now);
  }
  return problem;
}

std::string_view Shadow::write(uint64_t begin, uint32_t bytes, const Actor& actor) {
  const uint64_t now = packed(actor);
  std::string_view problem;
  for (Byte& byte : std::span(bytes_).subspan(begin, bytes)) {
    if (races(seen(byte.write, now), now)) problem = "writes what another lane writes, without a barrier between them";
    if (races(seen(byte.read, now), now)) problem = "writes what another lane reads, without a barrier between them";
    byte.write = now;
  }
  return problem;
}

}  // namespace low::simt
