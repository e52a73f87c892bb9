#include "compiler/interpret/kernels.h"

#include <algorithm>
#include <cmath>

#include "compiler/interpret/attention.h"
#include "compiler/interpret/groups.h"

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

// An element of a scatter's result, `old` before, after an update.
uint64_t updated(Scatter::Kind kind, DType type, uint64_t old, uint64_t update) {
  if (kind == Scatter::Kind::replace) return update;
  const bool sum = kind == Scatter::Kind::add, product = kind == Scatter::Kind::mul, most = kind == Scatter::Kind::max;
  if (is_float(type)) {
    const double a = decode(type, old), b = decode(type, update);
    if (sum || product) return encode(type, sum ? a + b : a * b, Overflow::propagate);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? old : update;
    return (most ? b > a : b < a) ? update : old;
  }
  const uint64_t a = sign_extended(type, old), b = sign_extended(type, update);
  if (sum || product) return truncated(type, sum ? a + b : a * b);
  const bool less = is_signed_integer(type) ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  return most == less ? update : old;
}

using Operands = std::span<const std::vector<uint64_t>>;

// Those of the other families are in groups.h and attention.h.
std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const GemmKernel& kernel,
                              Operands operands) {
  if (kernel.panels) {
    KernelContract plain = contract;
    plain.get<GemmKernel>().panels = false;
    constexpr size_t panel = device::panel_columns;
    const auto n = static_cast<size_t>(extents[1]), k = static_cast<size_t>(extents[2]);
    std::vector<std::vector<uint64_t>> matrices = {operands[0], std::vector<uint64_t>(k * n)};
    for (size_t p = 0; p < k; ++p)
      for (size_t j = 0; j < n; ++j) matrices[1][p * n + j] = operands[1][(j / panel * k + p) * panel + j % panel];
    return leading(plain, extents, plain.get<GemmKernel>(), matrices);
  }
  const Converter convert_a(contract.operands[0].dtype, kernel.math_a, Overflow::propagate);
  const Converter convert_b(contract.operands[1].dtype, kernel.math_b, Overflow::propagate);
  std::vector<uint64_t> result;
  if (is_float(kernel.math_a)) {
    std::vector<double> a, b;
    for (const uint64_t bits : operands[0]) a.push_back(decode(kernel.math_a, convert_a(bits)));
    for (const uint64_t bits : operands[1]) b.push_back(decode(kernel.math_b, convert_b(bits)));
    for (const double sum : products<double>(extents, a, b)) {
      result.push_back(encode(kernel.accumulate, sum, Overflow::propagate));
    }
    return result;
  }
  std::vector<uint64_t> a, b;
  for (const uint64_t bits : operands[0]) a.push_back(sign_extended(kernel.math_a, convert_a(bits)));
  for (const uint64_t bits : operands[1]) b.push_back(sign_extended(kernel.math_b, convert_b(bits)));
  for (const uint64_t sum : products<uint64_t>(extents, a, b)) result.push_back(truncated(kernel.accumulate, sum));
  return result;
}

std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const ScatterKernel& kernel,
                              Operands operands) {
  const auto rows = static_cast<uint64_t>(extents[1]);
  const auto columns = static_cast<size_t>(extents[2]);
  const DType index_type = contract.operands[0].dtype, type = contract.operands[4].dtype;
  std::vector<uint64_t> result = operands[3];
  for (size_t i = 0; i < operands[0].size(); ++i) {
    const uint64_t row = sign_extended(index_type, operands[0][i]) - operands[2][0];
    if (row >= rows) continue;
    for (size_t j = 0; j < columns; ++j) {
      uint64_t& element = result[row * columns + j];
      element = updated(kernel.kind, type, element, operands[1][i * columns + j]);
    }
  }
  return result;
}
std::vector<uint64_t> leading(const KernelContract&, const Shape&, const PointwiseKernel&, Operands) { return {}; }
std::vector<uint64_t> leading(const KernelContract&, const Shape&, const GatherKernel&, Operands) { return {}; }

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

std::vector<uint64_t> run_kernel(const KernelContract& contract, const Shape& extents,
                                 std::span<const std::vector<uint64_t>> operands) {
  std::vector<uint64_t> first =
      std::visit([&](const auto& kernel) { return leading(contract, extents, kernel, operands); }, contract.family);
  if (contract.expr.nodes.empty()) return first;
  std::vector<const std::vector<uint64_t>*> inputs;
  const ExprOperands expr = expr_operands(contract);
  if (expr.leading > 0) inputs.push_back(&first);
  for (size_t i = expr.first; i < operands.size(); ++i) inputs.push_back(&operands[i]);
  const int64_t count = operand_extents(contract, extents, contract.operands.size() - 1).elements();
  std::vector<uint64_t> result(static_cast<size_t>(count)), element(inputs.size());
  for (size_t i = 0; i < result.size(); ++i) {
    for (size_t j = 0; j < inputs.size(); ++j) element[j] = (*inputs[j])[i];
    result[i] = evaluate(contract.expr, element);
  }
  return result;
}

int64_t gathered_element(const KernelContract& contract, const Shape& extents, const Geometry& data,
                         int64_t result_element, std::span<const uint64_t> indices) {
  const Shape outer = outer_extents(contract, extents);
  const DType dtype = contract.operands[1].dtype;
  const int inner = inner_axes(contract);
  int64_t element = 0, rest = result_element;
  for (int axis = outer.rank() - 1; axis >= 0; --axis) {
    if (contract.operands[0].access[static_cast<size_t>(axis)] != Access::broadcast)
      element += rest % outer[axis] * data.strides[axis];
    rest /= outer[axis];
  }
  for (int i = 0; i < inner; ++i) {
    const int axis = outer.rank() + i;
    const int64_t extent = extents[axis];
    const uint64_t bits = indices[static_cast<size_t>(result_element * inner + i)];
    auto index = static_cast<int64_t>(sign_extended(dtype, bits));
    if (index < 0) index += extent;
    element += std::clamp<int64_t>(index, 0, extent - 1) * data.strides[axis];
  }
  return element;
}

}  // namespace low
