// Enumeration for machines without global memory: a beam over the operations of a region, in order.
//
// A state is a prefix of decisions. States differ, for what is still to come, in where live values lie and in the
// memory that is left; among those that agree in the former, a state is dropped when as many as there are finalists are
// both faster and smaller. States that do not fit are dropped at once.
//
// What a Repeat's body returns as a carried value has to lie where the body's input does. So a body is searched twice:
// freely, with the carried values where they come from; then once for each placement of the carried values that this
// found best, as given for both ends.
#include "compiler/search/distributed_search.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "compiler/base/hash.h"
#include "compiler/search/attention.h"
#include "compiler/search/distributed_choices.h"
#include "compiler/search/distributed_space.h"

namespace low {
namespace {

struct Live {
  ValueId value;
  ValueId root;           // the value in whose shards it lies
  uint32_t last_use = 0;  // index of an operation
  uint64_t bytes =
      0;  // of its shard on the busiest tile; 0 for views, and for what is written to a place around the Repeat
  DistributedLayout layout;
};

struct State {
  int32_t node = -1;  // of the last decision
  CostSum cost;
  uint64_t working_bytes = 0;
  uint64_t parameter_bytes = 0;
  std::vector<Live> live;
  std::vector<DistributedLayout> outputs;
  uint64_t need() const { return working_bytes + parameter_bytes; }
};

struct Node {
  int32_t parent = -1;
  const DistributedChoice* choice = nullptr;
};

bool same_views(const State& a, const State& b) {
  return a.outputs == b.outputs && std::ranges::equal(a.live, b.live, [](const Live& x, const Live& y) {
           return x.value == y.value && x.root == y.root && x.layout == y.layout;
         });
}

// Of states with the same views the same.
uint64_t hash_of_views(const State& state) {
  WordHash hash;
  const auto add_layout = [&hash](const DistributedLayout& layout) {
    hash.add(layout.part_batch).add(layout.part_m).add(layout.part_n).add(layout.share);
    hash.add(layout.grid_batch).add(layout.grid_m).add(layout.grid_n).add(layout.shares);
  };
  for (const Live& live : state.live) {
    hash.add(live.value.index).add(live.root.index);
    add_layout(live.layout);
  }
  for (const DistributedLayout& output : state.outputs) add_layout(output);
  return hash.result();
}

// For each state the first one with the same views. Values that stay alive are many, and states are compared with each
// other.
std::vector<size_t> first_with_same_views(std::span<const State> states) {
  std::vector<size_t> first(states.size());
  std::multimap<uint64_t, size_t> known;  // by hash; looked up only
  for (size_t i = 0; i < states.size(); ++i) {
    const uint64_t hash = hash_of_views(states[i]);
    const auto [begin, end] = known.equal_range(hash);
    const auto same =
        std::find_if(begin, end, [&](const auto& other) { return same_views(states[other.second], states[i]); });
    first[i] = same == end ? i : same->second;
    if (same == end) known.emplace(hash, i);
  }
  return first;
}

DistributedLayout constant_layout(uint64_t iterations = 1) {
  DistributedLayout layout;
  layout.kind = DistributedLayout::Kind::constant;
  layout.iterations = iterations;
  return layout;
}

// All iterations' values, each where `layout` has one.
DistributedLayout iterated(const DistributedLayout& layout, int64_t count) {
  if (layout.kind != DistributedLayout::Kind::tiles) return layout;
  DistributedLayout result = layout;
  result.batch = layout.batch * count;
  result.part_batch = layout.part_batch * count;
  return result;
}

using RequiredLayouts = std::vector<std::optional<DistributedLayout>>;

// The fastest of different grids, then whatever is next; one of them needs least memory.
std::vector<DistributedRegionChoice> finalists_of(std::vector<DistributedRegionChoice> all, size_t wanted) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (all[a].cost.cycles != all[b].cost.cycles) return all[a].cost.cycles < all[b].cost.cycles;
    return all[a].need() != all[b].need() ? all[a].need() < all[b].need() : a < b;
  });
  std::vector<size_t> kept;
  const auto add = [&](bool distinct) {
    for (const size_t i : order) {
      if (kept.size() == wanted) return;
      const bool known = std::ranges::any_of(kept, [&](size_t other) {
        return distinct ? all[other].grids == all[i].grids : all[other].plan == all[i].plan;
      });
      if (!known) kept.push_back(i);
    }
  };
  add(true);
  add(false);
  if (wanted > 1 && !all.empty()) {
    const auto least = std::ranges::min_element(all, {}, &DistributedRegionChoice::need);
    const auto index = static_cast<size_t>(least - all.begin());
    const bool known = std::ranges::any_of(kept, [&](size_t other) { return all[other].need() <= all[index].need(); });
    if (!known) {
      if (kept.size() == wanted) kept.pop_back();
      kept.push_back(index);
    }
  }
  std::vector<DistributedRegionChoice> result;
  for (const size_t i : order) {
    if (std::ranges::find(kept, i) != kept.end()) result.push_back(std::move(all[i]));
  }
  return result;
}

