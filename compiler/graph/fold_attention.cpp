#include <cmath>
#include <limits>

#include "compiler/graph/fold_ops.h"
#include "compiler/graph/shapes.h"

namespace low {
namespace {

template <typename T>
T element(const Tensor& tensor, int64_t index) {
  return static_cast<T>(decode(tensor.dtype(), tensor.bits(index)));
}

template <typename T>
class Evaluation {
 public:
  Evaluation(const Attention& attention, FoldOperands operands)
      : attention_(attention),
        q_(*operands[0]),
        k_(*operands[1]),
        v_(*operands[2]),
        mask_(attention.masked ? operands[3] : nullptr),
        d_(q_.shape()[2] / attention.q_heads),
        dv_(v_.shape()[2] / attention.kv_heads),
        n_(k_.shape()[1]) {}

  // The dv elements of one head of one row, before the epilogue.
  std::vector<T> row(int64_t batch, int64_t i, int64_t head) const {
    const int64_t kv_batch = batch / (q_.shape()[0] / k_.shape()[0]);
    const int64_t kv_head = head / (attention_.q_heads / attention_.kv_heads);
    std::vector<T> weights;
    T most = -std::numeric_limits<T>::infinity();
    for (int64_t j = 0; j < n_; ++j) {
      weights.push_back(score(batch, i, head, kv_batch, j, kv_head));
      most = std::isnan(weights.back()) || weights.back() > most ? weights.back() : most;
    }
    std::vector<T> out(static_cast<size_t>(dv_));
    if (attention_.empty_is_zero && most == -std::numeric_limits<T>::infinity()) return out;
    T sum = 0;
    for (T& weight : weights) {
      weight = std::exp(weight - most);
      sum += weight;
    }
    for (int64_t j = 0; j < n_; ++j) {
      const T weight = weights[static_cast<size_t>(j)] / sum;
      const int64_t start = (kv_batch * n_ + j) * v_.shape()[2] + kv_head * dv_;
      for (int64_t e = 0; e < dv_; ++e) out[static_cast<size_t>(e)] += weight * element<T>(v_, start + e);
    }
    return out;
  }

 private:
  T score(int64_t batch, int64_t i, int64_t head, int64_t kv_batch, int64_t j, int64_t kv_head) const {
    constexpr T nothing = -std::numeric_limits<T>::infinity();
    if (attention_.diagonal && j - i > *attention_.diagonal) return nothing;
    const int64_t q_start = (batch * q_.shape()[1] + i) * q_.shape()[2] + head * d_;
    const int64_t k_start = (kv_batch * n_ + j) * k_.shape()[2] + kv_head * d_;
    T dot = 0;
    for (int64_t e = 0; e < d_; ++e) dot += element<T>(q_, q_start + e) * element<T>(k_, k_start + e);
    dot *= static_cast<T>(attention_.scale);
    const auto cap = static_cast<T>(attention_.softcap);
    if (attention_.softcap > 0) dot = cap * std::tanh(dot / cap);
    if (mask_ == nullptr) return dot;
    const int64_t number = batch * attention_.q_heads + head;
    const int64_t index[] = {number / attention_.mask_heads, number % attention_.mask_heads, i, j};
    const Strides strides = mask_->shape().row_major_strides();
    int64_t offset = 0;
    for (int axis = 0; axis < 4; ++axis) offset += mask_->shape()[axis] == 1 ? 0 : index[axis] * strides[axis];
    if (mask_->dtype() == DType::boolean) return mask_->bits(offset) != 0 ? dot : nothing;
    return dot + element<T>(*mask_, offset);
  }

  const Attention& attention_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor* mask_;
  int64_t d_, dv_, n_;
};

template <typename T>
Tensor run(const Attention& attention, FoldOperands operands, const Type& result) {
  const Evaluation<T> evaluation(attention, operands);
  const DType type = sizeof(T) == 8 ? DType::f64 : DType::f32;
  FoldEpilogue epilogue(attention.epilogue, type, operands, attention.masked ? 4 : 3, result);
  Tensor out(result.dtype, result.shape);
  int64_t next = 0;
  for (int64_t batch = 0; batch < result.shape[0]; ++batch) {
    for (int64_t i = 0; i < result.shape[1]; ++i) {
      for (int64_t head = 0; head < attention.q_heads; ++head) {
        for (const T value : evaluation.row(batch, i, head)) {
          out.set_bits(next++, epilogue.next(encode(type, static_cast<double>(value), Overflow::propagate)));
        }
      }
    }
  }
  return out;
}

}  // namespace

Tensor fold_attention(const Attention& attention, FoldOperands operands, const Type& result) {
  const DType type = attention_type(operands[0]->dtype(), operands[1]->dtype(), operands[2]->dtype());
  return type == DType::f64 ? run<double>(attention, operands, result) : run<float>(attention, operands, result);
}

}  // namespace low
