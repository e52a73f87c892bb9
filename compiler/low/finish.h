// The last step of a TileGraphBuilder. Internal to low.
//
// Runs, copies and exchanges are listed a second time, in the order of the program: what is not reached is dropped, and
// ids come out in the order of first use, whatever they were in tables that several builders share. Views, which are
// many, stay where they are and get their new ids there.
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
  Result<void> check_tables() const;
  bool is_whole(const View& view) const {
    return view.allocation.index < used_.size() && view.geometry.index < geometries_.to.size() &&
           uint64_t{view.terms.begin} + view.terms.count <= graph_.terms_.size();
  }
  // A view that the program reaches: marks what it uses. False if it points nowhere.
  bool reach(const View& view) {
    if (!is_whole(view)) return false;
    used_[view.allocation.index] = 1;
    geometries_(view.geometry);
    return true;
  }
  bool reach(std::span<const View> views);
  Result<RegionId> list(RegionId id, size_t depth);
  Result<Superstep> list(const Superstep& superstep);
  void renumber_allocations();
  void renumber(View& view) const;

  TileGraph& graph_;
  // The program, in order.
  std::vector<Region> regions_;
  std::vector<Step> steps_;
  std::vector<RepeatStep> repeats_;
  std::vector<Superstep> supersteps_;
  std::vector<Command> commands_;
  std::vector<KernelRun> runs_;
  std::vector<LocalCopy> copies_;
  std::vector<Exchange> exchanges_;

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
