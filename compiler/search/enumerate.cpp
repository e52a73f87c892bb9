// Enumeration: a beam over the operations of a region, in order.
//
// A state is a prefix of decisions. States differ, for what is still to come, only in the layouts of live values; among
// those that agree in them, a state is dropped when as many states as there are finalists are both faster and smaller.
#include <algorithm>
#include <deque>
#include <numeric>

#include <fmt/format.h>

#include "compiler/search/attention.h"
#include "compiler/search/choices.h"
#include "compiler/search/distributed_search.h"
#include "compiler/search/search.h"
#include "compiler/search/space.h"

namespace low {
namespace {

// A value that a later operation reads, or whose storage a live view reads.
struct Live {
  ValueId value;
  ValueId root;           // the value in whose storage it lies
  uint32_t last_use = 0;  // index of an operation
  uint64_t bytes = 0;     // of its own storage: 0 for views, and for values written to an output's place
  Layout layout;
  bool dense = true;    // the root itself, or reshapes of it: all of its elements, in order
  bool placed = false;  // an earlier output decided where this value is written
};

struct State {
  int32_t node = -1;  // of the last decision
  CostSum cost;
  uint64_t peak_bytes = 0;
  std::vector<Live> live;  // without inputs and constants, which are row-major and always there
};

struct Node {
  int32_t parent = -1;
  const Choice* choice = nullptr;
};

// Whether a later operation can tell the two apart.
bool same_views(const State& a, const State& b) {
  return std::ranges::equal(a.live, b.live, [](const Live& x, const Live& y) {
    return x.value == y.value && x.root == y.root && x.layout == y.layout;
  });
}

class RegionSearch {
 public:
  RegionSearch(SearchContext& context, const Graph& graph, int depth)
      : context_(context), graph_(graph), depth_(depth), cache_(graph.op_count()), alternatives_(graph.op_count(), 1) {}

  Result<std::vector<RegionChoice>> run() {
    find_uses();
    LOW_TRY_VOID(find_alternatives());
    std::vector<State> states(1);
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      std::vector<State> next;
      for (const State& state : states) LOW_TRY_VOID(extend(state, i, next));
      states = prune(std::move(next));
    }
    std::vector<RegionChoice> results;
    for (const State& state : states) {
      if (results.size() == static_cast<size_t>(context_.options.finalists)) break;
      RegionChoice result = collect(state);
      const auto same = [&](const RegionChoice& other) { return other.plan == result.plan; };
      if (std::ranges::none_of(results, same)) results.push_back(std::move(result));
    }
    return results;
  }

 private:
  struct CacheEntry {
    std::vector<Layout> layouts;  // of the operands
    bool in_place = false;        // of an output
    std::vector<Choice> choices;
  };

  void find_uses() {
    last_use_ = Table<ValueId, uint32_t>(graph_.value_count(), 0);
    first_output_ = Table<ValueId, OpId>(graph_.value_count());
    row_major_use_ = Table<ValueId, char>(graph_.value_count(), 0);
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      const std::span<const ValueId> operands = graph_.operands(op);
      for (uint32_t j = 0; j < operands.size(); ++j) {
        last_use_[operands[j]] = static_cast<uint32_t>(i);
        if (needs_row_major(op, j)) row_major_use_[operands[j]] = 1;
        if (std::holds_alternative<Output>(op.attributes) && !first_output_[operands[j]].valid()) {
          first_output_[operands[j]] = OpId(i);
        }
      }
    }
  }

