// What kernels for GPUs have that those of the host have not: matrix instructions, with configurations, and LDS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/codegen.h"
#include "compiler/kernels/data/gemm_amd.h"
#include "compiler/kernels/data/groups_amd.h"

namespace low {

// The instruction that multiplies for a gemm, and what the operands' elements are made for it.
struct MatrixChoice {
  device::MatrixFormat a, b;
  DType math_a, math_b;
};
// Nothing: the chip has none for these.
std::optional<MatrixChoice> matrix_choice(const device::Chip& chip, const KernelContract& contract,
                                          const GemmKernel& kernel);

// What the chip's matrix instructions multiply, as they are.
std::vector<DType> matrix_dtypes(const device::Chip& chip);

const device::GemmConfiguration& configuration_of(const GemmKernel& kernel);

// Members of a gemm's struct: RoundedA, RoundedB, instruction, and where there is one MathA, MathB, configuration.
std::string emit_matrix(const device::Chip& chip, const KernelContract& contract, const GemmKernel& kernel);

// The same of an attention's: scores, values, and where there are such instructions ScoreMath, ValueMath, configuration.
std::string emit_attention_matrices(const device::Chip& chip, const KernelContract& contract,
                                    const AttentionKernel& kernel);

// "gemm fp8*fp8 16x16x32, blocks of 128x128, 2x2 waves", "rowwise": how a kernel goes about its work on the chip, for
// people.
std::string configuration_text(const device::Chip& chip, const KernelContract& contract);
// Whether it uses matrix instructions there.
bool uses_matrices(const device::Chip& chip, const KernelContract& contract);

// Of LDS that an entry point of the chip needs, at least 16.
uint64_t lds_bytes(const device::Chip& chip, const KernelSet& kernels, size_t entry);

}  // namespace low
