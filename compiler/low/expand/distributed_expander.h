// Expansion for machines without global memory. Internal to expand/.
//
// A value is a set of shards, each in the memory of the tile that computed it. An operation's part gathers the
// rectangles of its operands that it needs (pull): a rectangle that lies in one shard of the same tile is read where it
// lies; anything else is copied into a packed allocation, from other tiles by exchanges (one for each source rectangle,
// with all its recipients), from the same tile by local copies. Small rectangles of constants are replicated where they
// are wanted; large constants are sharded, and exchanged like any value.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <vector>

#include "compiler/low/expand/copy_plan.h"
#include "compiler/low/expand/distributed_value.h"
#include "compiler/low/expand/expansion_budget.h"
#include "compiler/low/low.h"

namespace low {

class DistributedExpander {
 public:
  DistributedExpander(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
                      const ExpansionLimits& limits);
  Result<TileGraph> run() &&;

 private:
  // Places for a value, by part: a Repeat's carried halves and collected slices.
  using Places = std::vector<Shard>;

  struct RegionState {
    const Graph& graph;
    const RegionPlan& plan;
    uint32_t level;
    std::vector<DistributedValueRef> inputs;
    std::vector<std::optional<Places>> destinations;  // by output; none: the caller takes the value as it is
    Table<ValueId, DistributedValueRef> values;
    Table<ValueId, const Places*> wanted;  // where a value's producer should write it
    std::vector<bool> written;             // by output
  };

  Result<void> expand_region(RegionState& region);
  void choose_destinations(RegionState& region);
  Result<void> expand_op(RegionState& region, OpId id);
  // Fails where the operation's runs and slices alone are more than the budget has; what they are made of is taken from
  // it as it is made.
  Result<void> expect_work(const RegionState& region, const Op& op, const OpPlan& plan);
  class MatmulExpansion;
  Result<void> expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan);
  Result<void> expand_pointwise(RegionState& region, const Op& op);
  Result<void> expand_rows(RegionState& region, const Op& op);
  class AttentionExpansion;
  Result<void> expand_attention(RegionState& region, const Op& op, const AttentionPlan& plan);
  Result<void> expand_gather(RegionState& region, const Op& op);
  Result<void> expand_updated(RegionState& region, const Op& op);
  class MovementExpansion;
  Result<void> expand_movement(RegionState& region, const Op& op, const MovementPlan& plan);
  class RepeatExpansion;
  Result<void> expand_repeat(RegionState& region, OpId id, const RepeatPlan& plan);

  // The parts in which the body's output is written, and the value whose producer does it (none: it is copied).
  Result<std::vector<Part>> output_parts(const Graph& graph, const RegionPlan& plan, size_t output);
  ValueId writer_of(const Graph& graph, const RegionPlan& plan, ValueId value) const;

  // --- supersteps ---
  Result<void> begin_superstep();
  void end_superstep();

  // The rectangle as `tile` can read it in the current superstep, over [rect.rows, rect.columns].
  Result<Placed> pull(const DistributedValueRef& value, const Rect& rect, TileId tile);
  // Copies it to `destination`, whose layout is over [rect.rows, rect.columns].
  Result<void> pull_into(const DistributedValueRef& value, const Rect& rect, TileId tile, const Placed& destination);
  // The operand of a result's rectangle under broadcasting; strides over the rectangle's rows and columns.
  Result<Placed> pull_broadcast(const DistributedValueRef& value, const Shape& shape, const Shape& result,
                                const Rect& rect, TileId tile);
  // Fills `destination`, over [rect.rows, rect.columns], from `sources`.
  void assemble(DistributedValue& value, RectSources& sources, const Rect& rect, TileId tile,
                const Placed& destination);
  void emit(std::span<const CopyPiece> pieces, DistributedValue& value, std::span<const CopySource> sources,
            TileId tile, const Placed& destination);
  void transfer(const View& source, TileId source_tile, const View& destination, TileId tile);
  uint32_t exchange_of(const View& source);

