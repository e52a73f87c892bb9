// Judging plans that come from elsewhere: nothing of a plan may be trusted before this.

#include <algorithm>

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/search/attention.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/layout.h"
#include "compiler/search/plan.h"
#include "compiler/search/space.h"

namespace low {
namespace {

std::string_view plan_kind(const OpPlan& plan) {
  constexpr std::string_view names[] = {"none", "matmul", "split", "view or copy", "repeat", "attention"};
  return names[plan.index()];
}

class Verifier {
 public:
  explicit Verifier(const Machine& machine) : machine_(machine) {}

  Result<void> region(const RegionPlan& plan, const Graph& graph, std::string_view where, int depth) {
    if (depth > max_repeat_depth) {
      return fail(ErrorKind::unsupported, fmt::format("plan: repeats are nested deeper than {}", max_repeat_depth));
    }
    if (plan.ops.size() != graph.op_count()) {
      return wrong(where, fmt::format("{} decisions for {} operations", plan.ops.size(), graph.op_count()));
    }
    if (plan.outputs.size() != graph.outputs().size()) {
      return wrong(where, fmt::format("{} output splits for {} outputs", plan.outputs.size(), graph.outputs().size()));
    }
    Table<ValueId, Layout> layouts(graph.value_count());
    size_t output = 0;
    for (size_t i = 0; i < graph.op_count(); ++i) {
      const Op& op = graph.op(OpId(i));
      const std::string name = fmt::format("{}{}{} {}{}", where, where.empty() ? "" : ": ", kind_name(op.attributes), i,
                                           op.name.empty() ? "" : " (" + op.name + ")");
      for (uint32_t result = 0; result < op.results.count; ++result) {
        const ValueId value = graph.result(op, result);
        layouts[value] = row_major(graph.type(value).shape);
      }
      const std::span<const ValueId> operands = graph.operands(op);
      for (uint32_t operand = 0; operand < operands.size(); ++operand) {
        if (needs_row_major(op, operand) &&
            !is_row_major(graph.type(operands[operand]).shape, layouts[operands[operand]])) {
          return wrong(name, fmt::format("operand {} is a view that is not row-major", operand));
        }
      }
      LOW_TRY_VOID(operation(plan.ops[i], graph, op, name, depth, layouts));
      if (std::holds_alternative<Output>(op.attributes)) {
        LOW_TRY_VOID(split(plan.outputs[output++], graph.type(operands[0]).shape, name));
      }
    }
    return {};
  }

 private:
  static std::unexpected<Error> wrong(std::string_view where, std::string_view what) {
    return fail(ErrorKind::invalid, fmt::format("plan: {}: {}", where.empty() ? "graph" : where, what));
  }

  Result<void> split(const SplitPlan& plan, const Shape& shape, std::string_view name) const {
    const auto rank = static_cast<uint32_t>(shape.rank());
    if (plan.axis >= std::max(rank, 1u)) {
      return wrong(name, fmt::format("axis {} of a result of rank {}", plan.axis, rank));
    }
    if (!machine_.global_memory) {
      const std::optional<std::string> violation = distributed_split_violation(shape, plan);
      if (violation) return wrong(name, *violation);
    }
    const int64_t extent = !machine_.global_memory ? distributed_split_extent(shape, plan.axis)
                           : rank == 0             ? 1
                                                   : shape[static_cast<int>(plan.axis)];
    const int64_t most = std::max<int64_t>(std::min<int64_t>(extent, machine_.tiles), 1);
    if (plan.parts < 1 || plan.parts > most) {
      return wrong(name, fmt::format("{} parts of an axis of {} on {} tiles; expected are 1 to {}", plan.parts, extent,
                                     machine_.tiles, most));
    }
    return {};
  }

  Result<void> matmul(const MatmulPlan& plan, const Graph& graph, const Op& op, std::string_view name) const {
    const MatmulShape shape = matmul_shape(graph, op);
    struct Axis {
      std::string_view name;
      uint32_t grid;
      int64_t extent;
    };
    uint64_t parts = 1;
    for (const Axis& axis : {Axis{"batch", plan.grid_batch, shape.batch}, Axis{"m", plan.grid_m, shape.m},
                             Axis{"n", plan.grid_n, shape.n}, Axis{"k", plan.grid_k, shape.k}}) {
      const auto most = static_cast<uint64_t>(std::max<int64_t>(axis.extent, 1));
      if (axis.grid < 1 || axis.grid > most) {
        return wrong(name, fmt::format("a grid of {} along {} of extent {}", axis.grid, axis.name, axis.extent));
      }
      parts *= axis.grid;  // at most tiles * 2^32, see below
      if (parts > machine_.tiles) {
        return wrong(name, fmt::format("a grid of {} or more parts on {} tiles", parts, machine_.tiles));
      }
    }
    if (const int64_t depth = (shape.k + plan.grid_k - 1) / plan.grid_k;
        plan.grid_k > 1 && (plan.grid_k - 1) * depth >= shape.k) {
      return wrong(name, fmt::format("{} partial sums over {}, one of which is empty", plan.grid_k, shape.k));
    }
    if (!machine_.global_memory) {
      if (const std::optional<std::string> violation = distributed_matmul_violation(shape, plan))
        return wrong(name, *violation);
      return {};
    }
    const std::span<const ValueId> operands = graph.operands(op);
    const std::optional<std::string> violation =
        gemm_block_problem(machine_, {plan.block_m, plan.block_n, plan.block_k}, graph.type(operands[0]).dtype,
                           graph.type(operands[1]).dtype);
    if (violation) return wrong(name, *violation);
    return {};
  }

