#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "compiler/base/hash.h"
#include "compiler/search/distributed_cost.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/exhaustive.h"
#include "compiler/search/explain.h"

namespace low {
namespace {

// Layouts by number, so that states are short lists of numbers.
class Layouts {
 public:
  int32_t number(const DistributedLayout& layout) {
    const Key key = {static_cast<int64_t>(layout.kind),
                     static_cast<int64_t>(layout.iterations),
                     layout.batch,
                     layout.m,
                     layout.n,
                     layout.part_batch,
                     layout.part_m,
                     layout.part_n,
                     layout.share,
                     layout.grid_batch,
                     layout.grid_m,
                     layout.grid_n,
                     layout.shares};
    const auto [found, added] = numbers_.try_emplace(key, static_cast<int32_t>(layouts_.size()));
    if (added) layouts_.push_back(layout);
    return found->second;
  }
  const DistributedLayout& operator[](int32_t number) const { return layouts_[static_cast<size_t>(number)]; }

 private:
  using Key = std::array<int64_t, 13>;
  std::map<Key, int32_t> numbers_;
  std::vector<DistributedLayout> layouts_;
};

using Numbers = std::vector<int32_t>;  // of layouts

struct NumbersHash {
  size_t operator()(const Numbers& numbers) const { return WordHash().add_list(numbers).result(); }
};

// The least cost of all partial plans that end in these layouts. Nothing depends on the order.
using States = std::unordered_map<Numbers, double, NumbersHash>;

void keep_least(States& states, const Numbers& numbers, double cycles) {
  const auto [found, added] = states.try_emplace(numbers, cycles);
  if (!added) found->second = std::min(found->second, cycles);
}

DistributedLayout constant_layout() {
  DistributedLayout layout;
  layout.kind = DistributedLayout::Kind::constant;
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

class DistributedEnumeration {
 public:
  DistributedEnumeration(const Graph& graph, const Machine& machine, Layouts& layouts, StepBudget& budget, int depth)
      : graph_(graph),
        machine_(machine),
        layouts_(layouts),
        budget_(budget),
        depth_(depth),
        kept_(depth == 0 ? 0 : static_cast<uint32_t>(graph.outputs().size())),
        writers_(output_writers(graph, kept_)),
        cache_(graph.op_count()) {
    last_use_ = Table<ValueId, uint32_t>(graph.value_count(), 0);
    for (size_t i = 0; i < graph.op_count(); ++i) {
      for (const ValueId operand : graph.operands(graph.op(OpId(i)))) last_use_[operand] = static_cast<uint32_t>(i);
    }
  }

  // All combinations of the layouts of the outputs of a body (none at depth 0), and the least cost for each.
  // `required`: by output.
  Result<States> run(const Numbers& inputs, const Numbers& required, double bound) {
    Table<ValueId, int32_t> fixed(graph_.value_count(), -1);
    for (size_t i = 0; i < inputs.size(); ++i) fixed[graph_.result(graph_.op(graph_.inputs()[i]))] = inputs[i];
    States states;
    states.emplace(Numbers(), 0);
    std::vector<ValueId> live;  // what a state's numbers stand for; those of outputs come after them
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      if (std::holds_alternative<Input>(op.attributes)) continue;
      if (std::holds_alternative<Constant>(op.attributes)) {
        fixed[graph_.result(op)] = layouts_.number(constant_layout());
        continue;
      }
      const bool output = std::holds_alternative<Output>(op.attributes);
      std::vector<ValueId> next_live;
      Numbers kept_places;  // in a state's numbers
      for (size_t j = 0; j < live.size(); ++j) {
        if (last_use_[live[j]] <= i) continue;
        next_live.push_back(live[j]);
        kept_places.push_back(static_cast<int32_t>(j));
      }
      std::vector<uint32_t> results;
      for (uint32_t j = 0; j < op.results.count; ++j) {
        if (last_use_[graph_.result(op, j)] <= i) continue;
        results.push_back(j);
        next_live.push_back(graph_.result(op, j));
      }
      const int32_t wanted = required_of(i, required);
      States next;
      for (const auto& [numbers, cycles] : states) {
        Numbers operands;
        for (const ValueId operand : graph_.operands(op)) {
          const auto found = std::ranges::find(live, operand);
          operands.push_back(found == live.end() ? fixed[operand] : numbers[static_cast<size_t>(found - live.begin())]);
        }
        LOW_TRY(const States* choices, choices_for(i, operands, bound - cycles));
        LOW_TRY_VOID(budget_.take(choices->size()));
        Numbers extended;
        const auto extend = [&](const Numbers& made, double more) {
          if (cycles + more > bound || (wanted >= 0 && made[0] != wanted)) return;
          extended.clear();
          for (const int32_t place : kept_places) extended.push_back(numbers[static_cast<size_t>(place)]);
          for (const uint32_t j : results) extended.push_back(made[j]);
          extended.insert(extended.end(), numbers.begin() + static_cast<std::ptrdiff_t>(live.size()), numbers.end());
          if (output && kept_ > 0) extended.push_back(made[0]);
          keep_least(next, extended, cycles + more);
        };
        if (wanted >= 0) {  // most choices make something else
          const auto one = choices->find(Numbers{wanted});
          if (one != choices->end()) extend(one->first, one->second);
          continue;
        }
        for (const auto& [made, more] : *choices) extend(made, more);
      }
      states = std::move(next);
      live = std::move(next_live);
    }
    return states;
  }

 private:
  uint32_t output_index(size_t op) const {
    return static_cast<uint32_t>(std::ranges::find(graph_.outputs(), OpId(op)) - graph_.outputs().begin());
  }

  // The layout that operation i has to give to what it makes, or -1.
  int32_t required_of(size_t i, const Numbers& required) const {
    const Op& op = graph_.op(OpId(i));
    uint32_t output = OutputWriters::none;
    if (std::holds_alternative<Output>(op.attributes)) {
      output = kept_ > 0 ? output_index(i) : OutputWriters::none;
    } else if (op.results.count == 1) {
      output = writers_.output[graph_.result(op)];
    }
    return output < required.size() ? required[output] : -1;
  }

  Result<void> check(size_t i, size_t candidates) {
    if (static_cast<int64_t>(candidates) < max_exhaustive_space) return budget_.take(candidates);
    return fail(ErrorKind::unsupported, fmt::format("exhaustive search: {}: {} candidates or more for one operation",
                                                    describe(graph_, i), max_exhaustive_space));
  }

  Result<void> add_splits(size_t i, const DistributedSplit& work, bool whole_rows, States& choices) {
    const std::vector<SplitPlan> space = distributed_split_space(machine_, work.shape, max_exhaustive_space);
    LOW_TRY_VOID(check(i, space.size()));
    const auto last = static_cast<uint32_t>(std::max(work.shape.rank() - 1, 0));
    for (const SplitPlan& plan : space) {
      if (whole_rows && plan.axis == last && plan.parts > 1) continue;
      keep_least(choices, {layouts_.number(layout_of(work.shape, plan))},
                 distributed_split_cost(machine_, work, plan).cost.cycles);
    }
    return {};
  }

  // The layouts of the results (of an output: its own) that the decisions for operation i give, and the least cost for
  // each.
  Result<const States*> choices_for(size_t i, const Numbers& operands, double bound) {
    const Op& op = graph_.op(OpId(i));
    const bool repeats = std::holds_alternative<Repeat>(op.attributes);
    if (const auto found = cache_[i].find(operands); found != cache_[i].end() && !repeats) return &found->second;
    States choices;
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      LOW_TRY(choices, repeat_choices(op, *repeat, operands, bound));
    } else {
      std::vector<DistributedLayout> layouts;
      for (const int32_t number : operands) layouts.push_back(layouts_[number]);
      LOW_TRY_VOID(add_choices(i, layouts, operands, choices));
    }
    return &(cache_[i][operands] = std::move(choices));
  }

