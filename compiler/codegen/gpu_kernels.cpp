#include "compiler/codegen/gpu_kernels.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "compiler/codegen/emit_expr.h"

namespace low {
namespace {

using device::Fp8;
using device::MatrixFormat;

constexpr std::array<std::string_view, 7> format_names = {"fp8", "bf8", "f16", "bf16", "f32", "f64", "i8"};

// How the chip's instructions know a dtype.
std::optional<MatrixFormat> format_of(const device::Chip& chip, DType type) {
  switch (type) {
    case DType::f8e4m3fn:
      return chip.fp8 == Fp8::ocp ? std::optional(MatrixFormat::fp8) : std::nullopt;
    case DType::f8e5m2:
      return chip.fp8 == Fp8::ocp ? std::optional(MatrixFormat::bf8) : std::nullopt;
    case DType::f8e4m3fnuz:
      return chip.fp8 == Fp8::fnuz ? std::optional(MatrixFormat::fp8) : std::nullopt;
    case DType::f8e5m2fnuz:
      return chip.fp8 == Fp8::fnuz ? std::optional(MatrixFormat::bf8) : std::nullopt;
    case DType::f16:
      return MatrixFormat::f16;
    case DType::bf16:
      return MatrixFormat::bf16;
    case DType::f32:
      return MatrixFormat::f32;
    case DType::i8:
      return MatrixFormat::i8;
    default:
      return std::nullopt;
  }
}

std::optional<MatrixChoice> choice_of(const device::Chip& chip, DType a, DType b) {
  const auto format_a = format_of(chip, a), format_b = format_of(chip, b);
  if (!format_a || !format_b || matrix_for(chip, *format_a, *format_b).lanes == 0) return std::nullopt;
  return MatrixChoice{*format_a, *format_b, a, b};
}

}  // namespace

std::optional<MatrixChoice> matrix_choice(const device::Chip& chip, const KernelContract& contract,
                                          const GemmKernel& kernel) {
  if (kernel.accumulate == DType::i32 || kernel.accumulate == DType::u32) {
    const DType a = contract.operands[0].dtype, b = contract.operands[1].dtype;
    return a == DType::i8 && b == DType::i8 ? choice_of(chip, a, b) : std::nullopt;
  }
  if (kernel.accumulate != DType::f32) return std::nullopt;
  if (auto choice = choice_of(chip, kernel.math_a, kernel.math_b)) return choice;
  // bf16 holds all values of FP8 formats.
  const auto fits = [](DType type) { return type == DType::bf16 || is_fp8(type); };
  if (fits(kernel.math_a) && fits(kernel.math_b)) return choice_of(chip, DType::bf16, DType::bf16);
  return std::nullopt;
}

const device::GemmConfiguration& configuration_of(const GemmKernel& kernel) {
  return device::gemm_configurations_amd[static_cast<size_t>(kernel.configuration.value_or(0))];
}

std::string emit_matrix(const device::Chip& chip, const KernelContract& contract, const GemmKernel& kernel) {
  const std::optional<MatrixChoice> choice = matrix_choice(chip, contract, kernel);
  const std::string rounding = fmt::format(
      "  using RoundedA = {};\n"
      "  using RoundedB = {};\n",
      value_type(kernel.math_a), value_type(kernel.math_b));
  if (!choice) {
    return fmt::format(
        "{}"
        "  static constexpr MatrixInstruction instruction{{}};\n",
        rounding);
  }
  const device::GemmConfiguration& configuration = configuration_of(kernel);
  return rounding + fmt::format(
                        "  using MathA = {};\n"
                        "  using MathB = {};\n"
                        "  static constexpr MatrixInstruction instruction =\n"
                        "      matrix_for({}, MatrixFormat::{}, MatrixFormat::{});\n"
                        "  static constexpr GemmConfiguration configuration{{\n"
                        "      .block_m = {}, .block_n = {}, .waves_m = {}, .waves_n = {}, .step_bytes = {}}};\n",
                        value_type(choice->math_a), value_type(choice->math_b), chip.target,
                        format_names[static_cast<size_t>(choice->a)], format_names[static_cast<size_t>(choice->b)],
                        configuration.block_m, configuration.block_n, configuration.waves_m, configuration.waves_n,
                        configuration.step_bytes);
}

uint64_t lds_bytes(const device::Chip& chip, const KernelSet& kernels, size_t entry) {
  uint64_t bytes = 16;
  for (const uint32_t index : kernels.entries[entry]) {
    if (index >= kernels.contracts.size()) continue;
    const KernelContract& contract = kernels.contracts[index];
    const auto* const gemm = contract.as<GemmKernel>();
    if (gemm != nullptr && matrix_choice(chip, contract, *gemm))
      bytes = std::max<uint64_t>(bytes, static_cast<uint64_t>(gemm_lds_bytes(configuration_of(*gemm))));
  }
  return bytes;
}

}  // namespace low
