// How the lanes of a workgroup share the elements of a box, and how a tile goes through its commands.
#pragma once

#include "compiler/kernels/data/workgroups.h"
#include "compiler/kernels/device/amd/isa.h"

namespace low::device {

// run(command) for each of the tile's commands; one begins when all lanes are done with the one before.
template <typename Run>
LOW_INLINE void run_tile(const abi::Launch& launch, u32 tile, Run run) {
  const bool sampled = launch.samples != nullptr && lane() == 0;
  if (sampled) store_global(&launch.samples[tile].begin, ticks());
  const auto tile_begin = (const LOW_CONSTANT u32*)(launch.tile_begin);
  const u32 end = tile_begin[tile + 1];
  for (u32 block = tile_begin[tile]; block != end;) {
    const CommandPointer command = command_at(launch, block);
    run(command);
    block += command->blocks;
    barrier();
  }
  if (sampled) store_global(&launch.samples[tile].end, ticks());
}

// use(i, read(i)) for `count` numbers i, first, first + step, …; several of them are read before the first is used, as a
// read takes longer than most of what is done with it. What is written for one must not be read for another.
template <typename Read, typename Use>
LOW_INLINE void read_ahead(u32 first, u32 step, u32 count, Read read, Use use) {
  u32 i = first;
#pragma clang loop unroll(disable)
  for (; count >= reads_together; count -= reads_together) {
    decltype(read(i)) values[reads_together];
#pragma unroll
    for (u32 k = 0; k < reads_together; ++k) values[k] = read(i + k * step);
#pragma unroll
    for (u32 k = 0; k < reads_together; ++k) use(i + k * step, values[k]);
    i += reads_together * step;
  }
#pragma clang loop unroll(disable)
  for (; count != 0; --count, i += step) use(i, read(i));
}

// use(axis, position) for an element's position along `rank` axes, the last one first, where elements are counted in
// row-major order; but not for axes that have no other element than this one.
template <int rank, typename Extent, typename Use>
LOW_INLINE void each_position(u32 element, Extent extent, Use use) {
#pragma unroll
  for (int axis = rank - 1; axis >= 0; --axis) {
    u32 position = element;
    if (axis > 0) {
      const u32 count = extent(axis);
      if (count == 1) continue;
      element /= count;
      position -= element * count;
    }
    use(axis, position);
  }
}

// A box of `rank` axes and how far `operands` operands move along each, in elements. Which axis is which is known when a
// kernel is compiled, as registers cannot be picked by number: axes that continue each other in all operands become one
// by giving the outer one all elements and the inner one none but the first.
template <int rank, int operands>
struct Box {
  u32 extents[rank];
  i64 strides[rank][operands];

  LOW_INLINE void merge() {
#pragma unroll
    for (int axis = rank - 1; axis > 0; --axis) {
      bool continues = true;
#pragma unroll
      for (int i = 0; i < operands; ++i)
        continues &= strides[axis - 1][i] == strides[axis][i] * static_cast<i64>(extents[axis]);
      if (extents[axis - 1] != 1 && !continues) continue;
      extents[axis - 1] *= extents[axis];
      extents[axis] = 1;
#pragma unroll
      for (int i = 0; i < operands; ++i) strides[axis - 1][i] = strides[axis][i];
    }
  }
  LOW_INLINE u32 elements() const {
    u32 product = 1;
#pragma unroll
    for (int axis = 0; axis < rank; ++axis) product *= extents[axis];
    return product;
  }
  // Where the operands are at an element, counted in row-major order.
  LOW_INLINE void offsets_of(u32 element, i64 (&offsets)[operands]) const {
#pragma unroll
    for (int i = 0; i < operands; ++i) offsets[i] = 0;
    each_position<rank>(
        element, [&](int axis) __attribute__((always_inline)) { return anew(extents[axis]); },
        [&](int axis, u32 position) __attribute__((always_inline)) {
#pragma unroll
          for (int i = 0; i < operands; ++i) offsets[i] += static_cast<i64>(position) * strides[axis][i];
        });
  }
  // visit(offsets) for each element, by some lane.
  template <typename Visit>
  LOW_INLINE void each(Visit visit) const {
    const u32 count = elements();
    for (u32 element = lane(); element < count; element += workgroup_lanes) {
      i64 offsets[operands];
      offsets_of(element, offsets);
      visit(offsets);
    }
  }
  // use(offsets, read(offsets)) for each element, by some lane; see read_ahead.
  template <typename Read, typename Use>
  LOW_INLINE void each(Read read, Use use) const {
    const u32 first = lane(), count = (elements() + (workgroup_lanes - 1 - first)) / workgroup_lanes;
    const auto at = [&](u32 element, auto f) __attribute__((always_inline)) {
      i64 offsets[operands];
      offsets_of(element, offsets);
      return f(offsets);
    };
    read_ahead(
        first, workgroup_lanes, count, [&](u32 element) __attribute__((always_inline)) { return at(element, read); },
        [&](u32 element, auto value) __attribute__((always_inline)) {
          at(element, [&](const i64(&offsets)[operands]) __attribute__((always_inline)) { use(offsets, value); });
        });
  }
};

}  // namespace low::device
