#include "compiler/search/choices.h"

#include <algorithm>

#include "compiler/search/attention.h"
#include "compiler/search/op_cost.h"
#include "compiler/search/space.h"

namespace low {
namespace {

struct Ranked {
  size_t index;
  CostSum cost;
};

// By time, then by work that hides behind other work.
bool is_better(const Ranked& a, const Ranked& b) {
  if (a.cost.cycles != b.cost.cycles) return a.cost.cycles < b.cost.cycles;
  const double a_work = a.cost.items.compute + a.cost.items.memory;
  const double b_work = b.cost.items.compute + b.cost.items.memory;
  return a_work != b_work ? a_work < b_work : a.index < b.index;
}

// Evaluates all candidates and keeps the best `options.finalists`: first the best of each kind (`same` tells whether
// two candidates are of one kind), then whatever is next.
template <typename Candidate, typename Evaluate, typename Same>
std::vector<Ranked> best(SearchContext& context, const std::vector<Candidate>& candidates, const Evaluate& evaluate,
                         const Same& same) {
  std::vector<Ranked> all(candidates.size());
  constexpr size_t chunk = 128;  // a candidate costs less than handing it to a thread
  const size_t chunks = (candidates.size() + chunk - 1) / chunk;
  context.pool.parallel_for(static_cast<int64_t>(chunks), [&](int64_t i) {
    const size_t begin = static_cast<size_t>(i) * chunk;
    for (size_t j = begin; j < std::min(begin + chunk, candidates.size()); ++j) {
      all[j] = {j, evaluate(candidates[j])};
    }
  });
  context.candidates += static_cast<int64_t>(candidates.size());
  std::ranges::sort(all, is_better);
  const auto wanted = static_cast<size_t>(context.options.finalists);
  std::vector<Ranked> kept;
  std::vector<Ranked> rest;
  for (const Ranked& ranked : all) {
    if (kept.size() == wanted) break;
    const bool known = std::ranges::any_of(
        kept, [&](const Ranked& other) { return same(candidates[other.index], candidates[ranked.index]); });
    std::vector<Ranked>& list = known ? rest : kept;
    if (list.size() < wanted) list.push_back(ranked);
  }
  for (size_t i = 0; i < rest.size() && kept.size() < wanted; ++i) kept.push_back(rest[i]);
  std::ranges::sort(kept, is_better);
  return kept;
}

Choice choice_of(OpPlan plan, const CostSum& cost) {
  Choice choice;
  choice.plan = std::move(plan);
  choice.cost.add(cost);
  return choice;
}

// Calls add(split, cost) for the best splits.
template <typename Add>
void split_choices(SearchContext& context, const SplitWork& work, const Shape& shape, const Add& add) {
  const std::vector<SplitPlan> space = split_space(context.machine, shape, context.options.candidates_per_op);
  const auto evaluate = [&](const SplitPlan& plan) {
    CostSum sum;
    sum.add(split_cost(context.machine, work, plan));
    return sum;
  };
  const auto same = [](const SplitPlan& a, const SplitPlan& b) { return a.axis == b.axis; };
  for (const Ranked& ranked : best(context, space, evaluate, same)) add(space[ranked.index], ranked.cost);
}

}  // namespace

std::vector<Choice> op_choices(SearchContext& context, const Graph& graph, const Op& op,
                               std::span<const Layout> operands) {
  std::vector<Choice> choices;
  if (std::holds_alternative<Matmul>(op.attributes)) {
    const MatmulWork work = matmul_work(graph, op, operands);
    const std::vector<MatmulPlan> space =
        matmul_space(context.machine, work.shape, work.a, work.b, context.options.candidates_per_op);
    const auto evaluate = [&](const MatmulPlan& plan) { return matmul_cost(context.machine, work, plan); };
    for (const Ranked& ranked : best(context, space, evaluate, same_grid)) {
      choices.push_back(choice_of(space[ranked.index], ranked.cost));
      choices.back().temporary_bytes = partial_sum_bytes(work, space[ranked.index]);
    }
  } else if (std::holds_alternative<Attention>(op.attributes)) {
    const AttentionWork work = attention_work(graph, op, operands);
    const std::vector<AttentionPlan> space =
        attention_space(context.machine, work.shape, context.options.attention, context.options.candidates_per_op);
    const auto evaluate = [&](const AttentionPlan& plan) { return attention_cost(context.machine, work, plan); };
    const auto same = [](const AttentionPlan& a, const AttentionPlan& b) {
      return a.algorithm == b.algorithm && a.grid_m == b.grid_m;
    };
    for (const Ranked& ranked : best(context, space, evaluate, same)) {
      choices.push_back(choice_of(space[ranked.index], ranked.cost));
      choices.back().temporary_bytes = attention_scratch_bytes(context.machine, work.shape, space[ranked.index]);
    }
  } else if (is_split(op)) {
    split_choices(context, split_work(graph, op, operands), split_shape(graph, op),
                  [&](const SplitPlan& split, const CostSum& cost) { choices.push_back(choice_of(split, cost)); });
  } else if (is_movement(op)) {
    const Type& result = graph.type(graph.result(op));
    const std::optional<Layout> view = view_layout(graph, op, operands[0]);
    if (view) {
      Choice choice;
      choice.plan = MovementPlan{};
      choice.view = view;
      choices.push_back(std::move(choice));
      ++context.candidates;
    }
    // The order in which a copy reads is that of the view; a reshape without one reads its operand in the operand's own
    // order.
    const bool assembled = std::holds_alternative<Concat>(op.attributes) || std::holds_alternative<Pad>(op.attributes);
    SplitWork work =
        assembled ? assembly_work(graph, op, operands) : copy_work(result, view ? *view : row_major(result.shape));
    if (!view && !assembled) work.strided = copy_work(graph.type(graph.operands(op)[0]), operands[0]).strided;
    split_choices(context, work, result.shape, [&](const SplitPlan& split, const CostSum& cost) {
      choices.push_back(choice_of(MovementPlan{true, split}, cost));
    });
  }
  return choices;
}

std::vector<Choice> output_choices(SearchContext& context, const Type& type, const Layout& source) {
  std::vector<Choice> choices;
  split_choices(context, copy_work(type, source), type.shape, [&](const SplitPlan& split, const CostSum& cost) {
    Choice choice = choice_of(NoPlan{}, cost);
    choice.output = split;
    choices.push_back(std::move(choice));
  });
  return choices;
}

}  // namespace low
