// The state of one expansion. Internal to expand/.
//
// Every value of a region gets a place (Placed). An operation that computes writes its result where it is wanted: into
// the place of a region's output, into the first half of a Repeat's carried allocation, into its part of the concat
// that alone reads it, or into an allocation of its own. Movements that the plan
// leaves as views only derive a new Placed.
//
// A carried value of a Repeat has an allocation of two halves: iteration i reads half i mod 2 and writes the other,
// which two terms of period 2 express; the final value lies in half count mod 2. Iterated and collected values step
// through axis 0 of their allocation.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/low/expand/copy_plan.h"
#include "compiler/low/expand/expansion_budget.h"
#include "compiler/low/expand/placed.h"
#include "compiler/low/low.h"

namespace low {

class Expander {
 public:
  Expander(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
           const ExpansionLimits& limits);
  Result<TileGraph> run() &&;

 private:
  struct RegionState {
    const Graph& graph;
    const RegionPlan& plan;
    uint32_t level;                                // of a Repeat in this region
    std::vector<Placed> inputs;                    // by input
    std::vector<Placed> destinations;              // by output
    Table<ValueId, Placed> places;                 // filled in as operations are expanded
    Table<ValueId, std::optional<Placed>> wanted;  // where a value's producer should write it
    Table<ValueId, uint8_t> assembled;             // operands that their producers write into a concat's result
    std::vector<bool> written;                     // by output: its producer writes the destination itself
    Table<OpId, std::vector<Placed>> carried;  // of each repeat: first halves, allocated before its operands' producers
  };

  Result<void> expand_region(RegionState& region);
  void choose_destinations(RegionState& region);
  Result<void> expand_op(RegionState& region, OpId id);
  // Takes what the operation will make from the budget, but for a repeat, whose parts count for themselves.
  Result<void> count(const RegionState& region, const Op& op, const OpPlan& plan);
  class MatmulExpansion;
  void expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan);
  void expand_pointwise(RegionState& region, const Op& op, const SplitPlan& plan);
  // Parts::rows.
  Result<void> expand_group(RegionState& region, const Op& op, const SplitPlan& plan);
  Result<void> expand_gather(RegionState& region, const Op& op, const SplitPlan& plan);
  Result<void> expand_updated(RegionState& region, const Op& op, const SplitPlan& plan);
  class AttentionExpansion;
  Result<void> expand_attention(RegionState& region, const Op& op, const AttentionPlan& plan);
  Result<void> expand_concat(RegionState& region, const Op& op, const SplitPlan& split);
  Result<void> expand_pad(RegionState& region, const Op& op, const SplitPlan& split);
  Result<void> expand_movement(RegionState& region, const Op& op, const MovementPlan& plan);
  Result<void> expand_repeat(RegionState& region, OpId id, const RepeatPlan& plan);

  // A superstep that moves a whole value, cut as `split` says.
  Result<void> copy_value(const Type& type, const Placed& from, const Placed& to, const SplitPlan& split);
  // Calls function(part) for each part of a result, all in one superstep, until one fails.
  template <typename Function>
  Result<void> for_each_part(const Shape& shape, const SplitPlan& split, Function&& function);
  // What `part` owns of a box: copied from `from`, whose elements the pieces name; or filled with a scalar (nothing:
  // zeros).
  void copy_box(const Placed& from, const Placed& to, std::span<const AxisPiece> box, const PartOf& part);
  void fill_box(const std::optional<Placed>& scalar, const Placed& to, DType dtype, std::span<const Range> box,
                const PartOf& part);
  // A box of equal extents at both ends.
  void copy(const View& source, const View& destination, TileId tile);
  // The place that is wanted for this result, or a new row-major allocation.
  Placed result_place(RegionState& region, ValueId value);
  Placed new_place(const Type& type, Role role = Role::intermediate, uint32_t binding = 0);
  Placed constant_place(const Constant& constant);
  // The one parameter for such a box.
  Placed parameter_place(ConstantBox box);
  // `offset` and `strides` relative to the place's allocation; extents and access normalized.
  View view(const Placed& place, int64_t offset, const Shape& extents, const Strides& strides);

  const Graph& graph_;
  const Plan& plan_;
  const Machine& machine_;
  ExpansionCaches& caches_;
  TileGraphBuilder builder_;
  ExpansionBudget budget_;
  std::vector<std::optional<AllocationId>> parameters_;  // by constant index
};

}  // namespace low
