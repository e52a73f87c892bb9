#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/emit_expr.h"
#include "compiler/codegen/gpu_kernels.h"
#include "compiler/codegen/targets.h"
#include "compiler/kernels/device_library.h"
#include "runtime/format/abi.h"

namespace low {
namespace {

constexpr std::string_view access_name(Access access) {
  return access == Access::broadcast ? "broadcast" : access == Access::unit ? "unit" : "strided";
}

// "OperandOf<f32, Access::strided, Access::unit>"
std::string operand_type(const OperandContract& operand) {
  std::string text = fmt::format("OperandOf<{}", storage_type(operand.dtype));
  for (const Access access : operand.access) text += fmt::format(", Access::{}", access_name(access));
  return text + ">";
}

std::string operand_list(std::span<const OperandContract> operands) {
  std::string text = "List<";
  for (size_t i = 0; i < operands.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? ",\n                    " : "", operand_type(operands[i]));
  return text + ">";
}

// The function of one element; `sum` is the dtype of a leading sum, or nothing.
std::string emit_body(const KernelContract& contract, std::span<const OperandContract> extras, const DType* sum) {
  std::vector<std::string> inputs, parameters;
  if (sum != nullptr) {
    inputs.emplace_back("sum");
    parameters.push_back(fmt::format("{} sum", value_type(*sum)));
  }
  for (size_t i = 0; i < extras.size(); ++i) {
    inputs.push_back(fmt::format("x{}", i));
    parameters.push_back(fmt::format("{} x{}", value_type(extras[i].dtype), i));
  }
  return fmt::format("  static LOW_INLINE {} body({}) {{\n{}  }}\n", value_type(contract.expr.result_type()),
                     fmt::join(parameters, ", "), emit_expr(contract.expr, inputs));
}

// The Factors of gemm.h.
std::string factors(const KernelContract& contract, const GemmKernel& kernel) {
  return fmt::format("Factors<{}, {}, {}, {}, {}, {}, {}>", operand_type(contract.operands[0]),
                     operand_type(contract.operands[1]), value_type(kernel.math_a), value_type(kernel.math_b),
                     value_type(kernel.accumulate), kernel.multiplies_pairs(contract), kernel.panels);
}

// Of gemms that are routines: products of contiguous rows with a constant, both of one format or of bytes.
const std::set<std::string>& routine_factors() {
  static const std::set<std::string> all = [] {
    const Machine host = *find_machine("host");
    std::set<std::string> found;
    const auto add = [&](DType sum, DType a, DType b) {
      GemmKernel kernel = gemm_kernel(host, gemm_math(host, sum, a, b), sum, 0);
      kernel.panels = true;
      KernelContract contract;
      contract.operands = {{a, {Access::strided, Access::unit}}, {b, {Access::strided, Access::strided, Access::unit}}};
      found.insert(factors(contract, kernel));
    };
    for (const DType type :
         {DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz})
      add(DType::f32, type, type);
    for (const DType a : {DType::i8, DType::u8})
      for (const DType b : {DType::i8, DType::u8}) add(DType::i32, a, b);
    return found;
  }();
  return all;
}

// The declaration of such a one, or its definition.
std::string emit_routine(const std::string& factors) {
  return fmt::format("LOW_ROUTINE void gemm_blocked<{}>(const Operands&, unsigned char*, Finish);\n", factors);
}
std::string emit_routines(const std::set<std::string>& all) {
  std::string text = all.empty() ? "" : "#if defined(LOW_ROUTINE)\nnamespace low::device {\n";
  for (const std::string& one : all) text += emit_routine(one);
  return text + (all.empty() ? "" : "}  // namespace low::device\n#endif\n\n");
}

const GemmKernel* gemm_of(const KernelSet& kernels, uint32_t kernel) {
  return kernel < kernels.contracts.size() ? std::get_if<GemmKernel>(&kernels.contracts[kernel].family) : nullptr;
}

std::string emit_family(const KernelContract& contract, const GemmKernel& kernel, const device::Chip* chip) {
  const std::span<const OperandContract> operands = contract.operands;
  const std::span<const OperandContract> extras = operands.subspan(2, operands.size() - 3);
  std::string text;
  if (chip == nullptr) {
    text = fmt::format("  static constexpr int rows = {};\n", kernel.rows.value_or(0));
  } else {
    text = fmt::format(
               "  using A = {};\n"
               "  using B = {};\n"
               "  using Accumulate = {};\n",
               operand_type(operands[0]), operand_type(operands[1]), value_type(kernel.accumulate)) +
           emit_matrix(*chip, contract, kernel);
  }
  return text +
         fmt::format(
             "  using Extras = {};\n"
             "  using Result = {};\n",
             operand_list(extras), operand_type(operands.back())) +
         emit_body(contract, extras, &kernel.accumulate);
}

std::string emit_family(const KernelContract& contract, const PointwiseKernel&) {
  const std::span<const OperandContract> operands = contract.operands;
  const std::span<const OperandContract> inputs = operands.first(operands.size() - 1);
  return fmt::format(
             "  static constexpr int rank = {};\n"
             "  using Inputs = {};\n"
             "  using Result = {};\n",
             iteration_rank(contract), operand_list(inputs), operand_type(operands.back())) +
         emit_body(contract, inputs, nullptr);
}

// The axes, their split into outer and inner ones, and how groups are gone through.
std::string emit_axes(const KernelContract& contract) {
  return fmt::format("  static constexpr int rank = {}, inner = {};\n", iteration_rank(contract), inner_axes(contract));
}
std::string emit_axes(const KernelContract& contract, std::optional<int> columns) {
  return emit_axes(contract) + fmt::format("  static constexpr int columns = {};\n", columns.value_or(-1));
}

std::string_view combine_name(Reduce::Kind kind) {
  switch (kind) {
    case Reduce::Kind::sum:
      return "sum";
    case Reduce::Kind::product:
      return "product";
    case Reduce::Kind::max:
    case Reduce::Kind::index_max:
      return "max";
    case Reduce::Kind::min:
    case Reduce::Kind::index_min:
      break;
  }
  return "min";
}

std::string emit_family(const KernelContract& contract, const ReduceKernel& kernel) {
  const std::span<const OperandContract> operands = contract.operands;
  const std::span<const OperandContract> extras = operands.subspan(1, operands.size() - 2);
  const DType sum = leading_type(contract);
  const std::vector<std::string> input{"x"};
  const std::string map = kernel.map ? emit_expr(*kernel.map, input)
                                     : fmt::format("    return convert<{}>(x);\n", value_type(kernel.accumulate));
  return emit_axes(contract, kernel.columns) +
         fmt::format(
             "  using Accumulate = {};\n"
             "  using Sum = {};\n"
             "  using X = {};\n"
             "  using Extras = {};\n"
             "  using Result = {};\n"
             "  static constexpr Combine kind = Combine::{};\n"
             "  static constexpr bool index = {}, last = {};\n"
             "  static LOW_INLINE {} map({} x) {{\n{}  }}\n",
             value_type(kernel.accumulate), value_type(sum), operand_type(operands[0]), operand_list(extras),
             operand_type(operands.back()), combine_name(kernel.kind), kernel.is_index(), kernel.last,
             value_type(kernel.accumulate), value_type(operands[0].dtype), map) +
         emit_body(contract, extras, &sum);
}

std::string emit_family(const KernelContract& contract, const RowwiseKernel& kernel) {
  const std::span<const OperandContract> operands = contract.operands;
  const std::span<const OperandContract> extras = operands.subspan(1, operands.size() - 2);
  return emit_axes(contract, kernel.columns) +
         fmt::format(
             "  using Accumulate = {};\n"
             "  using X = {};\n"
             "  using Extras = {};\n"
             "  using Result = {};\n"
             "  static constexpr Normalize kind = Normalize::{};\n"
             "  static constexpr f64 epsilon = {:a};\n"
             "  static constexpr bool long_rows = {};\n",
             value_type(kernel.accumulate), operand_type(operands[0]), operand_list(extras),
             operand_type(operands.back()), rowwise_kinds[static_cast<size_t>(kernel.kind)], kernel.epsilon,
             kernel.long_rows) +
         emit_body(contract, extras, &kernel.accumulate);
}

std::string emit_family(const KernelContract& contract, const CumulativeKernel& kernel) {
  return emit_axes(contract, kernel.columns) + fmt::format(
                                                   "  using Accumulate = {};\n"
                                                   "  using X = {};\n"
                                                   "  using Result = {};\n"
                                                   "  static constexpr bool exclusive = {}, reverse = {};\n",
                                                   value_type(kernel.accumulate), operand_type(contract.operands[0]),
                                                   operand_type(contract.operands[1]), kernel.exclusive,
                                                   kernel.reverse);
}

std::string emit_family(const KernelContract& contract, const GatherKernel&) {
  return emit_axes(contract) + fmt::format(
                                   "  using Data = {};\n"
                                   "  using Index = {};\n"
                                   "  using Result = {};\n",
                                   operand_type(contract.operands[0]), operand_type(contract.operands[1]),
                                   operand_type(contract.operands[2]));
}

std::string emit_family(const KernelContract& contract, const ScatterKernel& kernel) {
  std::string text;
  constexpr std::string_view names[] = {"Indices", "Updates", "First", "Data", "Result"};
  for (size_t i = 0; i < contract.operands.size(); ++i)
    text += fmt::format("  using {} = {};\n", names[i], operand_type(contract.operands[i]));
  const std::string_view kind = scatter_kinds[static_cast<size_t>(kernel.kind)];
  const std::string combined = kernel.kind == Scatter::Kind::replace ? "update" : fmt::format("{}(old, update)", kind);
  return text + fmt::format("  static LOW_INLINE auto combine({0} old, {0} update) {{ return {1}; }}\n",
                            value_type(contract.operands.back().dtype), combined);
}

std::string emit_family(const KernelContract& contract, const TopKKernel& kernel) {
  return emit_axes(contract) + fmt::format(
                                   "  using X = {};\n"
                                   "  using Result = {};\n"
                                   "  static constexpr bool smallest = {};\n",
                                   operand_type(contract.operands[0]), operand_type(contract.operands[1]),
                                   kernel.smallest);
}

// A type for an operand that there is not, too.
std::string optional_operand_type(const KernelContract& contract, size_t index) {
  return index > 0 ? operand_type(contract.operands[index]) : "OperandOf<f32, Access::strided, Access::strided>";
}

std::string emit_family(const KernelContract& contract, const AttentionKernel& kernel, const device::Chip* chip) {
  const std::span<const OperandContract> operands = contract.operands;
  const AttentionOperands known = kernel.named_operands();
  const std::span<const OperandContract> extras = operands.subspan(known.extras, operands.size() - known.extras - 1);
  std::string text = fmt::format(
      "  static constexpr i64 d = {}, dv = {};\n"
      "  using Math = {};\n"
      "  using Accumulate = {};\n"
      "  using Q = {};\n"
      "  using K = {};\n"
      "  using V = {};\n"
      "  using Mask = {};\n"
      "  using State = {};\n"
      "  using Extras = {};\n"
      "  using Result = {};\n"
      "  static constexpr int mask = {}, diagonal = {}, state = {}, extras = {};\n"
      "  static constexpr bool bool_mask = {}, partial = {}, empty_is_zero = {};\n"
      "  static constexpr f64 scale = {:a}, softcap = {:a}, masked_score = {};\n",
      kernel.d, kernel.dv, value_type(kernel.math), value_type(kernel.accumulate), operand_type(operands[0]),
      operand_type(operands[1]), operand_type(operands[2]), optional_operand_type(contract, known.mask),
      optional_operand_type(contract, known.state), operand_list(extras), operand_type(operands.back()), known.mask,
      known.diagonal, known.state, known.extras, known.mask > 0 && operands[known.mask].dtype == DType::boolean,
      kernel.partial, kernel.empty_is_zero, kernel.scale, kernel.softcap,
      std::isfinite(kernel.masked_score) ? fmt::format("{:a}", kernel.masked_score) : "-math::infinity_f64");
  text += chip == nullptr ? fmt::format("  static constexpr bool pairs = {};\n", kernel.gains_by_dots(contract))
                          : emit_attention_matrices(*chip, contract, kernel);
  if (!kernel.partial) text += emit_body(contract, extras, &kernel.accumulate);
  return text;
}

// `chip`: null for the host.
std::string emit_contract(const KernelContract& contract, const device::Chip* chip) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { emit_family(contract, kernel, chip); }) {
          return emit_family(contract, kernel, chip);
        } else {
          return emit_family(contract, kernel);
        }
      },
      contract.family);
}

