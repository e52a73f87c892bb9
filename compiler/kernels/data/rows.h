// How kernels over (outer axes, inner axes) go through their groups: for them, and for the compiler when it picks a way
// and states how much scratch it needs. A group is what differs in inner axes only.
//
//   rows: one group after the other, along the last inner axis; elements go through a buffer, and are combined in
//     sixteen partial results (element i of the buffer in partial i mod 16, in blocks) that are combined in a fixed
//     tree.
//   columns: groups that are neighbours along an outer axis at once, where x is contiguous there but not along the last
//     inner axis.
//
// Neither depends on a target's vectors, so that all hosts give the same bits. GPUs give them too, but for groups that
// more lanes share (device/amd/groups.h) and for groups that are too long for scratch.
#pragma once

namespace low::device {

inline constexpr int row_partials = 16;
inline constexpr long long partial_block = 64;          // elements of a partial result that make a block, at most
inline constexpr long long reduce_buffer = 256;         // elements of a row that are combined at once by reduce
inline constexpr long long max_kept_row = 1 << 20;      // elements of a group that is kept in scratch as a whole
inline constexpr long long max_column_count = 4096;     // elements of a group that goes side by side with others
inline constexpr long long least_columns = 8;           // groups side by side, for which that pays
inline constexpr long long piece_of_row = 4096;         // a multiple of row_partials
inline constexpr long long block_of_groups = 64;        // groups whose results are written at once
inline constexpr long long column_unit = row_partials;  // columns are computed in multiples of so many
inline constexpr int top_k_value_bytes = 8;             // in which an element is kept, whatever its type

// Columns that are kept in scratch side by side, of so many groups.
constexpr long long kept_columns(long long groups) {
  const long long whole = (groups + column_unit - 1) / column_unit * column_unit;
  return whole < block_of_groups ? whole : block_of_groups;
}

// rowwise: elements that are kept in scratch at once. Groups have `count` elements; `groups`: along the axis of
// columns.
constexpr long long kept_elements(bool columns, bool long_rows, long long count, long long groups) {
  if (columns) return count * kept_columns(groups);
  return long_rows ? piece_of_row : (count + row_partials - 1) / row_partials * row_partials;
}

}  // namespace low::device
