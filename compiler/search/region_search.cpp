#include "compiler/search/region_search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "compiler/base/hash.h"
#include "compiler/search/space.h"

namespace low {
namespace {

constexpr double endless = std::numeric_limits<double>::infinity();

}  // namespace

Cost cost_of(const Machine& machine, const StepWork& work) {
  return superstep_cost(machine, {{work.tile}, work.bytes, work.distinct_bytes});
}

bool no_worse(const StepWork& a, const StepWork& b, double tolerance) {
  const auto is_less = [&](double x, double y) { return x <= y * (1 + tolerance); };
  return is_less(a.tile.compute, b.tile.compute) && is_less(a.tile.memory, b.tile.memory) &&
         is_less(a.tile.exchange, b.tile.exchange) && is_less(a.tile.launch, b.tile.launch) &&
         is_less(a.bytes, b.bytes) && is_less(a.distinct_bytes, b.distinct_bytes);
}

RegionSearch::RegionSearch(SearchContext& context, const Graph& graph, std::unique_ptr<RegionMemory> memory, int depth)
    : context_(context),
      graph_(graph),
      memory_(std::move(memory)),
      depth_(depth),
      cache_(graph.op_count()),
      last_use_(graph.value_count(), 0) {
  for (size_t i = 0; i < graph.op_count(); ++i) {
    for (const ValueId operand : graph.operands(graph.op(OpId(i)))) last_use_[operand] = static_cast<uint32_t>(i);
  }
}

Result<std::vector<RegionChoice>> RegionSearch::run(const std::vector<LayoutNumber>& inputs,
                                                    const std::vector<LayoutNumber>& required, double bound) {
  fixed_ = Table<ValueId, LayoutNumber>(graph_.value_count(), no_layout);
  for (size_t i = 0; i < inputs.size(); ++i) fixed_[graph_.result(graph_.op(graph_.inputs()[i]))] = inputs[i];
  for (const Op& op : graph_.ops()) {
    if (std::holds_alternative<Constant>(op.attributes))
      fixed_[graph_.result(op)] = memory_->layout_of_constant(graph_.result(op));
  }
  required_ = required;
  required_.resize(graph_.outputs().size(), no_layout);
  nodes_.clear();
  if (alternatives_.empty()) LOW_TRY_VOID(find_alternatives());
  std::vector<State> states(1);
  states[0].views = std::make_shared<const Views>();
  for (size_t i = 0; i < graph_.op_count(); ++i) {
    if (is_given(graph_.op(OpId(i)))) {
      static const Choice nothing;
      for (State& state : states) {
        if (exhaustive()) break;
        nodes_.push_back({state.node, &nothing});
        state.node = static_cast<int32_t>(nodes_.size() - 1);
      }
      continue;
    }
    std::vector<State> next;
    uint64_t least = UINT64_MAX;
    for (const State& state : states) LOW_TRY_VOID(extend(state, i, bound, next, least));
    if (next.empty() && exhaustive()) return std::vector<RegionChoice>();
    if (next.empty()) {
      return fail(ErrorKind::unsupported,
                  fmt::format("search: {}: needs at least {} bytes of a tile's memory with what is alive then; a tile "
                              "of machine {} has {}",
                              describe(graph_, i), least, context_.machine.name, memory_->capacity()));
    }
    states = exhaustive() ? undominated(std::move(next)) : prune(std::move(next));
  }
  std::vector<RegionChoice> results;
  results.reserve(states.size());
  for (const State& state : states) results.push_back(collect(state));
  if (exhaustive()) return results;
  std::vector<RegionChoice> finalists;
  for (const size_t i : finalists_of(results)) {
    explain(states[i], results[i]);
    finalists.push_back(std::move(results[i]));
  }
  return finalists;
}

// Matmuls, attention and repeats of at least a tenth of the time keep alternatives, so that finalists differ in what
// matters; where there is none, the costliest operation does. All others keep a few.
Result<void> RegionSearch::find_alternatives() {
  if (exhaustive() || !memory_->keeps_few_alternatives()) {
    alternatives_.assign(std::max<size_t>(graph_.op_count(), 1), SIZE_MAX);
    return {};
  }
  std::vector<double> cycles(graph_.op_count(), 0);
  double total = 0;
  for (size_t i = 0; i < graph_.op_count(); ++i) {
    if (is_given(graph_.op(OpId(i)))) continue;
    std::vector<LayoutNumber> operands;
    for (const ValueId operand : graph_.operands(graph_.op(OpId(i))))
      operands.push_back(memory_->layout_of_input(operand));
    LOW_TRY(const std::vector<Choice>* choices, choices_for(i, std::move(operands), {}, endless));
    if (choices->empty()) continue;
    cycles[i] = (*choices)[0].cost.cycles;
    total += cycles[i];
  }
  constexpr size_t few = 3;
  alternatives_.assign(std::max<size_t>(graph_.op_count(), 1), few);
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

uint32_t RegionSearch::output_index(size_t op) const {
  return static_cast<uint32_t>(std::ranges::find(graph_.outputs(), OpId(op)) - graph_.outputs().begin());
}

const RegionSearch::Live* RegionSearch::find(const Views& views, ValueId value) {
  const auto found = std::ranges::find(views.live, value, &Live::value);
  return found == views.live.end() ? nullptr : &*found;
}

// The value whose producer can write an output of `value` where it belongs: its root, if it is all of that, and no
// earlier output did. Values from elsewhere (inputs, constants) are not live, and are copied.
ValueId RegionSearch::placed_by(const Views& views, ValueId value) {
  const Live* live = find(views, value);
  const Live* root = live != nullptr && live->dense ? find(views, live->root) : nullptr;
  return root != nullptr && !root->placed ? root->value : ValueId();
}

LayoutNumber RegionSearch::layout_in(const Views& views, ValueId value) const {
  const Live* live = find(views, value);
  return live != nullptr ? live->layout : fixed_[value];
}

// Whether a later operation can tell the two apart. Where memory does not count, a root matters to outputs alone.
bool RegionSearch::same_views(const State& a, const State& b) const {
  if (a.open.has_value() != b.open.has_value() || a.fresh != b.fresh) return false;
  if (a.views == b.views) return true;
  const bool roots = !exhaustive() || memory_->places_outputs();
  return a.views->outputs == b.views->outputs &&
         std::ranges::equal(a.views->live, b.views->live, [&](const Live& x, const Live& y) {
           return x.value == y.value && x.layout == y.layout && (!roots || x.root == y.root) &&
                  (!exhaustive() || (x.dense == y.dense && x.placed == y.placed));
         });
}

// Of states with the same views the same.
uint64_t RegionSearch::hash_of_views(const State& state) {
  WordHash hash;
  hash.add(state.views->hash).add(state.open.has_value());
  for (const auto& [value, chunk] : state.fresh) hash.add(value.index).add(chunk);
  return hash.result();
}

// For each state the first one with the same views. Values that stay alive are many, and states are compared with each
// other.
std::vector<size_t> RegionSearch::first_with_same_views(std::span<const State> states) const {
  std::vector<size_t> first(states.size());
  std::unordered_map<uint64_t, std::vector<size_t>> known;  // by hash; looked up only
  for (size_t i = 0; i < states.size(); ++i) {
    std::vector<size_t>& alike = known[hash_of_views(states[i])];
    const auto same = std::ranges::find_if(alike, [&](size_t other) { return same_views(states[other], states[i]); });
    first[i] = same == alike.end() ? i : *same;
    if (same == alike.end()) alike.push_back(i);
  }
  return first;
}

Demand RegionSearch::demand_of(const Views& views, size_t i) const {
  const Op& op = graph_.op(OpId(i));
  Demand demand;
  if (std::holds_alternative<Output>(op.attributes)) {
    demand.layout = required_[output_index(i)];
    demand.in_place = !memory_->places_outputs() || placed_by(views, graph_.operands(op)[0]).valid();
  } else if (op.results.count == 1) {
    const uint32_t output = memory_->output_written_by(graph_.result(op));
    if (output < required_.size()) demand.layout = required_[output];
  }
  return demand;
}

Result<const std::vector<Choice>*> RegionSearch::choices_for(size_t i, std::vector<LayoutNumber> operands,
                                                             const Demand& demand, double bound) {
  const Op& op = graph_.op(OpId(i));
  const bool repeats = std::holds_alternative<Repeat>(op.attributes);
  for (const CacheEntry& entry : cache_[i]) {
    // What a body costs within a bound is not all that it may cost.
    if (entry.demand == demand && entry.operands == operands && !(repeats && exhaustive())) return &entry.choices;
  }
  CacheEntry entry{std::move(operands), demand, {}};
  if (repeats) {
    LOW_TRY(entry.choices, repeat_choices(op, entry.operands, bound));
    if (exhaustive()) cache_[i].clear();
  } else {
    LOW_TRY(entry.choices, memory_->choices(i, entry.operands, demand));
  }
  cache_[i].push_back(std::move(entry));
  return &cache_[i].back().choices;
}

// --- repeats

RegionSearch& RegionSearch::search_of(const Repeat& repeat) {
  for (const auto& [body, search] : bodies_) {
    if (body == repeat.body.get()) return *search;
  }
  bodies_.emplace_back(repeat.body.get(), std::make_unique<RegionSearch>(context_, *repeat.body,
                                                                         memory_->of_body(*repeat.body), depth_ + 1));
  return *bodies_.back().second;
}

// One body, planned once; its cost counts for each iteration.
Result<std::vector<Choice>> RegionSearch::repeat_choices(const Op& op, std::span<const LayoutNumber> operands,
                                                         double bound) {
  const auto& repeat = std::get<Repeat>(op.attributes);
  if (depth_ == max_repeat_depth)
    return fail(ErrorKind::unsupported, fmt::format("search: repeats are nested deeper than {}", max_repeat_depth));
  std::vector<Choice> choices;
  if (repeat.count == 0 && exhaustive()) return std::vector{memory_->not_repeated(op, operands)};
  Entrance entrance;
  const std::vector<LayoutNumber> inputs = memory_->enter(op, operands, entrance);
  RegionSearch& search = search_of(repeat);
  const bool closes = memory_->carried_values_stay() && repeat.carried > 0 && repeat.count > 0;
  const auto count = static_cast<double>(std::max<int64_t>(repeat.count, 1));
  // Where carried values can end does not depend on where they come from.
  LOW_TRY(std::vector<RegionChoice> found, search.run(inputs, {}, closes ? endless : bound / count));
  if (closes) {
    LOW_TRY(found, closed_loops(search, op, operands, entrance, inputs, found, bound));
  }
  for (RegionChoice& region : found) {
    Choice choice =
        repeat.count == 0 ? memory_->not_repeated(op, operands) : memory_->repeated(op, operands, entrance, region);
    choice.plan = RepeatPlan{{region.plan}};
    choice.body = std::make_shared<const RegionChoice>(std::move(region));
    choices.push_back(std::move(choice));
  }
  return choices;
}

// Bodies whose carried values stay where they are, in place of those found freely.
Result<std::vector<RegionChoice>> RegionSearch::closed_loops(RegionSearch& body, const Op& op,
                                                             std::span<const LayoutNumber> operands,
                                                             const Entrance& entrance, std::vector<LayoutNumber> inputs,
                                                             std::span<const RegionChoice> found, double bound) {
  const auto& repeat = std::get<Repeat>(op.attributes);
  std::vector<std::vector<LayoutNumber>> ends;
  for (const RegionChoice& choice : found) {
    const std::vector<LayoutNumber> carried(choice.outputs.begin(), choice.outputs.begin() + repeat.carried);
    if (std::ranges::find(ends, carried) == ends.end()) ends.push_back(carried);
  }
  std::vector<RegionChoice> closed;
  std::optional<Error> error;
  for (const std::vector<LayoutNumber>& carried : ends) {
    double left = bound;
    if (exhaustive()) {
      RegionChoice nothing;
      nothing.outputs = carried;
      nothing.outputs.resize(op.results.count, no_layout);
      left =
          (bound - memory_->repeated(op, operands, entrance, nothing).cost.cycles) / static_cast<double>(repeat.count);
      if (left < 0) continue;
    }
    std::ranges::copy(carried, inputs.begin());
    auto choices = body.run(inputs, carried, left);
    if (!choices) {
      error = choices.error();
      continue;
    }
    for (RegionChoice& choice : *choices) closed.push_back(std::move(choice));
  }
  if (closed.empty() && error) return std::unexpected(*error);
  if (exhaustive()) return closed;
  std::vector<RegionChoice> finalists;
  for (const size_t i : finalists_of(closed)) finalists.push_back(std::move(closed[i]));
  return finalists;
}

// --- states

// Appends `state` followed by each choice for operation i that fits; `least`: the least that one needs that does not.
Result<void> RegionSearch::extend(const State& state, size_t i, double bound, std::vector<State>& next,
                                  uint64_t& least) {
  std::vector<LayoutNumber> operands;
  for (const ValueId operand : graph_.operands(graph_.op(OpId(i))))
    operands.push_back(layout_in(*state.views, operand));
  const Demand demand = demand_of(*state.views, i);
  LOW_TRY(const std::vector<Choice>* choices, choices_for(i, std::move(operands), demand, bound - state.cost.cycles));
  if (exhaustive()) LOW_TRY_VOID(context_.exhaustive->take(choices->size()));
  size_t kept = 0;
  std::shared_ptr<const Views> views;
  const Choice* leading = nullptr;  // one that leads to `views`
  for (const Choice& choice : *choices) {
    const bool first = choice.view || kept++ < alternatives_[i];
    if (!first && !choice.shares) continue;
    if (demand.layout != no_layout && !choice.results.empty() && choice.results[0].layout != demand.layout) continue;
    if (leading == nullptr || leading->view != choice.view || leading->results != choice.results) {
      views = views_after(*state.views, i, choice);
      leading = &choice;
    }
    State result = apply(state, i, choice, views);
    if (result.cost.cycles > bound) continue;
    if (!exhaustive()) {
      if (result.need() > memory_->capacity()) {
        least = std::min(least, result.need());
        continue;
      }
      nodes_.push_back({state.node, &choice});
      result.node = static_cast<int32_t>(nodes_.size() - 1);
    }
    next.push_back(std::move(result));
  }
  return {};
}

std::shared_ptr<const RegionSearch::Views> RegionSearch::views_after(const Views& views, size_t i,
                                                                     const Choice& choice) const {
  const Op& op = graph_.op(OpId(i));
  auto result = std::make_shared<Views>(views);
  if (std::holds_alternative<Output>(op.attributes)) {
    result->outputs.push_back(choice.results.empty() ? no_layout : choice.results[0].layout);
    const ValueId placed = memory_->places_outputs() ? placed_by(views, graph_.operands(op)[0]) : ValueId();
    if (placed.valid()) std::ranges::find(result->live, placed, &Live::value)->placed = true;
  }
  for (uint32_t j = 0; j < op.results.count; ++j) {
    const ValueId value = graph_.result(op, j);
    Live live{value, value, last_use_[value], choice.results[j].layout};
    if (choice.view) {
      const ValueId operand = graph_.operands(op)[0];
      const Live* source = find(views, operand);
      live.root = source != nullptr ? source->root : operand;
      live.dense = (source == nullptr || source->dense) && std::holds_alternative<Reshape>(op.attributes);
    } else if (!memory_->counted_elsewhere(value)) {
      live.bytes = choice.results[j].bytes;
    }
    result->live.push_back(live);
  }
  // What nothing reads any more is gone, but for the storage of live views.
  const bool roots_stay = !exhaustive() || memory_->places_outputs();
  std::vector<ValueId> roots;
  for (const Live& live : result->live) {
    if (live.last_use > i && roots_stay) roots.push_back(live.root);
  }
  const auto gone = std::ranges::remove_if(result->live, [&](const Live& live) {
    return live.last_use <= i && std::ranges::find(roots, live.value) == roots.end();
  });
  result->live.erase(gone.begin(), gone.end());
  result->live_bytes = 0;
  WordHash hash;
  for (const Live& live : result->live) {
    result->live_bytes += live.bytes;
    hash.add(live.value.index).add(live.layout);
  }
  result->hash = hash.add_list(result->outputs).result();
  return result;
}

// `views`: what the choice makes of the state's.
RegionSearch::State RegionSearch::apply(const State& state, size_t i, const Choice& choice,
                                        std::shared_ptr<const Views> views) const {
  const Op& op = graph_.op(OpId(i));
  State result = state;
  add_supersteps(result, i, choice);
  result.views = std::move(views);
  result.parameter_bytes += choice.parameter_bytes;
  if (const auto* matmul = std::get_if<MatmulPlan>(&choice.plan)) {
    result.grids = WordHash()
                       .add(state.grids)
                       .add_list(std::array{matmul->grid_batch, matmul->grid_m, matmul->grid_n, matmul->grid_k})
                       .result();
  } else if (const auto* attention = std::get_if<AttentionPlan>(&choice.plan)) {
    result.grids = WordHash()
                       .add(state.grids)
                       .add(attention->algorithm)
                       .add_list(std::array{attention->grid_batch, attention->grid_m, attention->grid_heads})
                       .result();
  } else if (choice.body) {
    result.grids = WordHash().add(state.grids).add(choice.body->grids).result();
  }
  uint64_t working = choice.working_bytes;
  if (std::holds_alternative<Output>(op.attributes) && memory_->counted_elsewhere(i)) working = 0;
  for (uint32_t j = 0; j < op.results.count && !choice.view; ++j) {
    if (memory_->counted_elsewhere(graph_.result(op, j))) working -= std::min(working, choice.results[j].bytes);
  }
  result.working_bytes = std::max(result.working_bytes, state.views->live_bytes + working);
  const auto unread = std::ranges::remove_if(
      result.fresh, [&](const auto& written) { return find(*result.views, written.first) == nullptr; });
  result.fresh.erase(unread.begin(), unread.end());
  return result;
}

// Whether a tile reads what another one wrote in the last superstep.
bool RegionSearch::waits(const State& state, size_t i, const Choice& choice) const {
  const Op& op = graph_.op(OpId(i));
  const std::span<const ValueId> operands = graph_.operands(op);
  for (uint32_t j = 0; j < operands.size() && state.open; ++j) {
    const Live* live = find(*state.views, operands[j]);
    if (live == nullptr) continue;
    const auto written = std::ranges::find(state.fresh, live->root, &std::pair<ValueId, int64_t>::first);
    if (written == state.fresh.end()) continue;
    const int64_t chunk = live->dense ? memory_->read_chunk(op, j, choice.plan) : 0;
    if (chunk == 0 || chunk != written->second) return true;
  }
  return false;
}

// What the operation costs, and who may join its last superstep.
void RegionSearch::add_supersteps(State& state, size_t i, const Choice& choice) const {
  if (choice.view || choice.cost.cycles == 0) return;
  state.cost.add(choice.cost);
  const Op& op = graph_.op(OpId(i));
  const bool joins = state.open && choice.first && !waits(state, i, choice);
  const auto* matmul = std::get_if<MatmulPlan>(&choice.plan);
  const bool one = matmul == nullptr || matmul->grid_k == 1;  // superstep
  std::optional<StepWork> last = choice.last;
  if (joins) {
    const StepWork together{state.open->tile + choice.first->tile, state.open->bytes + choice.first->bytes,
                            state.open->distinct_bytes + choice.first->distinct_bytes};
    state.cost.add(cost_of(context_.machine, together));
    state.cost.add(state.open_cost, -1);
    state.cost.add(cost_of(context_.machine, *choice.first), -1);
    if (one) last = together;
  }
  if (!joins || !one) state.fresh.clear();
  state.open = last;
  state.open_cost = last ? cost_of(context_.machine, *last) : Cost();
  for (uint32_t j = 0; j < op.results.count && state.open; ++j)
    state.fresh.emplace_back(graph_.result(op, j), memory_->written_chunk(op, choice.plan));
}

std::vector<RegionSearch::State> RegionSearch::prune(std::vector<State> states) const {
  std::vector<size_t> order(states.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (states[a].cost.cycles != states[b].cost.cycles) return states[a].cost.cycles < states[b].cost.cycles;
    return states[a].need() != states[b].need() ? states[a].need() < states[b].need() : a < b;
  });
  const std::vector<size_t> views = first_with_same_views(states);
  const auto waiting =
      std::ranges::count_if(states[0].views->live, [](const Live& live) { return live.root == live.value; });
  const size_t beam = memory_->beam_width(static_cast<size_t>(waiting));
  std::vector<boost::container::small_vector<size_t, 4>> kept_of(states.size());  // by views
  std::vector<size_t> kept;
  size_t least = order[0];  // of those kept, needs least memory
  for (const size_t i : order) {
    // A full beam has room for what needs less memory than all of it.
    if (kept.size() >= beam && states[i].need() >= states[least].need()) continue;
    // Of those that no later operation tells apart, one for each list of grids, and one more that gains when its open
    // superstep is shared; of those without one, whatever the grids.
    int dominating = 0;
    bool known = false;
    for (const size_t other : kept_of[views[i]]) {
      if (states[other].need() > states[i].need()) continue;
      ++dominating;
      known = known || (states[i].open && states[other].grids == states[i].grids &&
                        states[other].closed_cycles() <= states[i].closed_cycles());
    }
    if (known || dominating >= context_.options.finalists) continue;
    kept.push_back(i);
    kept_of[views[i]].push_back(i);
    if (states[i].need() < states[least].need()) least = i;
  }
  // The fastest, but one place is for what needs least memory: a later operation may have no room otherwise.
  if (kept.size() > beam) {
    kept.resize(beam);
    if (std::ranges::find(kept, least) == kept.end()) kept.back() = least;
  }
  std::vector<State> result;
  result.reserve(kept.size());
  for (const size_t i : kept) result.push_back(std::move(states[i]));
  return result;
}

std::vector<RegionSearch::State> RegionSearch::undominated(std::vector<State> states) const {
  const std::vector<size_t> views = first_with_same_views(states);
  std::vector<size_t> order(states.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::tuple(states[a].closed_cycles(), states[a].cost.cycles, a) <
           std::tuple(states[b].closed_cycles(), states[b].cost.cycles, b);
  });
  std::unordered_map<size_t, std::vector<size_t>> kept_of;  // by views; looked up only
  std::vector<State> result;
  for (const size_t i : order) {
    std::vector<size_t>& alike = kept_of[views[i]];
    const auto dominates = [&](size_t other) {
      return !states[i].open || no_worse(*result[other].open, *states[i].open, context_.exhaustive->tolerance());
    };
    if (std::ranges::any_of(alike, dominates)) continue;
    alike.push_back(result.size());
    result.push_back(std::move(states[i]));
  }
  return result;
}

