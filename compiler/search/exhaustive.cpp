#include "compiler/search/exhaustive.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "compiler/search/attention.h"
#include "compiler/search/explain.h"
#include "compiler/search/op_cost.h"
#include "compiler/search/space.h"

namespace low {
namespace {

// What a later operation sees of a value that is still read, or in whose storage one lies that is.
struct Live {
  ValueId value, root;
  Layout layout;
  bool dense = true;    // the root itself, or reshapes of it
  bool placed = false;  // an output decided where it is written
};

struct State {
  std::vector<Live> live;
  double cycles = 0;
};

// All that tells states apart.
std::vector<int64_t> key_of(const State& state) {
  std::vector<int64_t> key;
  for (const Live& live : state.live) {
    key.insert(key.end(), {live.value.index, live.root.index, live.dense ? 1 : 0, live.placed ? 1 : 0,
                           live.layout.offset, live.layout.strides.rank()});
    for (int axis = 0; axis < live.layout.strides.rank(); ++axis) key.push_back(live.layout.strides[axis]);
  }
  return key;
}

struct Alternative {
  std::optional<Layout> view;  // of operand 0; otherwise the result is written anew, in row-major order
  double cycles = 0;
};

class RegionEnumeration {
 public:
  RegionEnumeration(const Graph& graph, const Machine& machine, StepBudget& budget, int depth)
      : graph_(graph), machine_(machine), budget_(budget), depth_(depth) {
    last_use_ = Table<ValueId, uint32_t>(graph.value_count(), 0);
    row_major_use_ = Table<ValueId, char>(graph.value_count(), 0);
    for (size_t i = 0; i < graph.op_count(); ++i) {
      const Op& op = graph.op(OpId(i));
      const std::span<const ValueId> operands = graph.operands(op);
      for (uint32_t j = 0; j < operands.size(); ++j) {
        last_use_[operands[j]] = static_cast<uint32_t>(i);
        if (needs_row_major(op, j)) row_major_use_[operands[j]] = 1;
      }
    }
  }

