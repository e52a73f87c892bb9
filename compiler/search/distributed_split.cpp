// What the cost of a split operation depends on: its operands, and how it reads them.
#include <algorithm>

#include "compiler/search/distributed_cost.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/op_cost.h"

namespace low {

namespace {

DistributedSplit::Operand read_by(Parts parts, size_t operand) {
  switch (parts) {
    case Parts::elements:
      return DistributedSplit::Operand::same;
    case Parts::rows:
      return operand == 0 ? DistributedSplit::Operand::rows : DistributedSplit::Operand::same;
    case Parts::indexed:
      return operand == 0 ? DistributedSplit::Operand::data : DistributedSplit::Operand::indices;
    case Parts::updated:
      break;
  }
  constexpr DistributedSplit::Operand updated[] = {DistributedSplit::Operand::same, DistributedSplit::Operand::whole,
                                                   DistributedSplit::Operand::columns};
  return updated[operand];
}

}  // namespace

DistributedSplit distributed_split(const Graph& graph, const Op& op, std::span<const DistributedLayout> operands) {
  const Type& result = graph.type(graph.result(op));
  const std::span<const ValueId> values = graph.operands(op);
  DistributedSplit work;
  work.shape = result.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  std::vector<Layout> layouts;
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    layouts.push_back(row_major(type.shape));
    work.sources.push_back({operands[i], static_cast<int64_t>(byte_size(type.dtype)), matrix_extents(type.shape),
                            read_by(*parts_of(op.attributes), i)});
  }
  work.expression_nodes = split_work(graph, op, layouts).expression_nodes;
  work.updates = update_rows(graph, op);
  if (const auto* gather = std::get_if<Gather>(&op.attributes))
    work.gather = {*gather, graph.type(values[0]).shape, graph.type(values[1]).shape, result.shape};
  return work;
}

namespace {

DistributedSplit::Pieces pieces_of(const Graph& graph, const Op& op) {
  if (std::holds_alternative<Transpose>(op.attributes)) return DistributedSplit::Pieces::crossing;
  if (!std::holds_alternative<Reshape>(op.attributes)) return DistributedSplit::Pieces::follow;
  const int64_t from = std::max<int64_t>(matrix_extents(graph.type(graph.operands(op)[0]).shape).columns, 1);
  const int64_t to = std::max<int64_t>(matrix_extents(graph.type(graph.result(op)).shape).columns, 1);
  return from % to == 0 || to % from == 0 ? DistributedSplit::Pieces::follow : DistributedSplit::Pieces::ragged;
}

}  // namespace

DistributedSplit distributed_movement(const Machine& machine, const Graph& graph, const Op& op,
                                      std::span<const DistributedLayout> operands) {
  const Type& result = graph.type(graph.result(op));
  const std::span<const ValueId> values = graph.operands(op);
  const bool concat = std::holds_alternative<Concat>(op.attributes);
  DistributedSplit work;
  work.shape = result.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  work.copies = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    DistributedSplit::Source source{operands[i], work.result_bytes, matrix_extents(type.shape),
                                    DistributedSplit::Operand::moved, pieces_of(graph, op)};
    if (concat && result.shape.elements() > 0)
      source.share = static_cast<double>(type.shape.elements()) / static_cast<double>(result.shape.elements());
    if (source.layout.kind == DistributedLayout::Kind::constant) {
      // Spread over tiles, from where its elements go to their places.
      source.layout = layout_of(type.shape, distributed_constant_split(machine, type.shape));
      if (std::ranges::find(values.first(i), values[i]) == values.first(i).end())
        work.parameter_bytes +=
            static_cast<uint64_t>(source.layout.shard_elements()) * byte_size(type.dtype) * operands[i].iterations;
    }
    work.sources.push_back(source);
  }
  return work;
}

DistributedSplit distributed_copy(const Type& type, const DistributedLayout& source) {
  DistributedSplit work;
  work.shape = type.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(type.dtype));
  work.copies = true;
  work.sources.push_back({source, work.result_bytes, matrix_extents(type.shape), DistributedSplit::Operand::same});
  return work;
}

}  // namespace low
