#include "compiler/graph/passes/copy_op.h"

namespace low {

std::vector<ValueId> mapped_operands(const Graph& graph, const Op& op, const ValueMap& map) {
  std::vector<ValueId> operands;
  for (const ValueId operand : graph.operands(op)) operands.push_back(map[operand.index]);
  return operands;
}

std::vector<Type> result_types(const Graph& graph, const Op& op) {
  std::vector<Type> types;
  for (uint32_t i = 0; i < op.results.count; ++i) types.push_back(graph.type(graph.result(op, i)));
  return types;
}

void copy_op(const Graph& graph, const Op& op, Attributes attributes, std::span<const ValueId> operands,
             const std::string& name, GraphBuilder& builder, ValueMap& map) {
  const Op& added = builder.peek().op(builder.add(std::move(attributes), operands, result_types(graph, op), name));
  for (uint32_t i = 0; i < op.results.count; ++i) {
    map[graph.result(op, i).index] = builder.peek().result(added, i);
  }
}

void copy_op(const Graph& graph, const Op& op, Attributes attributes, GraphBuilder& builder, ValueMap& map) {
  copy_op(graph, op, std::move(attributes), mapped_operands(graph, op, map), op.name, builder, map);
}

}  // namespace low
