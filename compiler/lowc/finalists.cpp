#include "compiler/lowc/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/lowc/text.h"
#include "compiler/search/explain.h"

namespace low::lowc {
namespace {

// --- decisions

std::string choice_of(const Op& op, const RegionPlan& region, size_t index, size_t output) {
  const OpPlan& plan = region.ops[index];
  if (std::holds_alternative<Output>(op.attributes)) {
    // One part is also what stands where the producer writes the output itself.
    const SplitPlan& split = region.outputs[output];
    return split == SplitPlan{} ? "" : "copy, " + describe(OpPlan(split));
  }
  if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) return fmt::format("{} times", repeat->count);
  return describe(plan);
}

void add_decisions(const Graph& graph, const std::vector<const RegionPlan*>& regions, int depth,
                   std::vector<DecisionRow>& rows) {
  size_t output = 0;
  for (size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(OpId(i));
    DecisionRow row{depth, one_line(describe(graph, i)), {}};
    for (const RegionPlan* region : regions) row.choices.push_back(choice_of(op, *region, i, output));
    if (std::holds_alternative<Output>(op.attributes)) ++output;
    if (std::ranges::any_of(row.choices, [](const std::string& choice) { return !choice.empty(); })) {
      rows.push_back(std::move(row));
    }
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    if (repeat == nullptr) continue;
    std::vector<const RegionPlan*> bodies;
    for (const RegionPlan* region : regions) bodies.push_back(&std::get<RepeatPlan>(region->ops[i]).body[0]);
    add_decisions(*repeat->body, bodies, depth + 1, rows);
  }
}

// --- table

struct Row {
  std::string name;
  std::vector<std::string> cells;
};

// The first column flush left, the others below their heads.
std::string table(const std::vector<std::string>& heads, const std::vector<Row>& rows, bool right) {
  size_t name_width = 0;
  std::vector<size_t> widths;
  for (const std::string& head : heads) widths.push_back(head.size());
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row.cells[i].size());
  }
  std::string text;
  const auto line = [&](const std::string& name, const std::vector<std::string>& cells) {
    std::string made = fmt::format("{:<{}}", name, name_width);
    for (size_t i = 0; i < cells.size(); ++i) {
      made += right ? fmt::format("  {:>{}}", cells[i], widths[i]) : fmt::format("  {:<{}}", cells[i], widths[i]);
    }
    made.erase(made.find_last_not_of(' ') + 1);
    text += made + "\n";
  };
  line("", heads);
  for (const Row& row : rows) line(row.name, row.cells);
  return text;
}

bool is_expanded(const ExpandedFinalist& finalist) { return finalist.graph.has_value(); }

std::string rejection(const ExpandedFinalist& finalist, const PeakMemory& peak) {
  return finalist.rejected.empty() ? peak.rejected : finalist.rejected;
}

std::string verdict(const PlannedProgram& planned, size_t i, const PeakMemory& peak) {
  if (i == planned.chosen) return "chosen";
  return rejection(planned.finalists[i], peak).empty() ? "fits" : "rejected";
}

std::string cycles(double value) { return fmt::format("{:.0f}", value); }

std::vector<Row> cost_rows(const PlannedProgram& planned, const std::vector<PeakMemory>& peaks) {
  std::vector<Row> rows;
  const auto row = [&](std::string name, const auto& cell) {
    Row made{std::move(name), {}};
    for (size_t i = 0; i < planned.finalists.size(); ++i) made.cells.push_back(cell(planned.finalists[i], i));
    rows.push_back(std::move(made));
  };
  const auto items = [&](bool expanded) {
    const auto item = [&](std::string_view name, double Cost::* field) {
      row(fmt::format("  {}", name), [&](const ExpandedFinalist& finalist, size_t) -> std::string {
        if (expanded ? !is_expanded(finalist) : planned.candidates == 0)
          return "-";  // a plan from a file was not searched
        return cycles((expanded ? finalist.cost.total.items : finalist.finalist.cost).*field);
      });
    };
    item("compute", &Cost::compute);
    item("memory", &Cost::memory);
    item("exchange", &Cost::exchange);
    item("launch", &Cost::launch);
    item("padding, in compute", &Cost::padding);
  };
  const auto expanded = [&](std::string name, const auto& value) {
    row(std::move(name), [&](const ExpandedFinalist& finalist, size_t) -> std::string {
      return is_expanded(finalist) ? value(finalist.cost) : "-";
    });
  };
  row("cycles, as searched", [&](const ExpandedFinalist& finalist, size_t) -> std::string {
    return planned.candidates == 0 ? "-" : cycles(finalist.finalist.cycles);
  });
  items(false);
  expanded("cycles, expanded", [&](const CostReport& cost) { return cycles(cost.total.cycles); });
  const std::string_view cores = planned.machine.logical_tiles ? ", a core for each tile" : "";
  expanded(fmt::format("  in microseconds{}", cores),
           [&](const CostReport& cost) { return fmt::format("{:.3f}", cost.seconds * 1e6); });
  items(true);
  const auto activity = [&](std::string_view name, uint64_t Activity::* field) {
    expanded(fmt::format("{} in a run", name),
             [&](const CostReport& cost) { return fmt::format("{}", cost.in_run.*field); });
    expanded("  in the graph", [&](const CostReport& cost) { return fmt::format("{}", cost.in_graph.*field); });
  };
  activity("supersteps", &Activity::supersteps);
  activity("kernel runs", &Activity::runs);
  activity("local copies", &Activity::copies);
  activity("exchanges", &Activity::exchanges);
  activity("recipients", &Activity::recipients);
  activity("bytes sent", &Activity::sent_bytes);
  activity("bytes delivered", &Activity::delivered_bytes);
  activity("bytes copied locally", &Activity::copied_bytes);
  const bool global = planned.machine.global_memory;
  row(global ? "peak bytes of global memory" : "peak bytes of the busiest tile",
      [&](const ExpandedFinalist&, size_t i) { return peaks[i].known ? fmt::format("{}", peaks[i].bytes) : "-"; });
  row("  capacity", [&](const ExpandedFinalist&, size_t i) -> std::string {
    if (peaks[i].capacity_bytes == 0) return "not limited";
    return fmt::format("{}", peaks[i].capacity_bytes);
  });
  row("verdict", [&](const ExpandedFinalist&, size_t i) { return verdict(planned, i, peaks[i]); });
  return rows;
}

