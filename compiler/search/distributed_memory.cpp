#include "compiler/search/distributed_memory.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

#include "compiler/search/attention.h"

namespace low {
namespace {

struct RankedByNeed {
  size_t index = 0;
  double cycles = 0;
  uint64_t need = 0;
};

bool faster(const RankedByNeed& a, const RankedByNeed& b) {
  if (a.cycles != b.cycles) return a.cycles < b.cycles;
  return a.need != b.need ? a.need < b.need : a.index < b.index;
}

// Evaluates all candidates, on all threads; by time.
template <typename Candidate, typename Evaluate>
std::vector<RankedByNeed> ranked(SearchContext& context, std::vector<Candidate>& candidates, const Evaluate& evaluate) {
  std::vector<RankedByNeed> all(candidates.size());
  constexpr size_t chunk = 64;
  const size_t chunks = (candidates.size() + chunk - 1) / chunk;
  context.pool.parallel_for(static_cast<int64_t>(chunks), [&](int64_t i) {
    const size_t begin = static_cast<size_t>(i) * chunk;
    for (size_t j = begin; j < std::min(begin + chunk, candidates.size()); ++j) {
      const DistributedCost cost = evaluate(candidates[j]);
      all[j] = {j, cost.cost.cycles, cost.working_bytes + cost.parameter_bytes};
    }
  });
  context.candidates += static_cast<int64_t>(candidates.size());
  std::ranges::sort(all, faster);
  return all;
}

// Of candidates by time: the fastest `wanted` of different kinds, and as many of those that need less memory than all
// faster ones, spread evenly, the smallest included. In the order of time.
template <typename Same>
std::vector<RankedByNeed> selected(const std::vector<RankedByNeed>& all, size_t wanted, const Same& same) {
  std::vector<bool> keep(all.size());
  std::vector<size_t> front;
  uint64_t least = UINT64_MAX;
  std::vector<size_t> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].need < least) {
      least = all[i].need;
      front.push_back(i);
    }
    if (kept.size() == wanted) continue;
    if (std::ranges::any_of(kept, [&](size_t other) { return same(all[other].index, all[i].index); })) continue;
    kept.push_back(i);
    keep[i] = true;
  }
  const size_t spread = std::min(front.size(), wanted);
  for (size_t i = 0; i < spread; ++i) {
    keep[spread == 1 ? front.back() : front[i * (front.size() - 1) / (spread - 1)]] = true;
  }
  std::vector<RankedByNeed> result;
  for (size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) result.push_back(all[i]);
  }
  return result;
}

// Of candidates by time, the first for each layout: all that counts where what they need does not.
template <typename LayoutOf>
std::vector<RankedByNeed> cheapest_for_layouts(const std::vector<RankedByNeed>& all, const LayoutOf& layout_of) {
  std::vector<RankedByNeed> result;
  std::vector<bool> known;
  for (const RankedByNeed& one : all) {
    const auto layout = static_cast<size_t>(layout_of(one.index));
    if (layout >= known.size()) known.resize(layout + 1);
    if (known[layout]) continue;
    known[layout] = true;
    result.push_back(one);
  }
  return result;
}

// All iterations' values, each where `layout` has one.
DistributedLayout iterated(const DistributedLayout& layout, int64_t count) {
  if (layout.kind != DistributedLayout::Kind::tiles) return layout;
  DistributedLayout result = layout;
  result.batch = layout.batch * count;
  result.part_batch = layout.part_batch * count;
  return result;
}

// The decisions for one operation: what they are made of, and what is asked of them.
class OpChoices {
  template <typename Plan, typename Extents>
  auto number_of(const std::vector<Plan>& space, const Extents& extents) {
    return [this, &space, &extents](size_t index) { return layouts_.number(layout_of(extents, space[index])); };
  }

 public:
  OpChoices(SearchContext& context, LayoutTable<DistributedLayout>& layouts, const Demand& demand)
      : context_(context), layouts_(layouts), demand_(demand) {}

