// How the lanes of a workgroup share groups (see families/groups.h). A team of lanes goes through a group, other teams
// through others at the same time. Member i of n has the group's elements i, i + n, i + 2n, …: the same ones whenever
// the team goes through it, so that a result may lie where an operand lies.
//
//   rows: the members of a team are neighbours, and so are the elements that they read together
//   columns: the teams' members of one number are neighbours, and so are the elements of their groups
//
// A team has a power of two of lanes; how many follows from the run's extents. What its members have is combined in a
// fixed order: neighbours up to 16 in a tree, then these sixteens one after the other through LDS; of columns all members
// one after the other. In teams of at most 16 lanes, or of 1 for columns, that is the host's order (data/rows.h).
//
// LDS: group_lds_bytes.
#pragma once

#include "compiler/kernels/data/groups_amd.h"
#include "compiler/kernels/device/amd/operand.h"
#include "compiler/kernels/device/groups.h"

namespace low::device {

// Lanes that are joined without LDS.
inline constexpr u32 tree_bits = 4, tree_lanes = 1u << tree_bits;
static_assert(tree_lanes == row_partials);

// The logarithm of a team's lanes for which all groups take the fewest steps, of about the time that an element takes.
template <bool columns>
LOW_INLINE constexpr u32 team_bits(u32 groups, u32 elements) {
  u64 fewest = ~u64{0};
  u32 best = 0;
#pragma unroll
  for (u32 bits = 0; workgroup_lanes >> bits != 0; ++bits) {
    const u32 lanes = 1u << bits, teams = workgroup_lanes >> bits;
    const u32 joining = columns ? (bits == 0 ? 0 : lanes + 4) : bits <= tree_bits ? bits : lanes / tree_lanes + 8;
    const u64 turns = (u64{groups} + teams - 1) / teams;
    const u64 steps = turns * ((u64{elements} + lanes - 1) / lanes + joining);
    // Fewer lanes along a row than that read memory in pieces that are too small.
    const bool small = !columns && bits < tree_bits && lanes < elements;
    const bool better = !small && steps < fewest;
    fewest = better ? steps : fewest;
    best = better ? bits : best;
  }
  return best;
}

template <bool columns>
class Teams {
 public:
  // Of 1 << bits lanes each.
  LOW_INLINE explicit Teams(u32 bits)
      : number(columns ? lane() & ((workgroup_lanes >> bits) - 1) : lane() >> bits),
        member(columns ? lane() >> (__builtin_ctz(workgroup_lanes) - bits) : lane() & ((1u << bits) - 1)),
        bits_(bits) {}

  const u32 number, member;  // this lane's team, and which of its lanes this one is
  LOW_INLINE u32 lanes() const { return 1u << bits_; }

  // run(group, exists) for each of `count` groups, by its team. All lanes come to each turn: at the end there are teams
  // for which no group exists, and which are given the first.
  template <typename Run>
  LOW_INLINE void each_group(u32 count, Run run) const {
    for (u32 first = 0; first < count; first += workgroup_lanes >> bits_) {
      const bool exists = first + number < count;
      run(exists ? first + number : 0, exists);
    }
  }

  // use(i, read(i)) for those of a group's elements that this lane has; see read_ahead.
  template <typename Read, typename Use>
  LOW_INLINE void each(u32 elements, Read read, Use use) const {
    read_ahead(member, lanes(), own(elements), read, use);
  }

  // term(i) of all elements of a group combined, for each lane of the team; `block` elements of a lane make a partial
  // result. All lanes of the workgroup come to it.
  template <Combine kind, u32 block, typename Term>
  LOW_INLINE auto combined(u32 elements, Lds lds, Term term) const {
    using T = decltype(term(u32{0}));
    T total = identity_of<kind, T>();
    for (u32 begin = 0; begin < elements; begin += block << bits_) {
      const u32 left = own(elements - begin);
      T part = identity_of<kind, T>();
      read_ahead(begin + member, lanes(), left < block ? left : block, term,
                 [&](u32, T value) __attribute__((always_inline)) { part = combine<kind>(part, value); });
      total = combine<kind>(total, part);
    }
    return joined(total, lds, [](T a, T b) __attribute__((always_inline)) { return combine<kind>(a, b); });
  }