// --- the reason

// Time that is neither exchange nor launch: of each superstep the longer of compute and memory. With exchange and
// launch it adds up to the whole.
double work_cycles(const CostReport& cost) {
  return cost.total.cycles - cost.total.items.exchange - cost.total.items.launch;
}

// The cheapest that fits, apart from the chosen one.
std::optional<size_t> runner_up(const PlannedProgram& planned, const std::vector<PeakMemory>& peaks) {
  std::optional<size_t> best;
  for (size_t i = 0; i < planned.finalists.size(); ++i) {
    const ExpandedFinalist& finalist = planned.finalists[i];
    if (i == planned.chosen || !is_expanded(finalist) || !rejection(finalist, peaks[i]).empty()) continue;
    if (!best || finalist.cost.seconds < planned.finalists[*best].cost.seconds) best = i;
  }
  return best;
}

std::string reason(const PlannedProgram& planned, const std::vector<PeakMemory>& peaks) {
  const CostReport& winner = planned.finalists[planned.chosen].cost;
  const std::optional<size_t> second = runner_up(planned, peaks);
  std::string text = fmt::format("finalist {} wins", planned.chosen);
  if (!second) return text + ": no other plan can be built.\n";
  const CostReport& other = planned.finalists[*second].cost;
  const double difference = other.total.cycles - winner.total.cycles;
  if (difference == 0) {
    text += fmt::format(" over finalist {}, which takes as many cycles: the search put it first", *second);
  } else {
    text += fmt::format(" over finalist {} by {:.0f} of its {:.0f} cycles ({:.1f}%)", *second, difference,
                        other.total.cycles, 100 * difference / other.total.cycles);
  }
  struct Part {
    std::string_view name;
    double saved;
  };
  std::vector<Part> parts = {{"the longer of compute and memory", work_cycles(other) - work_cycles(winner)},
                             {"exchange", other.total.items.exchange - winner.total.items.exchange},
                             {"launch", other.total.items.launch - winner.total.items.launch}};
  std::ranges::sort(parts, {}, [](const Part& part) { return std::pair(-std::abs(part.saved), part.name); });
  std::vector<std::string> words;
  for (const Part& part : parts) {
    if (std::abs(part.saved) < 0.5) continue;
    words.push_back(fmt::format("{} {:.0f} {}", part.name, std::abs(part.saved), part.saved > 0 ? "less" : "more"));
  }
  if (words.empty()) words.push_back("no item differs by a whole cycle");
  return text + fmt::format(": {}.\n", fmt::join(words, ", "));
}

void write_items(std::string_view name, const Cost& items, double total, JsonWriter& json) {
  json.key(name).begin_object().member("cycles", total).member("compute", items.compute);
  json.member("memory", items.memory).member("exchange", items.exchange).member("launch", items.launch);
  json.member("padding", items.padding).end_object();
}

void write_activity(std::string_view name, const Activity& activity, JsonWriter& json) {
  json.key(name).begin_object().member("supersteps", activity.supersteps).member("runs", activity.runs);
  json.member("copies", activity.copies).member("exchanges", activity.exchanges);
  json.member("recipients", activity.recipients).member("sent_bytes", activity.sent_bytes);
  json.member("delivered_bytes", activity.delivered_bytes).member("copied_bytes", activity.copied_bytes).end_object();
}

}  // namespace