  // The fastest grids, at most options.finalists, and those that need ever less memory.
  Result<std::vector<Choice>> of_matmul(const DistributedMatmul& work, std::vector<MatmulPlan> space) {
    const Machine& machine = context_.machine;
    keep_demanded(space, work.shape);
    LOW_TRY_VOID(count_candidates(context_, space.size()));
    const auto cost = [&](const MatmulPlan& plan) { return distributed_matmul_cost(machine, work, plan); };
    std::vector<MatmulPlan> candidates;
    if (exhaustive()) {
      for (const MatmulPlan& plan : space) add_panels(plan, candidates);
      LOW_TRY_VOID(context_.exhaustive->take(candidates.size()));
    } else {
      candidates = promising(space, cost);
    }
    std::vector<RankedByNeed> all = ranked(context_, candidates, cost);
    const auto same = [&](size_t a, size_t b) { return low::same_grid(candidates[a], candidates[b]); };
    for (const RankedByNeed& one : best(std::move(all), finalists(), same, candidates, work.shape))
      add(candidates[one.index], cost(candidates[one.index]), work.shape);
    return std::move(choices_);
  }

  Result<std::vector<Choice>> of_attention(const DistributedAttention& work, std::vector<AttentionPlan> space) {
    const AttentionExtents& shape = work.work.shape;
    keep_demanded(space, shape);
    LOW_TRY_VOID(count_candidates(context_, space.size()));
    const auto cost = [&](const AttentionPlan& plan) {
      return distributed_attention_cost(context_.machine, work, plan);
    };
    const std::vector<uint32_t> numbers = key_part_space(context_.machine, shape);
    if (exhaustive()) {
      const size_t grids = space.size();
      for (size_t i = 0; i < grids; ++i) {
        for (const uint32_t number : numbers) space.push_back(in_parts(space[i], number));
      }
      LOW_TRY_VOID(context_.exhaustive->take(space.size()));
    }
    std::vector<RankedByNeed> all = ranked(context_, space, cost);
    if (!exhaustive() && !numbers.empty()) add_key_parts(numbers, cost, space, all);
    const auto same = [&](size_t a, size_t b) { return same_grid(space[a], space[b]); };
    for (const RankedByNeed& one : best(std::move(all), finalists(), same, space, shape))
      add(space[one.index], cost(space[one.index]), shape);
    return std::move(choices_);
  }

  // make(choice, split) says what the decision is. `whole_rows`: rows are not cut.
  template <typename Make>
  Result<std::vector<Choice>> of_split(const DistributedSplit& work, const Make& make, bool whole_rows = false) {
    // A candidate takes as long as there are operands: a concat of hundreds has fewer, so that it takes no longer than
    // others.
    constexpr int64_t few_operands = 16;
    const auto operands = std::max(static_cast<int64_t>(work.sources.size()), few_operands);
    const int64_t some = std::max(context_.options.candidates_per_op * few_operands / operands, few_operands);
    const int64_t most = exhaustive() ? max_exhaustive_space : std::min(context_.options.candidates_per_op, some);
    std::vector<SplitPlan> space = distributed_split_space(context_.machine, work.shape, most);
    keep_demanded(space, work.shape);
    if (whole_rows) {
      const auto last = static_cast<uint32_t>(std::max(work.shape.rank() - 1, 0));
      std::erase_if(space, [&](const SplitPlan& plan) { return plan.axis == last && plan.parts > 1; });
    }
    LOW_TRY_VOID(count_candidates(context_, space.size()));
    const auto cost = [&](const SplitPlan& plan) { return distributed_split_cost(context_.machine, work, plan); };
    // Few parts may be slower here, and be gathered in fewer pieces by who comes next: each order of magnitude is a
    // kind of its own.
    const auto same = [&](size_t a, size_t b) {
      return space[a].axis == space[b].axis && std::bit_width(space[a].parts) == std::bit_width(space[b].parts);
    };
    const std::vector<RankedByNeed> all = ranked(context_, space, cost);
    const std::vector<RankedByNeed> kept =
        exhaustive() ? cheapest_for_layouts(all, number_of(space, work.shape)) : selected(all, 4 * finalists(), same);
    for (const RankedByNeed& one : kept) {
      add(space[one.index], cost(space[one.index]), work.shape);
      make(choices_.back(), space[one.index]);
    }
    return std::move(choices_);
  }