  // Matmuls, attention and repeats of at least a tenth of the time keep alternatives, so that finalists differ in what
  // matters; where there is none, the costliest operation does. All others keep their best choice.
  Result<void> find_alternatives() {
    std::vector<double> cycles(graph_.op_count(), 0);
    double total = 0;
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      std::vector<Layout> layouts;
      for (const ValueId operand : graph_.operands(op)) layouts.push_back(row_major(graph_.type(operand).shape));
      LOW_TRY(const std::vector<Choice>* choices, choices_for(i, std::move(layouts), true));
      if (choices->empty()) continue;
      cycles[i] = (*choices)[0].cost.cycles;
      total += cycles[i];
    }
    const auto finalists = static_cast<size_t>(context_.options.finalists);
    bool any = false;
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Attributes& attributes = graph_.op(OpId(i)).attributes;
      const bool varied = std::holds_alternative<Matmul>(attributes) || std::holds_alternative<Repeat>(attributes) ||
                          std::holds_alternative<Attention>(attributes);
      if (!varied || cycles[i] < 0.1 * total) continue;
      alternatives_[i] = finalists;
      any = true;
    }
    if (!any && !cycles.empty()) {
      const auto costliest = std::ranges::max_element(cycles);  // the first of equals
      alternatives_[static_cast<size_t>(costliest - cycles.begin())] = finalists;
    }
    return {};
  }

  Result<const std::vector<Choice>*> choices_for(size_t i, std::vector<Layout> layouts, bool in_place) {
    for (const CacheEntry& entry : cache_[i]) {
      if (entry.in_place == in_place && entry.layouts == layouts) return &entry.choices;
    }
    const Op& op = graph_.op(OpId(i));
    CacheEntry entry{std::move(layouts), in_place, {}};
    if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes) ||
        (std::holds_alternative<Output>(op.attributes) && in_place)) {
      entry.choices.emplace_back();
    } else if (std::holds_alternative<Output>(op.attributes)) {
      entry.choices = output_choices(context_, graph_.type(graph_.operands(op)[0]), entry.layouts[0]);
    } else if (std::holds_alternative<Repeat>(op.attributes)) {
      LOW_TRY(entry.choices, repeat_choices(std::get<Repeat>(op.attributes)));
    } else {
      entry.choices = op_choices(context_, graph_, op, entry.layouts);
      if (entry.choices.empty()) {
        if (std::holds_alternative<Attention>(op.attributes))
          return fail(ErrorKind::unsupported,
                      fmt::format("search: {}: {}", describe(graph_, i), attention_obstacle(graph_, op)));
        const bool known = std::holds_alternative<Matmul>(op.attributes);
        return fail(known ? ErrorKind::unsupported : ErrorKind::internal,
                    fmt::format("search: {}: {}", describe(graph_, i),
                                known ? fmt::format("no block of it fits machine {}", context_.machine.name)
                                      : "an operation that the graph passes should have replaced"));
      }
    }
    cache_[i].push_back(std::move(entry));
    return &cache_[i].back().choices;
  }

  // One body, planned once; its cost counts for each iteration.
  Result<std::vector<Choice>> repeat_choices(const Repeat& repeat) {
    if (!bodies_searched_.contains(repeat.body.get())) {
      if (depth_ == max_repeat_depth) {
        return fail(ErrorKind::unsupported, fmt::format("search: repeats are nested deeper than {}", max_repeat_depth));
      }
      LOW_TRY(std::vector<RegionChoice> found, RegionSearch(context_, *repeat.body, depth_ + 1).run());
      std::vector<std::shared_ptr<const RegionChoice>> shared;
      for (RegionChoice& choice : found) shared.push_back(std::make_shared<const RegionChoice>(std::move(choice)));
      bodies_searched_.insert(repeat.body.get(), std::move(shared));
    }
    std::vector<Choice> choices;
    for (const std::shared_ptr<const RegionChoice>& body : bodies_searched_.at(repeat.body.get())) {
      Choice choice;
      choice.plan = RepeatPlan{{body->plan}};
      choice.cost.add(body->cost, static_cast<double>(repeat.count));
      choice.body = body;
      choices.push_back(std::move(choice));
    }
    return choices;
  }

  static const Live* find(const State& state, ValueId value) {
    const auto found = std::ranges::find(state.live, value, &Live::value);
    return found == state.live.end() ? nullptr : &*found;
  }

  // The value whose producer can write an output of `value` where it belongs: its root, if it is all of that, and no
  // earlier output did. Values from elsewhere (inputs, constants) are not live, and are copied.
  static ValueId placed_by(const State& state, ValueId value) {
    const Live* live = find(state, value);
    const Live* root = live != nullptr && live->dense ? find(state, live->root) : nullptr;
    return root != nullptr && !root->placed ? root->value : ValueId();
  }

  // Appends `state` followed by each choice for operation i.
  Result<void> extend(const State& state, size_t i, std::vector<State>& next) {
    const Op& op = graph_.op(OpId(i));
    const std::span<const ValueId> operands = graph_.operands(op);
    std::vector<Layout> layouts;
    for (const ValueId operand : operands) {
      const Live* live = find(state, operand);
      layouts.push_back(live != nullptr ? live->layout : row_major(graph_.type(operand).shape));
    }
    const bool in_place = !std::holds_alternative<Output>(op.attributes) || placed_by(state, operands[0]).valid();
    LOW_TRY(const std::vector<Choice>* choices, choices_for(i, std::move(layouts), in_place));
    size_t kept = 0;
    for (const Choice& choice : *choices) {
      if (choice.view) {
        const ValueId result = graph_.result(op);
        if (row_major_use_[result] != 0 && !is_row_major(graph_.type(result).shape, *choice.view)) continue;
      } else if (kept++ == alternatives_[i]) {
        break;
      }
      next.push_back(apply(state, i, choice));
    }
    return {};
  }

  State apply(const State& state, size_t i, const Choice& choice) {
    const Op& op = graph_.op(OpId(i));
    State result = state;
    nodes_.push_back({state.node, &choice});
    result.node = static_cast<int32_t>(nodes_.size() - 1);
    result.cost.add(choice.cost);
    if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes)) return result;
    if (std::holds_alternative<Output>(op.attributes)) {
      const ValueId placed = placed_by(state, graph_.operands(op)[0]);
      if (placed.valid()) std::ranges::find(result.live, placed, &Live::value)->placed = true;
    }
    for (uint32_t j = 0; j < op.results.count; ++j) {
      const ValueId value = graph_.result(op, j);
      const Type& type = graph_.type(value);
      Live live{value, value, last_use_[value], 0, {}};
      if (choice.view) {
        const ValueId operand = graph_.operands(op)[0];
        const Live* source = find(state, operand);
        live.root = source != nullptr ? source->root : operand;
        live.dense = (source == nullptr || source->dense) && std::holds_alternative<Reshape>(op.attributes);
        live.layout = *choice.view;
      } else {
        live.layout = row_major(type.shape);
        if (!first_output_[value].valid()) {
          live.bytes = static_cast<uint64_t>(type.shape.elements()) * byte_size(type.dtype);
        }
      }
      result.live.push_back(std::move(live));
    }
    uint64_t bytes = choice.body ? choice.body->peak_bytes : choice.temporary_bytes;
    for (const Live& live : result.live) bytes += live.bytes;
    result.peak_bytes = std::max(result.peak_bytes, bytes);
    // What nothing reads any more is gone, but for the storage of live views.
    std::vector<ValueId> roots;
    for (const Live& live : result.live) {
      if (live.last_use > i) roots.push_back(live.root);
    }
    std::erase_if(result.live, [&](const Live& live) {
      return live.last_use <= i && std::ranges::find(roots, live.value) == roots.end();
    });
    return result;
  }

  std::vector<State> prune(std::vector<State> states) const {
    std::vector<size_t> order(states.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) {
      const State& x = states[a];
      const State& y = states[b];
      if (x.cost.cycles != y.cost.cycles) return x.cost.cycles < y.cost.cycles;
      return x.peak_bytes != y.peak_bytes ? x.peak_bytes < y.peak_bytes : a < b;
    });
    std::vector<State> kept;
    for (const size_t i : order) {
      if (kept.size() == static_cast<size_t>(context_.options.beam)) break;
      const auto dominates = [&](const State& other) {
        return other.peak_bytes <= states[i].peak_bytes && same_views(other, states[i]);
      };
      if (std::ranges::count_if(kept, dominates) >= context_.options.finalists) continue;
      kept.push_back(std::move(states[i]));
    }
    return kept;
  }

  RegionChoice collect(const State& state) const {
    std::vector<const Choice*> choices;
    for (int32_t node = state.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
      choices.push_back(nodes_[static_cast<size_t>(node)].choice);
    }
    std::ranges::reverse(choices);
    RegionChoice result;
    result.cost = state.cost;
    result.peak_bytes = state.peak_bytes;
    for (size_t i = 0; i < choices.size(); ++i) {
      const Choice& choice = *choices[i];
      const Op& op = graph_.op(OpId(i));
      result.plan.ops.push_back(choice.plan);
      const bool output = std::holds_alternative<Output>(op.attributes);
      if (output) result.plan.outputs.push_back(choice.output);
      if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes)) continue;
      if (output && choice.cost.cycles == 0) continue;  // written in place
      ExplanationLine line{depth_, describe(graph_, i), describe(choice.plan), choice.cost};
      if (output) line.decision = "copy, " + describe(OpPlan(choice.output));
      if (choice.body) line.decision = fmt::format("{} times", std::get<Repeat>(op.attributes).count);
      result.lines.push_back(std::move(line));
      if (!choice.body) continue;
      const auto times = static_cast<double>(std::get<Repeat>(op.attributes).count);
      for (const ExplanationLine& inner : choice.body->lines) {
        ExplanationLine scaled{inner.depth, inner.name, inner.decision, {}};
        scaled.cost.add(inner.cost, times);
        result.lines.push_back(std::move(scaled));
      }
    }
    return result;
  }

  // Bodies are few: a list in the order of first use.
  struct Bodies {
    std::vector<std::pair<const Graph*, std::vector<std::shared_ptr<const RegionChoice>>>> entries;
    bool contains(const Graph* body) const {
      return std::ranges::any_of(entries, [&](const auto& entry) { return entry.first == body; });
    }
    void insert(const Graph* body, std::vector<std::shared_ptr<const RegionChoice>> choices) {
      entries.emplace_back(body, std::move(choices));
    }
    const std::vector<std::shared_ptr<const RegionChoice>>& at(const Graph* body) const {
      return std::ranges::find_if(entries, [&](const auto& entry) { return entry.first == body; })->second;
    }
  };

  SearchContext& context_;
  const Graph& graph_;
  const int depth_;
  std::vector<std::deque<CacheEntry>> cache_;  // for each operation; entries keep their place
  std::vector<size_t> alternatives_;           // for each operation: how many choices (but for a view) are combined
  std::vector<Node> nodes_;
  Table<ValueId, uint32_t> last_use_;
  Table<ValueId, OpId> first_output_;
  Table<ValueId, char> row_major_use_;
  Bodies bodies_searched_;
};

