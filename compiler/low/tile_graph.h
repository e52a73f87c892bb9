// TileGraph: shards, copies and kernel runs, explicit, before placement.
//
// Flat vectors addressed by typed 32-bit ids; variable lists are spans into pools. TensorType, Geometry, KernelContract
// and CopyDescriptor are interned: equal means same id, and finish() numbers them by first use, so that ids depend on
// nothing else.
//
// Semantics
//  - An allocation is storage with a home: global memory, or one tile's memory. A view is a box inside an allocation:
//      element (i0, i1, …) lies at  offset + sum of i * stride + sum over terms of (iteration[level] mod period) *
//      stride
//    in elements of the allocation's storage.
//  - A superstep is: exchanges, barrier, then commands; each tile does its own in order. A tile may read what itself
//    wrote earlier in the superstep; what another tile wrote it may read in a later superstep only. No two tiles write
//    the same element in a superstep, and none writes what another reads in it.
//  - A region is a list of steps; Repeat runs its region `count` times, `iteration[level]` counting from 0.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/ids.h"
#include "compiler/graph/graph.h"
#include "compiler/kernels/contract.h"
#include "compiler/low/constant_box.h"
#include "compiler/machine/machine.h"

namespace low {

using TypeId = Id<struct TensorTypeTag>;
using GeometryId = Id<struct GeometryTag>;
using ContractId = Id<struct ContractTag>;
using DescriptorId = Id<struct DescriptorTag>;
using AllocationId = Id<struct AllocationTag>;
using RunId = Id<struct RunTag>;
using CopyId = Id<struct CopyTag>;
using ExchangeId = Id<struct ExchangeTag>;
using SuperstepId = Id<struct SuperstepTag>;
using RepeatId = Id<struct RepeatTag>;
using RegionId = Id<struct RegionTag>;
using TileId = Id<struct TileTag>;

struct TensorType {
  DType dtype = DType::f32;
  Shape extents;  // row-major
  bool operator==(const TensorType&) const = default;
};

// The box of a view: extents, and their strides in elements.
struct Geometry {
  Shape extents;
  Strides strides;
  bool operator==(const Geometry&) const = default;
};

enum class Role : uint8_t { input, output, parameter, intermediate };

struct Allocation {
  TypeId type;
  TileId home;  // none: global memory
  Role role = Role::intermediate;
  uint32_t binding = 0;  // input / output: which one; parameter: index into TileGraph::constants()
};

struct Term {
  uint32_t level = 0;   // of the enclosing Repeats, 0 is outermost
  uint32_t period = 1;  // at least 1
  int64_t stride = 0;   // elements
  bool operator==(const Term&) const = default;
};

struct View {
  AllocationId allocation;
  GeometryId geometry;
  int64_t offset = 0;  // elements
  Span32 terms;        // TileGraph::terms()
};

struct KernelRun {
  ContractId contract;
  TileId tile;
  Span32 operands;  // TileGraph::views(): as the contract's operands; each view's geometry has the contract's axes
};

// Movement of elements as nested loops around a contiguous chunk, relative to both ends' origins: for counts (c0, c1,
// …) and chunk n,
//   destination[sum i * destination_stride + j] = convert(source[sum i * source_stride + j]),  j < n.
struct CopyDescriptor {
  DType source = DType::f32, destination = DType::f32;
  Overflow overflow = Overflow::propagate;
  Shape counts;            // loops from outermost to innermost; may be rank 0
  Strides source_strides;  // elements
  Strides destination_strides;
  int64_t chunk = 1;  // elements
  bool operator==(const CopyDescriptor&) const = default;
};

struct LocalCopy {
  DescriptorId descriptor;
  View source, destination;  // where the origins are; both views' geometry is the box that is moved
  TileId tile;
};

// From one tile (or global memory) to others; elements are moved in the row-major order of the boxes, which have equal
// extents.
struct Exchange {
  View source;
  Span32 destinations;  // TileGraph::views()
};

struct Command {
  enum class Kind : uint8_t { run, copy } kind = Kind::run;
  uint32_t index = 0;  // of a KernelRun or LocalCopy
  bool operator==(const Command&) const = default;
};

struct Superstep {
  Span32 exchanges;  // consecutive ExchangeIds: begin is the first
  Span32 commands;   // TileGraph::commands(): a tile's own in its order, tiles in ascending order
};

struct Step {
  enum class Kind : uint8_t { superstep, repeat } kind = Kind::superstep;
  uint32_t index = 0;
  bool operator==(const Step&) const = default;
};

// Of Repeats in Repeats; bounds recursion.
inline constexpr size_t max_nested_repeats = 64;

struct RepeatStep {
  uint32_t level = 0;
  uint64_t count = 1;  // at least 1
  RegionId body;
};

struct Region {
  Span32 steps;  // TileGraph::steps()
};

// A tensor of the model's interface lies dense and row-major in an allocation, from `offset` on. The allocation of an
// input lives from the start of a run, that of an output to its end, whatever its role.
struct InterfaceTensor {
  std::string name;
  Type type;
  AllocationId allocation;
  int64_t offset = 0;  // elements
  bool operator==(const InterfaceTensor&) const = default;
};

class TileGraph {
 public:
  const std::string& machine() const { return machine_; }
  uint32_t tiles() const { return tiles_; }
  std::span<const TensorType> types() const { return types_; }
  std::span<const Geometry> geometries() const { return geometries_; }
  std::span<const KernelContract> contracts() const { return contracts_; }
  std::span<const CopyDescriptor> descriptors() const { return descriptors_; }
  std::span<const Allocation> allocations() const { return allocations_; }
  std::span<const KernelRun> runs() const { return runs_; }
  std::span<const LocalCopy> copies() const { return copies_; }
  std::span<const Exchange> exchanges() const { return exchanges_; }
  std::span<const Superstep> supersteps() const { return supersteps_; }
  std::span<const RepeatStep> repeats() const { return repeats_; }
  std::span<const Region> regions() const { return regions_; }
  RegionId root() const { return root_; }
  std::span<const ConstantBox> constants() const { return constants_; }
  std::span<const InterfaceTensor> inputs() const { return inputs_; }
  std::span<const InterfaceTensor> outputs() const { return outputs_; }