  // The runs of an operation differ in nothing but numbers (extents, what kind of run it is) and the strides of their
  // operands: the contract and the operands' geometries are made once for each combination.
  struct RunForm {
    ContractId contract;
    boost::container::small_vector<GeometryId, 6> geometries;
  };
  using FormKey = boost::container::small_vector<int64_t, 20>;
  struct FormHash {
    size_t operator()(const FormKey& key) const;
  };
  using RunForms = boost::unordered_flat_map<FormKey, RunForm, FormHash>;
  // Adds a run over these places; `make` returns its form if there is none for it yet.
  template <typename Make>
  Result<void> run(RunForms& forms, std::initializer_list<int64_t> numbers, std::span<const Placed> places, TileId tile,
                   Make&& make) {
    LOW_TRY_VOID(budget_.take(static_cast<double>(places.size())));
    FormKey key(numbers);
    for (const Placed& place : places)
      for (const int64_t stride : place.layout.strides) key.push_back(stride);
    auto found = forms.find(key);
    if (found == forms.end()) found = forms.emplace(std::move(key), make()).first;
    add_run(found->second, places, tile);
    return {};
  }
  void add_run(const RunForm& form, std::span<const Placed> places, TileId tile);
  GeometryId geometry(const Shape& extents, const Strides& strides);

  // A value without shards yet, kept until the expansion ends.
  DistributedValueRef new_value(DType dtype, MatrixExtents extents);

  // --- allocations ---
  Placed new_local(DType dtype, int64_t rows, int64_t columns, TileId tile);
  Result<Places> new_places(DType dtype, const std::vector<Part>& parts, int64_t copies);
  TypeId local_type(DType dtype, int64_t rows, int64_t columns);
  Placed constant_rect(const DistributedValue& value, const Rect& rect, TileId tile);
  Result<void> shard_constant(DistributedValue& value, const std::vector<Part>& parts);
  View view(const Placed& place, int64_t offset, const Shape& extents, const Strides& strides);

  struct PullKey {
    const DistributedValue* value;
    Rect rect;
    TileId tile;
    bool operator==(const PullKey&) const = default;
  };
  struct SourceKey {
    AllocationId allocation;
    GeometryId geometry;
    int64_t offset;
    bool operator==(const SourceKey&) const = default;
  };
  struct ConstantKey {
    const Tensor* constant;
    size_t steps;  // how many of its leading axes Repeats step through: each makes another matrix of it
    Rect rect;
    TileId tile;  // none: of the constant itself
    bool operator==(const ConstantKey&) const = default;
  };
  struct LocalType {
    DType dtype;
    int64_t rows, columns;
    bool operator==(const LocalType&) const = default;
  };
  // Of maps that are only looked up, never walked.
  struct KeyHash {
    size_t operator()(const PullKey& key) const;
    size_t operator()(const SourceKey& key) const;
    size_t operator()(const ConstantKey& key) const;
    size_t operator()(const LocalType& key) const;
  };
  // A destination of an exchange of the current superstep.
  struct Recipient {
    uint32_t exchange;
    View view;
  };

  const Graph& graph_;
  const Plan& plan_;
  const Machine& machine_;
  ExpansionCaches& caches_;
  ExpansionBudget budget_;
  TileGraphBuilder builder_;
  MatrixGeometries geometries_;
  // Of the current superstep.
  boost::unordered_flat_map<PullKey, Placed, KeyHash> pulled_;
  boost::unordered_flat_map<SourceKey, uint32_t, KeyHash> exchange_of_;
  uint32_t superstep_ = 0;  // counts them
  std::vector<View> exchange_sources_;
  std::vector<Recipient> recipients_;
  boost::unordered_flat_map<ConstantKey, uint32_t, KeyHash> constant_slices_;
  boost::unordered_flat_map<ConstantKey, AllocationId, KeyHash> constant_places_;
  boost::unordered_flat_map<LocalType, TypeId, KeyHash> local_types_;
  // Scratch of assemble(), end_superstep() and run().
  std::vector<uint64_t> key_words_;
  std::vector<uint32_t> recipient_order_;
  std::vector<View> views_;
  std::vector<DistributedValueRef> kept_;  // values keep their addresses for the maps above
};

}  // namespace low
