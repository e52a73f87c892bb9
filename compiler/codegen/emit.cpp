#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/device_library.h"
#include "compiler/codegen/emit_expr.h"

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

std::string emit_gemm(const KernelContract& contract) {
  const std::span<const OperandContract> operands = contract.operands;
  const std::span<const OperandContract> extras = operands.subspan(2, operands.size() - 3);
  return fmt::format(
             "  static constexpr i64 m = {}, n = {}, k = {};\n"
             "  using Math = {};\n"
             "  using Accumulate = {};\n"
             "  using A = {};\n"
             "  using B = {};\n"
             "  using Extras = {};\n"
             "  using Result = {};\n",
             contract.extents[0], contract.extents[1], contract.extents[2], value_type(contract.math),
             value_type(contract.accumulate), operand_type(operands[0]), operand_type(operands[1]),
             operand_list(extras), operand_type(operands.back())) +
         emit_body(contract, extras, &contract.accumulate);
}

std::string emit_pointwise(const KernelContract& contract) {
  const std::span<const OperandContract> operands = contract.operands;
  const std::span<const OperandContract> inputs = operands.first(operands.size() - 1);
  return fmt::format(
             "  static constexpr int rank = {};\n"
             "  static constexpr i64 extents[rank] = {{{}}};\n"
             "  using Inputs = {};\n"
             "  using Result = {};\n",
             contract.extents.rank(), fmt::join(contract.extents, ", "), operand_list(inputs),
             operand_type(operands.back())) +
         emit_body(contract, inputs, nullptr);
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
  return kernels.contracts[kernel].family == Family::gemm ? "gemm" : "pointwise";
}

std::string emit_kernel(const KernelSet& kernels, uint32_t kernel) {
  std::string text = fmt::format("struct {} {{\n", kernel_name(kernels, kernel));
  if (kernel >= kernels.contracts.size()) {
    text += emit_copy(kernels.copies[kernel - kernels.contracts.size()]);
  } else {
    const KernelContract& contract = kernels.contracts[kernel];
    text += contract.family == Family::gemm ? emit_gemm(contract) : emit_pointwise(contract);
  }
  return text + "};\n\n";
}

std::string emit_entry(const KernelSet& kernels, size_t entry) {
  std::string text = fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) void low_entry_{}(const low::abi::Launch* launch, "
      "uint32_t tile,\n"
      "                                                                     unsigned char* scratch) {{\n"
      "  using namespace low::device;\n"
      "  const bool sampled = launch->samples != nullptr;\n"
      "  const uint64_t begin = sampled ? ticks() : 0;\n"
      "  for (uint32_t i = launch->tile_begin[tile]; i != launch->tile_begin[tile + 1]; ++i) {{\n"
      "    const low::abi::Command& command = launch->commands[i];\n"
      "    switch (command.kernel) {{\n",
      entry);
  for (const uint32_t kernel : kernels.entries[entry]) {
    text += fmt::format("      case {}: {}<{}>(*launch, command, scratch); break;\n", kernel,
                        family_function(kernels, kernel), kernel_name(kernels, kernel));
  }
  return text +
         "      default: break;\n"
         "    }\n"
         "  }\n"
         "  if (sampled) launch->samples[tile] = {begin, ticks()};\n"
         "}\n\n";
}

// Without includes and include guards: all is one file.
void append_header(std::string& text, const DeviceHeader& header) {
  text += fmt::format("// ---- {} ----\n", header.path);
  std::string_view rest = header.text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.starts_with("#include \"") || line == "#pragma once") continue;
    text += line;
    text += '\n';
  }
  text += '\n';
}

}  // namespace

std::string emit_source(const KernelSet& kernels) {
  std::string text =
      "// Kernels of one compiled model: the kernel library, then a description of each kernel, then the entry "
      "points.\n\n";
  for (const DeviceHeader& header : device_library()) append_header(text, header);
  text += "// ---- kernels ----\nnamespace low::device {\nnamespace {\n\n";
  for (size_t kernel = 0; kernel < kernels.contracts.size() + kernels.copies.size(); ++kernel) {
    text += emit_kernel(kernels, static_cast<uint32_t>(kernel));
  }
  text += "}  // namespace\n}  // namespace low::device\n\n// ---- entry points ----\n";
  for (size_t entry = 0; entry < kernels.entries.size(); ++entry) text += emit_entry(kernels, entry);
  return text;
}

}  // namespace low
