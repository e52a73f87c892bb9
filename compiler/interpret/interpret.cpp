#include "compiler/interpret/interpret.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "compiler/interpret/kernels.h"
#include "compiler/interpret/storage.h"
#include "compiler/low/view_use.h"
#include "compiler/placement/lifetimes.h"

namespace low {
namespace {

// Where an allocation lies.
struct Place {
  Storage* storage = nullptr;
  uint64_t offset = 0;  // bytes
};

// When storages become undefined: at the begin and the end of supersteps and of whole Repeats, by their indices.
struct LifetimeEvents {
  std::vector<std::vector<AllocationId>> superstep_begin, superstep_end, repeat_begin, repeat_end;
};

class Interpreter {
 public:
  Interpreter(const TileGraph& graph, const Placement* placement, const Schedule* schedule)
      : graph_(graph), placement_(placement), schedule_(schedule), places_(graph.allocations().size()) {}

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) {
    if (!graph_.root().valid()) return fail(ErrorKind::internal, "interpreter: the graph has no region");
    if (placement_ == nullptr) {
      make_separate_storages();
    } else {
      LOW_TRY_VOID(make_memories());
      LOW_TRY_VOID(check_schedule());
      make_events();
    }
    LOW_TRY_VOID(load(inputs));
    if (!region(graph_.root())) return fail(ErrorKind::internal, "interpreter: " + error_);
    return outputs();
  }

 private:
  // ---- where things lie

  // One storage for each allocation.
  void make_separate_storages() {
    for (size_t i = 0; i < places_.size(); ++i) {
      const AllocationId id(i);
      const bool constant = graph_.allocation(id).role == Role::parameter;
      storages_.push_back(
          std::make_unique<Storage>(graph_.storage_bytes(id), byte_size(graph_.type(id).dtype), constant));
      places_[id] = {storages_.back().get(), 0};
    }
  }

  // One storage for each memory of the placement.
  Result<void> make_memories() {
    if (placement_->locations.size() != places_.size() || placement_->lifetimes.size() != places_.size()) {
      return fail(ErrorKind::internal,
                  fmt::format("interpreter: the placement has {} locations, the graph {} allocations",
                              placement_->locations.size(), places_.size()));
    }
    const size_t tiles = placement_->tile_bytes.size();
    std::vector<size_t> granules(2 + tiles, 8);
    std::vector<size_t> memory_of(places_.size());
    for (size_t i = 0; i < places_.size(); ++i) {
      const AllocationId id(i);
      const Location& location = placement_->locations[id];
      const auto wrong = [i](const std::string& what) {
        return fail(ErrorKind::internal, fmt::format("interpreter: allocation {} {}", i, what));
      };
      const Allocation& allocation = graph_.allocation(id);
      size_t memory = location.memory == Memory::arena ? 0 : 1;
      if (location.memory == Memory::tile) {
        if (allocation.home.index >= tiles) return wrong("lies in a tile's memory that the placement has not");
        memory = 2 + allocation.home.index;
      } else if (allocation.home.valid()) {
        return wrong(fmt::format("does not lie on its home, tile {}", allocation.home.index));
      }
      const bool constant = graph_.allocation(id).role == Role::parameter;
      if (location.memory != Memory::tile && constant != (location.memory == Memory::parameters)) {
        return wrong("lies in the wrong memory");
      }
      const uint64_t capacity = memory == 0   ? placement_->arena_bytes
                                : memory == 1 ? placement_->parameter_bytes
                                              : placement_->tile_bytes[memory - 2];
      const uint64_t bytes = graph_.storage_bytes(id);
      if (location.offset > capacity || bytes > capacity - location.offset) {
        return wrong(
            fmt::format("at {}, of {} bytes, reaches out of its memory of {} bytes", location.offset, bytes, capacity));
      }
      granules[memory] = std::min(granules[memory], byte_size(graph_.type(id).dtype));
      memory_of[i] = memory;
    }
    for (size_t memory = 0; memory < granules.size(); ++memory) {
      const uint64_t capacity = memory == 0   ? placement_->arena_bytes
                                : memory == 1 ? placement_->parameter_bytes
                                              : placement_->tile_bytes[memory - 2];
      // Up to a multiple of the granule.
      const uint64_t rounded = (capacity + granules[memory] - 1) / granules[memory] * granules[memory];
      storages_.push_back(std::make_unique<Storage>(rounded, granules[memory], false));
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      const AllocationId id(i);
      const uint64_t offset = placement_->locations[id].offset;
      if (offset % byte_size(graph_.type(id).dtype) != 0) {
        return fail(ErrorKind::internal,
                    fmt::format("interpreter: allocation {} at {} is not aligned to its elements", i, offset));
      }
      places_[id] = {storages_[memory_of[i]].get(), offset};
    }
    return {};
  }