 private:
  bool exhaustive() const { return context_.exhaustive != nullptr; }
  size_t finalists() const { return static_cast<size_t>(context_.options.finalists); }

  template <typename Plan, typename Extents>
  void keep_demanded(std::vector<Plan>& space, const Extents& extents) const {
    if (demand_.layout == no_layout) return;
    const DistributedLayout& demanded = layouts_[demand_.layout];
    std::erase_if(space, [&](const Plan& plan) { return !(layout_of(extents, plan) == demanded); });
  }
  static void add_panels(const MatmulPlan& plan, std::vector<MatmulPlan>& to) {
    for (const int64_t panel : distributed_panels(plan.block_k)) {
      to.push_back(plan);
      to.back().block_k = panel;
    }
  }

  static bool same_grid(const AttentionPlan& a, const AttentionPlan& b) {
    return a.algorithm == b.algorithm && a.grid_m == b.grid_m && a.grid_heads == b.grid_heads &&
           a.grid_batch == b.grid_batch;
  }

  // Of ascending numbers, the first that costs about as little as the best does. Costs fall, then rise: pieces against
  // bytes. Halves what is left, first for the best, then in front of it.
  template <typename CostOf>
  static uint32_t few_parts(const std::vector<uint32_t>& numbers, const CostOf& cost_of) {
    constexpr double about = 1.001;
    std::vector<double> known(numbers.size(), -1);
    const auto cost = [&](size_t i) {
      if (known[i] < 0) known[i] = cost_of(numbers[i]);
      return known[i];
    };
    size_t begin = 0, last = numbers.size() - 1;
    while (begin < last) {
      const size_t middle = (begin + last) / 2;
      if (cost(middle) <= cost(middle + 1)) {
        last = middle;
      } else {
        begin = middle + 1;
      }
    }
    const double enough = about * cost(begin);
    size_t few = 0;
    while (few < begin) {
      const size_t middle = (few + begin) / 2;
      if (cost(middle) <= enough) {
        begin = middle;
      } else {
        few = middle + 1;
      }
    }
    return numbers[few];
  }

  static AttentionPlan in_parts(AttentionPlan plan, uint32_t number) {
    plan.key_parts = number;
    return plan;
  }

  // To plans by time, with keys where they lie, adds the promising ones with keys in parts: in as few parts as take
  // about as long as the best number does, since each piece that is sent takes code and time to plan.
  template <typename CostOf>
  void add_key_parts(const std::vector<uint32_t>& numbers, const CostOf& cost, std::vector<AttentionPlan>& plans,
                     std::vector<RankedByNeed>& all) {
    const auto distinct = [](size_t, size_t) { return false; };
    const std::vector<RankedByNeed> grids = selected(all, finalists(), distinct);
    std::vector<AttentionPlan> parted(grids.size());
    context_.pool.parallel_for(static_cast<int64_t>(grids.size()), [&](int64_t i) {
      const AttentionPlan& plan = plans[grids[static_cast<size_t>(i)].index];
      const auto cycles = [&](uint32_t number) { return cost(in_parts(plan, number)).cost.cycles; };
      parted[static_cast<size_t>(i)] = in_parts(plan, few_parts(numbers, cycles));
    });
    for (RankedByNeed one : ranked(context_, parted, cost)) {
      one.index += plans.size();
      all.push_back(one);
    }
    plans.insert(plans.end(), parted.begin(), parted.end());
    std::ranges::sort(all, faster);
  }