  // The members' values as one, for each lane of the team: join(value, that of another member). The first member joins
  // in order, and others may get another of two values that compare equal. All lanes of the workgroup come to it.
  template <typename T, typename Join>
  LOW_INLINE T joined(T value, Lds lds, Join join) const {
    if constexpr (columns) {
      const u32 teams = workgroup_lanes >> bits_;
      return bits_ == 0 ? value : through_lds(value, true, lane(), number, teams, lanes(), lds, join);
    } else {
      const u32 bits = anew(bits_);  // or each of these conditions is kept in registers
      if (bits > 3) value = over_pair<8>(value, join);
      if (bits > 2) value = over_pair<4>(value, join);
      if (bits > 1) value = over_pair<2>(value, join);
      if (bits > 0) value = over_pair<1>(value, join);
      if (bits <= tree_bits) return value;
      const u32 trees = lanes() / tree_lanes;
      return through_lds(value, lane() % tree_lanes == 0, lane() / tree_lanes, number * trees, 1, trees, lds, join);
    }
  }

 private:
  // How many of the elements are this lane's.
  LOW_INLINE u32 own(u32 elements) const { return (elements + (lanes() - 1 - member)) >> bits_; }

  template <int mask, typename T, typename Join>
  static LOW_INLINE T over_pair(T value, Join join) {
    return join(value, from_lane_xor<mask>(value));
  }
  // Lanes that write do so at `place`; then each joins `count` values from place `first` on.
  template <typename T, typename Join>
  static LOW_INLINE T through_lds(T value, bool writes, u32 place, u32 first, u32 step, u32 count, Lds lds, Join join) {
    static_assert(sizeof(T) <= group_lds_bytes_of_lane);
    if (writes) store_lds(lds + place * sizeof(T), value);
    barrier();
    value = load_lds<T>(lds + first * sizeof(T));
#pragma clang loop unroll(disable)
    for (u32 i = 1; i < count; ++i) value = join(value, load_lds<T>(lds + (first + i * step) * sizeof(T)));
    barrier();
    return value;
  }

  const u32 bits_;
};

// Of a kernel over groups: how many there are, and how many elements each has.
template <typename Kernel>
LOW_INLINE u32 group_count(const Operands& operands) {
  return elements_over<0, Kernel::rank - Kernel::inner>(operands);
}
template <typename Kernel>
LOW_INLINE u32 group_size(const Operands& operands) {
  return elements_over<Kernel::rank - Kernel::inner, Kernel::rank>(operands);
}
// The groups of a run.
template <typename Kernel, typename... Operand>
LOW_INLINE auto groups_of(const Operands& operands) {
  constexpr int outer = Kernel::rank - Kernel::inner;
  return box_over<0, outer, by_columns<Kernel> ? Kernel::columns : outer - 1, Operand...>(operands);
}
// Where the first operands are at a group.
template <typename Kernel, typename... Operand>
LOW_INLINE void group_offsets(const abi::Launch& launch, CommandPointer command, u32 group,
                              i64 (&offsets)[sizeof...(Operand)]) {
  constexpr int outer = Kernel::rank - Kernel::inner;
  offsets_over<0, outer, by_columns<Kernel> ? Kernel::columns : outer - 1, Operand...>(
      operands_anew<Kernel>(launch, command), group, offsets);
}
// A function (i, offsets) that says where they are at element i of a group, from where they are at the group.
template <typename Kernel, typename... Operand>
LOW_INLINE auto element_offsets(const abi::Launch& launch, CommandPointer command) {
  constexpr int outer = Kernel::rank - Kernel::inner, last = by_columns<Kernel> ? Kernel::rank - 1 : innermost<Kernel>;
  constexpr int operands = sizeof...(Operand), box_registers = Kernel::inner * (1 + 2 * operands);
  // Arithmetic in f64 takes twice the registers for its constants.
  if constexpr (box_registers < 120 / sizeof(typename Kernel::Accumulate)) {
    const auto box = box_over<outer, Kernel::rank, last, Operand...>(operands_anew<Kernel>(launch, command));
    return [box](u32 i, i64(&offsets)[operands]) __attribute__((always_inline)) { box.offsets_of(i, offsets); };
  } else {
    return [&launch, command](u32 i, i64(&offsets)[operands]) __attribute__((always_inline)) {
      offsets_over<outer, Kernel::rank, last, Operand...>(operands_anew<Kernel>(launch, command), i, offsets);
    };
  }
}

}  // namespace low::device