  // Each superstep has the graph's commands, each on its tile, in the tile's order.
  Result<void> check_schedule() const {
    const auto wrong = [](size_t superstep, std::string_view what) {
      return fail(ErrorKind::internal, fmt::format("interpreter: superstep {} of the schedule {}", superstep, what));
    };
    if (schedule_->supersteps.size() != graph_.supersteps().size()) {
      return wrong(schedule_->supersteps.size(), "is the last, the graph has more or fewer");
    }
    for (size_t s = 0; s < schedule_->supersteps.size(); ++s) {
      const std::vector<uint32_t>& begin = schedule_->supersteps[s].tile_begin;
      if (begin.size() != size_t{graph_.tiles()} + 1 || !std::ranges::is_sorted(begin) ||
          begin.back() > schedule_->commands.size()) {
        return wrong(s, "has no range of commands for each tile");
      }
      const std::span<const Command> expected = graph_.commands(graph_.supersteps()[s]);
      size_t next = 0;
      for (uint32_t tile = 0; tile < graph_.tiles(); ++tile) {
        for (uint32_t i = begin[tile]; i < begin[tile + 1]; ++i) {
          const ScheduledCommand& command = schedule_->commands[i];
          if (command.kind == ScheduledCommand::Kind::pull) {
            if (command.index >= schedule_->pulls.size() ||
                schedule_->pulls[command.index].descriptor.index >= schedule_->descriptors.size()) {
              return wrong(s, "has a pull without a description");
            }
            continue;
          }
          const Command::Kind kind =
              command.kind == ScheduledCommand::Kind::run ? Command::Kind::run : Command::Kind::copy;
          if (next == expected.size() || !(expected[next] == Command{kind, command.index}) ||
              graph_.tile(expected[next]).index != tile) {
            return wrong(s, fmt::format("has another order on tile {} than the graph", tile));
          }
          ++next;
        }
      }
      if (next != expected.size()) return wrong(s, "lacks commands of the graph");
    }
    return {};
  }

  void make_events() {
    const std::vector<RepeatRange> ranges = repeat_ranges(graph_);
    events_.superstep_begin.resize(graph_.supersteps().size());
    events_.superstep_end.resize(graph_.supersteps().size());
    events_.repeat_begin.resize(ranges.size());
    events_.repeat_end.resize(ranges.size());
    std::vector<uint8_t> keeps_begin(places_.size()), keeps_end(places_.size());
    for (const InterfaceTensor& tensor : graph_.inputs()) keeps_begin[tensor.allocation.index] = 1;
    for (const InterfaceTensor& tensor : graph_.outputs()) keeps_end[tensor.allocation.index] = 1;
    for (size_t i = 0; i < places_.size(); ++i) {
      const AllocationId id(i);
      if (graph_.allocation(id).role == Role::parameter) continue;
      const Lifetime& lifetime = placement_->lifetimes[id];
      // The outermost Repeat that the lifetime covers and that starts (ends) with it: then that happens once, not in
      // each iteration.
      size_t begins = ranges.size(), ends = ranges.size();
      for (size_t r = 0; r < ranges.size(); ++r) {
        const RepeatRange& range = ranges[r];
        if (range.empty() || range.first < lifetime.first || range.last > lifetime.last) continue;
        if (range.first == lifetime.first && (begins == ranges.size() || range.level < ranges[begins].level))
          begins = r;
        if (range.last == lifetime.last && (ends == ranges.size() || range.level < ranges[ends].level)) ends = r;
      }
      if (keeps_begin[i] == 0) {
        if (begins < ranges.size()) {
          events_.repeat_begin[begins].push_back(id);
        } else if (lifetime.first < events_.superstep_begin.size()) {
          events_.superstep_begin[lifetime.first].push_back(id);
        }
      }
      if (keeps_end[i] == 0) {
        if (ends < ranges.size()) {
          events_.repeat_end[ends].push_back(id);
        } else if (lifetime.last < events_.superstep_end.size()) {
          events_.superstep_end[lifetime.last].push_back(id);
        }
      }
    }
  }

