// Text of tile graphs. A line is a fact; a view is "a3:g2@128", with "+0%2*4096" for each term (level, period, stride).
//
//   low-tiles 2
//   machine host tiles 16
//   type 0 f32 extents [5,7]
//   geometry 0 extents [5,7] strides [7,1]
//   contract 0 gemm extents [5,7,3] math f32 accumulate f32 stage 0 operands f32:su f32:su f32:su expr t0 = input.f32 0
//   contract 1 reduce extents [5,7] math f32 accumulate f32 stage 0 operands f32:su f32:u inner 1 sum first expr … map
//   … contract 2 rowwise extents [5,7] math f32 accumulate f32 stage 0 operands f32:su f32:su inner 1 softmax epsilon
//   1.5p-20 expr … contract 3 cumulative extents [5,7] math f32 accumulate f32 stage 0 operands f32:su f32:su inner 1
//   inclusive forward expr none contract 4 gather extents [5,7,9] math f32 accumulate f32 stage 0 operands f32:bus
//   i64:sbb f32:su inner 1 expr none contract 5 attention extents [5,9,4,7] math f32 accumulate f32 stage 0 operands
//   f32:su f32:su f32:su bool:su f32:su
//     scale 1p-1 softcap 0p+0 masked causal continues partial empty_is_zero expr …       (one line; each of these flags
//     or not)
//   descriptor 0 f32 to f16 saturate counts [5] source [8] destination [7] chunk 7
//   constant 0 SHA-256
//   allocation 0 type 0 home global intermediate binding 0
//   input f32[5,7] a0@0 "x"
//   region
//     superstep
//       exchange a0:g0@0 to a1:g0@0
//       run 3 contract 0 a0:g0@0 a1:g0@0 a2:g0@0
//       copy 3 descriptor 0 a0:g0@0 to a1:g0@0
//     end
//     repeat 0 count 3
//       …
//     end
//   end
#include "compiler/low/tile_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "compiler/low/tile_graph.h"

namespace low {
namespace {

using namespace tile_text;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// "1.5p-20", what std::from_chars reads as hexadecimal.
std::string hexadecimal(double value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex);
  return {text.data(), result.ptr};
}

std::string id_or(uint32_t index, std::string_view none) {
  return index == UINT32_MAX ? std::string(none) : fmt::format("{}", index);
}

class Printer {
 public:
  explicit Printer(const TileGraph& graph) : graph_(graph) {}

  std::string print() {
    out_ = fmt::format("{}\nmachine {} tiles {}\n", header, quoted(graph_.machine()), graph_.tiles());
    tables();
    for (const InterfaceTensor& tensor : graph_.inputs()) interface("input", tensor);
    for (const InterfaceTensor& tensor : graph_.outputs()) interface("output", tensor);
    if (graph_.root().valid()) {
      out_ += "region\n";
      region(graph_.root(), 2);
      out_ += "end\n";
    }
    return std::move(out_);
  }

 private:
  void tables() {
    for (size_t i = 0; i < graph_.types().size(); ++i) {
      const TensorType& type = graph_.types()[i];
      out_ += fmt::format("type {} {} extents {}\n", i, name(type.dtype), to_string(type.extents));
    }
    for (size_t i = 0; i < graph_.geometries().size(); ++i) {
      const Geometry& geometry = graph_.geometries()[i];
      out_ += fmt::format("geometry {} extents {} strides {}\n", i, to_string(geometry.extents),
                          to_string(geometry.strides));
    }
    for (size_t i = 0; i < graph_.contracts().size(); ++i) {
      const KernelContract& contract = graph_.contracts()[i];
      out_ += fmt::format("contract {} {} extents {} math {}", i, family_names[static_cast<size_t>(contract.family)],
                          to_string(contract.extents), name(contract.math));
      if (contract.family == Family::gemm) out_ += fmt::format(" {}", name(contract.math_b));
      out_ += fmt::format(" accumulate {} stage {} operands", name(contract.accumulate), contract.stage_k);
      for (const OperandContract& operand : contract.operands) {
        out_ += fmt::format(" {}:", name(operand.dtype));
        for (const Access access : operand.access) out_ += access_letters[static_cast<size_t>(access)];
      }
      family_words(contract);
      out_ += fmt::format(" expr {}", contract.expr.nodes.empty() ? "none" : to_string(contract.expr));
      if (contract.map) out_ += fmt::format(" map {}", to_string(*contract.map));
      out_ += '\n';
    }
    for (size_t i = 0; i < graph_.descriptors().size(); ++i) {
      const CopyDescriptor& copy = graph_.descriptors()[i];
      out_ += fmt::format("descriptor {} {} to {} {} counts {} source {} destination {} chunk {}\n", i,
                          name(copy.source), name(copy.destination), overflow_names[static_cast<size_t>(copy.overflow)],
                          to_string(copy.counts), to_string(copy.source_strides), to_string(copy.destination_strides),
                          copy.chunk);
    }
    for (size_t i = 0; i < graph_.constants().size(); ++i) {
      out_ += fmt::format("constant {} {}\n", i, constant_hash(*graph_.constants()[i].tensor()));
    }
    for (size_t i = 0; i < graph_.allocations().size(); ++i) {
      const Allocation& allocation = graph_.allocations()[i];
      out_ += fmt::format("allocation {} type {} home {} {} binding {}\n", i, allocation.type.index,
                          id_or(allocation.home.index, "global"), role_names[static_cast<size_t>(allocation.role)],
                          allocation.binding);
    }
  }

