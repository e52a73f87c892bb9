#include "compiler/low/builder.h"

#include <algorithm>
#include <string_view>

#include "compiler/base/hash.h"
#include "compiler/low/finish.h"

namespace low {

TileGraphBuilder::TileGraphBuilder(std::string machine, uint32_t tiles, std::shared_ptr<Interners> interners)
    : interners_(interners ? std::move(interners) : std::make_shared<Interners>()) {
  graph_.machine_ = std::move(machine);
  graph_.tiles_ = tiles;
}

TileGraphBuilder::TileGraphBuilder(TileGraph graph) : graph_(std::move(graph)) {
  graph_.commands_.clear();
  graph_.supersteps_.clear();
  graph_.steps_.clear();
  graph_.repeats_.clear();
  graph_.regions_.clear();
  graph_.root_ = RegionId();
  graph_.inputs_.clear();
  graph_.outputs_.clear();
}

AllocationId TileGraphBuilder::allocation(const Allocation& allocation) {
  graph_.allocations_.push_back(allocation);
  return AllocationId(graph_.allocations_.size() - 1);
}

uint32_t TileGraphBuilder::constant(ConstantBox constant) {
  auto& constants = graph_.constants_;
  const auto index = static_cast<uint32_t>(constants.size());
  // Whole tensors by a sample of their content, boxes by where they lie.
  WordHash content;
  content.add(constant.elements());
  if (constant.whole()) {
    const std::span<const std::byte> bytes = constant.source->bytes();
    const size_t sample = std::min<size_t>(bytes.size(), 1024);
    content.add_list(bytes.first(sample)).add_list(bytes.last(sample));
  } else {
    content.add(constant.offset).add_list(constant.extents);
  }
  std::vector<uint32_t>& alike = constants_by_hash_[content.result()];
  for (const uint32_t other : alike) {
    const bool same = constant.whole() && constants[other].whole() ? constants[other] == constant
                                                                   : constants[other].same_box(constant);
    if (same) return other;
  }
  alike.push_back(index);
  constants.push_back(std::move(constant));
  return index;
}

void TileGraphBuilder::input(std::string name, const Type& type, AllocationId allocation, int64_t offset) {
  graph_.inputs_.push_back({std::move(name), type, allocation, offset});
}

void TileGraphBuilder::output(std::string name, const Type& type, AllocationId allocation, int64_t offset) {
  graph_.outputs_.push_back({std::move(name), type, allocation, offset});
}

Span32 TileGraphBuilder::terms(std::span<const Term> terms) {
  if (terms.empty()) return {};
  // Neighbouring views often have the same.
  std::vector<Term>& pool = graph_.terms_;
  const std::span<const Term> last = std::span(pool).last(std::min(pool.size(), terms.size()));
  if (std::ranges::equal(last, terms))
    return {static_cast<uint32_t>(pool.size() - terms.size()), static_cast<uint32_t>(terms.size())};
  return append(pool, terms);
}

void TileGraphBuilder::begin_region() { open_regions_.emplace_back(); }

RegionId TileGraphBuilder::end_region() {
  LOW_CHECK(!open_regions_.empty());
  graph_.regions_.push_back({append(graph_.steps_, open_regions_.back())});
  open_regions_.pop_back();
  const RegionId id(graph_.regions_.size() - 1);
  if (open_regions_.empty() && !graph_.root_.valid()) graph_.root_ = id;
  return id;
}

void TileGraphBuilder::repeat(uint32_t level, uint64_t count, RegionId body) {
  LOW_CHECK(!open_regions_.empty());
  open_regions_.back().push_back({Step::Kind::repeat, static_cast<uint32_t>(graph_.repeats_.size())});
  graph_.repeats_.push_back({level, count, body});
}

void TileGraphBuilder::begin_superstep() {
  superstep_.clear();
  exchanges_ = {static_cast<uint32_t>(graph_.exchanges_.size()), 0};
}

void TileGraphBuilder::exchange(const View& source, std::span<const View> destinations) {
  ++exchanges_.count;
  graph_.exchanges_.push_back({source, append(graph_.views_, destinations)});
}

void TileGraphBuilder::exchange(const View& source, Span32 destinations) {
  ++exchanges_.count;
  graph_.exchanges_.push_back({source, destinations});
}

void TileGraphBuilder::run(ContractId contract, TileId tile, std::span<const View> operands) {
  superstep_.push_back({Command::Kind::run, static_cast<uint32_t>(graph_.runs_.size())});
  graph_.runs_.push_back({contract, tile, append(graph_.views_, operands)});
}

void TileGraphBuilder::copy(DescriptorId descriptor, const View& source, const View& destination, TileId tile) {
  superstep_.push_back({Command::Kind::copy, static_cast<uint32_t>(graph_.copies_.size())});
  graph_.copies_.push_back({descriptor, source, destination, tile});
}

void TileGraphBuilder::end_superstep() {
  LOW_CHECK(!open_regions_.empty());
  if (superstep_.empty() && exchanges_.count == 0) return;
  // By tile, each tile's in the order they came.
  const auto tile = [this](const Command& command) { return graph_.tile(command); };
  if (!std::ranges::is_sorted(superstep_, {}, tile)) {
    std::vector<std::pair<TileId, uint32_t>> order;
    order.reserve(superstep_.size());
    for (uint32_t i = 0; i < superstep_.size(); ++i) order.emplace_back(tile(superstep_[i]), i);
    std::ranges::sort(order);
    std::vector<Command> sorted;
    sorted.reserve(order.size());
    for (const auto& [_, i] : order) sorted.push_back(superstep_[i]);
    superstep_ = std::move(sorted);
  }
  open_regions_.back().push_back({Step::Kind::superstep, static_cast<uint32_t>(graph_.supersteps_.size())});
  graph_.supersteps_.push_back({exchanges_, append(graph_.commands_, superstep_)});
  superstep_.clear();
  exchanges_ = {static_cast<uint32_t>(graph_.exchanges_.size()), 0};
}

Result<TileGraph> TileGraphBuilder::finish() && { return TileGraphFinisher(*this).finish(); }

}  // namespace low