  void poison(const std::vector<std::vector<AllocationId>>& events, uint32_t index) {
    if (placement_ == nullptr) return;
    for (const AllocationId id : events[index])
      places_[id].storage->poison(places_[id].offset, graph_.storage_bytes(id));
  }

  // ---- data from and to the outside

  Result<void> load(std::span<const Tensor> inputs) {
    if (inputs.size() != graph_.inputs().size()) {
      return fail(ErrorKind::invalid,
                  fmt::format("interpreter: {} inputs, expected {}", inputs.size(), graph_.inputs().size()));
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      const AllocationId id(i);
      if (graph_.allocation(id).role != Role::parameter) continue;
      const std::shared_ptr<const Tensor> tensor = graph_.constants()[graph_.allocation(id).binding].tensor();
      // Allocations of one constant may share a place.
      places_[id].storage->fill(places_[id].offset, tensor->bytes().size(), tensor->bytes().data(), owner_of(id));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const InterfaceTensor& to = graph_.inputs()[i];
      if (inputs[i].dtype() != to.type.dtype || inputs[i].shape() != to.type.shape) {
        return fail(ErrorKind::invalid,
                    fmt::format("interpreter: input '{}' is {}{}, expected {}", to.name, name(inputs[i].dtype()),
                                to_string(inputs[i].shape()), to_string(to.type)));
      }
      places_[to.allocation].storage->fill(
          places_[to.allocation].offset + static_cast<uint64_t>(to.offset) * byte_size(to.type.dtype),
          inputs[i].bytes().size(), inputs[i].bytes().data(), owner_of(to.allocation));
    }
    return {};
  }

