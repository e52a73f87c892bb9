#include "compiler/search/distributed_choices.h"

#include <algorithm>
#include <bit>

#include "compiler/search/distributed_space.h"

namespace low {
namespace {

struct RankedByNeed {
  size_t index = 0;
  double cycles = 0;
  uint64_t need = 0;
};

// Evaluates all candidates, on all threads; by time.
template <typename Candidate, typename Evaluate>
std::vector<RankedByNeed> ranked(DistributedContext& context, std::vector<Candidate>& candidates,
                                 const Evaluate& evaluate) {
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
  std::ranges::sort(all, [](const RankedByNeed& a, const RankedByNeed& b) {
    if (a.cycles != b.cycles) return a.cycles < b.cycles;
    return a.need != b.need ? a.need < b.need : a.index < b.index;
  });
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

std::vector<DistributedChoice> matmul_choices(DistributedContext& context, const Graph& graph, const Op& op,
                                              std::span<const DistributedLayout> operands,
                                              const std::optional<DistributedLayout>& required) {
  const DistributedMatmul work = distributed_matmul(graph, op, operands);
  const Machine& machine = context.machine;
  std::vector<MatmulPlan> space = distributed_matmul_space(machine, work.shape, context.options.candidates_per_op);
  if (required) {
    std::erase_if(space, [&](const MatmulPlan& plan) { return !(layout_of(work.shape, plan) == *required); });
  }
  const auto cost = [&](const MatmulPlan& plan) { return distributed_matmul_cost(machine, work, plan); };
  // Grids with the deepest panels that fit.
  const std::vector<RankedByNeed> grids = ranked(context, space, [&](MatmulPlan& plan) {
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
  // Grids that fit and are fast, and those that need little, with all panels.
  std::vector<RankedByNeed> fits;
  for (const RankedByNeed& grid : grids) {
    if (grid.need <= machine.tile_memory_bytes) fits.push_back(grid);
  }
  const auto wanted = static_cast<size_t>(context.options.finalists);
  const auto distinct = [](size_t, size_t) { return false; };
  std::vector<MatmulPlan> candidates;
  for (const RankedByNeed& grid : selected(fits.empty() ? grids : fits, 4 * wanted, distinct)) {
    for (const int64_t panel : distributed_panels(space[grid.index].block_k)) {
      candidates.push_back(space[grid.index]);
      candidates.back().block_k = panel;
    }
  }
  std::vector<RankedByNeed> all = ranked(context, candidates, [&](MatmulPlan& plan) { return cost(plan); });
  const auto too_large = [&](const RankedByNeed& one) { return one.need > machine.tile_memory_bytes; };
  if (!std::ranges::all_of(all, too_large)) std::erase_if(all, too_large);
  const auto same = [&](size_t a, size_t b) { return same_grid(candidates[a], candidates[b]); };
  std::vector<DistributedChoice> choices;
  for (const RankedByNeed& one : selected(all, wanted, same)) {
    DistributedChoice choice;
    choice.plan = candidates[one.index];
    choice.cost = cost(candidates[one.index]);
    choice.layout = layout_of(work.shape, candidates[one.index]);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<DistributedChoice> attention_choices(DistributedContext& context, const Graph& graph, const Op& op,
                                                 std::span<const DistributedLayout> operands,
                                                 const std::optional<DistributedLayout>& required) {
  const DistributedAttention work = distributed_attention(graph, op, operands);
  const Machine& machine = context.machine;
  std::vector<AttentionPlan> space =
      attention_space(machine, work.work.shape, context.options.attention, context.options.candidates_per_op);
  if (required) {
    std::erase_if(space, [&](const AttentionPlan& plan) { return !(layout_of(work.work.shape, plan) == *required); });
  }
  std::vector<RankedByNeed> all = ranked(
      context, space, [&](const AttentionPlan& plan) { return distributed_attention_cost(machine, work, plan); });
  const auto too_large = [&](const RankedByNeed& one) { return one.need > machine.tile_memory_bytes; };
  if (!std::ranges::all_of(all, too_large)) std::erase_if(all, too_large);
  const auto same = [&](size_t a, size_t b) {
    return space[a].algorithm == space[b].algorithm && space[a].grid_m == space[b].grid_m &&
           space[a].grid_heads == space[b].grid_heads && space[a].grid_batch == space[b].grid_batch;
  };
  std::vector<DistributedChoice> choices;
  for (const RankedByNeed& one : selected(all, static_cast<size_t>(context.options.finalists), same)) {
    DistributedChoice choice;
    choice.plan = space[one.index];
    choice.cost = distributed_attention_cost(machine, work, space[one.index]);
    choice.layout = layout_of(work.work.shape, space[one.index]);
    choices.push_back(std::move(choice));
  }
  return choices;
}

template <typename Make>
std::vector<DistributedChoice> split_choices(DistributedContext& context, const DistributedSplit& work,
                                             const std::optional<DistributedLayout>& required, const Make& make,
                                             bool whole_rows = false) {
  // A candidate takes as long as there are operands: a concat of hundreds has fewer, so that it takes no longer than
  // others.
  constexpr int64_t few_operands = 16;
  const auto operands = std::max(static_cast<int64_t>(work.sources.size()), few_operands);
  const int64_t most = std::max(context.options.candidates_per_op * few_operands / operands, few_operands);
  std::vector<SplitPlan> space =
      distributed_split_space(context.machine, work.shape, std::min(context.options.candidates_per_op, most));
  if (required) {
    std::erase_if(space, [&](const SplitPlan& plan) { return !(layout_of(work.shape, plan) == *required); });
  }
  if (whole_rows) {
    const auto last = static_cast<uint32_t>(std::max(work.shape.rank() - 1, 0));
    std::erase_if(space, [&](const SplitPlan& plan) { return plan.axis == last && plan.parts > 1; });
  }
  const auto evaluate = [&](const SplitPlan& plan) { return distributed_split_cost(context.machine, work, plan); };
  const std::vector<RankedByNeed> all = ranked(context, space, evaluate);
  // Few parts may be slower here, and be gathered in fewer pieces by who comes next: each order of magnitude is a kind
  // of its own.
  const auto same = [&](size_t a, size_t b) {
    return space[a].axis == space[b].axis && std::bit_width(space[a].parts) == std::bit_width(space[b].parts);
  };
  std::vector<DistributedChoice> choices;
  for (const RankedByNeed& one : selected(all, 4 * static_cast<size_t>(context.options.finalists), same)) {
    DistributedChoice choice;
    choice.cost = evaluate(space[one.index]);
    choice.layout = layout_of(work.shape, space[one.index]);
    make(choice, space[one.index]);
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace

std::vector<DistributedChoice> distributed_op_choices(DistributedContext& context, const Graph& graph, const Op& op,
                                                      std::span<const DistributedLayout> operands,
                                                      const std::optional<DistributedLayout>& required) {
  if (std::holds_alternative<Matmul>(op.attributes)) return matmul_choices(context, graph, op, operands, required);
  if (std::holds_alternative<Pointwise>(op.attributes)) {
    return split_choices(context, distributed_pointwise(graph, op, operands), required,
                         [](DistributedChoice& choice, const SplitPlan& split) { choice.plan = split; });
  }
  if (std::holds_alternative<Attention>(op.attributes))
    return attention_choices(context, graph, op, operands, required);
  if (!is_distributed_operation(graph, op)) return {};
  if (needs_whole_rows(op)) {
    return split_choices(
        context, tile_rows(graph, op, operands), required,
        [](DistributedChoice& choice, const SplitPlan& split) { choice.plan = split; }, true);
  }
  if (std::holds_alternative<Gather>(op.attributes)) {
    return split_choices(context, distributed_gather(graph, op, operands), required,
                         [](DistributedChoice& choice, const SplitPlan& split) { choice.plan = split; });
  }
  std::vector<DistributedChoice> choices;
  if (is_distributed_view(graph, op)) {
    DistributedChoice choice;
    choice.plan = MovementPlan{};
    choice.view = true;
    choice.layout = operands[0];
    choices.push_back(std::move(choice));
    ++context.candidates;
    return choices;  // a copy changes nothing that a reader could not do as well
  }
  return split_choices(
      context, distributed_movement(context.machine, graph, op, operands), required,
      [](DistributedChoice& choice, const SplitPlan& split) { choice.plan = MovementPlan{true, split}; });
}

std::vector<DistributedChoice> distributed_output_choices(DistributedContext& context, const Type& type,
                                                          const DistributedLayout& source,
                                                          const std::optional<DistributedLayout>& required) {
  return split_choices(context, distributed_copy(type, source), required,
                       [](DistributedChoice& choice, const SplitPlan& split) {
                         choice.plan = NoPlan{};
                         choice.output = split;
                       });
}

}  // namespace low
