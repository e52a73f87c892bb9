#include "compiler/search/global_memory.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/search/attention.h"
#include "compiler/search/op_cost.h"
#include "compiler/search/space.h"

namespace low {
namespace {

struct Ranked {
  size_t index;
  CostSum cost;
  bool shares = false;  // as in Choice
};

// By time, then by work that hides behind other work.
bool is_better(const Ranked& a, const Ranked& b) {
  if (a.cost.cycles != b.cost.cycles) return a.cost.cycles < b.cost.cycles;
  const double a_work = a.cost.items.compute + a.cost.items.memory;
  const double b_work = b.cost.items.compute + b.cost.items.memory;
  return a_work != b_work ? a_work < b_work : a.index < b.index;
}

// Of a decision: what its operation writes, and what it reads of each operand that an operation computes, see
// RegionMemory; empty if one of them is no chunk.
using ChunkList = boost::container::small_vector<int64_t, 6>;
using Chunks = std::function<ChunkList(const OpPlan&)>;

// Evaluates all candidates and keeps the best `options.finalists`: first the best of each kind (`same` tells whether
// two candidates are of one kind), then whatever is next. Behind them, what may pay in a superstep that is shared: of
// those that take about as long what computes least, and what moves least, since the rest may hide there; and the best
// for each list of chunks. Searched exhaustively: all.
template <typename Candidate, typename Evaluate, typename Same>
std::vector<Ranked> best(SearchContext& context, const std::vector<Candidate>& candidates, const Evaluate& evaluate,
                         const Same& same, const Chunks& chunks_of) {
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
  if (context.exhaustive != nullptr) {
    std::ranges::sort(all, is_better);
    return all;
  }
  const auto wanted = static_cast<size_t>(context.options.finalists);
  std::vector<Ranked> kept;
  std::vector<Ranked> rest;
  // A heap: most of them need no place in the order.
  const auto is_worse = [](const Ranked* a, const Ranked* b) { return is_better(*b, *a); };
  std::vector<const Ranked*> heap;
  heap.reserve(all.size());
  for (const Ranked& ranked : all) heap.push_back(&ranked);
  std::ranges::make_heap(heap, is_worse);
  while (!heap.empty() && kept.size() < wanted) {
    const Ranked& ranked = *heap.front();
    const bool known = std::ranges::any_of(
        kept, [&](const Ranked& other) { return same(candidates[other.index], candidates[ranked.index]); });
    std::vector<Ranked>& list = known ? rest : kept;
    if (list.size() < wanted) list.push_back(ranked);
    std::ranges::pop_heap(heap, is_worse);
    heap.pop_back();
  }
  for (size_t i = 0; i < rest.size() && kept.size() < wanted; ++i) kept.push_back(rest[i]);
  std::ranges::sort(kept, is_better);
  const auto add = [&](const Ranked& ranked) {
    auto same_one = std::ranges::find(kept, ranked.index, &Ranked::index);
    if (same_one == kept.end()) same_one = kept.insert(kept.end(), ranked);
    same_one->shares = true;
  };
  if (kept.empty()) return kept;
  const double about_as_fast = 1.25 * kept.front().cost.cycles;
  for (double Cost::* item : {&Cost::compute, &Cost::memory}) {
    const Ranked* least = nullptr;
    for (const Ranked& ranked : all) {
      if (ranked.cost.cycles > about_as_fast) continue;
      const auto less = [&](const Ranked& a, const Ranked& b) {
        return a.cost.items.*item != b.cost.items.*item ? a.cost.items.*item < b.cost.items.*item : is_better(a, b);
      };
      if (least == nullptr || less(ranked, *least)) least = &ranked;
    }
    add(*least);
  }
  std::vector<std::pair<ChunkList, const Ranked*>> best_of;  // few
  for (const Ranked& ranked : all) {
    const ChunkList list = chunks_of(candidates[ranked.index]);
    if (list.empty()) continue;
    const auto known = std::ranges::find(best_of, list, &std::pair<ChunkList, const Ranked*>::first);
    if (known == best_of.end()) {
      best_of.emplace_back(list, &ranked);
    } else if (is_better(ranked, *known->second)) {
      known->second = &ranked;
    }
  }
  std::ranges::sort(best_of, [](const auto& a, const auto& b) { return is_better(*a.second, *b.second); });
  for (const auto& [list, ranked] : best_of) add(*ranked);
  return kept;
}

StepWork step_work(const SuperstepWork& superstep) {
  return {superstep.tiles.front(), superstep.bytes, superstep.distinct_bytes};
}

// `first`: its superstep, or the first one; none if there is nothing to do.
template <typename First>
Choice choice_of(OpPlan plan, const Ranked& ranked, const First& first) {
  Choice choice;
  choice.plan = std::move(plan);
  choice.cost.add(ranked.cost);
  choice.shares = ranked.shares;
  if (ranked.cost.cycles > 0) choice.first = choice.last = step_work(first());
  return choice;
}

// Calls add(split, cost, superstep), with a function that gives its superstep, for the best splits.
template <typename Add>
Result<void> split_choices(SearchContext& context, const SplitWork& work, const Shape& shape, const Chunks& chunks,
                           const Add& add) {
  const std::vector<SplitPlan> space = split_space(context.machine, shape, context.options.candidates_per_op);
  LOW_TRY_VOID(count_candidates(context, space.size()));
  const auto evaluate = [&](const SplitPlan& plan) {
    CostSum sum;
    sum.add(split_cost(context.machine, work, plan));
    return sum;
  };
  const auto same = [](const SplitPlan& a, const SplitPlan& b) { return a.axis == b.axis; };
  for (const Ranked& ranked : best(context, space, evaluate, same, chunks)) {
    const SplitPlan& split = space[ranked.index];
    add(split, ranked, [&] { return split_superstep(context.machine, work, split); });
  }
  return {};
}

Result<std::vector<Choice>> matmul_choices(SearchContext& context, const MatmulWork& work, const Chunks& chunks) {
  const std::vector<MatmulPlan> space =
      matmul_space(context.machine, work.shape, work.a, work.b, context.options.candidates_per_op);
  LOW_TRY_VOID(count_candidates(context, space.size()));
  const auto evaluate = [&](const MatmulPlan& plan) { return matmul_cost(context.machine, work, plan); };
  std::vector<Choice> choices;
  for (const Ranked& ranked : best(context, space, evaluate, same_grid, chunks)) {
    const MatmulPlan& plan = space[ranked.index];
    choices.push_back(choice_of(plan, ranked, [&] { return matmul_superstep(context.machine, work, plan); }));
    if (plan.grid_k > 1 && choices.back().last)
      choices.back().last = step_work(partial_sums_superstep(context.machine, work, plan));
    choices.back().working_bytes = partial_sum_bytes(work, plan);
  }
  return choices;
}

Result<std::vector<Choice>> attention_choices(SearchContext& context, const AttentionWork& work, const Chunks& chunks) {
  const std::vector<AttentionPlan> space =
      attention_space(context.machine, work.shape, context.options.attention, context.options.candidates_per_op);
  LOW_TRY_VOID(count_candidates(context, space.size()));
  const auto evaluate = [&](const AttentionPlan& plan) { return attention_cost(context.machine, work, plan); };
  const auto same = [](const AttentionPlan& a, const AttentionPlan& b) {
    return a.algorithm == b.algorithm && a.grid_m == b.grid_m;
  };
  std::vector<Choice> choices;
  for (const Ranked& ranked : best(context, space, evaluate, same, chunks)) {
    const AttentionPlan& plan = space[ranked.index];
    choices.push_back(choice_of(plan, ranked, [&] { return attention_superstep(context.machine, work, plan); }));
    choices.back().working_bytes = attention_scratch_bytes(context.machine, work.shape, plan);
  }
  return choices;
}

}  // namespace

Result<void> count_candidates(SearchContext& context, size_t count) {
  if (context.exhaustive == nullptr) return {};
  if (static_cast<int64_t>(count) < max_exhaustive_space) return context.exhaustive->take(count);
  return fail(ErrorKind::unsupported, fmt::format("{} candidates or more for one operation", max_exhaustive_space));
}

GlobalMemory::GlobalMemory(SearchContext& context, const Graph& graph, std::shared_ptr<LayoutTable<Layout>> layouts)
    : context_(context),
      graph_(graph),
      layouts_(std::move(layouts)),
      is_output_(graph.value_count(), 0),
      row_major_use_(graph.value_count(), 0) {
  for (const Op& op : graph.ops()) {
    const std::span<const ValueId> operands = graph.operands(op);
    for (uint32_t j = 0; j < operands.size(); ++j) {
      if (needs_row_major(op, j)) row_major_use_[operands[j]] = 1;
      if (std::holds_alternative<Output>(op.attributes)) is_output_[operands[j]] = 1;
    }
  }
}

std::unique_ptr<RegionMemory> GlobalMemory::of_body(const Graph& body) const {
  return std::make_unique<GlobalMemory>(context_, body, layouts_);
}

LayoutNumber GlobalMemory::layout_of_input(ValueId value) {
  return layouts_->number(row_major(graph_.type(value).shape));
}

Choice::Place GlobalMemory::place_of(ValueId value) {
  const Type& type = graph_.type(value);
  return {layout_of_input(value), static_cast<uint64_t>(type.shape.elements()) * byte_size(type.dtype)};
}

Result<std::vector<Choice>> GlobalMemory::choices(size_t index, std::span<const LayoutNumber> operands,
                                                  const Demand& demand) {
  const Op& op = graph_.op(OpId(index));
  const auto failed = [&](Error error) {
    return fail(error.kind, fmt::format("search: {}: {}", describe(graph_, index), error.message));
  };
  std::vector<Layout> layouts;
  for (const LayoutNumber operand : operands) layouts.push_back((*layouts_)[operand]);
  const Chunks chunks = [&](const OpPlan& plan) -> ChunkList {
    const int64_t written = written_chunk(op, plan);
    if (written == 0) return {};
    ChunkList result{written};
    const std::span<const ValueId> values = graph_.operands(op);
    for (uint32_t j = 0; j < values.size(); ++j) {
      const Op& producer = graph_.op(graph_.value(values[j]).producer);
      if (is_given(producer)) continue;
      result.push_back(read_chunk(op, j, plan));
      if (result.back() == 0) return {};
    }
    return result;
  };
  const Chunks of_copy = [&](const OpPlan& plan) { return chunks(MovementPlan{true, std::get<SplitPlan>(plan)}); };
  std::vector<Choice> choices;
  const auto wanted = [&] { return context_.exhaustive == nullptr ? std::move(choices) : undominated(op, choices); };
  if (std::holds_alternative<Output>(op.attributes)) {
    if (demand.in_place) return std::vector<Choice>(1);
    const Type& type = graph_.type(graph_.operands(op)[0]);
    const auto added = split_choices(context_, copy_work(type, layouts[0]), type.shape, of_copy,
                                     [&](const SplitPlan& split, const Ranked& ranked, const auto& superstep) {
                                       choices.push_back(choice_of(NoPlan{}, ranked, superstep));
                                       choices.back().output = split;
                                     });
    if (!added) return failed(added.error());
    return wanted();
  }
  const ValueId value = graph_.result(op);
  if (std::holds_alternative<Matmul>(op.attributes)) {
    auto found = matmul_choices(context_, matmul_work(graph_, op, layouts), chunks);
    if (!found) return failed(found.error());
    choices = std::move(*found);
    if (choices.empty())
      return failed({ErrorKind::unsupported, fmt::format("no block of it fits machine {}", context_.machine.name)});
  } else if (std::holds_alternative<Attention>(op.attributes)) {
    auto found = attention_choices(context_, attention_work(graph_, op, layouts), chunks);
    if (!found) return failed(found.error());
    choices = std::move(*found);
    if (choices.empty()) return failed({ErrorKind::unsupported, attention_obstacle(graph_, op)});
  } else if (is_split(op)) {
    const auto added = split_choices(context_, split_work(graph_, op, layouts), split_shape(graph_, op), chunks,
                                     [&](const SplitPlan& split, const Ranked& ranked, const auto& superstep) {
                                       choices.push_back(choice_of(split, ranked, superstep));
                                     });
    if (!added) return failed(added.error());
  } else if (is_movement(op)) {
    const Type& result = graph_.type(value);
    const std::optional<Layout> view = view_layout(graph_, op, layouts[0]);
    if (view) {
      ++context_.candidates;
      if (row_major_use_[value] == 0 || is_row_major(result.shape, *view)) {
        choices.emplace_back();
        choices.back().plan = MovementPlan{};
        choices.back().view = true;
        choices.back().results = {{layouts_->number(*view), 0}};
      }
    }
    // The order in which a copy reads is that of the view; a reshape without one reads its operand in the operand's own
    // order.
    const bool assembled = std::holds_alternative<Concat>(op.attributes) || std::holds_alternative<Pad>(op.attributes);
    SplitWork work =
        assembled ? assembly_work(graph_, op, layouts) : copy_work(result, view ? *view : row_major(result.shape));
    if (!view && !assembled) work.strided = copy_work(graph_.type(graph_.operands(op)[0]), layouts[0]).strided;
    const auto added = split_choices(context_, work, result.shape, of_copy,
                                     [&](const SplitPlan& split, const Ranked& ranked, const auto& superstep) {
                                       choices.push_back(choice_of(MovementPlan{true, split}, ranked, superstep));
                                     });
    if (!added) return failed(added.error());
  }
  if (choices.empty()) return failed({ErrorKind::internal, "an operation that the graph passes should have replaced"});
  const Choice::Place place = place_of(value);
  for (Choice& choice : choices) {
    if (choice.view) continue;
    choice.results = {place};
    choice.working_bytes += place.bytes;
  }
  return wanted();
}

std::vector<Choice> GlobalMemory::undominated(const Op& op, std::vector<Choice>& choices) const {
  const auto chunks = [&](const OpPlan& plan) {
    std::vector<int64_t> result{written_chunk(op, plan)};
    for (uint32_t j = 0; j < op.operands.count; ++j) result.push_back(read_chunk(op, j, plan));
    return result;
  };
  const auto cycles = [&](const StepWork& work) { return cost_of(context_.machine, work).total(); };
  // The first superstep, the last one, and all else may come to count on their own.
  const auto is_no_worse = [&](const Choice& a, const Choice& b) {
    if (a.view || b.view || a.first.has_value() != b.first.has_value()) return false;
    if (!a.first) return a.cost.cycles <= b.cost.cycles;
    const double tolerance = context_.exhaustive->tolerance();
    return no_worse(*a.first, *b.first, tolerance) && no_worse(*a.last, *b.last, tolerance) &&
           a.cost.cycles - cycles(*a.first) - cycles(*a.last) <= b.cost.cycles - cycles(*b.first) - cycles(*b.last);
  };
  std::map<std::vector<int64_t>, std::vector<size_t>> kept_of;  // by chunks
  std::vector<Choice> kept;
  for (Choice& choice : choices) {
    std::vector<size_t>& alike = kept_of[chunks(choice.plan)];
    if (std::ranges::any_of(alike, [&](size_t other) { return is_no_worse(kept[other], choice); })) continue;
    alike.push_back(kept.size());
    kept.push_back(std::move(choice));
  }
  return kept;
}

size_t GlobalMemory::beam_width(size_t) const { return static_cast<size_t>(context_.options.beam); }

namespace {

// Of a value that is cut along one axis; 0: a part is no run of elements.
int64_t chunk_of(const Shape& shape, const SplitPlan& split) {
  if (split.parts == 1 || shape.rank() == 0) return shape.elements();
  int64_t chunk = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto cut = static_cast<int>(split.axis);
    if (axis < cut && shape[axis] != 1) return 0;
    chunk *= axis == cut ? ceil_div(shape[axis], split.parts) : shape[axis];
  }
  return chunk;
}

bool cuts_rows_alone(const MatmulPlan& plan) { return plan.grid_batch == 1 && plan.grid_n == 1 && plan.grid_k == 1; }

// Rows of a matrix in a part of a matmul that cuts rows alone; 0: it cuts other axes, or there are several matrices.
int64_t rows_of_part(const MatmulShape& shape, const MatmulPlan& plan) {
  if (!cuts_rows_alone(plan) || (shape.batch != 1 && plan.grid_m != 1)) return 0;
  return plan.grid_m == 1 ? shape.batch * shape.m : ceil_div(shape.m, plan.grid_m);
}

}  // namespace

