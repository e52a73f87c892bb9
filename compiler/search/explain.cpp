#include "compiler/search/explain.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace low {

std::string describe(const Graph& graph, size_t op_index) {
  const Op& op = graph.op(OpId(op_index));
  std::string text = fmt::format("{} {}", kind_name(op.attributes), op_index);
  if (!op.name.empty()) text += fmt::format(" ({})", op.name);
  if (op.results.count > 0) text += " " + to_string(graph.type(graph.result(op)));
  return text;
}

std::string describe(const OpPlan& plan) {
  if (const auto* matmul = std::get_if<MatmulPlan>(&plan)) {
    return fmt::format("grid {}x{}x{}x{}, block {}x{}x{}", matmul->grid_batch, matmul->grid_m, matmul->grid_n,
                       matmul->grid_k, matmul->block_m, matmul->block_n, matmul->block_k);
  }
  if (const auto* attention = std::get_if<AttentionPlan>(&plan)) {
    return fmt::format("{}, grid {}x{}x{}, block {}x{}{}", name(attention->algorithm), attention->grid_batch,
                       attention->grid_m, attention->grid_heads, attention->block_m, attention->block_n,
                       attention->key_parts > 0 ? fmt::format(", keys in {} parts", attention->key_parts) : "");
  }
  if (const auto* split = std::get_if<SplitPlan>(&plan)) return fmt::format("axis {} in {}", split->axis, split->parts);
  if (const auto* movement = std::get_if<MovementPlan>(&plan)) {
    if (!movement->copy) return "view";
    return fmt::format("copy, axis {} in {}", movement->split.axis, movement->split.parts);
  }
  return "";
}

std::string explain(const Machine& machine, const Finalist& finalist) {
  const std::vector<ExplanationLine>& lines = finalist.lines;
  if (finalist.given) return "from a plan file\n";
  size_t name_width = 5;
  size_t decision_width = 0;
  for (const ExplanationLine& line : lines) {
    name_width = std::max(name_width, line.name.size() + 2 * static_cast<size_t>(line.depth));
    decision_width = std::max(decision_width, line.decision.size());
  }
  const double microseconds = 1e6 / machine.clock_hz;
  const double whole = finalist.cycles > 0 ? finalist.cycles : 1;
  std::string text;
  const auto print = [&](const std::string& name, const std::string& decision, const CostSum& cost) {
    const auto item = [&](std::string_view what, double cycles) {
      return fmt::format("  {} {:.2f} ({:.1f}%)", what, cycles * microseconds, 100 * cycles / whole);
    };
    text += fmt::format("{:<{}}  {:<{}}  {:>10.2f} us {:>5.1f}%", name, name_width, decision, decision_width,
                        cost.cycles * microseconds, 100 * cost.cycles / whole);
    text += item("compute", cost.items.compute) + item("memory", cost.items.memory) +
            item("exchange", cost.items.exchange) + item("launch", cost.items.launch) +
            item("padding", cost.items.padding) + "\n";
  };
  for (const ExplanationLine& line : lines) {
    print(std::string(static_cast<size_t>(line.depth) * 2, ' ') + line.name, line.decision, line.cost);
  }
  print("total", "", {finalist.cost, finalist.cycles});
  if (!machine.global_memory) {
    text += fmt::format("busiest tile: {} of {} bytes, {} of them constants\n", finalist.peak_bytes,
                        machine.tile_memory_bytes, finalist.parameter_bytes);
  }
  return text;
}

}  // namespace low
