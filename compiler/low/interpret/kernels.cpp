#include "compiler/low/interpret/kernels.h"

namespace low {
namespace {

uint64_t sign_extended(DType dtype, uint64_t bits) {
  if (!is_signed_integer(dtype)) return bits;
  const int shift = 64 - 8 * static_cast<int>(byte_size(dtype));
  return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
}

uint64_t truncated(DType dtype, uint64_t bits) {
  const size_t bytes = byte_size(dtype);
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

// Sums over k of a[m, k] * b[k, n], in order of k. T is double, or uint64_t, whose arithmetic wraps.
template <typename T>
std::vector<T> products(const Shape& extents, std::span<const T> a, std::span<const T> b) {
  const auto m = static_cast<size_t>(extents[0]), n = static_cast<size_t>(extents[1]),
             k = static_cast<size_t>(extents[2]);
  std::vector<T> sums(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t p = 0; p < k; ++p) {
      for (size_t j = 0; j < n; ++j) sums[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return sums;
}

std::vector<uint64_t> accumulators(const KernelContract& contract, std::span<const std::vector<uint64_t>> operands) {
  const Converter convert_a(contract.operands[0].dtype, contract.math, Overflow::propagate);
  const Converter convert_b(contract.operands[1].dtype, contract.math, Overflow::propagate);
  std::vector<uint64_t> result;
  if (is_float(contract.math)) {
    std::vector<double> a, b;
    for (const uint64_t bits : operands[0]) a.push_back(decode(contract.math, convert_a(bits)));
    for (const uint64_t bits : operands[1]) b.push_back(decode(contract.math, convert_b(bits)));
    for (const double sum : products<double>(contract.extents, a, b)) {
      result.push_back(encode(contract.accumulate, sum, Overflow::propagate));
    }
    return result;
  }
  std::vector<uint64_t> a, b;
  for (const uint64_t bits : operands[0]) a.push_back(sign_extended(contract.math, convert_a(bits)));
  for (const uint64_t bits : operands[1]) b.push_back(sign_extended(contract.math, convert_b(bits)));
  for (const uint64_t sum : products<uint64_t>(contract.extents, a, b))
    result.push_back(truncated(contract.accumulate, sum));
  return result;
}

}  // namespace

Converter::Converter(DType from, DType to, Overflow overflow) : identity_(from == to) {
  if (identity_) return;
  expr_.inputs = 1;
  expr_.nodes.resize(2);
  expr_.nodes[0].dtype = from;
  expr_.nodes[1].op = ExprOp::convert;
  expr_.nodes[1].dtype = to;
  expr_.nodes[1].overflow = overflow;
  if (byte_size(from) != 1) return;
  for (uint64_t bits = 0; bits < 256; ++bits) table_.push_back(evaluate(expr_, std::span(&bits, 1)));
}

uint64_t Converter::operator()(uint64_t bits) const {
  if (identity_) return bits;
  return table_.empty() ? evaluate(expr_, std::span(&bits, 1)) : table_[bits];
}

std::vector<uint64_t> run_kernel(const KernelContract& contract, std::span<const std::vector<uint64_t>> operands) {
  const bool gemm = contract.family == Family::gemm;
  std::vector<uint64_t> sums;
  std::vector<const std::vector<uint64_t>*> inputs;
  if (gemm) {
    sums = accumulators(contract, operands);
    inputs.push_back(&sums);
  }
  for (size_t i = gemm ? 2 : 0; i < operands.size(); ++i) inputs.push_back(&operands[i]);
  const int64_t count = gemm ? contract.extents[0] * contract.extents[1] : contract.extents.elements();
  std::vector<uint64_t> result(static_cast<size_t>(count)), element(inputs.size());
  for (size_t i = 0; i < result.size(); ++i) {
    for (size_t j = 0; j < inputs.size(); ++j) element[j] = (*inputs[j])[i];
    result[i] = evaluate(contract.expr, element);
  }
  return result;
}

}  // namespace low
