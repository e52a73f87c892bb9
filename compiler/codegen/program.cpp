#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/codegen/codegen.h"
#include "runtime/format/commands.h"

namespace low {
namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const TileGraph& graph, const Placement& placement, const Schedule& schedule, const KernelSet& kernels)
      : graph_(graph), placement_(placement), schedule_(schedule), kernels_(kernels) {}

  Program build() && {
    program_.machine = graph_.machine();
    program_.tiles = graph_.tiles();
    program_.entries = static_cast<uint32_t>(kernels_.entries.size());
    program_.arena_bytes = placement_.arena_bytes;
    program_.parameter_bytes = placement_.parameter_bytes;
    for (const InterfaceTensor& input : graph_.inputs()) program_.inputs.push_back(binding(input));
    for (const InterfaceTensor& output : graph_.outputs()) program_.outputs.push_back(binding(output));
    add_parameters();
    for (size_t i = 0; i < graph_.supersteps().size(); ++i) add_superstep(i);
    add_region(graph_.regions()[graph_.root().index], 1);
    return std::move(program_);
  }

 private:
  uint64_t byte_offset(AllocationId id, int64_t elements) const {
    return placement_.locations[id].offset + static_cast<uint64_t>(elements) * byte_size(graph_.type(id).dtype);
  }

  Binding binding(const InterfaceTensor& tensor) const {
    return {.name = tensor.name,
            .dtype = tensor.type.dtype,
            .shape = tensor.type.shape,
            .offset = byte_offset(tensor.allocation, tensor.offset)};
  }

  void add_parameters() {
    for (size_t i = 0; i < graph_.allocations().size(); ++i) {
      const AllocationId id(i);
      const Allocation& allocation = graph_.allocation(id);
      if (allocation.role != Role::parameter) continue;
      const ConstantBox& constant = graph_.constants()[allocation.binding];
      program_.parameters.push_back(
          {.sha256 = constant.sha256(), .offset = placement_.locations[id].offset, .bytes = constant.byte_count()});
    }
    std::ranges::sort(program_.parameters, {}, &ParameterSegment::offset);
  }

  CommandOperand operand(const View& view, const Strides& strides) const {
    const Location& location = placement_.locations[view.allocation];
    CommandOperand operand{.memory = location.memory == Memory::parameters ? abi::memory_parameters : abi::memory_arena,
                           .offset = byte_offset(view.allocation, view.offset),
                           .strides = {strides.begin(), strides.end()},
                           .terms = {}};
    const auto size = static_cast<int64_t>(byte_size(graph_.type(view.allocation).dtype));
    for (const Term& term : graph_.terms(view))
      operand.terms.push_back({.stride = term.stride * size,
                               .level = static_cast<uint32_t>(term.level),
                               .period = static_cast<uint32_t>(term.period)});
    return operand;
  }

  void add_copy(const CopyDescriptor& descriptor, const View& source, const View& destination) {
    const CopyKernel kernel{descriptor.source, descriptor.destination, descriptor.overflow};
    const auto position = std::ranges::find(kernels_.copies, kernel);
    LOW_CHECK(position != kernels_.copies.end());
    const CommandOperand operands[] = {operand(source, descriptor.source_strides),
                                       operand(destination, descriptor.destination_strides)};
    append_copy(
        program_.commands,
        static_cast<uint32_t>(kernels_.contracts.size() + static_cast<size_t>(position - kernels_.copies.begin())),
        {descriptor.counts.begin(), descriptor.counts.end()}, descriptor.chunk, operands);
  }

  void add_command(const ScheduledCommand& command) {
    switch (command.kind) {
      case ScheduledCommand::Kind::run: {
        const KernelRun& run = graph_.runs()[command.index];
        std::vector<CommandOperand> operands;
        for (const View& view : graph_.operands(run)) operands.push_back(operand(view, graph_.geometry(view).strides));
        const Shape& extents = graph_.extents(run);
        append_command(program_.commands, run.contract.index, {extents.begin(), extents.end()}, operands);
        break;
      }
      case ScheduledCommand::Kind::copy: {
        const LocalCopy& copy = graph_.copies()[command.index];
        add_copy(graph_.descriptor(copy), copy.source, copy.destination);
        break;
      }
      case ScheduledCommand::Kind::pull: {
        const Pull& pull = schedule_.pulls[command.index];
        add_copy(schedule_.descriptors[pull.descriptor.index], pull.source, pull.destination);
        break;
      }
    }
  }

  void add_superstep(size_t index) {
    const ScheduledSuperstep& superstep = schedule_.supersteps[index];
    program_.supersteps.push_back(
        {.entry = kernels_.superstep_entry[index], .tile_begin = static_cast<uint32_t>(program_.tile_begin.size())});
    program_.tile_begin.push_back(block_count());
    for (size_t tile = 0; tile + 1 < superstep.tile_begin.size(); ++tile) {
      for (uint32_t i = superstep.tile_begin[tile]; i < superstep.tile_begin[tile + 1]; ++i)
        add_command(schedule_.commands[i]);
      program_.tile_begin.push_back(block_count());
    }
  }

  uint32_t block_count() const { return static_cast<uint32_t>(program_.commands.size() / abi::block_words); }

  void add_region(const Region& region, double executions) {
    for (const Step& step : graph_.steps(region)) {
      if (step.kind == Step::Kind::superstep) {
        program_.control.push_back(
            {.kind = ControlStep::Kind::superstep, .superstep = step.index, .level = 0, .count = 0});
        for (const Command& command : graph_.commands(graph_.supersteps()[step.index])) {
          if (command.kind != Command::Kind::run) continue;
          const KernelRun& run = graph_.runs()[command.index];
          program_.flop += executions * matrix_flop(graph_.contract(run), graph_.extents(run));
        }
      } else {
        const RepeatStep& repeat = graph_.repeats()[step.index];
        program_.control.push_back(
            {.kind = ControlStep::Kind::repeat_begin, .superstep = 0, .level = repeat.level, .count = repeat.count});
        add_region(graph_.regions()[repeat.body.index], executions * static_cast<double>(repeat.count));
        program_.control.push_back(
            {.kind = ControlStep::Kind::repeat_end, .superstep = 0, .level = repeat.level, .count = 0});
      }
    }
  }

  const TileGraph& graph_;
  const Placement& placement_;
  const Schedule& schedule_;
  const KernelSet& kernels_;
  Program program_;
};

