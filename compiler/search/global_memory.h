// The memory of a machine whose tiles share it: a value lies somewhere in it, in row-major order or as a view of
// another value, and every tile reads it there.
#pragma once

#include "compiler/search/layout.h"
#include "compiler/search/region_memory.h"

namespace low {

class GlobalMemory final : public RegionMemory {
 public:
  GlobalMemory(SearchContext& context, const Graph& graph, std::shared_ptr<LayoutTable<Layout>> layouts);

  std::unique_ptr<RegionMemory> of_body(const Graph& body) const override;
  LayoutNumber layout_of_input(ValueId value) override;
  LayoutNumber layout_of_constant(ValueId value) override { return layout_of_input(value); }
  Result<std::vector<Choice>> choices(size_t op, std::span<const LayoutNumber> operands, const Demand& demand) override;
  bool keeps_few_alternatives() const override { return true; }
  size_t beam_width(size_t waiting) const override;
  int64_t written_chunk(const Op& op, const OpPlan& plan) const override;
  int64_t read_chunk(const Op& op, uint32_t operand, const OpPlan& plan) const override;
  bool places_outputs() const override { return true; }
  uint32_t output_written_by(ValueId) const override { return UINT32_MAX; }
  bool counted_elsewhere(ValueId value) const override { return is_output_[value] != 0; }
  bool counted_elsewhere(size_t) const override { return false; }
  std::string describe_output(size_t op, const Choice& choice) const override;
  bool carried_values_stay() const override { return false; }
  std::vector<LayoutNumber> enter(const Op& op, std::span<const LayoutNumber> operands, Entrance& entrance) override;
  Choice repeated(const Op& op, std::span<const LayoutNumber> operands, const Entrance& entrance,
                  const RegionChoice& body) override;
  Choice not_repeated(const Op& op, std::span<const LayoutNumber> operands) override;

 private:
  Choice::Place place_of(ValueId value);
  // Without those that another one is no worse than, whatever they are joined to.
  std::vector<Choice> undominated(const Op& op, std::vector<Choice>& choices) const;

  SearchContext& context_;
  const Graph& graph_;
  std::shared_ptr<LayoutTable<Layout>> layouts_;
  Table<ValueId, char> is_output_;      // written to an output's place
  Table<ValueId, char> row_major_use_;  // a Repeat reads it in row-major order
};

}  // namespace low
