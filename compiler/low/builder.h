// Builds a TileGraph: interning types, geometries, contracts and descriptors by hash, then numbering them by first use.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <span>
#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

// hash functions of interned values: mix all fields; equality is the values' own ==.
struct InternHash {
  size_t operator()(const TensorType& value) const;
  size_t operator()(const Geometry& value) const;
  size_t operator()(const KernelContract& value) const;
  size_t operator()(const CopyDescriptor& value) const;
};

// Equal values get one id; ids are dense in order of first interning.
template <typename IdType, typename T>
class Interner {
 public:
  IdType intern(const T& value) {
    const auto [position, inserted] = ids_.try_emplace(value, IdType(values_.size()));
    if (inserted) values_.push_back(value);
    return position->second;
  }
  const T& operator[](IdType id) const { return values_[id.index]; }
  std::vector<T> take() && { return std::move(values_); }
  const std::vector<T>& values() const { return values_; }

 private:
  boost::unordered_flat_map<T, IdType, InternHash> ids_;
  std::vector<T> values_;
};

class TileGraphBuilder {
 public:
  TileGraphBuilder(std::string machine, uint32_t tiles);

  TypeId type(const TensorType& type) { return types_.intern(type); }
  GeometryId geometry(const Geometry& geometry) { return geometries_.intern(geometry); }
  ContractId contract(const KernelContract& contract) { return contracts_.intern(contract); }
  DescriptorId descriptor(const CopyDescriptor& descriptor) { return descriptors_.intern(descriptor); }
  const TensorType& type_of(AllocationId id) const { return types_[graph_.allocations_[id.index].type]; }
  const Geometry& geometry_of(const View& view) const { return geometries_[view.geometry]; }

  AllocationId allocation(const Allocation& allocation);
  uint32_t constant(std::shared_ptr<const Tensor> tensor);  // the same pointer or equal content gives the same index
  void input(std::string name, const Type& type, AllocationId allocation, int64_t offset = 0);
  void output(std::string name, const Type& type, AllocationId allocation, int64_t offset = 0);
  Span32 terms(std::span<const Term> terms) { return append(graph_.terms_, terms); }
  std::span<const Term> terms_of(const View& view) const { return slice(graph_.terms_, view.terms); }

  // Regions nest: begin, add supersteps and repeats in order, end. The first to begin is the root.
  void begin_region();
  RegionId end_region();
  void repeat(uint32_t level, uint64_t count, RegionId body);
  // A superstep: begin, add its parts in any order of tiles (each tile's in its own order), end.
  void begin_superstep();
  void exchange(const View& source, std::span<const View> destinations);
  void run(ContractId contract, TileId tile, std::span<const View> operands);
  void copy(DescriptorId descriptor, const View& source, const View& destination, TileId tile);
  void end_superstep();  // drops the superstep if it is empty

  // Renumbers by first use in the order of allocations and supersteps (dropping what neither a command nor the interface uses), verifies.
  Result<TileGraph> finish() &&;

 private:
  TileGraph graph_;
  Interner<TypeId, TensorType> types_;
  Interner<GeometryId, Geometry> geometries_;
  Interner<ContractId, KernelContract> contracts_;
  Interner<DescriptorId, CopyDescriptor> descriptors_;
  std::vector<std::vector<Step>> open_regions_;
  std::vector<Command> superstep_;
  uint32_t first_exchange_ = 0;
  boost::unordered_flat_map<size_t, std::vector<uint32_t>> constants_by_hash_;  // of their bytes
};

}  // namespace low
