// top_k: result[o…, i] = where the i-th extreme element of x[o…, …] stands.
//
// A kernel K has: rank, inner = 2; X = OperandOf<…> over the outer axes and the group's, Result over the outer axes and
// k's; smallest.
#pragma once

#include "compiler/kernels/device/host/groups.h"
#include "compiler/kernels/device/order.h"

namespace low::device {

template <typename Kernel>
LOW_NOINLINE void top_k(const abi::Launch& launch, CommandPointer command, unsigned char* scratch) {
  using X = typename Kernel::X;
  using Result = typename Kernel::Result;
  constexpr int outer = Kernel::rank - 2;
  const Operands operands(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  const i64 length = operands.extent(outer), k = operands.extent(outer + 1);
  const auto* x = operands.address<const typename X::Type>(0);
  auto* result = operands.address<typename Result::Type>(1);
  const i64 x_step = operands.template stride<X>(0, outer), result_step = operands.template stride<Result>(1, outer);
  using Value = decltype(comparable(load(x)));
  static_assert(sizeof(Value) <= top_k_value_bytes);
  // A heap of the k elements that come first, the last of which is its root.
  Value* const values = reinterpret_cast<Value*>(scratch);
  i64* const places = reinterpret_cast<i64*>(scratch + k * top_k_value_bytes);
  const auto before = [&](i64 a, i64 b) __attribute__((always_inline)) {
    return comes_before<Kernel::smallest>(values[a], places[a], values[b], places[b]);
  };
  const auto swap = [&](i64 a, i64 b) __attribute__((always_inline)) {
    const Value value = values[a];
    const i64 place = places[a];
    values[a] = values[b];
    places[a] = places[b];
    values[b] = value;
    places[b] = place;
  };
  const auto sink = [&](i64 node, i64 count) __attribute__((always_inline)) {
    while (2 * node + 1 < count) {
      i64 child = 2 * node + 1;
      if (child + 1 < count && before(child, child + 1)) ++child;
      if (!before(node, child)) return;
      swap(node, child);
      node = child;
    }
  };
  Walker<Kernel::rank, 2> outside;
  for (int a = 0; a < outer; ++a)
    outside.add(operands.extent(a), operands.template stride<X>(0, a), operands.template stride<Result>(1, a));
  do {
    const auto* from = x + outside.offsets[0];
    auto* to = result + outside.offsets[1];
    for (i64 j = 0; j < k; ++j) {
      values[j] = comparable(load(from + j * x_step));
      places[j] = j;
    }
    for (i64 node = k / 2 - 1; node >= 0; --node) sink(node, k);
    for (i64 j = k; j < length; ++j) {
      const Value value = comparable(load(from + j * x_step));
      if (!comes_before<Kernel::smallest>(value, j, values[0], places[0])) continue;
      values[0] = value;
      places[0] = j;
      sink(0, k);
    }
    for (i64 last = k - 1; last >= 0; --last) {
      swap(0, last);
      sink(0, last);
    }
    for (i64 j = 0; j < k; ++j) to[j * result_step] = places[j];
  } while (outside.next());
}

}  // namespace low::device