// Inputs, outputs and constants, those of bodies included (their inputs and outputs are the repeat's).
double fixed_bytes(const Graph& graph, bool top) {
  double bytes = 0;
  const auto size = [&](ValueId value) {
    const Type& type = graph.type(value);
    return static_cast<double>(type.shape.elements()) * static_cast<double>(byte_size(type.dtype));
  };
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<Constant>(op.attributes)) bytes += size(graph.result(op));
    if (top && std::holds_alternative<Input>(op.attributes)) bytes += size(graph.result(op));
    if (top && std::holds_alternative<Output>(op.attributes)) bytes += size(graph.operands(op)[0]);
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) bytes += fixed_bytes(*repeat->body, false);
  }
  return bytes;
}

}  // namespace

Result<SearchResult> search(const Graph& graph, const Machine& machine, const SearchOptions& options,
                            ThreadPool& pool) {
  SearchContext context{machine, options, pool};
  context.options.finalists = std::clamp(options.finalists, 1, 1024);
  context.options.beam = std::clamp(options.beam, context.options.finalists, 65536);
  context.options.candidates_per_op = std::max<int64_t>(options.candidates_per_op, 1);
  if (!machine.global_memory) return search_distributed(graph, machine, context.options, pool);

  LOW_TRY(std::vector<RegionChoice> regions, RegionSearch(context, graph, 0).run());
  SearchResult result;
  result.candidates = context.candidates;
  const std::string graph_digest = digest(graph);
  const double fixed = fixed_bytes(graph, true);
  double smallest = 0;
  for (RegionChoice& region : regions) {
    const double need = fixed + static_cast<double>(region.peak_bytes);
    if (machine.global_memory_bytes != 0 && need > static_cast<double>(machine.global_memory_bytes)) {
      smallest = smallest == 0 ? need : std::min(smallest, need);
      continue;
    }
    Finalist finalist;
    finalist.plan = {machine.name, machine.tiles, graph_digest, std::move(region.plan)};
    finalist.cost = region.cost.items;
    finalist.cycles = region.cost.cycles;
    finalist.peak_bytes = region.peak_bytes;
    finalist.explanation = explain(machine, region.lines, region.cost);
    result.finalists.push_back(std::move(finalist));
  }
  if (result.finalists.empty()) {
    return fail(ErrorKind::unsupported, fmt::format("the model needs {:.0f} bytes of global memory; machine {} has {}",
                                                    smallest, machine.name, machine.global_memory_bytes));
  }
  std::vector<std::pair<std::string, size_t>> texts;
  for (size_t i = 0; i < result.finalists.size(); ++i) texts.emplace_back(print(result.finalists[i].plan), i);
  std::ranges::sort(texts, [&](const auto& a, const auto& b) {
    const double x = result.finalists[a.second].cycles;
    const double y = result.finalists[b.second].cycles;
    return x != y ? x < y : a.first < b.first;
  });
  std::vector<Finalist> ordered;
  for (const auto& [text, i] : texts) ordered.push_back(std::move(result.finalists[i]));
  result.finalists = std::move(ordered);
  return result;
}

}  // namespace low