  Result<void> add_choices(size_t i, const std::vector<DistributedLayout>& layouts, const Numbers& operands,
                           States& choices) {
    const Op& op = graph_.op(OpId(i));
    if (std::holds_alternative<Output>(op.attributes)) {
      const Type& type = graph_.type(graph_.operands(op)[0]);
      if (kept_ == 0) {
        keep_least(choices, operands, distributed_output_cost(machine_, type, layouts[0]).cost.cycles);
      } else if (writers_.written[output_index(i)]) {
        keep_least(choices, operands, 0);
      } else {
        return add_splits(i, distributed_copy(type, layouts[0]), false, choices);
      }
      return {};
    }
    if (!is_distributed_operation(graph_, op)) {
      return fail(ErrorKind::unsupported,
                  fmt::format("exhaustive search: {} is not planned for machines without global "
                              "memory, such as {}",
                              describe(graph_, i), machine_.name));
    }
    if (std::holds_alternative<Matmul>(op.attributes)) {
      const DistributedMatmul work = distributed_matmul(graph_, op, layouts);
      const std::vector<MatmulPlan> space = distributed_matmul_space(machine_, work.shape, max_exhaustive_space);
      LOW_TRY_VOID(check(i, space.size()));
      for (MatmulPlan plan : space) {
        const int32_t layout = layouts_.number(layout_of(work.shape, plan));
        const std::vector<int64_t> panels = distributed_panels(plan.block_k);
        LOW_TRY_VOID(budget_.take(panels.size()));
        for (const int64_t panel : panels) {
          plan.block_k = panel;
          keep_least(choices, {layout}, distributed_matmul_cost(machine_, work, plan).cost.cycles);
        }
      }
      return {};
    }
    if (std::holds_alternative<Attention>(op.attributes)) {
      const DistributedAttention work = distributed_attention(graph_, op, layouts);
      const std::vector<AttentionPlan> space =
          attention_space(machine_, work.work.shape, std::nullopt, max_exhaustive_space);
      LOW_TRY_VOID(check(i, space.size()));
      for (const AttentionPlan& plan : space)
        keep_least(choices, {layouts_.number(layout_of(work.work.shape, plan))},
                   distributed_attention_cost(machine_, work, plan).cost.cycles);
      return {};
    }
    if (std::holds_alternative<Pointwise>(op.attributes)) {
      return add_splits(i, distributed_pointwise(graph_, op, layouts), false, choices);
    }
    if (needs_whole_rows(op)) return add_splits(i, tile_rows(graph_, op, layouts), true, choices);
    if (is_distributed_view(graph_, op)) {
      keep_least(choices, {operands[0]}, 0);
      return {};
    }
    if (std::holds_alternative<Gather>(op.attributes)) {
      return add_splits(i, distributed_gather(graph_, op, layouts), false, choices);
    }
    return add_splits(i, distributed_movement(machine_, graph_, op, layouts), false, choices);
  }