class DistributedRegionSearch {
 public:
  // At depth 0 outputs leave the tiles; those of a Repeat's body go to places around the Repeat.
  DistributedRegionSearch(DistributedContext& context, const Graph& graph, int depth)
      : context_(context),
        graph_(graph),
        kept_(depth == 0 ? 0 : static_cast<uint32_t>(graph.outputs().size())),
        depth_(depth),
        cache_(graph.op_count()),
        writers_(output_writers(graph, kept_)) {
    find_uses();
  }

  Result<std::vector<DistributedRegionChoice>> run(std::span<const DistributedLayout> inputs,
                                                   const RequiredLayouts& required) {
    fixed_ = Table<ValueId, DistributedLayout>(graph_.value_count());
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      fixed_[graph_.result(graph_.op(graph_.inputs()[i]))] = inputs[i];
    }
    for (const Op& op : graph_.ops()) {
      if (std::holds_alternative<Constant>(op.attributes)) fixed_[graph_.result(op)] = constant_layout();
    }
    required_ = required;
    required_.resize(kept_);
    nodes_.clear();
    std::vector<State> states(1);
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      std::vector<State> next;
      uint64_t least = UINT64_MAX;
      for (const State& state : states) LOW_TRY_VOID(extend(state, i, next, least));
      if (next.empty()) {
        return fail(ErrorKind::unsupported,
                    fmt::format("search: {}: needs at least {} bytes of a tile's memory with what is alive then; a "
                                "tile of machine {} has {}",
                                describe(graph_, i), least, context_.machine.name, context_.machine.tile_memory_bytes));
      }
      states = prune(std::move(next));
    }
    std::vector<DistributedRegionChoice> results;
    for (const State& state : states) results.push_back(collect(state));
    return finalists_of(std::move(results), static_cast<size_t>(context_.options.finalists));
  }

 private:
  struct CacheEntry {
    std::vector<DistributedLayout> layouts;  // of the operands
    std::optional<DistributedLayout> required;
    bool in_place = false;  // of an output
    std::vector<DistributedChoice> choices;
  };

  void find_uses() {
    last_use_ = Table<ValueId, uint32_t>(graph_.value_count(), 0);
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      for (const ValueId operand : graph_.operands(graph_.op(OpId(i)))) last_use_[operand] = static_cast<uint32_t>(i);
    }
  }

  uint32_t output_index(size_t op) const {
    const auto found = std::ranges::find(graph_.outputs(), OpId(op));
    return static_cast<uint32_t>(found - graph_.outputs().begin());
  }

  const Live* find(const State& state, ValueId value) const {
    const auto found = std::ranges::find(state.live, value, &Live::value);
    return found == state.live.end() ? nullptr : &*found;
  }
  const DistributedLayout& layout_in(const State& state, ValueId value) const {
    const Live* live = find(state, value);
    return live != nullptr ? live->layout : fixed_[value];
  }

  Result<const std::vector<DistributedChoice>*> choices_for(size_t i, std::vector<DistributedLayout> layouts) {
    const Op& op = graph_.op(OpId(i));
    const bool output = std::holds_alternative<Output>(op.attributes);
    std::optional<DistributedLayout> required;
    if (output && output_index(i) < kept_) {
      required = required_[output_index(i)];
    } else if (op.results.count == 1 && writers_.output[graph_.result(op)] != OutputWriters::none) {
      required = required_[writers_.output[graph_.result(op)]];
    }
    for (const CacheEntry& entry : cache_[i]) {
      if (entry.layouts == layouts && entry.required == required) return &entry.choices;
    }
    CacheEntry entry{std::move(layouts), required, false, {}};
    if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes)) {
      entry.choices.emplace_back();
    } else if (output) {
      entry.choices = output_choices(i, entry.layouts[0], required);
    } else if (std::holds_alternative<Repeat>(op.attributes)) {
      LOW_TRY(entry.choices, repeat_choices(op, entry.layouts));
    } else {
      entry.choices = distributed_op_choices(context_, graph_, op, entry.layouts, required);
      if (entry.choices.empty()) {
        if (std::holds_alternative<Attention>(op.attributes))
          return fail(ErrorKind::unsupported,
                      fmt::format("search: {}: {}", describe(graph_, i), attention_obstacle(graph_, op)));
        return fail(
            is_distributed_operation(graph_, op) ? ErrorKind::unsupported : ErrorKind::internal,
            fmt::format("search: {}: there is no way to plan this operation for machine {}, which has no global "
                        "memory",
                        describe(graph_, i), context_.machine.name));
      }
    }
    cache_[i].push_back(std::move(entry));
    return &cache_[i].back().choices;
  }

  std::vector<DistributedChoice> output_choices(size_t i, const DistributedLayout& source,
                                                const std::optional<DistributedLayout>& required) {
    const uint32_t output = output_index(i);
    const Type& type = graph_.type(graph_.operands(graph_.op(OpId(i)))[0]);
    std::vector<DistributedChoice> choices(1);
    DistributedChoice& choice = choices[0];
    choice.plan = NoPlan{};
    if (output < kept_) {
      if (!writers_.written[output]) return distributed_output_choices(context_, type, source, required);
      choice.layout = source;
      return choices;
    }
    choice.cost = distributed_output_cost(context_.machine, type, source);
    if (source.kind != DistributedLayout::Kind::tiles) {
      choice.output = distributed_split_space(context_.machine, type.shape, 1)[0];
    }
    return choices;
  }

  // --- repeats

  DistributedRegionSearch& search_of(const Repeat& repeat) {
    for (const auto& [body, search] : bodies_) {
      if (body == repeat.body.get()) return *search;
    }
    bodies_.emplace_back(repeat.body.get(),
                         std::make_unique<DistributedRegionSearch>(context_, *repeat.body, depth_ + 1));
    return *bodies_.back().second;
  }

  Result<std::vector<DistributedChoice>> repeat_choices(const Op& op, std::span<const DistributedLayout> operands) {
    const auto& repeat = std::get<Repeat>(op.attributes);
    if (depth_ == max_repeat_depth) {
      return fail(ErrorKind::unsupported, fmt::format("search: repeats are nested deeper than {}", max_repeat_depth));
    }
    std::vector<DistributedLayout> inputs(operands.begin(), operands.end());
    DistributedCost around;  // what happens once, before the first iteration
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      if (i < repeat.carried) {
        if (inputs[i].kind == DistributedLayout::Kind::constant) inputs[i] = DistributedLayout();
        continue;
      }
      if (i < repeat.carried + repeat.invariant) continue;
      const uint64_t count = static_cast<uint64_t>(std::max<int64_t>(repeat.count, 1));
      if (inputs[i].kind == DistributedLayout::Kind::constant) {
        inputs[i].iterations = std::min<uint64_t>(inputs[i].iterations * count, uint64_t{1} << 40);
      } else if (repeat.count > 0) {
        // Each tile takes its share of all iterations' rows beforehand.
        const Type& all = graph_.type(graph_.operands(op)[i]);
        const Graph& body = *repeat.body;
        const Type& slice = body.type(body.result(body.op(body.inputs()[i])));
        const int64_t rows = std::max<int64_t>(matrix_extents(slice.shape).rows, 1);
        const auto parts = static_cast<uint32_t>(std::min<int64_t>(rows, context_.machine.tiles));
        const Shape matrix{rows, matrix_extents(slice.shape).columns};
        const DistributedLayout shares = layout_of(matrix, SplitPlan{0, parts});
        const DistributedCost cost =
            distributed_copy_cost(context_.machine, all, inputs[i], iterated(shares, repeat.count));
        around.cost.add(cost.cost);
        around.working_bytes += cost.result_bytes;
        inputs[i] = shares;
      }
    }
    DistributedRegionSearch& search = search_of(repeat);
    LOW_TRY(std::vector<DistributedRegionChoice> found, search.run(inputs, {}));
    if (repeat.carried > 0 && repeat.count > 0) LOW_TRY_VOID(close_loop(search, repeat, inputs, found));

    std::vector<DistributedChoice> choices;
    for (DistributedRegionChoice& region : found) {
      const auto body = std::make_shared<const DistributedRegionChoice>(std::move(region));
      choices.push_back(repeat_choice(op, repeat, operands, around, body));
    }
    return choices;
  }

  // Replaces the bodies found freely by those whose carried values stay where they are.
  Result<void> close_loop(DistributedRegionSearch& search, const Repeat& repeat, std::vector<DistributedLayout>& inputs,
                          std::vector<DistributedRegionChoice>& found) {
    std::vector<std::vector<DistributedLayout>> ends;
    for (const DistributedRegionChoice& choice : found) {
      const std::vector<DistributedLayout> carried(choice.outputs.begin(), choice.outputs.begin() + repeat.carried);
      if (std::ranges::find(ends, carried) == ends.end()) ends.push_back(carried);
    }
    std::vector<DistributedRegionChoice> closed;
    std::optional<Error> error;
    for (const std::vector<DistributedLayout>& carried : ends) {
      std::ranges::copy(carried, inputs.begin());
      auto choices = search.run(inputs, RequiredLayouts(carried.begin(), carried.end()));
      if (!choices) {
        error = choices.error();
        continue;
      }
      for (DistributedRegionChoice& choice : *choices) closed.push_back(std::move(choice));
    }
    if (closed.empty()) return std::unexpected(*error);
    found = finalists_of(std::move(closed), static_cast<size_t>(context_.options.finalists));
    return {};
  }

  DistributedChoice repeat_choice(const Op& op, const Repeat& repeat, std::span<const DistributedLayout> operands,
                                  const DistributedCost& around,
                                  const std::shared_ptr<const DistributedRegionChoice>& body) const {
    DistributedChoice choice;
    choice.plan = RepeatPlan{{body->plan}};
    choice.body = body;
    choice.results.resize(op.results.count);
    choice.result_bytes.resize(op.results.count);
    if (repeat.count == 0) {
      std::copy_n(operands.begin(), repeat.carried, choice.results.begin());
      return choice;
    }
    choice.cost = around;
    for (uint32_t c = 0; c < repeat.carried; ++c) {
      const Type& type = graph_.type(graph_.operands(op)[c]);
      const DistributedCost initial = distributed_copy_cost(context_.machine, type, operands[c], body->outputs[c]);
      choice.cost.cost.add(initial.cost);
      choice.cost.parameter_bytes += initial.parameter_bytes;
      choice.results[c] = body->outputs[c];
      choice.result_bytes[c] = 2 * initial.result_bytes;  // two halves
      choice.cost.result_bytes += choice.result_bytes[c];
    }
    for (uint32_t c = repeat.carried; c < op.results.count; ++c) {
      const Type& type = graph_.type(graph_.result(op, c));
      choice.results[c] = iterated(body->outputs[c], repeat.count);
      choice.result_bytes[c] = static_cast<uint64_t>(choice.results[c].shard_elements()) * byte_size(type.dtype);
      choice.cost.result_bytes += choice.result_bytes[c];
    }
    choice.cost.cost.add(body->cost, static_cast<double>(repeat.count));
    choice.cost.working_bytes += choice.cost.result_bytes + body->working_bytes;
    choice.cost.parameter_bytes += body->parameter_bytes;
    return choice;
  }

  // --- states

  // Appends `state` followed by each choice for operation i that fits; `least`: the least that one needs that does not.
  Result<void> extend(const State& state, size_t i, std::vector<State>& next, uint64_t& least) {
    std::vector<DistributedLayout> layouts;
    for (const ValueId operand : graph_.operands(graph_.op(OpId(i)))) layouts.push_back(layout_in(state, operand));
    LOW_TRY(const std::vector<DistributedChoice>* choices, choices_for(i, std::move(layouts)));
    for (const DistributedChoice& choice : *choices) {
      State result = apply(state, i, choice);
      if (result.need() > context_.machine.tile_memory_bytes) {
        least = std::min(least, result.need());
        continue;
      }
      nodes_.push_back({state.node, &choice});
      result.node = static_cast<int32_t>(nodes_.size() - 1);
      next.push_back(std::move(result));
    }
    return {};
  }

  State apply(const State& state, size_t i, const DistributedChoice& choice) const {
    const Op& op = graph_.op(OpId(i));
    State result = state;
    if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes)) return result;
    result.cost.add(choice.cost.cost);
    result.parameter_bytes += choice.cost.parameter_bytes;
    uint64_t others = 0;
    for (const Live& live : result.live) others += live.bytes;
    uint64_t working = choice.cost.working_bytes;
    if (std::holds_alternative<Output>(op.attributes)) {
      result.outputs.push_back(choice.layout);
      if (output_index(i) < kept_) working = 0;  // its place is counted around the Repeat
    }
    for (uint32_t j = 0; j < op.results.count; ++j) {
      const ValueId value = graph_.result(op, j);
      Live live{value, value, last_use_[value], 0, choice.layout};
      if (choice.view) {
        const ValueId operand = graph_.operands(op)[0];
        const Live* source = find(state, operand);
        live.root = source != nullptr ? source->root : operand;
      } else if (choice.body) {
        live.layout = choice.results[j];
        live.bytes = choice.result_bytes[j];
      } else if (writers_.output[value] != OutputWriters::none) {
        working -= std::min(working, choice.cost.result_bytes);
      } else {
        live.bytes = choice.cost.result_bytes;
      }
      result.live.push_back(std::move(live));
    }
    result.working_bytes = std::max(result.working_bytes, others + working);
    // What nothing reads any more is gone, but for the shards of live views.
    std::vector<ValueId> roots;
    for (const Live& live : result.live) {
      if (live.last_use > i) roots.push_back(live.root);
    }
    std::erase_if(result.live, [&](const Live& live) {
      return live.last_use <= i && std::ranges::find(roots, live.value) == roots.end();
    });
    return result;
  }

  // Values that wait for one reader, such as the queries, keys and values of attention, are as good as how they lie
  // beside each other: each of them multiplies the ways to go on. From the third on, each widens the beam, up to four
  // times.
  size_t beam_width(std::span<const State> states) const {
    const auto waiting =
        std::ranges::count_if(states[0].live, [](const Live& live) { return live.root == live.value; });
    return static_cast<size_t>(context_.options.beam) * static_cast<size_t>(std::clamp<int64_t>(waiting - 1, 1, 4));
  }

  std::vector<State> prune(std::vector<State> states) const {
    std::vector<size_t> order(states.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) {
      if (states[a].cost.cycles != states[b].cost.cycles) return states[a].cost.cycles < states[b].cost.cycles;
      return states[a].need() != states[b].need() ? states[a].need() < states[b].need() : a < b;
    });
    const std::vector<size_t> views = first_with_same_views(states);
    std::vector<size_t> kept;
    for (const size_t i : order) {
      const auto dominates = [&](size_t other) {
        return states[other].need() <= states[i].need() && views[other] == views[i];
      };
      if (std::ranges::count_if(kept, dominates) < context_.options.finalists) kept.push_back(i);
    }
    // The fastest, but one place is for what needs least memory: a later operation may have no room otherwise.
    const size_t beam = beam_width(states);
    if (kept.size() > beam) {
      const auto least = *std::ranges::min_element(
          kept, {}, [&](size_t i) { return std::pair(states[i].need(), states[i].cost.cycles); });
      const bool among = std::find(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(beam), least) !=
                         kept.begin() + static_cast<std::ptrdiff_t>(beam);
      kept.resize(beam);
      if (!among) kept.back() = least;
    }
    std::vector<State> result;
    for (const size_t i : kept) result.push_back(std::move(states[i]));
    return result;
  }

  DistributedRegionChoice collect(const State& state) const {
    std::vector<const DistributedChoice*> choices;
    for (int32_t node = state.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
      choices.push_back(nodes_[static_cast<size_t>(node)].choice);
    }
    std::ranges::reverse(choices);
    DistributedRegionChoice result;
    result.cost = state.cost;
    result.working_bytes = state.working_bytes;
    result.parameter_bytes = state.parameter_bytes;
    result.outputs = state.outputs;
    for (size_t i = 0; i < choices.size(); ++i) {
      const DistributedChoice& choice = *choices[i];
      const Op& op = graph_.op(OpId(i));
      result.plan.ops.push_back(choice.plan);
      const bool output = std::holds_alternative<Output>(op.attributes);
      if (output) result.plan.outputs.push_back(choice.output);
      if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes)) continue;
      if (output && choice.cost.cost.cycles == 0) continue;  // written in place
      ExplanationLine line{depth_, describe(graph_, i), describe(choice.plan), choice.cost.cost};
      if (output) {
        line.decision = output_index(i) < kept_ ? "copy, " + describe(OpPlan(choice.output)) : "leaves the tiles";
      }
      if (const auto* matmul = std::get_if<MatmulPlan>(&choice.plan)) {
        result.grids += fmt::format("{}x{}x{}x{} ", matmul->grid_batch, matmul->grid_m, matmul->grid_n, matmul->grid_k);
      }
      if (const auto* attention = std::get_if<AttentionPlan>(&choice.plan)) {
        result.grids += fmt::format("{}:{}x{}x{} ", name(attention->algorithm), attention->grid_batch,
                                    attention->grid_m, attention->grid_heads);
      }
      if (choice.body) {
        line.decision = fmt::format("{} times", std::get<Repeat>(op.attributes).count);
        result.grids += choice.body->grids;
      }
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

  DistributedContext& context_;
  const Graph& graph_;
  const uint32_t kept_;  // outputs that stay on tiles: the first
  const int depth_;
  std::vector<std::deque<CacheEntry>> cache_;  // for each operation; entries keep their place
  Table<ValueId, uint32_t> last_use_;
  const OutputWriters writers_;
  std::vector<std::pair<const Graph*, std::unique_ptr<DistributedRegionSearch>>> bodies_;  // in the order of first use
  // Of the current run:
  Table<ValueId, DistributedLayout> fixed_;  // of inputs and constants
  RequiredLayouts required_;                 // by kept output
  std::vector<Node> nodes_;
};

}  // namespace

