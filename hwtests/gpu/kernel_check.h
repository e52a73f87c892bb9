// A kernel of a contract's on one target, against the interpreter.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "compiler/codegen/test_kernels.h"
#include "compiler/interpret/kernels.h"

namespace low::hwtests {

// Strides that the contract's access allows, of rows that begin at multiples of 64 elements.
inline Strides strides_for(const OperandContract& operand, const Shape& extents) {
  Strides strides = extents;
  for (int axis = 0; axis < extents.rank(); ++axis) strides[axis] = 0;
  int64_t next = 64;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    if (operand.access[static_cast<size_t>(axis)] != Access::unit) continue;
    strides[axis] = 1;
    next = (extents[axis] + 127) / 64 * 64;
  }
  for (int axis = extents.rank() - 1; axis >= 0; --axis) {
    if (operand.access[static_cast<size_t>(axis)] != Access::strided) continue;
    strides[axis] = next;
    next *= std::max<int64_t>(extents[axis], 1);
  }
  return strides;
}

// Of a result's own size, and of the largest there is: what a rounding of it is, on the way or at its end, or of what it
// was summed from.
inline double tolerance(const KernelContract& contract) {
  if (contract.is<AttentionKernel>()) return 0x1p-7;
  double largest = 0x1p-16;  // of f32 and f64
  const auto round_to = [&](DType type) {
    const double step = type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : is_fp8(type) ? 0x1p-2 : 0;
    largest = std::max(largest, step);
  };
  round_to(contract.operands.back().dtype);
  for (const ExprNode& node : contract.expr.nodes)
    if (node.op == ExprOp::convert) round_to(node.dtype);
  return largest;
}

struct KernelSetup {
  std::optional<int64_t> diagonal = {};  // of causal attention, instead of one by chance
  std::optional<size_t> in_place = {};   // the operand in whose place the result lies
  bool prints = true;                    // what the target finds, to stderr
};

// What is wrong with kernel `number` of the code, in one run; empty: nothing. Not for gather and scatter, whose indices
// would have to be chosen.
inline std::string kernel_problem(const testing::Code& code, const KernelContract& contract, uint32_t number,
                                  const Shape& extents, const KernelSetup& setup = {}) {
  if (std::string problem = run_problem(contract, extents); !problem.empty()) return problem;
  if (contract.is<GatherKernel>() || contract.is<ScatterKernel>()) return "indices are not chosen";
  std::mt19937_64 random(number + 1);
  testing::Memory memory;
  memory.prints = setup.prints;
  std::vector<testing::Operand> operands;
  std::vector<std::vector<uint64_t>> values;
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const Shape shape = operand_extents(contract, extents, i);
    const DType type = contract.operands[i].dtype;
    const bool last = i + 1 == contract.operands.size();
    operands.push_back(last && setup.in_place ? operands[*setup.in_place]
                                              : memory.add(type, shape, strides_for(contract.operands[i], shape)));
    if (last) break;
    std::vector<uint64_t> elements = testing::small_values(type, shape.elements(), random);
    if (type == DType::i32 && contract.is<AttentionKernel>() && setup.diagonal)
      elements.assign(1, static_cast<uint32_t>(*setup.diagonal));
    memory.write(operands[i], elements);
    values.push_back(memory.read(operands[i]));
  }
  if (!memory.run(code, number, operands)) return "the target found something, or bytes outside of the result changed";
  const std::vector<uint64_t> got = memory.read(operands.back()), want = run_kernel(contract, extents, values);
  LOW_CHECK(got.size() == want.size());
  const DType type = contract.operands.back().dtype;
  const auto number_of = [&](uint64_t bits) {
    return is_float(type) ? decode(type, bits) : static_cast<double>(static_cast<int64_t>(bits));
  };
  double largest = 0;
  for (const uint64_t bits : want)
    if (const double value = std::abs(number_of(bits)); std::isfinite(value)) largest = std::max(largest, value);
  for (size_t i = 0; i < got.size(); ++i) {
    const double have = number_of(got[i]), expected = number_of(want[i]);
    if (have == expected || (std::isnan(expected) && std::isnan(have))) continue;
    const double size = contract.is<AttentionKernel>() ? largest : std::max(std::abs(expected), largest / 256);
    const double most = is_float(type) ? tolerance(contract) * size : 1;
    if (!(std::abs(have - expected) <= most)) return fmt::format("element {} is {} instead of {}", i, have, expected);
  }
  return "";
}

}  // namespace low::hwtests