  Result<std::vector<Tensor>> outputs() {
    ++step_;
    std::vector<Tensor> tensors;
    for (const InterfaceTensor& from : graph_.outputs()) {
      Tensor tensor(from.type.dtype, from.type.shape);
      const size_t bytes = byte_size(from.type.dtype);
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        uint64_t bits = 0;
        const Place& place = places_[from.allocation];
        const std::string problem = place.storage->read(place.offset + static_cast<uint64_t>(from.offset + i) * bytes,
                                                        bytes, {owner_of(from.allocation), 0, step_}, bits);
        if (!problem.empty()) {
          return fail(ErrorKind::internal,
                      fmt::format("interpreter: output '{}' has element {} from element {} of allocation {}, {}",
                                  from.name, i, from.offset + i, from.allocation.index, problem));
        }
        tensor.set_bits(i, bits);
      }
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  // Allocations of one constant count as one.
  uint32_t owner_of(AllocationId id) const {
    const Allocation& allocation = graph_.allocation(id);
    if (allocation.role != Role::parameter) return id.index;
    return static_cast<uint32_t>(graph_.allocations().size()) + allocation.binding;
  }

  // ---- execution; false when error_ says what is wrong

  bool region(RegionId id) {
    for (const Step& step : graph_.steps(graph_.regions()[id.index])) {
      if (step.kind == Step::Kind::superstep) {
        if (!superstep(step.index)) return false;
        continue;
      }
      const RepeatStep& repeat = graph_.repeats()[step.index];
      poison(events_.repeat_begin, step.index);
      iteration_.push_back(0);
      for (; iteration_.back() < repeat.count; ++iteration_.back()) {
        if (!region(repeat.body)) return false;
      }
      iteration_.pop_back();
      poison(events_.repeat_end, step.index);
    }
    return true;
  }

  bool superstep(uint32_t index) {
    ++step_;
    superstep_ = index;
    poison(events_.superstep_begin, index);
    const Superstep& step = graph_.supersteps()[index];
    if (schedule_ != nullptr) {
      const std::vector<uint32_t>& begin = schedule_->supersteps[index].tile_begin;
      for (uint32_t tile = 0; tile < graph_.tiles(); ++tile) {
        for (uint32_t i = begin[tile]; i < begin[tile + 1]; ++i) {
          if (!scheduled(schedule_->commands[i], TileId(tile))) return false;
        }
      }
    } else {
      uint32_t ordinal = 0;
      for (uint32_t i = 0; i < step.exchanges.count; ++i) {
        if (!exchange(step.exchanges.begin + i, ordinal)) return false;
      }
      for (const Command& command : graph_.commands(step)) {
        if (!(command.kind == Command::Kind::run ? run_command(command.index) : copy_command(command.index)))
          return false;
      }
    }
    poison(events_.superstep_end, index);
    return true;
  }

  bool scheduled(const ScheduledCommand& command, TileId tile) {
    if (command.kind == ScheduledCommand::Kind::run) return run_command(command.index);
    if (command.kind == ScheduledCommand::Kind::copy) return copy_command(command.index);
    const Pull& pull = schedule_->pulls[command.index];
    const CopyDescriptor& descriptor = schedule_->descriptors[pull.descriptor.index];
    return move(descriptor, pull.source, pull.destination, tile, ViewUse::Kind::exchange, command.index);
  }

  bool exchange(uint32_t index, uint32_t& ordinal) {
    const Exchange& exchange = graph_.exchanges()[index];
    uint32_t operand = 0;
    for (const View& destination : graph_.destinations(exchange)) {
      const TileId tile = transfer_tile(graph_, exchange.source, destination, ordinal++);
      const Geometry& from = graph_.geometry(exchange.source);
      const Geometry& to = graph_.geometry(destination);
      std::vector<uint64_t> elements;
      if (!read({ViewUse::Kind::exchange, index, 0, false, tile, exchange.source, from.extents.extents(),
                 from.strides.extents(), 1},
                elements) ||
          !write({ViewUse::Kind::exchange, index, ++operand, true, tile, destination, to.extents.extents(),
                  to.strides.extents(), 1},
                 elements)) {
        return false;
      }
    }
    return true;
  }

  bool run_command(uint32_t index) {
    const KernelRun& run = graph_.runs()[index];
    const KernelContract& contract = graph_.contract(run);
    const std::span<const View> views = graph_.operands(run);
    const auto use = [&](size_t i) {
      const Geometry& geometry = graph_.geometry(views[i]);
      return ViewUse{ViewUse::Kind::run,
                     index,
                     static_cast<uint32_t>(i),
                     i + 1 == views.size(),
                     run.tile,
                     views[i],
                     geometry.extents.extents(),
                     geometry.strides.extents(),
                     1};
    };
    const Shape extents = graph_.extents(run);
    if (contract.is<GatherKernel>()) return gather(contract, extents, use(0), use(1), use(2));
    std::vector<std::vector<uint64_t>> operands(views.size() - 1);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!read(use(i), operands[i])) return false;
    }
    return write(use(operands.size()), run_kernel(contract, extents, operands));
  }

  // Reads what the indices name, and nothing else.
  bool gather(const KernelContract& contract, const Shape& extents, const ViewUse& data, const ViewUse& indices,
              const ViewUse& result) {
    std::vector<uint64_t> index_elements, elements;
    if (!read(indices, index_elements)) return false;
    const int64_t count = operand_extents(contract, extents, 2).elements();
    for (int64_t i = 0; i < count; ++i) {
      ViewUse one = data;
      one.view.offset += gathered_element(contract, extents, graph_.geometry(data.view), i, index_elements);
      one.extents = {};
      one.strides = {};
      if (!read(one, elements)) return false;
    }
    return write(result, elements);
  }

  bool copy_command(uint32_t index) {
    const LocalCopy& copy = graph_.copies()[index];
    return move(graph_.descriptor(copy), copy.source, copy.destination, copy.tile, ViewUse::Kind::copy, index);
  }

  bool move(const CopyDescriptor& descriptor, const View& source, const View& destination, TileId tile,
            ViewUse::Kind kind, uint32_t index) {
    std::vector<uint64_t> elements;
    if (!read({kind, index, 0, false, tile, source, descriptor.counts.extents(), descriptor.source_strides.extents(),
               descriptor.chunk},
              elements)) {
      return false;
    }
    const Converter convert(descriptor.source, descriptor.destination, descriptor.overflow);
    for (uint64_t& element : elements) element = convert(element);
    return write({kind, index, 1, true, tile, destination, descriptor.counts.extents(),
                  descriptor.destination_strides.extents(), descriptor.chunk},
                 elements);
  }

  // ---- elements