  Result<void> operation(const OpPlan& plan, const Graph& graph, const Op& op, std::string_view name, int depth,
                         Table<ValueId, Layout>& layouts) {
    const auto mismatch = [&](std::string_view expected) {
      return wrong(name, fmt::format("decision '{}' where '{}' is expected", plan_kind(plan), expected));
    };
    if (is_given(op) || std::holds_alternative<Output>(op.attributes)) {
      if (!std::holds_alternative<NoPlan>(plan)) return mismatch("none");
      return {};
    }
    if (std::holds_alternative<Matmul>(op.attributes)) {
      if (!std::holds_alternative<MatmulPlan>(plan)) return mismatch("matmul");
      return matmul(std::get<MatmulPlan>(plan), graph, op, name);
    }
    if (!machine_.global_memory && !std::holds_alternative<Repeat>(op.attributes) &&
        !is_distributed_operation(graph, op)) {
      return wrong(name,
                   "an operation that is not planned for machines without global memory: "
                   "legalize_for_distributed_memory replaces it");
    }
    if (std::holds_alternative<Attention>(op.attributes)) {
      if (!std::holds_alternative<AttentionPlan>(plan)) return mismatch("attention");
      const std::optional<std::string> violation =
          attention_violation(machine_, attention_extents(graph, op), std::get<AttentionPlan>(plan));
      if (violation) return wrong(name, *violation);
      return {};
    }
    if (is_split(op)) {
      if (!std::holds_alternative<SplitPlan>(plan)) return mismatch("split");
      return split(std::get<SplitPlan>(plan), split_shape(graph, op), name);
    }
    if (is_movement(op)) {
      if (!std::holds_alternative<MovementPlan>(plan)) return mismatch("view or copy");
      const auto& movement = std::get<MovementPlan>(plan);
      if (movement.copy) return split(movement.split, graph.type(graph.result(op)).shape, name);
      if (!machine_.global_memory && !is_distributed_view(graph, op)) {
        return wrong(name, "a view; without global memory only a reshape that keeps the last extent can be one");
      }
      const std::optional<Layout> layout = view_layout(graph, op, layouts[graph.operands(op)[0]]);
      if (std::holds_alternative<Concat>(op.attributes) || std::holds_alternative<Pad>(op.attributes)) {
        return wrong(name, "a view, which it cannot be");
      }
      if (!layout) return wrong(name, "a view of an operand whose strides do not allow one");
      layouts[graph.result(op)] = *layout;
      return {};
    }
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      if (!std::holds_alternative<RepeatPlan>(plan)) return mismatch("repeat");
      const auto& body = std::get<RepeatPlan>(plan).body;
      if (body.size() != 1) return wrong(name, fmt::format("{} bodies of a repeat", body.size()));
      return region(body[0], *repeat->body, name, depth + 1);
    }
    return fail(ErrorKind::internal,
                fmt::format("plan: {}: an operation that the graph passes should have replaced", name));
  }

  const Machine& machine_;
};

}  // namespace

Result<void> verify(const Plan& plan, const Graph& graph, const Machine& machine) {
  if (plan.machine != machine.name) {
    return fail(ErrorKind::invalid, fmt::format("plan: made for machine {}, not for {}", plan.machine, machine.name));
  }
  if (plan.tiles != machine.tiles) {
    return fail(ErrorKind::invalid,
                fmt::format("plan: made for {} tiles, but {} has {}", plan.tiles, machine.name, machine.tiles));
  }
  if (const std::string expected = digest(graph); plan.graph_digest != expected) {
    return fail(ErrorKind::invalid, fmt::format("plan: made for another graph (digest {}, this graph has {})",
                                                plan.graph_digest, expected));
  }
  return Verifier(machine).region(plan.region, graph, "", 0);
}

}  // namespace low