  Result<double> run(double bound) {
    std::map<std::vector<int64_t>, State> states;
    states[{}] = {};
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes)) continue;
      std::map<std::vector<int64_t>, State> next;
      for (const auto& [key, state] : states) {
        LOW_TRY(const std::vector<Alternative> alternatives, alternatives_for(state, i, bound));
        LOW_TRY_VOID(budget_.take(alternatives.size()));
        for (const Alternative& alternative : alternatives) {
          State extended = extend(state, i, alternative);
          if (extended.cycles > bound) continue;
          std::vector<int64_t> extended_key = key_of(extended);
          const auto found = next.find(extended_key);
          if (found == next.end()) {
            next.emplace(std::move(extended_key), std::move(extended));
          } else {
            found->second.cycles = std::min(found->second.cycles, extended.cycles);
          }
        }
      }
      states = std::move(next);
    }
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [key, state] : states) best = std::min(best, state.cycles);
    return best;
  }

 private:
  static const Live* find(const State& state, ValueId value) {
    const auto found = std::ranges::find(state.live, value, &Live::value);
    return found == state.live.end() ? nullptr : &*found;
  }

  // The value whose producer can write an output of `value` where it belongs.
  static ValueId placed_by(const State& state, ValueId value) {
    const Live* live = find(state, value);
    const Live* root = live != nullptr && live->dense ? find(state, live->root) : nullptr;
    return root != nullptr && !root->placed ? root->value : ValueId();
  }

  Result<double> least_split(size_t i, const Shape& shape, const SplitWork& work) {
    const std::vector<SplitPlan> space = split_space(machine_, shape, max_exhaustive_space);
    LOW_TRY_VOID(check(i, space.size()));
    double best = std::numeric_limits<double>::infinity();
    for (const SplitPlan& plan : space) best = std::min(best, split_cost(machine_, work, plan).total());
    return best;
  }

  Result<void> check(size_t i, size_t candidates) {
    if (static_cast<int64_t>(candidates) < max_exhaustive_space) return budget_.take(candidates);
    return fail(ErrorKind::unsupported, fmt::format("exhaustive search: {}: {} candidates or more for one operation",
                                                    describe(graph_, i), max_exhaustive_space));
  }

  Result<std::vector<Alternative>> alternatives_for(const State& state, size_t i, double bound) {
    const Op& op = graph_.op(OpId(i));
    std::vector<Layout> operands;
    for (const ValueId operand : graph_.operands(op)) {
      const Live* live = find(state, operand);
      operands.push_back(live != nullptr ? live->layout : row_major(graph_.type(operand).shape));
    }
    if (std::holds_alternative<Output>(op.attributes)) {
      const ValueId value = graph_.operands(op)[0];
      if (placed_by(state, value).valid()) return std::vector<Alternative>(1);
      const Type& type = graph_.type(value);
      LOW_TRY(const double cycles, least_split(i, type.shape, copy_work(type, operands[0])));
      return std::vector<Alternative>{{std::nullopt, cycles}};
    }
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      if (depth_ == max_repeat_depth) {
        return fail(ErrorKind::unsupported,
                    fmt::format("exhaustive search: repeats are nested deeper than {}", max_repeat_depth));
      }
      if (repeat->count == 0) return std::vector<Alternative>(1);
      const auto count = static_cast<double>(repeat->count);
      LOW_TRY(const double cycles,
              RegionEnumeration(*repeat->body, machine_, budget_, depth_ + 1).run((bound - state.cycles) / count));
      return std::vector<Alternative>{{std::nullopt, cycles * count}};
    }
    const Type& result = graph_.type(graph_.result(op));
    if (std::holds_alternative<Matmul>(op.attributes)) {
      const MatmulWork work = matmul_work(graph_, op, operands);
      const std::vector<MatmulPlan> space = matmul_space(machine_, work.shape, work.a, work.b, max_exhaustive_space);
      LOW_TRY_VOID(check(i, space.size()));
      double best = std::numeric_limits<double>::infinity();
      for (const MatmulPlan& plan : space) best = std::min(best, matmul_cost(machine_, work, plan).cycles);
      return std::vector<Alternative>{{std::nullopt, best}};
    }
    if (std::holds_alternative<Attention>(op.attributes)) {
      const AttentionWork work = attention_work(graph_, op, operands);
      const std::vector<AttentionPlan> space =
          attention_space(machine_, work.shape, std::nullopt, max_exhaustive_space);
      LOW_TRY_VOID(check(i, space.size()));
      double best = std::numeric_limits<double>::infinity();
      for (const AttentionPlan& plan : space) best = std::min(best, attention_cost(machine_, work, plan).cycles);
      return std::vector<Alternative>{{std::nullopt, best}};
    }
    if (is_split(op)) {
      LOW_TRY(const double cycles, least_split(i, split_shape(graph_, op), split_work(graph_, op, operands)));
      return std::vector<Alternative>{{std::nullopt, cycles}};
    }
    if (!is_movement(op)) {
      return fail(ErrorKind::unsupported, fmt::format("exhaustive search: {} is not planned", describe(graph_, i)));
    }
    std::vector<Alternative> alternatives;
    const std::optional<Layout> view = view_layout(graph_, op, operands[0]);
    const bool rows = row_major_use_[graph_.result(op)] != 0;
    if (view && (!rows || is_row_major(result.shape, *view))) alternatives.push_back({view, 0});
    const bool assembled = std::holds_alternative<Concat>(op.attributes) || std::holds_alternative<Pad>(op.attributes);
    SplitWork work =
        assembled ? assembly_work(graph_, op, operands) : copy_work(result, view ? *view : row_major(result.shape));
    if (!view && !assembled) work.strided = copy_work(graph_.type(graph_.operands(op)[0]), operands[0]).strided;
    LOW_TRY(const double cycles, least_split(i, result.shape, work));
    alternatives.push_back({std::nullopt, cycles});
    return alternatives;
  }

  State extend(const State& state, size_t i, const Alternative& alternative) const {
    const Op& op = graph_.op(OpId(i));
    State result = state;
    result.cycles += alternative.cycles;
    if (std::holds_alternative<Output>(op.attributes)) {
      const ValueId placed = placed_by(state, graph_.operands(op)[0]);
      if (placed.valid()) std::ranges::find(result.live, placed, &Live::value)->placed = true;
    }
    for (uint32_t j = 0; j < op.results.count; ++j) {
      const ValueId value = graph_.result(op, j);
      Live live{value, value, {}};
      if (alternative.view) {
        const ValueId operand = graph_.operands(op)[0];
        const Live* source = find(state, operand);
        live.root = source != nullptr ? source->root : operand;
        live.dense = (source == nullptr || source->dense) && std::holds_alternative<Reshape>(op.attributes);
        live.layout = *alternative.view;
      } else {
        live.layout = row_major(graph_.type(value).shape);
      }
      result.live.push_back(std::move(live));
    }
    std::vector<ValueId> roots;
    for (const Live& live : result.live) {
      if (last_use_[live.value] > i) roots.push_back(live.root);
    }
    std::erase_if(result.live, [&](const Live& live) {
      return last_use_[live.value] <= i && std::ranges::find(roots, live.value) == roots.end();
    });
    return result;
  }

  const Graph& graph_;
  const Machine& machine_;
  StepBudget& budget_;
  const int depth_;
  Table<ValueId, uint32_t> last_use_;
  Table<ValueId, char> row_major_use_;
};

}  // namespace

Result<void> StepBudget::take(size_t count) {
  if (count > static_cast<uint64_t>(limit_ - taken_)) {
    return fail(ErrorKind::unsupported, fmt::format("exhaustive search: more than {} steps", limit_));
  }
  taken_ += static_cast<int64_t>(count);
  return {};
}

Result<ExhaustiveResult> search_exhaustively(const Graph& graph, const Machine& machine,
                                             const ExhaustiveOptions& options) {
  StepBudget budget(std::max<int64_t>(options.steps, 0));
  auto cycles = machine.global_memory ? RegionEnumeration(graph, machine, budget, 0).run(options.bound_cycles)
                                      : search_tiles_exhaustively(graph, machine, options.bound_cycles, budget);
  if (!cycles) return std::unexpected(cycles.error());
  return ExhaustiveResult{*cycles, budget.taken()};
}

}  // namespace low
