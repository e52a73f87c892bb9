#include "compiler/low/interner.h"

#include <bit>

namespace low {
namespace {

// Multiply-and-shift mixing of one word after another (the finalizer of splitmix64).
class Mixer {
 public:
  Mixer& add(uint64_t word) {
    uint64_t x = state_ ^ word;
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    state_ = x ^ (x >> 31);
    return *this;
  }
  Mixer& add(int64_t word) { return add(static_cast<uint64_t>(word)); }
  template <typename E>
    requires std::is_enum_v<E>
  Mixer& add(E value) {
    return add(static_cast<uint64_t>(value));
  }
  Mixer& add(const Shape& shape) {
    add(static_cast<uint64_t>(shape.rank()));
    for (const int64_t extent : shape) add(extent);
    return *this;
  }
  Mixer& add(const Expr& expr) {
    add(uint64_t{expr.inputs}).add(uint64_t{expr.nodes.size()});
    for (const ExprNode& node : expr.nodes) {
      add(node.op).add(node.dtype).add(node.overflow).add(uint64_t{node.argument}).add(node.literal);
      for (const uint16_t operand : node.operand) add(uint64_t{operand});
    }
    return *this;
  }
  size_t result() const { return static_cast<size_t>(state_); }

 private:
  uint64_t state_ = 0;
};

}  // namespace

size_t InternHash::operator()(const TensorType& value) const {
  return Mixer().add(value.dtype).add(value.extents).result();
}

size_t InternHash::operator()(const Geometry& value) const {
  return Mixer().add(value.extents).add(value.strides).result();
}

size_t InternHash::operator()(const KernelContract& value) const {
  Mixer mixer;
  mixer.add(value.family).add(value.extents).add(value.math).add(value.math_b).add(value.accumulate).add(value.stage_k);
  mixer.add(uint64_t{value.operands.size()});
  for (const OperandContract& operand : value.operands) {
    mixer.add(operand.dtype).add(uint64_t{operand.access.size()});
    for (const Access access : operand.access) mixer.add(access);
  }
  mixer.add(static_cast<uint64_t>(value.inner)).add(uint64_t{value.kind}).add(std::bit_cast<uint64_t>(value.epsilon));
  mixer.add((value.last ? uint64_t{1} : 0) | (value.exclusive ? 2U : 0U) | (value.reverse ? 4U : 0U));
  if (value.map) mixer.add(*value.map);
  if (value.family == Family::attention) {
    const KernelContract::AttentionKind& kind = value.attention;
    mixer.add(std::bit_cast<uint64_t>(kind.scale)).add(std::bit_cast<uint64_t>(kind.softcap));
    mixer.add(std::bit_cast<uint64_t>(kind.masked_score));
    mixer.add((kind.masked ? uint64_t{1} : 0) | (kind.causal ? 2U : 0U) | (kind.continues ? 4U : 0U) |
              (kind.partial ? 8U : 0U) | (kind.empty_is_zero ? 16U : 0U));
  }
  return mixer.add(value.expr).result();
}

size_t InternHash::operator()(const CopyDescriptor& value) const {
  return Mixer()
      .add(value.source)
      .add(value.destination)
      .add(value.overflow)
      .add(value.counts)
      .add(value.source_strides)
      .add(value.destination_strides)
      .add(value.chunk)
      .result();
}

}  // namespace low