Result<SearchResult> search_distributed(const Graph& graph, const Machine& machine, const SearchOptions& options,
                                        ThreadPool& pool) {
  DistributedContext context{machine, options, pool};
  const std::vector<DistributedLayout> inputs(graph.inputs().size());
  LOW_TRY(std::vector<DistributedRegionChoice> regions, DistributedRegionSearch(context, graph, 0).run(inputs, {}));
  SearchResult result;
  result.candidates = context.candidates;
  const std::string graph_digest = digest(graph);
  std::vector<std::pair<std::string, Finalist>> ordered;
  for (DistributedRegionChoice& region : regions) {
    Finalist finalist;
    finalist.plan = {machine.name, machine.tiles, graph_digest, std::move(region.plan)};
    finalist.cost = region.cost.items;
    finalist.cycles = region.cost.cycles;
    finalist.peak_bytes = region.need();
    finalist.explanation = explain(machine, region.lines, region.cost);
    finalist.explanation += fmt::format("busiest tile: {} of {} bytes, {} of them constants\n", region.need(),
                                        machine.tile_memory_bytes, region.parameter_bytes);
    std::string text = print(finalist.plan);
    ordered.emplace_back(std::move(text), std::move(finalist));
  }
  std::ranges::sort(ordered, [](const auto& a, const auto& b) {
    return a.second.cycles != b.second.cycles ? a.second.cycles < b.second.cycles : a.first < b.first;
  });
  for (auto& [text, finalist] : ordered) result.finalists.push_back(std::move(finalist));
  return result;
}

}  // namespace low