int64_t GlobalMemory::written_chunk(const Op& op, const OpPlan& plan) const {
  if (op.results.count != 1) return 0;
  const Shape& shape = graph_.type(graph_.result(op)).shape;
  if (const auto* split = std::get_if<SplitPlan>(&plan)) return chunk_of(shape, *split);
  if (const auto* movement = std::get_if<MovementPlan>(&plan)) return chunk_of(shape, movement->split);
  if (const auto* matmul = std::get_if<MatmulPlan>(&plan))
    return cuts_rows_alone(*matmul) ? rows_of_part(matmul_shape(graph_, op), *matmul) * shape[shape.rank() - 1] : 0;
  return 0;
}

int64_t GlobalMemory::read_chunk(const Op& op, uint32_t operand, const OpPlan& plan) const {
  if (op.results.count != 1) return 0;
  const Shape& shape = graph_.type(graph_.operands(op)[operand]).shape;
  const Shape& result = graph_.type(graph_.result(op)).shape;
  if (const auto* split = std::get_if<SplitPlan>(&plan)) {
    if (split->parts == 1) return shape.elements();
    const Parts parts = *parts_of(op.attributes);
    const bool each_its_own =
        parts == Parts::elements || parts == Parts::rows || (parts == Parts::updated && operand == 0);
    return each_its_own && shape.elements() == result.elements() ? chunk_of(result, *split) : 0;
  }
  if (const auto* matmul = std::get_if<MatmulPlan>(&plan)) {
    const MatmulShape extents = matmul_shape(graph_, op);
    const int64_t rows = rows_of_part(extents, *matmul);
    if (matmul->grid_m == 1) return rows == 0 ? 0 : shape.elements();
    if (operand == 0) return std::get<Matmul>(op.attributes).transpose_a ? 0 : rows * extents.k;
    return operand >= 2 && shape.elements() == result.elements() ? rows * extents.n : 0;
  }
  return 0;
}

std::string GlobalMemory::describe_output(size_t, const Choice& choice) const {
  return "copy, " + describe(OpPlan(choice.output));
}

std::vector<LayoutNumber> GlobalMemory::enter(const Op& op, std::span<const LayoutNumber>, Entrance&) {
  const Graph& body = *std::get<Repeat>(op.attributes).body;
  std::vector<LayoutNumber> inputs;
  for (const OpId input : body.inputs())
    inputs.push_back(layouts_->number(row_major(body.type(body.result(body.op(input))).shape)));
  return inputs;
}

Choice GlobalMemory::repeated(const Op& op, std::span<const LayoutNumber> operands, const Entrance&,
                              const RegionChoice& body) {
  Choice choice = not_repeated(op, operands);
  choice.cost.add(body.cost, static_cast<double>(std::get<Repeat>(op.attributes).count));
  choice.working_bytes += body.working_bytes;
  return choice;
}

Choice GlobalMemory::not_repeated(const Op& op, std::span<const LayoutNumber>) {
  Choice choice;
  for (uint32_t j = 0; j < op.results.count; ++j) {
    choice.results.push_back(place_of(graph_.result(op, j)));
    choice.working_bytes += choice.results.back().bytes;
  }
  return choice;
}

}  // namespace low