  DistributedEnumeration& body_of(const Repeat& repeat) {
    std::unique_ptr<DistributedEnumeration>& body = bodies_[repeat.body.get()];
    if (!body) body = std::make_unique<DistributedEnumeration>(*repeat.body, machine_, layouts_, budget_, depth_ + 1);
    return *body;
  }

  // Carried values lie where they lay: for every way in which they can come out of the body, the best body that takes
  // them so.
  Result<States> repeat_choices(const Op& op, const Repeat& repeat, const Numbers& operands, double bound) {
    if (depth_ == max_repeat_depth) {
      return fail(ErrorKind::unsupported,
                  fmt::format("exhaustive search: repeats are nested deeper than {}", max_repeat_depth));
    }
    const Graph& body = *repeat.body;
    States choices;
    if (repeat.count == 0) {
      Numbers results(operands.begin(), operands.begin() + repeat.carried);
      results.resize(op.results.count, layouts_.number(DistributedLayout()));
      choices.emplace(std::move(results), 0);
      return choices;
    }
    Numbers inputs = operands;
    double around = 0;  // once, before the first iteration
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      DistributedLayout layout = layouts_[inputs[i]];
      if (i < repeat.carried) {
        if (layout.kind == DistributedLayout::Kind::constant) inputs[i] = layouts_.number(DistributedLayout());
        continue;
      }
      if (i < repeat.carried + repeat.invariant) continue;
      if (layout.kind == DistributedLayout::Kind::constant) {
        layout.iterations =
            std::min<uint64_t>(layout.iterations * static_cast<uint64_t>(repeat.count), uint64_t{1} << 40);
        inputs[i] = layouts_.number(layout);
        continue;
      }
      // Each tile takes its share of all iterations' rows beforehand.
      const MatrixExtents extents = matrix_extents(body.type(body.result(body.op(body.inputs()[i]))).shape);
      const int64_t rows = std::max<int64_t>(extents.rows, 1);
      const auto parts = static_cast<uint32_t>(std::min<int64_t>(rows, machine_.tiles));
      const DistributedLayout shares = layout_of(Shape{rows, extents.columns}, SplitPlan{0, parts});
      around +=
          distributed_copy_cost(machine_, graph_.type(graph_.operands(op)[i]), layout, iterated(shares, repeat.count))
              .cost.cycles;
      inputs[i] = layouts_.number(shares);
    }
    DistributedEnumeration& enumeration = body_of(repeat);
    constexpr double unbounded = std::numeric_limits<double>::infinity();
    const auto count = static_cast<double>(repeat.count);
    // Where carried values can end does not depend on where they come from.
    LOW_TRY(const States free, enumeration.run(inputs, {}, repeat.carried > 0 ? unbounded : bound / count));
    std::map<Numbers, double> ends;  // with the cost of getting there once
    for (const auto& [outputs, cycles] : free) {
      ends.emplace(Numbers(outputs.begin(), outputs.begin() + repeat.carried), 0);
    }
    for (auto& [carried, initial] : ends) {
      initial = around;
      for (uint32_t c = 0; c < repeat.carried; ++c) {
        initial += distributed_copy_cost(machine_, graph_.type(graph_.operands(op)[c]), layouts_[operands[c]],
                                         layouts_[carried[c]])
                       .cost.cycles;
      }
      if (initial > bound) continue;
      std::ranges::copy(carried, inputs.begin());
      States closed;
      if (repeat.carried == 0) {
        closed = free;
      } else {
        LOW_TRY(closed, enumeration.run(inputs, carried, (bound - initial) / count));
      }
      for (const auto& [outputs, cycles] : closed) {
        Numbers results = outputs;
        for (uint32_t c = repeat.carried; c < op.results.count; ++c) {
          results[c] = layouts_.number(iterated(layouts_[outputs[c]], repeat.count));
        }
        keep_least(choices, results, initial + cycles * count);
      }
    }
    return choices;
  }

  const Graph& graph_;
  const Machine& machine_;
  Layouts& layouts_;
  StepBudget& budget_;
  const int depth_;
  const uint32_t kept_;  // outputs that stay on tiles
  Table<ValueId, uint32_t> last_use_;
  const OutputWriters writers_;
  std::vector<std::unordered_map<Numbers, States, NumbersHash>> cache_;  // by operation
  std::map<const Graph*, std::unique_ptr<DistributedEnumeration>> bodies_;
};

}  // namespace

Result<double> search_tiles_exhaustively(const Graph& graph, const Machine& machine, double bound_cycles,
                                         StepBudget& budget) {
  Layouts layouts;
  const Numbers inputs(graph.inputs().size(), layouts.number(DistributedLayout()));
  LOW_TRY(const States states,
          DistributedEnumeration(graph, machine, layouts, budget, 0).run(inputs, {}, bound_cycles));
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [numbers, cycles] : states) best = std::min(best, cycles);
  return best;
}

}  // namespace low
