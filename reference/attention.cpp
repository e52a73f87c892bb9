#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/epilogue.h"

namespace low::reference {
namespace {

// All heads apart: element [part][head][row][column] of a packed tensor [parts, rows, heads * columns].
struct Heads {
  int64_t parts, heads, rows, columns;
  std::vector<double> values;
  const double* row(int64_t part, int64_t head, int64_t i) const {
    return values.data() + ((part * heads + head) * rows + i) * columns;
  }
};

Heads split(const Tensor& packed, int64_t heads) {
  const Shape& shape = packed.shape();
  Heads out{shape[0], heads, shape[1], shape[2] / heads, std::vector<double>(static_cast<size_t>(packed.elements()))};
  int64_t from = 0;
  for (int64_t part = 0; part < out.parts; ++part) {
    for (int64_t i = 0; i < out.rows; ++i) {
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t column = 0; column < out.columns; ++column) {
          const int64_t to = ((part * heads + head) * out.rows + i) * out.columns + column;
          out.values[static_cast<size_t>(to)] = load(packed, from++).real;
        }
      }
    }
  }
  return out;
}

// What the mask makes of each score, with every broadcast written out: [part][head][row][key] as the scores count
// heads.
class Mask {
 public:
  Mask(const Attention& attention, Operands operands, bool wide)
      : attention_(attention),
        mask_(attention.masked ? operands[3].get() : nullptr),
        heads_(attention.mask_heads),
        wide_(wide) {}

  double operator()(double score, int64_t number, int64_t i, int64_t j) const {
    if (mask_ == nullptr) return score;
    int64_t place = 0;
    const int64_t wanted[] = {number / heads_, number % heads_, i, j};
    for (int axis = 0; axis < 4; ++axis) {
      const int64_t extent = mask_->shape()[axis];
      place = place * extent + (extent == 1 ? 0 : wanted[axis]);
    }
    const Scalar element = load(*mask_, place);
    if (mask_->dtype() == DType::boolean) return element.integer != 0 ? score : attention_.masked_score;
    const bool takes_part = element.real != -std::numeric_limits<double>::infinity();
    // A sum of the type that scores have, in which a score vanishes beside a large number.
    const double sum = takes_part || !attention_.empty_is_zero ? score + element.real : element.real;
    return wide_ ? sum : decode(DType::f32, encode(DType::f32, sum, Overflow::propagate));
  }

 private:
  const Attention& attention_;
  const Tensor* mask_;
  int64_t heads_;
  bool wide_;
};

}  // namespace

Tensor compute(const Attention& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  const Heads q = split(*operands[0], attributes.q_heads);
  const Heads k = split(*operands[1], attributes.kv_heads);
  const Heads v = split(*operands[2], attributes.kv_heads);
  const bool wide = std::ranges::any_of(operands.first(3), [](const auto& x) { return x->dtype() == DType::f64; });
  const Mask mask(attributes, operands, wide);
  Tensor output(result.dtype, result.shape);
  // One row of one head after another, in the order of the packed result.
  const auto compute = [&](int64_t begin, int64_t end) {
    Epilogue epilogue(attributes.epilogue, wide ? DType::f64 : DType::f32, operands, attributes.masked ? 4 : 3, result,
                      begin * v.columns);
    std::vector<double> scores(static_cast<size_t>(k.rows));
    std::vector<double> sums(static_cast<size_t>(v.columns));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t head = row % q.heads;
      const int64_t i = row / q.heads % q.rows;
      const int64_t part = row / q.heads / q.rows;
      const int64_t kv_part = part * k.parts / q.parts;
      const int64_t kv_head = head * k.heads / q.heads;
      for (int64_t j = 0; j < k.rows; ++j) {
        const double* a = q.row(part, head, i);
        const double* b = k.row(kv_part, kv_head, j);
        double score = 0;
        for (int64_t e = 0; e < q.columns; ++e) score += a[e] * b[e];
        score *= attributes.scale;
        if (attributes.softcap > 0) score = attributes.softcap * std::tanh(score / attributes.softcap);
        score = mask(score, part * q.heads + head, i, j);
        if (attributes.diagonal && j - i > *attributes.diagonal) score = -std::numeric_limits<double>::infinity();
        scores[static_cast<size_t>(j)] = score;
      }
      // Any NaN makes all of the row NaN in what follows, whichever maximum is found beside it.
      const double shift = *std::ranges::max_element(scores);
      const bool empty =
          std::ranges::all_of(scores, [](double x) { return x == -std::numeric_limits<double>::infinity(); });
      double sum = 0;
      for (const double score : scores) sum += std::exp(score - shift);
      std::ranges::fill(sums, 0);
      for (int64_t j = 0; j < k.rows; ++j) {
        const double weight = std::exp(scores[static_cast<size_t>(j)] - shift) / sum;
        const double* values = v.row(kv_part, kv_head, j);
        for (int64_t e = 0; e < v.columns; ++e) sums[static_cast<size_t>(e)] += weight * values[e];
      }
      if (empty && attributes.empty_is_zero) std::ranges::fill(sums, 0);
      for (int64_t e = 0; e < v.columns; ++e) {
        store(output, row * v.columns + e, epilogue.next({.real = sums[static_cast<size_t>(e)]}));
      }
    }
  };
  constexpr int64_t rows_of_part = 64;
  const int64_t rows = q.parts * q.rows * q.heads;
  const int64_t parts = (rows + rows_of_part - 1) / rows_of_part;
  const auto compute_part = [&](int64_t i) { compute(i * rows_of_part, std::min(rows, (i + 1) * rows_of_part)); };
  if (pool != nullptr) {
    pool->parallel_for(parts, compute_part);
  } else {
    for (int64_t i = 0; i < parts; ++i) compute_part(i);
  }
  return output;
}

}  // namespace low::reference