  // Grids that fit and are fast, and those that need little, with all panels.
  template <typename CostOf>
  std::vector<MatmulPlan> promising(std::vector<MatmulPlan>& space, const CostOf& cost) {
    const Machine& machine = context_.machine;
    // Grids with the deepest panels that fit.
    const std::vector<RankedByNeed> grids = ranked(context_, space, [&](MatmulPlan& plan) {
      DistributedCost result = cost(plan);
      if (result.working_bytes + result.parameter_bytes <= machine.tile_memory_bytes) return result;
      for (const int64_t panel : distributed_panels(plan.block_k)) {
        MatmulPlan other = plan;
        other.block_k = panel;
        const DistributedCost next = cost(other);
        const uint64_t need = next.working_bytes + next.parameter_bytes;
        if (need >= result.working_bytes + result.parameter_bytes) continue;
        plan = other;
        result = next;
        if (need <= machine.tile_memory_bytes) break;
      }
      return result;
    });
    std::vector<RankedByNeed> fits;
    for (const RankedByNeed& grid : grids) {
      if (grid.need <= machine.tile_memory_bytes) fits.push_back(grid);
    }
    const auto distinct = [](size_t, size_t) { return false; };
    std::vector<MatmulPlan> candidates;
    for (const RankedByNeed& grid : selected(fits.empty() ? grids : fits, 4 * finalists(), distinct))
      add_panels(space[grid.index], candidates);
    return candidates;
  }

  // Of candidates by time, those that fit, if any does.
  template <typename Same, typename Plan, typename Extents>
  std::vector<RankedByNeed> best(std::vector<RankedByNeed> all, size_t wanted, const Same& same,
                                 const std::vector<Plan>& space, const Extents& extents) {
    if (exhaustive()) return cheapest_for_layouts(all, number_of(space, extents));
    const auto too_large = [&](const RankedByNeed& one) { return one.need > context_.machine.tile_memory_bytes; };
    if (!std::ranges::all_of(all, too_large)) std::erase_if(all, too_large);
    return selected(all, wanted, same);
  }

  template <typename Plan, typename Extents>
  void add(const Plan& plan, const DistributedCost& cost, const Extents& extents) {
    Choice choice;
    choice.plan = plan;
    choice.cost = cost.cost;
    choice.working_bytes = cost.working_bytes;
    choice.parameter_bytes = cost.parameter_bytes;
    choice.results = {{layouts_.number(layout_of(extents, plan)), cost.result_bytes}};
    choices_.push_back(std::move(choice));
  }

  SearchContext& context_;
  LayoutTable<DistributedLayout>& layouts_;
  const Demand demand_;
  std::vector<Choice> choices_;
};

}  // namespace

DistributedMemory::DistributedMemory(SearchContext& context, const Graph& graph,
                                     std::shared_ptr<LayoutTable<DistributedLayout>> layouts, bool top)
    : context_(context),
      graph_(graph),
      layouts_(std::move(layouts)),
      kept_(top ? 0 : static_cast<uint32_t>(graph.outputs().size())),
      writers_(output_writers(graph, kept_)) {}

std::unique_ptr<RegionMemory> DistributedMemory::of_body(const Graph& body) const {
  return std::make_unique<DistributedMemory>(context_, body, layouts_, false);
}

LayoutNumber DistributedMemory::layout_of_constant(ValueId) {
  DistributedLayout layout;
  layout.kind = DistributedLayout::Kind::constant;
  return layouts_->number(layout);
}

uint32_t DistributedMemory::output_index(size_t op) const {
  return static_cast<uint32_t>(std::ranges::find(graph_.outputs(), OpId(op)) - graph_.outputs().begin());
}

