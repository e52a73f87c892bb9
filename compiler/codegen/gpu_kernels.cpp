#include "compiler/codegen/gpu_kernels.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "compiler/codegen/emit_expr.h"
#include "compiler/kernels/data/attention_amd.h"

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

std::string matrix_text(const device::Chip& chip, const MatrixChoice& choice) {
  return fmt::format("matrix_for({}, MatrixFormat::{}, MatrixFormat::{})", chip.target,
                     format_names[static_cast<size_t>(choice.a)], format_names[static_cast<size_t>(choice.b)]);
}

// Of products that are summed in f32.
std::optional<MatrixChoice> floats_choice(const device::Chip& chip, DType a, DType b) {
  if (auto choice = choice_of(chip, a, b)) return choice;
  // bf16 holds all values of FP8 formats.
  const auto fits = [](DType type) { return type == DType::bf16 || is_fp8(type); };
  if (fits(a) && fits(b)) return choice_of(chip, DType::bf16, DType::bf16);
  return std::nullopt;
}

}  // namespace

std::optional<MatrixChoice> matrix_choice(const device::Chip& chip, const KernelContract& contract,
                                          const GemmKernel& kernel) {
  if (kernel.accumulate == DType::i32 || kernel.accumulate == DType::u32) {
    const DType a = contract.operands[0].dtype, b = contract.operands[1].dtype;
    return a == DType::i8 && b == DType::i8 ? choice_of(chip, a, b) : std::nullopt;
  }
  if (kernel.accumulate != DType::f32) return std::nullopt;
  return floats_choice(chip, kernel.math_a, kernel.math_b);
}

std::vector<DType> matrix_dtypes(const device::Chip& chip) {
  std::vector<DType> types;
  for (int i = 0; i < dtype_count; ++i)
    if (const auto type = static_cast<DType>(i); choice_of(chip, type, type)) types.push_back(type);
  return types;
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
  const device::GemmConfiguration configuration = for_chip(configuration_of(kernel), chip);
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

namespace {

// How the two products of attention are computed; nothing: the plain way.
struct AttentionChoice {
  MatrixChoice scores, values;
  device::AttentionConfiguration configuration;
};
std::optional<AttentionChoice> attention_choice(const device::Chip& chip, const KernelContract& contract,
                                                const AttentionKernel& kernel) {
  if (kernel.accumulate != DType::f32) return std::nullopt;
  const auto scores = floats_choice(chip, kernel.math, kernel.math);
  // p lies between 0 and 1, where f16 has more digits than bf16; it holds all values of E4M3.
  const DType v = contract.operands[2].dtype;
  const DType value = v == DType::f8e4m3fn || v == DType::f8e4m3fnuz ? DType::f16
                      : is_fp8(kernel.math)                          ? DType::bf16
                                                                     : kernel.math;
  const auto values = choice_of(chip, value, value);
  if (!scores || !values) return std::nullopt;
  const device::AttentionConfiguration configuration = attention_configuration(
      chip, matrix_for(chip, scores->a, scores->b), matrix_for(chip, values->a, values->b), kernel.d, kernel.dv,
      static_cast<int>(byte_size(scores->math_a)), static_cast<int>(byte_size(value)));
  if (configuration.keys == 0) return std::nullopt;
  return AttentionChoice{*scores, *values, configuration};
}

}  // namespace

std::string emit_attention_matrices(const device::Chip& chip, const KernelContract& contract,
                                    const AttentionKernel& kernel) {
  const auto choice = attention_choice(chip, contract, kernel);
  if (!choice) return "  static constexpr MatrixInstruction scores{}, values{};\n";
  const device::AttentionConfiguration& one = choice->configuration;
  return fmt::format(
      "  using ScoreMath = {};\n"
      "  using ValueMath = {};\n"
      "  static constexpr MatrixInstruction scores = {};\n"
      "  static constexpr MatrixInstruction values = {};\n"
      "  static constexpr AttentionConfiguration configuration{{\n"
      "      .keys = {}, .d = {}, .dv = {}, .score_bytes = {}, .value_bytes = {}}};\n",
      value_type(choice->scores.math_a), value_type(choice->values.math_a), matrix_text(chip, choice->scores),
      matrix_text(chip, choice->values), one.keys, one.d, one.dv, one.score_bytes, one.value_bytes);
}

std::string configuration_text(const device::Chip& chip, const KernelContract& contract) {
  const auto product = [&](const MatrixChoice& choice) {
    const device::MatrixInstruction row = matrix_for(chip, choice.a, choice.b);
    return fmt::format("{}*{} {}x{}x{}", format_names[static_cast<size_t>(choice.a)],
                       format_names[static_cast<size_t>(choice.b)], row.m, row.n, row.k);
  };
  std::string text(family_name(contract));
  if (const auto* const gemm = contract.as<GemmKernel>()) {
    const auto choice = matrix_choice(chip, contract, *gemm);
    if (!choice) return text + ", elements in turn";
    const device::GemmConfiguration one = for_chip(configuration_of(*gemm), chip);
    return text + fmt::format(" {}, blocks of {}x{}, {}x{} waves", product(*choice), one.block_m, one.block_n,
                              one.waves_m, one.waves_n);
  }
  if (const auto* const attention = contract.as<AttentionKernel>()) {
    const auto choice = attention_choice(chip, contract, *attention);
    if (!choice) return text + ", rows in turn";
    return text + fmt::format(" {} and {}, {} keys, heads of {} and {}", product(choice->scores),
                              product(choice->values), choice->configuration.keys, attention->d, attention->dv);
  }
  return text;
}

bool uses_matrices(const device::Chip& chip, const KernelContract& contract) {
  if (const auto* const gemm = contract.as<GemmKernel>()) return matrix_choice(chip, contract, *gemm).has_value();
  const auto* const attention = contract.as<AttentionKernel>();
  return attention != nullptr && attention_choice(chip, contract, *attention).has_value();
}

uint64_t lds_bytes(const device::Chip& chip, const KernelSet& kernels, size_t entry) {
  uint64_t bytes = 16;
  for (const uint32_t index : kernels.entries[entry]) {
    if (index >= kernels.contracts.size()) continue;
    const KernelContract& contract = kernels.contracts[index];
    if (const auto* const attention = contract.as<AttentionKernel>()) {
      const auto choice = attention_choice(chip, contract, *attention);
      bytes = std::max(bytes, choice ? static_cast<uint64_t>(attention_lds_bytes(chip, choice->configuration))
                                     : device::workgroup_lanes * sizeof(double));
    }
    if (contract.is<ReduceKernel>() || contract.is<RowwiseKernel>() || contract.is<TopKKernel>() ||
        contract.is<ScatterKernel>())
      bytes = std::max<uint64_t>(bytes, device::group_lds_bytes);
    const auto* const gemm = contract.as<GemmKernel>();
    if (gemm != nullptr && matrix_choice(chip, contract, *gemm))
      bytes = std::max<uint64_t>(bytes, static_cast<uint64_t>(gemm_lds_bytes(configuration_of(*gemm))));
  }
  return bytes;
}

}  // namespace low
