// Expansion for machines without global memory. Internal to expand/.
//
// A value is a set of shards, each in the memory of the tile that computed it. An operation's part gathers the rectangles of its operands that it
// needs (pull): a rectangle that lies in one shard of the same tile is read where it lies; anything else is copied into a packed
// allocation, from other tiles by exchanges (one for each source rectangle, with all its recipients), from the same tile by local copies.
// Small rectangles of constants are replicated where they are wanted; large constants are sharded, and exchanged like any value.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/low/expand/tile_value.h"
#include "compiler/low/low.h"

namespace low {

class TileExpander {
 public:
  TileExpander(const Graph& graph, const Plan& plan, const Machine& machine);
  Result<TileGraph> run() &&;

 private:
  // Places for a value, by part: a Repeat's carried halves and collected slices.
  using Places = std::vector<Shard>;

  struct RegionState {
    const Graph& graph;
    const RegionPlan& plan;
    uint32_t level;
    std::vector<TileValueRef> inputs;
    std::vector<std::optional<Places>> destinations;  // by output; none: the caller takes the value as it is
    Table<ValueId, TileValueRef> values;
    Table<ValueId, const Places*> wanted;  // where a value's producer should write it
    std::vector<bool> written;             // by output
  };

  Result<void> expand_region(RegionState& region);
  void choose_destinations(RegionState& region);
  Result<void> expand_op(RegionState& region, OpId id);
  Result<void> expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan);
  void expand_pointwise(RegionState& region, const Op& op);
  void expand_rows(RegionState& region, const Op& op);
  void expand_gather(RegionState& region, const Op& op);
  Result<void> expand_movement(RegionState& region, const Op& op, const MovementPlan& plan);
  Result<void> expand_repeat(RegionState& region, OpId id, const RepeatPlan& plan);

  // The parts in which the body's output is written, and the value whose producer does it (none: it is copied).
  std::vector<Part> output_parts(const Graph& graph, const RegionPlan& plan, size_t output) const;
  ValueId writer_of(const Graph& graph, const RegionPlan& plan, ValueId value) const;

  // --- supersteps ---
  void begin_superstep();
  void end_superstep();

  // The rectangle as `tile` can read it in the current superstep, over [rect.rows, rect.columns].
  Placed pull(const TileValueRef& value, const Rect& rect, TileId tile);
  // Copies it to `destination`, whose layout is over [rect.rows, rect.columns].
  void pull_into(const TileValueRef& value, const Rect& rect, TileId tile, const Placed& destination);
  // The operand of a result's rectangle under broadcasting; strides over the rectangle's rows and columns.
  Placed pull_broadcast(const TileValueRef& value, const Shape& shape, const Shape& result, const Rect& rect,
                        TileId tile);
  void move(const Shard& from, const Rect& rect, TileId tile, const Placed& destination);
  void transfer(const View& source, TileId source_tile, const View& destination, TileId tile, DType dtype);

  // --- allocations ---
  Placed new_local(DType dtype, int64_t rows, int64_t columns, TileId tile);
  Places new_places(DType dtype, const std::vector<Part>& parts, int64_t copies);
  Placed constant_rect(const TileValue& value, const Rect& rect, TileId tile);
  void shard_constant(TileValue& value, const std::vector<Part>& parts);
  View view(const Placed& place, int64_t offset, const Shape& extents, const Strides& strides);

  struct PullKey {
    const TileValue* value;
    Rect rect;
    TileId tile;
    auto operator<=>(const PullKey&) const = default;
  };
  struct SourceKey {
    AllocationId allocation;
    GeometryId geometry;
    int64_t offset;
    auto operator<=>(const SourceKey&) const = default;
  };
  struct PendingExchange {
    View source;
    std::vector<View> destinations;
  };

  const Graph& graph_;
  const Plan& plan_;
  const Machine& machine_;
  TileGraphBuilder builder_;
  std::map<PullKey, Placed> pulled_;         // of the current superstep
  std::map<SourceKey, size_t> exchange_of_;  // of the current superstep
  std::vector<PendingExchange> exchanges_;   // of the current superstep
  struct ConstantKey {
    const Tensor* constant;
    Rect rect;
    auto operator<=>(const ConstantKey&) const = default;
  };
  std::map<ConstantKey, uint32_t> constant_slices_;
  std::map<std::pair<ConstantKey, TileId>, AllocationId> constant_places_;
  std::vector<TileValueRef> kept_;  // values keep their addresses for the maps above
};

}  // namespace low
