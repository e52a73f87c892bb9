// Builds a TileGraph: interning types, geometries, contracts and descriptors by hash, then numbering them by first use.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <span>
#include <vector>

#include "compiler/low/interner.h"
#include "compiler/low/tile_graph.h"

namespace low {

class TileGraphBuilder {
 public:
  // Builders that are given the same interners may run at the same time; without any, the builder has its own.
  TileGraphBuilder(std::string machine, uint32_t tiles, std::shared_ptr<Interners> interners = nullptr);
  // Starts from a graph without its regions: its runs, copies and exchanges can be used again, and all ids in it keep
  // their meaning.
  explicit TileGraphBuilder(TileGraph graph);

  // Not in a builder that starts from a graph.
  TypeId type(const TensorType& type) { return interners_->types.intern(type); }
  GeometryId geometry(const Geometry& geometry) { return interners_->geometries.intern(geometry); }
  ContractId contract(const KernelContract& contract) { return interners_->contracts.intern(contract); }
  DescriptorId descriptor(const CopyDescriptor& descriptor) { return interners_->descriptors.intern(descriptor); }
  const Allocation& allocation_at(AllocationId id) const { return graph_.allocations_[id.index]; }
  const ConstantBox& constant_at(uint32_t index) const { return graph_.constants_[index]; }
  TypeId type_id_of(AllocationId id) const { return graph_.allocations_[id.index].type; }

  AllocationId allocation(const Allocation& allocation);
  // The same box of the same tensor, or whole tensors of equal content, give the same index.
  uint32_t constant(std::shared_ptr<const Tensor> tensor) { return constant(whole_constant(std::move(tensor))); }
  uint32_t constant(ConstantBox constant);
  void input(std::string name, const Type& type, AllocationId allocation, int64_t offset = 0);
  void output(std::string name, const Type& type, AllocationId allocation, int64_t offset = 0);
  Span32 terms(std::span<const Term> terms);
  std::span<const Term> terms_of(const View& view) const { return slice(graph_.terms_, view.terms); }

  // Regions nest: begin, add supersteps and repeats in order, end. The first to begin is the root.
  void begin_region();
  RegionId end_region();
  void repeat(uint32_t level, uint64_t count, RegionId body);
  // A superstep: begin, add its parts in any order of tiles (each tile's in its own order), end.
  void begin_superstep();
  void exchange(const View& source, std::span<const View> destinations);
  // The same in two steps, for many at once: exchanges name views that are added later, by number.
  uint32_t view_count() const { return static_cast<uint32_t>(graph_.views_.size()); }
  void exchange(const View& source, Span32 destinations);
  void add_view(const View& view) { graph_.views_.push_back(view); }
  void run(ContractId contract, TileId tile, std::span<const View> operands);
  void copy(DescriptorId descriptor, const View& source, const View& destination, TileId tile);
  // Of a builder that starts from a graph: commands and exchanges of that graph. A superstep's exchanges are
  // consecutive ones.
  void reuse_command(Command command) { superstep_.push_back(command); }
  void reuse_exchanges(Span32 exchanges) { exchanges_ = exchanges; }
  void end_superstep();  // drops the superstep if it is empty

  // Renumbers by first use in the order of allocations and supersteps (dropping what neither a command nor the
  // interface uses), verifies.
  Result<TileGraph> finish() &&;

 private:
  friend class TileGraphFinisher;
  TileGraph graph_;
  std::shared_ptr<Interners> interners_;  // none: the tables are the graph's own
  std::vector<std::vector<Step>> open_regions_;
  std::vector<Command> superstep_;
  Span32 exchanges_;  // of the open superstep
  boost::unordered_flat_map<size_t, std::vector<uint32_t>> constants_by_hash_;
};

}  // namespace low