  bool wrong(const ViewUse& use, int64_t element, std::string_view what) {
    std::string iterations;
    for (const uint64_t iteration : iteration_) iterations += fmt::format(", iteration {}", iteration);
    error_ = fmt::format("superstep {}{}, {} {} element {} of allocation {}, {}", superstep_, iterations,
                         to_string(use), use.write ? "writes" : "reads", element, use.view.allocation.index, what);
    return false;
  }

  // Calls function(element) for each element of a use in row-major order until it returns false.
  template <typename Function>
  bool for_each_element(const ViewUse& use, Function&& function) {
    if (use.chunk == 0 || std::ranges::find(use.extents, 0) != use.extents.end()) return true;
    if (placement_ != nullptr && graph_.allocation(use.view.allocation).role != Role::parameter) {
      const Lifetime& lifetime = placement_->lifetimes[use.view.allocation];
      if (superstep_ < lifetime.first || superstep_ > lifetime.last) {
        return wrong(use, use.view.offset,
                     fmt::format("which lives in supersteps {} to {}", lifetime.first, lifetime.last));
      }
    }
    int64_t element = use.view.offset;
    for (const Term& term : graph_.terms(use.view)) {
      if (term.level >= iteration_.size() || term.period == 0) return wrong(use, element, "by a term without a Repeat");
      element += static_cast<int64_t>(iteration_[term.level] % term.period) * term.stride;
    }
    std::array<int64_t, max_rank> index{};
    while (true) {
      for (int64_t i = 0; i < use.chunk; ++i) {
        if (!function(element + i)) return false;
      }
      size_t axis = use.extents.size();
      while (axis > 0) {
        --axis;
        element += use.strides[axis];
        if (++index[axis] < use.extents[axis]) break;
        element -= use.strides[axis] * use.extents[axis];
        index[axis] = 0;
        if (axis == 0) return true;
      }
      if (use.extents.empty()) return true;
    }
  }

  bool in_storage(const ViewUse& use, int64_t element) {
    const int64_t size = graph_.storage_elements(use.view.allocation);
    return (element >= 0 && element < size) || wrong(use, element, fmt::format("which has {}", size));
  }

  bool read(const ViewUse& use, std::vector<uint64_t>& elements) {
    const TensorType& type = graph_.type(use.view.allocation);
    const Place& place = places_[use.view.allocation];
    const Storage::Accessor accessor{owner_of(use.view.allocation), use.tile.index, step_};
    const size_t bytes = byte_size(type.dtype);
    return for_each_element(use, [&](int64_t element) {
      if (!in_storage(use, element)) return false;
      uint64_t bits = 0;
      const std::string problem =
          place.storage->read(place.offset + static_cast<uint64_t>(element) * bytes, bytes, accessor, bits);
      if (!problem.empty()) return wrong(use, element, problem);
      elements.push_back(bits);
      return true;
    });
  }

  bool write(const ViewUse& use, std::span<const uint64_t> elements) {
    const Place& place = places_[use.view.allocation];
    const Storage::Accessor accessor{owner_of(use.view.allocation), use.tile.index, step_};
    const size_t bytes = byte_size(graph_.type(use.view.allocation).dtype);
    size_t next = 0;
    return for_each_element(use, [&](int64_t element) {
      if (!in_storage(use, element)) return false;
      if (next == elements.size()) return wrong(use, element, "more than it reads");
      const std::string problem = place.storage->write(place.offset + static_cast<uint64_t>(element) * bytes, bytes,
                                                       accessor, elements[next++]);
      return problem.empty() || wrong(use, element, problem);
    });
  }

  const TileGraph& graph_;
  const Placement* placement_;  // both, or neither
  const Schedule* schedule_;
  Table<AllocationId, Place> places_;
  std::vector<std::unique_ptr<Storage>> storages_;
  LifetimeEvents events_;
  std::vector<uint64_t> iteration_;  // of the enclosing Repeats
  uint32_t superstep_ = 0;
  uint32_t step_ = 0;  // executed so far
  std::string error_;
};

}  // namespace

Result<std::vector<Tensor>> interpret(const TileGraph& graph, std::span<const Tensor> inputs) {
  return Interpreter(graph, nullptr, nullptr).run(inputs);
}

Result<std::vector<Tensor>> interpret(const TileGraph& graph, const Placement& placement, const Schedule& schedule,
                                      std::span<const Tensor> inputs) {
  return Interpreter(graph, &placement, &schedule).run(inputs);
}

}  // namespace low