  // What gemm and pointwise do not have.
  void family_words(const KernelContract& contract) {
    if (contract.family == Family::gemm || contract.family == Family::pointwise) return;
    if (contract.family == Family::attention) return attention_words(contract.attention);
    out_ += fmt::format(" inner {}", contract.inner);
    if (contract.family == Family::reduce)
      out_ += fmt::format(" {} {}", reduce_kinds[contract.kind], end_names[contract.last ? 1 : 0]);
    if (contract.family == Family::rowwise)
      out_ += fmt::format(" {} epsilon {}", rowwise_kinds[contract.kind], hexadecimal(contract.epsilon));
    if (contract.family == Family::cumulative)
      out_ += fmt::format(" {} {}", whole_names[contract.exclusive ? 1 : 0], direction_names[contract.reverse ? 1 : 0]);
  }

  void attention_words(const KernelContract::AttentionKind& kind) {
    out_ += fmt::format(" scale {} softcap {}", hexadecimal(kind.scale), hexadecimal(kind.softcap));
    if (std::isfinite(kind.masked_score)) out_ += fmt::format(" masked_score {}", hexadecimal(kind.masked_score));
    const bool flags[] = {kind.masked, kind.causal, kind.continues, kind.partial, kind.empty_is_zero};
    for (size_t i = 0; i < std::size(flags); ++i)
      if (flags[i]) out_ += fmt::format(" {}", attention_names[i]);
  }

  void interface(std::string_view kind, const InterfaceTensor& tensor) {
    out_ += fmt::format("{} {}{} a{}@{} {}\n", kind, name(tensor.type.dtype), to_string(tensor.type.shape),
                        tensor.allocation.index, tensor.offset, quoted(tensor.name));
  }

  void view(const View& view) {
    out_ += fmt::format(" a{}:g{}@{}", view.allocation.index, view.geometry.index, view.offset);
    for (const Term& term : graph_.terms(view)) out_ += fmt::format("+{}%{}*{}", term.level, term.period, term.stride);
  }

  void region(RegionId id, size_t indent) {
    for (const Step& step : graph_.steps(graph_.regions()[id.index])) {
      out_.append(indent, ' ');
      if (step.kind == Step::Kind::superstep) {
        out_ += "superstep\n";
        superstep(graph_.supersteps()[step.index], indent + 2);
      } else {
        const RepeatStep& repeat = graph_.repeats()[step.index];
        out_ += fmt::format("repeat {} count {}\n", repeat.level, repeat.count);
        region(repeat.body, indent + 2);
      }
      out_.append(indent, ' ');
      out_ += "end\n";
    }
  }

  void superstep(const Superstep& step, size_t indent) {
    for (uint32_t i = 0; i < step.exchanges.count; ++i) {
      const Exchange& exchange = graph_.exchanges()[step.exchanges.begin + i];
      out_.append(indent, ' ');
      out_ += "exchange";
      view(exchange.source);
      out_ += " to";
      for (const View& destination : graph_.destinations(exchange)) view(destination);
      out_ += '\n';
    }
    for (const Command& command : graph_.commands(step)) {
      out_.append(indent, ' ');
      if (command.kind == Command::Kind::run) {
        const KernelRun& run = graph_.runs()[command.index];
        out_ += fmt::format("run {} contract {}", run.tile.index, run.contract.index);
        for (const View& operand : graph_.operands(run)) view(operand);
      } else {
        const LocalCopy& copy = graph_.copies()[command.index];
        out_ += fmt::format("copy {} descriptor {}", copy.tile.index, copy.descriptor.index);
        view(copy.source);
        out_ += " to";
        view(copy.destination);
      }
      out_ += '\n';
    }
  }

  const TileGraph& graph_;
  std::string out_;
};

}  // namespace

std::string print(const TileGraph& graph) { return Printer(graph).print(); }

}  // namespace low
