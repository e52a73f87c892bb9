// scatter: result = data, with each update put in its row, or combined with it, in their order.
//
// A kernel K has: Indices = OperandOf<…> over the updates, Updates over (updates, columns), First over [1], Data and
// Result over (rows, columns); combine(old, update).
//
// Lanes form a grid of rows and columns: each has elements of the result for itself, those whose row and column modulo
// the grid's are its own, and applies to them, in order, all updates that are for them. Which row an update is for goes
// through LDS, for a block of updates at a time.
#pragma once

#include "compiler/kernels/data/groups_amd.h"
#include "compiler/kernels/device/amd/operand.h"
#include "compiler/kernels/device/index.h"

namespace low::device {

template <typename Kernel>
LOW_KERNEL void scatter(const abi::Launch& launch, CommandPointer command, Lds lds) {
  using Indices = typename Kernel::Indices;
  using Updates = typename Kernel::Updates;
  using Data = typename Kernel::Data;
  using Result = typename Kernel::Result;
  const Operands operands = operands_of<Kernel>(launch, command);
  const u32 updates = static_cast<u32>(operands.extent(0)), rows = static_cast<u32>(operands.extent(1)),
            columns = static_cast<u32>(operands.extent(2));
  if (rows == 0 || columns == 0) return;
  const Place<typename Indices::Type> indices(operands, 0);
  const Place<typename Updates::Type> update(operands, 1);
  const Place<typename Data::Type> data(operands, 3);
  const Place<typename Result::Type> result(operands, 4);
  const i64 first = static_cast<i64>(Place<typename Kernel::First::Type>(operands, 2).read(0));
  const i64 index_step = operands.template stride<Indices>(0, 0);
  const i64 update_row = operands.template stride<Updates>(1, 0), update_step = operands.template stride<Updates>(1, 1);
  const i64 data_row = operands.template stride<Data>(3, 0), data_step = operands.template stride<Data>(3, 1);
  const i64 result_row = operands.template stride<Result>(4, 0), step = operands.template stride<Result>(4, 1);
  // The grid: a column for each of the result's, at most all lanes; powers of two.
  u32 bits = 0;
  while (1u << bits < columns && 1u << bits < workgroup_lanes) ++bits;
  const u32 grid_columns = 1u << bits, grid_rows = workgroup_lanes >> bits;
  const u32 own_row = lane() >> bits, own_column = lane() & (grid_columns - 1);
  const u32 own_columns = (columns + (grid_columns - 1 - own_column)) >> bits;
  // value(column), written to this lane's columns of a row.
  const auto write_row = [&](u32 row, auto value) __attribute__((always_inline)) {
    read_ahead(own_column, grid_columns, own_columns, value,
               [&](u32 column, auto element)
                   __attribute__((always_inline)) { result.write(row * result_row + column * step, element); });
  };
  if (data.base != result.base) {
    for (u32 row = own_row; row < rows; row += grid_rows) {
      write_row(row, [&](u32 column)
                         __attribute__((always_inline)) { return data.read(row * data_row + column * data_step); });
    }
  }
  constexpr u32 block = group_lds_bytes / sizeof(u32), no_row = ~0u;
  for (u32 begin = 0; begin < updates; begin += block) {
    const u32 count = updates - begin < block ? updates - begin : block;
    for (u32 i = lane(); i < count; i += workgroup_lanes) {
      const u64 row = row_from(static_cast<i64>(indices.read((begin + i) * index_step)), first);
      store_lds(lds + i * sizeof(u32), row < rows ? static_cast<u32>(row) : no_row);
    }
    barrier();
    for (u32 i = 0; i < count; ++i) {
      const u32 row = load_lds<u32>(lds + i * sizeof(u32));
      if (row == no_row || (row & (grid_rows - 1)) != own_row) continue;
      write_row(row, [&](u32 column) __attribute__((always_inline)) {
        return Kernel::combine(result.read(row * result_row + column * step),
                               update.read((begin + i) * update_row + column * update_step));
      });
    }
    barrier();
  }
}

}  // namespace low::device
