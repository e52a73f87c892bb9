// The last step of a TileGraphBuilder. Internal to low.
//
// Everything is written a second time, in the order of the program: what is not reached is dropped, and ids come out in the order of first use,
// whatever they were in tables that several builders share.
#pragma once

#include "compiler/low/builder.h"

namespace low {

class TileGraphFinisher {
 public:
  explicit TileGraphFinisher(TileGraphBuilder& builder);
  Result<TileGraph> finish();

 private:
  // The tables of a builder: shared ones, or those of the graph that it starts from.
  template <typename IdType, typename T>
  struct Renumbering {
    const Interner<IdType, T>* shared = nullptr;
    std::span<const T> own;
    std::vector<IdType> to;  // by old id
    std::vector<T> values;   // by new id

    void prepare(const Interner<IdType, T>* interner, std::span<const T> table) {
      shared = interner;
      own = table;
      to.assign(size(), IdType());
    }
    size_t size() const { return shared != nullptr ? shared->size() : own.size(); }
    IdType operator()(IdType id) {
      IdType& renumbered = to[id.index];
      if (!renumbered.valid()) {
        renumbered = IdType(values.size());
        values.push_back(shared != nullptr ? (*shared)[id] : own[id.index]);
      }
      return renumbered;
    }
  };

  // Ids that point nowhere, which nothing after it may meet.
  Result<void> check_references() const;
  bool is_whole(const View& view) const;
  Result<void> mark(RegionId id, size_t depth);
  void mark_used(const View& view) { used_[view.allocation.index] = 1; }
  void renumber_allocations();
  View renumbered(const View& view);
  Span32 renumbered(Span32 views);
  RegionId rebuild(RegionId id);

  TileGraph& from_;
  TileGraph to_;
  Renumbering<TypeId, TensorType> types_;
  Renumbering<GeometryId, Geometry> geometries_;
  Renumbering<ContractId, KernelContract> contracts_;
  Renumbering<DescriptorId, CopyDescriptor> descriptors_;
  std::vector<AllocationId> allocations_;  // by old id
  std::vector<uint8_t> visited_;           // by region
  std::vector<uint8_t> used_;              // by allocation
  bool open_ = false;                      // a region was not ended
};

}  // namespace low