std::string emit_copy(const CopyKernel& copy) {
  return fmt::format(
      "  using Source = {};\n"
      "  using Destination = {};\n"
      "  static constexpr Overflow overflow = Overflow::{};\n",
      storage_type(copy.source), storage_type(copy.destination),
      copy.overflow == Overflow::saturate ? "saturate" : "propagate");
}

std::string_view family_function(const KernelSet& kernels, uint32_t kernel) {
  if (kernel >= kernels.contracts.size()) return "copy";
  return family_name(kernels.contracts[kernel]);
}

// Of a command's record (abi.h).
std::string emit_counts(const KernelSet& kernels, uint32_t kernel) {
  size_t data = abi::max_copy_rank + 2, operands = 2, strides = abi::max_copy_rank;
  if (kernel < kernels.contracts.size()) {
    const KernelContract& contract = kernels.contracts[kernel];
    data = static_cast<size_t>(iteration_rank(contract));
    operands = contract.operands.size();
    strides = 0;
    for (const OperandContract& operand : contract.operands) strides = std::max(strides, operand.access.size());
  }
  return fmt::format("  static constexpr u32 data_count = {}, operand_count = {}, stride_count = {};\n", data, operands,
                     strides);
}

std::string emit_kernel(const KernelSet& kernels, uint32_t kernel, const device::Chip* chip) {
  const GemmKernel* const gemm = chip == nullptr ? gemm_of(kernels, kernel) : nullptr;
  const std::string base = gemm == nullptr ? "" : fmt::format("\n    : {}", factors(kernels.contracts[kernel], *gemm));
  std::string text = fmt::format("struct {}{} {{\n", kernel_name(kernels, kernel), base);
  text += emit_counts(kernels, kernel);
  if (kernel >= kernels.contracts.size()) {
    text += emit_copy(kernels.copies[kernel - kernels.contracts.size()]);
  } else {
    text += emit_contract(kernels.contracts[kernel], chip);
  }
  return text + "};\n\n";
}