  const TensorType& type(AllocationId id) const { return types_[allocations_[id.index].type.index]; }
  const Allocation& allocation(AllocationId id) const { return allocations_[id.index]; }
  const Geometry& geometry(const View& view) const { return geometries_[view.geometry.index]; }
  const KernelContract& contract(const KernelRun& run) const { return contracts_[run.contract.index]; }
  const CopyDescriptor& descriptor(const LocalCopy& copy) const { return descriptors_[copy.descriptor.index]; }
  std::span<const View> operands(const KernelRun& run) const { return slice(views_, run.operands); }
  // Of the run's iteration space.
  Shape extents(const KernelRun& run) const;
  std::span<const View> destinations(const Exchange& exchange) const { return slice(views_, exchange.destinations); }
  std::span<const Term> terms(const View& view) const { return slice(terms_, view.terms); }
  std::span<const Command> commands(const Superstep& step) const { return slice(commands_, step.commands); }
  std::span<const Step> steps(const Region& region) const { return slice(steps_, region.steps); }
  TileId tile(const Command& command) const {
    return command.kind == Command::Kind::run ? runs_[command.index].tile : copies_[command.index].tile;
  }
  int64_t storage_elements(AllocationId id) const { return type(id).extents.elements(); }
  uint64_t storage_bytes(AllocationId id) const {
    return static_cast<uint64_t>(storage_elements(id)) * byte_size(type(id).dtype);
  }

 private:
  friend class TileGraphBuilder;
  friend class TileGraphFinisher;
  std::string machine_;
  uint32_t tiles_ = 0;
  std::vector<TensorType> types_;
  std::vector<Geometry> geometries_;
  std::vector<KernelContract> contracts_;
  std::vector<CopyDescriptor> descriptors_;
  std::vector<Allocation> allocations_;
  std::vector<View> views_;
  std::vector<Term> terms_;
  std::vector<KernelRun> runs_;
  std::vector<LocalCopy> copies_;
  std::vector<Exchange> exchanges_;
  std::vector<Command> commands_;
  std::vector<Superstep> supersteps_;
  std::vector<Step> steps_;
  std::vector<RepeatStep> repeats_;
  std::vector<Region> regions_;
  RegionId root_;
  std::vector<ConstantBox> constants_;
  std::vector<InterfaceTensor> inputs_, outputs_;
};

// Everything equal, constants by content.
bool operator==(const TileGraph& a, const TileGraph& b);

// Bounds, contracts against views, tiles, homes, nesting, and the superstep rule on top of this header (by boxes;
// conservative overlap is exact for views of one allocation with equal strides). ErrorKind::internal naming superstep,
// tile and operands.
Result<void> verify(const TileGraph& graph);

// "low-tiles 4", the interned tables, allocations, then regions of supersteps of commands.
std::string print(const TileGraph& graph);
Result<TileGraph> parse_tile_graph(std::string_view text, const ConstantsByHash& constants);

}  // namespace low