Result<std::vector<Choice>> DistributedMemory::choices(size_t index, std::span<const LayoutNumber> operands,
                                                       const Demand& demand) {
  const Op& op = graph_.op(OpId(index));
  const auto found = [&]() -> Result<std::vector<Choice>> {
    if (std::holds_alternative<Output>(op.attributes)) return output_choices(index, operands[0], demand);
    std::vector<DistributedLayout> layouts;
    for (const LayoutNumber operand : operands) layouts.push_back((*layouts_)[operand]);
    OpChoices choices(context_, *layouts_, demand);
    const auto split = [](Choice& choice, const SplitPlan& plan) { choice.plan = plan; };
    if (!is_distributed_operation(graph_, op)) return std::vector<Choice>();
    if (std::holds_alternative<Matmul>(op.attributes))
      return choices.of_matmul(distributed_matmul(graph_, op, layouts), matmul_plans(op));
    if (std::holds_alternative<Attention>(op.attributes))
      return choices.of_attention(distributed_attention(graph_, op, layouts), attention_plans(op));
    if (is_split(op)) return choices.of_split(distributed_split(graph_, op, layouts), split, needs_whole_rows(op));
    if (is_distributed_view(graph_, op)) {  // a copy changes nothing that a reader could not do as well
      ++context_.candidates;
      std::vector<Choice> view(1);
      view[0].plan = MovementPlan{};
      view[0].view = true;
      view[0].results = {{operands[0], 0}};
      return view;
    }
    return choices.of_split(distributed_movement(context_.machine, graph_, op, layouts),
                            [](Choice& choice, const SplitPlan& plan) { choice.plan = MovementPlan{true, plan}; });
  }();
  const auto failed = [&](ErrorKind kind, const std::string& message) {
    return fail(kind, fmt::format("search: {}: {}", describe(graph_, index), message));
  };
  if (!found) return failed(found.error().kind, found.error().message);
  if (!found->empty() || std::holds_alternative<Output>(op.attributes)) return found;
  if (std::holds_alternative<Attention>(op.attributes))
    return failed(ErrorKind::unsupported, attention_obstacle(graph_, op));
  const bool known = is_distributed_operation(graph_, op);
  if (known && demand.layout != no_layout && context_.exhaustive != nullptr) return found;  // none lies so
  return failed(known || context_.exhaustive != nullptr ? ErrorKind::unsupported : ErrorKind::internal,
                fmt::format("there is no way to plan this operation for machine {}, which has no global memory",
                            context_.machine.name));
}

const std::vector<MatmulPlan>& DistributedMemory::matmul_plans(const Op& op) {
  std::vector<MatmulPlan>& plans = matmul_plans_[&op];
  if (plans.empty())
    plans = distributed_matmul_space(context_.machine, matmul_shape(graph_, op), context_.options.candidates_per_op);
  return plans;
}

const std::vector<AttentionPlan>& DistributedMemory::attention_plans(const Op& op) {
  std::vector<AttentionPlan>& plans = attention_plans_[&op];
  if (plans.empty())
    plans = attention_space(context_.machine, attention_extents(graph_, op), context_.options.attention,
                            context_.options.candidates_per_op);
  return plans;
}

Result<std::vector<Choice>> DistributedMemory::output_choices(size_t index, LayoutNumber source, const Demand& demand) {
  const uint32_t output = output_index(index);
  const Type& type = graph_.type(graph_.operands(graph_.op(OpId(index)))[0]);
  if (output < kept_ && !writers_.written[output]) {
    return OpChoices(context_, *layouts_, demand)
        .of_split(distributed_copy(type, (*layouts_)[source]), [](Choice& choice, const SplitPlan& split) {
          choice.plan = NoPlan{};
          choice.output = split;
        });
  }
  std::vector<Choice> choices(1);
  Choice& choice = choices[0];
  choice.plan = NoPlan{};
  choice.results = {{source, 0}};
  if (output < kept_) return choices;
  const DistributedCost cost = distributed_output_cost(context_.machine, type, (*layouts_)[source]);
  choice.cost = cost.cost;
  choice.working_bytes = cost.working_bytes;
  choice.parameter_bytes = cost.parameter_bytes;
  if ((*layouts_)[source].kind != DistributedLayout::Kind::tiles)
    choice.output = distributed_split_space(context_.machine, type.shape, 1)[0];
  choice.results = {{layouts_->number({}), 0}};  // it left the tiles
  return choices;
}

// Values that wait for one reader, such as the queries, keys and values of attention, are as good as how they lie
// beside each other: each of them multiplies the ways to go on. From the third on, each widens the beam, up to four
// times.
size_t DistributedMemory::beam_width(size_t waiting) const {
  const auto times = std::clamp<int64_t>(static_cast<int64_t>(waiting) - 1, 1, 4);
  return static_cast<size_t>(context_.options.beam) * static_cast<size_t>(times);
}