std::string emit_entry(const KernelSet& kernels, const CodegenTarget& target, const Machine& machine, size_t entry) {
  const bool everywhere = target.chip != nullptr || gains_by_dots(kernels, entry);
  const uint64_t lds = target.chip == nullptr ? 0 : lds_bytes(*target.chip, kernels, entry);
  std::string text = everywhere ? "" : fmt::format("#ifndef {}\n", without_other_entries);
  text += fmt::format(fmt::runtime(target.kind->source->entry_head), entry, machine.tiles, machine.clusters, lds) +
          "  run_tile(launch, tile, [&](CommandPointer command) __attribute__((always_inline)) {\n"
          "    switch (command->kernel) {\n";
  for (const uint32_t kernel : kernels.entries[entry]) {
    text += fmt::format("      case {}: {}<{}>(launch, command, scratch); break;\n", kernel,
                        family_function(kernels, kernel), kernel_name(kernels, kernel));
  }
  return text +
         "      default: break;\n"
         "    }\n"
         "  });\n"
         "}\n" +
         (everywhere ? "\n" : "#endif\n\n");
}

// Headers of the device library in one text: each once, behind those that it includes, without includes and include
// guards.
class Headers {
 public:
  void add(std::string_view path) {
    const auto header = std::ranges::find(device_library(), path, &DeviceHeader::path);
    LOW_CHECK(header != device_library().end());
    if (!added_.insert(header->path).second) return;
    constexpr std::string_view include = "#include \"";
    std::string own = fmt::format("// ---- {} ----\n", header->path);
    std::string_view rest = header->text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.starts_with(include)) {
        add(line.substr(include.size(), line.find('"', include.size()) - include.size()));
      } else if (line != "#pragma once") {
        own += line;
        own += '\n';
      }
    }
    text_ += own + '\n';
  }

  std::string text() && { return std::move(text_); }

 private:
  std::set<std::string_view> added_;
  std::string text_;
};

}  // namespace

