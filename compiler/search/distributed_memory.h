// The memories of a machine's tiles, without global memory: a value's shards lie on tiles, and each tile pulls what it
// wants of them.
#pragma once

#include <unordered_map>

#include "compiler/search/distributed_cost.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/region_memory.h"

namespace low {

class DistributedMemory final : public RegionMemory {
 public:
  // At depth 0 (`top`) outputs leave the tiles; those of a Repeat's body go to places around the Repeat.
  DistributedMemory(SearchContext& context, const Graph& graph, std::shared_ptr<LayoutTable<DistributedLayout>> layouts,
                    bool top);

  std::unique_ptr<RegionMemory> of_body(const Graph& body) const override;
  uint64_t capacity() const override { return context_.machine.tile_memory_bytes; }
  LayoutNumber layout_of_input(ValueId) override { return layouts_->number({}); }
  LayoutNumber layout_of_constant(ValueId value) override;
  Result<std::vector<Choice>> choices(size_t op, std::span<const LayoutNumber> operands, const Demand& demand) override;
  bool keeps_few_alternatives() const override { return false; }
  size_t beam_width(size_t waiting) const override;
  int64_t written_chunk(const Op&, const OpPlan&) const override { return 0; }
  int64_t read_chunk(const Op&, uint32_t, const OpPlan&) const override { return 0; }
  bool places_outputs() const override { return false; }
  uint32_t output_written_by(ValueId value) const override { return writers_.output[value]; }
  bool counted_elsewhere(ValueId value) const override { return writers_.output[value] != OutputWriters::none; }
  bool counted_elsewhere(size_t output) const override { return output_index(output) < kept_; }
  std::string describe_output(size_t op, const Choice& choice) const override;
  bool carried_values_stay() const override { return true; }
  std::vector<LayoutNumber> enter(const Op& op, std::span<const LayoutNumber> operands, Entrance& entrance) override;
  Choice repeated(const Op& op, std::span<const LayoutNumber> operands, const Entrance& entrance,
                  const RegionChoice& body) override;
  Choice not_repeated(const Op& op, std::span<const LayoutNumber> operands) override;

 private:
  uint32_t output_index(size_t op) const;
  Result<std::vector<Choice>> output_choices(size_t op, LayoutNumber source, const Demand& demand);
  // All decisions for an operation, wherever its operands lie.
  const std::vector<MatmulPlan>& matmul_plans(const Op& op);
  const std::vector<AttentionPlan>& attention_plans(const Op& op);

  SearchContext& context_;
  const Graph& graph_;
  std::shared_ptr<LayoutTable<DistributedLayout>> layouts_;
  const uint32_t kept_;  // outputs that stay on tiles: the first
  const OutputWriters writers_;
  std::unordered_map<const Op*, std::vector<MatmulPlan>> matmul_plans_;  // looked up only
  std::unordered_map<const Op*, std::vector<AttentionPlan>> attention_plans_;
};

}  // namespace low
