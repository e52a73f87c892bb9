// Gathers without global memory: a part pulls what its indices may name, and the indices, and runs one kernel for each
// box of its rows.
#include <algorithm>
#include <array>

#include "compiler/low/expand/distributed_expander.h"
#include "compiler/low/expand/groups.h"
#include "compiler/low/expand/index_box.h"
#include "compiler/search/gather_axes.h"

namespace low {
namespace {

// An operand, or the result, on the part's tile: its axes' strides, and where the element with all indices 0 would lie.
struct Local {
  Placed place;
  Strides strides;  // over the result's axes
  int64_t origin = 0;
};

int64_t in_place(const Placed& place, int64_t rows, int64_t columns) {
  return rows * place.layout.strides[0] + columns * place.layout.strides[1];
}

Local local_of(const Placed& place, const Rect& rect, const Strides& rows, const Strides& columns) {
  Local local{place, {}, place.layout.offset - in_place(place, rect.row, rect.column)};
  for (int axis = 0; axis < rows.rank(); ++axis) local.strides.append(in_place(place, rows[axis], columns[axis]));
  return local;
}

Rect rect_of(const Wanted& wanted) {
  return {wanted.row_begin, wanted.column_begin, wanted.row_end - wanted.row_begin,
          wanted.column_end - wanted.column_begin};
}

}  // namespace

Result<void> DistributedExpander::expand_gather(RegionState& region, const Op& op) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId result = graph.result(op);
  const GatherShapes shapes{std::get<Gather>(op.attributes), graph.type(operands[0]).shape,
                            graph.type(operands[1]).shape, graph.type(result).shape};
  const int rank = shapes.result.rank();
  const MatrixStrides data = matrix_strides(shapes.data), indices = matrix_strides(shapes.indices);
  const MatrixStrides own = matrix_strides(shapes.result);
  const GatherAxes rows = gather_axes(shapes.gather, rank, data.rows, shapes.indices, indices.rows);
  const GatherAxes columns = gather_axes(shapes.gather, rank, data.columns, shapes.indices, indices.columns);
  const KernelContract contract = kernel_of(graph, op);
  const SplitShape axes = split_axes(shapes.result, rank - 1);

  LOW_TRY_VOID(begin_superstep());
  for (const Shard& shard : region.values[result]->shards) {
    const Rect& rect = shard.rect;
    const GatherWanted wanted =
        gather_wanted(shapes, rect.row, rect.row + rect.rows, rect.column, rect.column + rect.columns);
    const Rect data_rect = rect_of(wanted.data), indices_rect = rect_of(wanted.indices);
    LOW_TRY(const Placed pulled_data, pull(region.values[operands[0]], data_rect, shard.tile));
    LOW_TRY(const Placed pulled_indices, pull(region.values[operands[1]], indices_rect, shard.tile));
    const std::array<Local, 3> locals{local_of(pulled_data, data_rect, rows.data, columns.data),
                                      local_of(pulled_indices, indices_rect, rows.indices, columns.indices),
                                      local_of(shard.place, rect, own.rows, own.columns)};
    Shape indexed;
    Strides indexed_strides;
    for (const int axis : rows.indexed) {
      indexed.append(shapes.data[axis]);
      indexed_strides.append(in_place(locals[0].place, data.rows[axis], data.columns[axis]));
    }
    const int64_t index_stride = in_place(locals[1].place, rows.index_stride, columns.index_stride);
    const std::array<Strides, 3> strides{locals[0].strides, locals[1].strides, locals[2].strides};

    std::vector<IndexBox> boxes;
    for (const IndexBox& box : boxes_of_range(axes.leading, rect.row, rect.row + rect.rows)) {
      const IndexBox across = rank == 0 ? IndexBox{} : IndexBox{{rect.column}, {rect.columns}};
      boxes.push_back(joined(box, across));
    }
    std::ranges::reverse(boxes);  // the last one is next
    while (!boxes.empty()) {
      const IndexBox box = boxes.back();
      boxes.pop_back();
      const GatherRun run = gather_run(contract, box.extents, strides, indexed, indexed_strides, index_stride);
      if (run.too_many_axes) {  // one after another along the first of them
        int axis = 0;
        while (box.extents[axis] == 1) ++axis;
        LOW_TRY_VOID(budget_.take(static_cast<double>(box.extents[axis])));
        for (int64_t i = box.extents[axis]; i-- > 0;) {
          IndexBox one = box;
          one.first[axis] += i;
          one.extents[axis] = 1;
          boxes.push_back(one);
        }
        continue;
      }
      LOW_TRY_VOID(budget_.take(static_cast<double>(locals.size())));
      std::vector<View> views;
      for (size_t i = 0; i < locals.size(); ++i) {
        int64_t offset = locals[i].origin;
        for (int axis = 0; axis < rank; ++axis) offset += box.first[axis] * locals[i].strides[axis];
        views.push_back(view(locals[i].place, offset, run.boxes[i], run.strides[i]));
      }
      builder_.run(builder_.contract(run.contract), shard.tile, views);
    }
  }
  end_superstep();
  return {};
}

}  // namespace low