std::string emit_routines(std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  LOW_CHECK(known != nullptr);
  Headers headers;
  headers.add(fmt::format("{}gemm.h", known->kind->source->kernels));
  return std::move(headers).text() + emit_routines(routine_factors());
}

bool dots_are_routines(const KernelSet& kernels) {
  return std::ranges::all_of(kernels.contracts, [](const KernelContract& contract) {
    if (!gains_by_dots(contract)) return true;
    const auto* const gemm = std::get_if<GemmKernel>(&contract.family);
    return gemm != nullptr && !gemm->rows && routine_factors().contains(factors(contract, *gemm));
  });
}

std::string emit_source(const KernelSet& kernels, std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  LOW_CHECK(known != nullptr);
  std::string text =
      "// Kernels of one compiled model: the kernel library, then a description of each kernel, then the entry "
      "points.\n\n";
  const auto count = static_cast<uint32_t>(kernels.contracts.size() + kernels.copies.size());
  const SourceKind& kind = *known->kind->source;
  Headers headers;
  headers.add(kind.entry_header);
  std::set<std::string_view> families;
  for (uint32_t kernel = 0; kernel < count; ++kernel) families.insert(family_function(kernels, kernel));
  for (const std::string_view family : families) headers.add(fmt::format("{}{}.h", kind.kernels, family));
  text += kind.begin;
  text += std::move(headers).text();
  text += "// ---- kernels ----\n";
  std::set<std::string> routines;
  for (uint32_t kernel = 0; kind.routines && kernel < count; ++kernel) {
    if (const GemmKernel* const gemm = gemm_of(kernels, kernel))
      if (const std::string own = factors(kernels.contracts[kernel], *gemm); routine_factors().contains(own))
        routines.insert(own);
  }
  text += emit_routines(routines);
  text += "namespace low::device {\nnamespace {\n\n";
  for (uint32_t kernel = 0; kernel < count; ++kernel) text += emit_kernel(kernels, kernel, known->chip);
  text += fmt::format("}}  // namespace\n}}  // namespace low::device\n\n{}// ---- entry points ----\n", kind.end);
  for (size_t entry = 0; entry < kernels.entries.size(); ++entry)
    text += emit_entry(kernels, *known, machine_of(*known), entry);
  return text;
}

}  // namespace low
