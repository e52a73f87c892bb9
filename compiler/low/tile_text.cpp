// Text of tile graphs. A line is a fact; a view is "a3:g2@128", with "+0%2*4096" for each term (level, period, stride).
//
//   low-tiles 4
//   machine host tiles 16
//   type 0 f32 extents [5,7]
//   geometry 0 extents [5,7] strides [7,1]
//   contract 0 gemm math_a f32 math_b f32 accumulate f32 stage_k 0 rows 5 operands f32:su f32:su f32:su expr {…}
//   contract 1 reduce inner 1 kind index_max accumulate f32 last map {…} operands f32:su i64:u expr {…}
//   contract 2 gather inner 1 operands f32:bus i64:sbb f32:su
//     (the fields of each family are in kernels/families/; a flag, such as `last`, and what may be missing, such as
//     `rows` and `map`, is there or not)
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

#include "compiler/kernels/contract_fields.h"
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

// Appends " name value" for each field of a contract; a flag is its name alone, and what there is none of is left out.
struct FieldPrinter {
  std::string& out;

  void operator()(std::string_view field, DType dtype) { out += fmt::format(" {} {}", field, name(dtype)); }
  void operator()(std::string_view field, int64_t number) { out += fmt::format(" {} {}", field, number); }
  void operator()(std::string_view field, int number) { out += fmt::format(" {} {}", field, number); }
  void operator()(std::string_view field, std::optional<int> number) {
    if (number) (*this)(field, *number);
  }
  void operator()(std::string_view field, double number) { out += fmt::format(" {} {}", field, hexadecimal(number)); }
  void operator()(std::string_view field, bool flag) {
    if (flag) out += fmt::format(" {}", field);
  }
  template <typename Kind, typename Names>
  void operator()(std::string_view field, Kind kind, const Names& names) {
    out += fmt::format(" {} {}", field, names[static_cast<size_t>(kind)]);
  }
  void operator()(std::string_view field, const std::vector<OperandContract>& operands) {
    out += fmt::format(" {}", field);
    for (const OperandContract& operand : operands) {
      out += fmt::format(" {}:", name(operand.dtype));
      for (const Access access : operand.access) out += access_letters[static_cast<size_t>(access)];
    }
  }
  void operator()(std::string_view field, const Expr& expr) {
    if (!expr.nodes.empty()) out += fmt::format(" {} {{{}}}", field, to_string(expr));
  }
  void operator()(std::string_view field, const std::optional<Expr>& expr) {
    if (expr) (*this)(field, *expr);
  }
};

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
      out_ += fmt::format("contract {} {}", i, family_name(contract));
      visit_fields(contract, FieldPrinter{out_});
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