std::string DistributedMemory::describe_output(size_t op, const Choice& choice) const {
  return output_index(op) < kept_ ? "copy, " + describe(OpPlan(choice.output)) : "leaves the tiles";
}

std::vector<LayoutNumber> DistributedMemory::enter(const Op& op, std::span<const LayoutNumber> operands,
                                                   Entrance& entrance) {
  const auto& repeat = std::get<Repeat>(op.attributes);
  std::vector<LayoutNumber> inputs(operands.begin(), operands.end());
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    DistributedLayout layout = (*layouts_)[inputs[i]];
    if (i < repeat.carried) {
      if (layout.kind == DistributedLayout::Kind::constant) inputs[i] = layouts_->number({});
      continue;
    }
    if (i < repeat.carried + repeat.invariant) continue;
    const uint64_t count = static_cast<uint64_t>(std::max<int64_t>(repeat.count, 1));
    if (layout.kind == DistributedLayout::Kind::constant) {
      layout.iterations = std::min<uint64_t>(layout.iterations * count, uint64_t{1} << 40);
      inputs[i] = layouts_->number(layout);
    } else if (repeat.count > 0) {
      // Each tile takes its share of all iterations' rows beforehand.
      const Type& all = graph_.type(graph_.operands(op)[i]);
      const Graph& body = *repeat.body;
      const Type& slice = body.type(body.result(body.op(body.inputs()[i])));
      const int64_t rows = std::max<int64_t>(matrix_extents(slice.shape).rows, 1);
      const auto parts = static_cast<uint32_t>(std::min<int64_t>(rows, context_.machine.tiles));
      const Shape matrix{rows, matrix_extents(slice.shape).columns};
      const DistributedLayout shares = layout_of(matrix, SplitPlan{0, parts});
      const DistributedCost cost = distributed_copy_cost(context_.machine, all, layout, iterated(shares, repeat.count));
      entrance.cost.add(cost.cost);
      entrance.working_bytes += cost.result_bytes;
      inputs[i] = layouts_->number(shares);
    }
  }
  return inputs;
}

Choice DistributedMemory::not_repeated(const Op& op, std::span<const LayoutNumber> operands) {
  Choice choice;
  choice.results.resize(op.results.count);
  for (uint32_t j = 0; j < op.results.count; ++j)
    choice.results[j].layout = j < std::get<Repeat>(op.attributes).carried ? operands[j] : layouts_->number({});
  return choice;
}

Choice DistributedMemory::repeated(const Op& op, std::span<const LayoutNumber> operands, const Entrance& entrance,
                                   const RegionChoice& body) {
  const auto& repeat = std::get<Repeat>(op.attributes);
  Choice choice;
  choice.results.resize(op.results.count);
  choice.cost = entrance.cost;
  choice.working_bytes = entrance.working_bytes + body.working_bytes;
  choice.parameter_bytes = entrance.parameter_bytes + body.parameter_bytes;
  for (uint32_t c = 0; c < op.results.count; ++c) {
    Choice::Place& place = choice.results[c];
    if (body.outputs[c] == no_layout) continue;
    const DistributedLayout& output = (*layouts_)[body.outputs[c]];
    if (c < repeat.carried) {
      const Type& type = graph_.type(graph_.operands(op)[c]);
      const DistributedCost initial = distributed_copy_cost(context_.machine, type, (*layouts_)[operands[c]], output);
      choice.cost.add(initial.cost);
      choice.parameter_bytes += initial.parameter_bytes;
      place = {body.outputs[c], 2 * initial.result_bytes};  // two halves
    } else {
      const Type& type = graph_.type(graph_.result(op, c));
      const DistributedLayout all = iterated(output, repeat.count);
      place = {layouts_->number(all), static_cast<uint64_t>(all.shard_elements()) * byte_size(type.dtype)};
    }
    choice.working_bytes += place.bytes;
  }
  choice.cost.add(body.cost, static_cast<double>(repeat.count));
  return choice;
}

}  // namespace low