std::vector<size_t> RegionSearch::finalists_of(std::span<const RegionChoice> all) const {
  const auto wanted = static_cast<size_t>(context_.options.finalists);
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
    const auto least = std::ranges::min_element(all, {}, &RegionChoice::need);
    const auto index = static_cast<size_t>(least - all.begin());
    const bool known = std::ranges::any_of(kept, [&](size_t other) { return all[other].need() <= all[index].need(); });
    if (!known) {
      if (kept.size() == wanted) kept.pop_back();
      kept.push_back(index);
    }
  }
  std::erase_if(order, [&](size_t i) { return std::ranges::find(kept, i) == kept.end(); });
  return order;
}

std::vector<const Choice*> RegionSearch::choices_of(const State& state) const {
  std::vector<const Choice*> choices;
  for (int32_t node = state.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent)
    choices.push_back(nodes_[static_cast<size_t>(node)].choice);
  std::ranges::reverse(choices);
  return choices;
}

RegionChoice RegionSearch::collect(const State& state) const {
  RegionChoice result;
  result.cost = state.cost;
  result.working_bytes = state.working_bytes;
  result.parameter_bytes = state.parameter_bytes;
  result.outputs.assign(state.views->outputs.begin(), state.views->outputs.end());
  result.grids = state.grids;
  const std::vector<const Choice*> choices = choices_of(state);
  for (size_t i = 0; i < choices.size(); ++i) {
    result.plan.ops.push_back(choices[i]->plan);
    if (std::holds_alternative<Output>(graph_.op(OpId(i)).attributes))
      result.plan.outputs.push_back(choices[i]->output);
  }
  return result;
}

void RegionSearch::explain(const State& state, RegionChoice& region) const {
  const std::vector<const Choice*> choices = choices_of(state);
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = *choices[i];
    const Op& op = graph_.op(OpId(i));
    const bool output = std::holds_alternative<Output>(op.attributes);
    if (is_given(graph_.op(OpId(i)))) continue;
    if (output && choice.cost.cycles == 0) continue;  // written in place
    ExplanationLine line{depth_, describe(graph_, i), describe(choice.plan), choice.cost};
    if (output) line.decision = memory_->describe_output(i, choice);
    if (choice.body) {
      line.decision = fmt::format("{} times", std::get<Repeat>(op.attributes).count);
    }
    region.lines.push_back(std::move(line));
    if (!choice.body) continue;
    const auto times = static_cast<double>(std::get<Repeat>(op.attributes).count);
    for (const ExplanationLine& inner : choice.body->lines) {
      ExplanationLine scaled{inner.depth, inner.name, inner.decision, {}};
      scaled.cost.add(inner.cost, times);
      region.lines.push_back(std::move(scaled));
    }
  }
}

}  // namespace low