std::vector<DecisionRow> decisions(const Graph& graph, const PlannedProgram& planned) {
  std::vector<const RegionPlan*> regions;
  for (const ExpandedFinalist& finalist : planned.finalists) regions.push_back(&finalist.finalist.plan.region);
  std::vector<DecisionRow> rows;
  add_decisions(graph, regions, 0, rows);
  return rows;
}

std::vector<PeakMemory> peak_memory(const PlannedProgram& planned, ThreadPool& pool) {
  const Machine& machine = planned.machine;
  std::vector<PeakMemory> peaks(planned.finalists.size());
  pool.parallel_for(static_cast<int64_t>(peaks.size()), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    PeakMemory& peak = peaks[i];
    peak.capacity_bytes = machine.global_memory ? machine.global_memory_bytes : machine.tile_memory_bytes;
    if (!planned.finalists[i].graph) return;
    const auto placed =
        i == planned.chosen ? Result<Placement>(planned.placement) : place(*planned.finalists[i].graph, machine);
    if (!placed) {
      peak.rejected = placed.error().message;
      return;
    }
    peak.known = true;
    if (machine.global_memory) {
      peak.bytes = placed->arena_bytes + placed->parameter_bytes;
    } else {
      for (const uint64_t bytes : placed->tile_bytes) peak.bytes = std::max(peak.bytes, bytes);
    }
  });
  return peaks;
}

std::string explain_finalists(const Graph& graph, const PlannedProgram& planned, const std::vector<PeakMemory>& peaks) {
  std::string text = fmt::format("{} candidates on {}; {} finalists\n\n", planned.candidates, planned.machine.name,
                                 planned.finalists.size());
  std::vector<std::string> heads;
  for (size_t i = 0; i < planned.finalists.size(); ++i) heads.push_back(fmt::format("finalist {}", i));
  text += table(heads, cost_rows(planned, peaks), true);
  for (size_t i = 0; i < planned.finalists.size(); ++i) {
    const std::string why = rejection(planned.finalists[i], peaks[i]);
    if (!why.empty()) text += fmt::format("finalist {} is rejected: {}\n", i, one_line(why));
  }
  std::vector<Row> rows;
  for (const DecisionRow& decision : decisions(graph, planned)) {
    Row row{std::string(static_cast<size_t>(decision.depth) * 2, ' ') + decision.operation, decision.choices};
    for (size_t i = 1; i < row.cells.size(); ++i) {
      if (row.cells[i] == decision.choices[0]) row.cells[i] = "same";
    }
    rows.push_back(std::move(row));
  }
  text += "\n" + table(heads, rows, false) + "\n" + reason(planned, peaks);
  for (size_t i = 0; i < planned.finalists.size(); ++i) {
    text += fmt::format("\nfinalist {}, operation by operation, as searched:\n{}", i,
                        explain(planned.machine, planned.finalists[i].finalist));
  }
  return text;
}

void write_finalists(const Graph& graph, const PlannedProgram& planned, const std::vector<PeakMemory>& peaks,
                     JsonWriter& json) {
  const std::vector<DecisionRow> rows = decisions(graph, planned);
  json.key("finalists").begin_array();
  for (size_t i = 0; i < planned.finalists.size(); ++i) {
    const ExpandedFinalist& finalist = planned.finalists[i];
    json.begin_object().member("searched_cycles", finalist.finalist.cycles);
    if (is_expanded(finalist)) {
      const CostReport& cost = finalist.cost;
      json.member("seconds", cost.seconds).member("runs", cost.in_graph.runs).member("copies", cost.in_graph.copies);
      json.member("exchanges", cost.in_graph.exchanges).member("supersteps", cost.in_graph.supersteps);
    }
    const std::string why = rejection(finalist, peaks[i]);
    if (!why.empty()) json.member("rejected", why);
    json.member("verdict", verdict(planned, i, peaks[i]));
    write_items("searched", finalist.finalist.cost, finalist.finalist.cycles, json);
    if (is_expanded(finalist)) {
      write_items("expanded", finalist.cost.total.items, finalist.cost.total.cycles, json);
      write_activity("in_graph", finalist.cost.in_graph, json);
      write_activity("in_run", finalist.cost.in_run, json);
    }
    if (peaks[i].known) json.member("peak_bytes", peaks[i].bytes);
    if (peaks[i].capacity_bytes > 0) json.member("capacity_bytes", peaks[i].capacity_bytes);
    json.key("decisions").begin_array();
    for (const DecisionRow& row : rows) {
      json.begin_object().member("depth", row.depth).member("operation", row.operation);
      json.member("choice", row.choices[i]).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

}  // namespace low::lowc
