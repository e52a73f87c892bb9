#include "compiler/interpret/attention.h"

#include <cmath>
#include <limits>

#include "compiler/interpret/kernels.h"

namespace low {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Values of an operand that is multiplied, rounded to `math`.
std::vector<double> factors(DType dtype, DType math, std::span<const uint64_t> elements) {
  const Converter convert(dtype, math, Overflow::propagate);
  std::vector<double> values;
  values.reserve(elements.size());
  for (const uint64_t bits : elements) values.push_back(decode(math, convert(bits)));
  return values;
}

// One row's o, l and m, as in the comment of Family::attention.
struct Row {
  std::vector<double> o;
  double m = -infinity, l = 0;
};

class Attended {
 public:
  Attended(const KernelContract& contract, const Shape& extents, const AttentionKernel& kernel,
           std::span<const std::vector<uint64_t>> operands)
      : contract_(contract),
        kernel_(kernel),
        operands_(operands),
        known_(kernel.named_operands()),
        m_(static_cast<size_t>(extents[0])),
        n_(static_cast<size_t>(extents[1])),
        d_(static_cast<size_t>(kernel.d)),
        dv_(static_cast<size_t>(kernel.dv)),
        q_(factors(contract.operands[0].dtype, kernel.math, operands[0])),
        k_(factors(contract.operands[1].dtype, kernel.math, operands[1])),
        v_(factors(contract.operands[2].dtype, kernel.math, operands[2])) {}

  std::vector<uint64_t> result() const {
    std::vector<uint64_t> elements;
    const auto append = [&](double value) {
      elements.push_back(encode(kernel_.accumulate, value, Overflow::propagate));
    };
    for (size_t i = 0; i < m_; ++i) {
      const Row row = attend(i);
      const bool zero = row.l == 0 && kernel_.empty_is_zero;
      for (const double value : row.o) append(kernel_.partial ? value : zero ? 0 : value / row.l);
      if (!kernel_.partial) continue;
      append(row.m);
      append(row.l);
    }
    return elements;
  }

 private:
  double score(size_t i, size_t j) const {
    if (kernel_.causal) {
      const auto diagonal = static_cast<int32_t>(static_cast<uint32_t>(operands_[known_.diagonal][0]));
      if (static_cast<int64_t>(j) > static_cast<int64_t>(i) + diagonal) return -infinity;
    }
    double sum = 0;
    for (size_t c = 0; c < d_; ++c) sum += q_[i * d_ + c] * k_[j * d_ + c];
    sum *= kernel_.scale;
    if (kernel_.softcap > 0) sum = kernel_.softcap * std::tanh(sum / kernel_.softcap);
    if (!kernel_.masked) return sum;
    const DType dtype = contract_.operands[known_.mask].dtype;
    const uint64_t bits = operands_[known_.mask][i * n_ + j];
    if (dtype == DType::boolean) return bits != 0 ? sum : kernel_.masked_score;
    const double mask = decode(dtype, bits);
    if (kernel_.empty_is_zero && mask == -infinity) return mask;
    // A score vanishes beside a large number, as it does where scores are of this type.
    return decode(kernel_.accumulate, encode(kernel_.accumulate, sum + mask, Overflow::propagate));
  }

  Row attend(size_t i) const {
    Row row;
    row.o.resize(dv_);
    if (kernel_.continues) {
      const std::span<const uint64_t> state = std::span(operands_[known_.state]).subspan(i * (dv_ + 2), dv_ + 2);
      for (size_t c = 0; c < dv_; ++c) row.o[c] = decode(kernel_.accumulate, state[c]);
      row.m = decode(kernel_.accumulate, state[dv_]);
      row.l = decode(kernel_.accumulate, state[dv_ + 1]);
    }
    std::vector<double> scores(n_);
    double largest = row.m;
    for (size_t j = 0; j < n_; ++j) {
      scores[j] = score(i, j);
      if (scores[j] > largest) largest = scores[j];
    }
    // Where nothing took part so far, all terms are to be 0, not exp(-infinity + infinity). A NaN remains one.
    const double shift = largest == -infinity ? 0 : largest;
    const double factor = std::exp(row.m - shift);
    row.m = largest;
    row.l *= factor;
    for (double& value : row.o) value *= factor;
    for (size_t j = 0; j < n_; ++j) {
      const double p = std::exp(scores[j] - shift);
      row.l += p;
      for (size_t c = 0; c < dv_; ++c) row.o[c] += p * v_[j * dv_ + c];
    }
    return row;
  }

  const KernelContract& contract_;
  const AttentionKernel& kernel_;
  std::span<const std::vector<uint64_t>> operands_;
  AttentionOperands known_;
  size_t m_, n_, d_, dv_;
  std::vector<double> q_, k_, v_;
};

}  // namespace

std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const AttentionKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands) {
  return Attended(contract, extents, kernel, operands).result();
}

}  // namespace low