// GPUs' kernels count the elements of a run in 32 bits; of a product those of its result, and the depth.
Result<void> check_gpu_counts(const TileGraph& graph, const Schedule& schedule) {
  constexpr double most = std::numeric_limits<int32_t>::max();
  double elements = 0;
  const auto count = [&](std::span<const int64_t> extents, int64_t chunk = 1) {
    auto product = static_cast<double>(chunk);
    for (const int64_t extent : extents) product *= static_cast<double>(extent);
    elements = std::max(elements, product);
  };
  const auto count_copy = [&](const CopyDescriptor& descriptor) {
    count(descriptor.counts.extents(), descriptor.chunk);
  };
  for (const KernelRun& run : graph.runs()) {
    const Shape& extents = graph.extents(run);
    const KernelContract& contract = graph.contract(run);
    if (matrix_flop(contract, extents) > 0) {
      count(extents.extents().first(2));
      for (const int64_t extent : extents) count({}, extent);
    } else {
      count(extents.extents());
    }
  }
  for (const LocalCopy& copy : graph.copies()) count_copy(graph.descriptor(copy));
  for (const Pull& pull : schedule.pulls) count_copy(schedule.descriptors[pull.descriptor.index]);
  if (elements <= most) return {};
  return fail(
      ErrorKind::unsupported,
      fmt::format("a kernel would handle {:.0f} elements on one tile of machine {}, whose kernels count to {:.0f}",
                  elements, graph.machine(), most));
}

}  // namespace

Result<Program> lower_program(const TileGraph& graph, const Placement& placement, const Schedule& schedule,
                              const KernelSet& kernels, const Machine& machine) {
  if (!machine.global_memory)
    return fail(ErrorKind::unsupported,
                "machine " + machine.name + " has no code generation: it plans and interprets only");
  if (!machine.logical_tiles) LOW_TRY_VOID(check_gpu_counts(graph, schedule));
  return ProgramBuilder(graph, placement, schedule, kernels).build();
}

}  // namespace low
