#include "compiler/low/interner.h"

#include <bit>

#include "compiler/base/hash.h"

namespace low {
namespace {

void add(WordHash& hash, const Expr& expr) {
  hash.add(expr.inputs).add(expr.nodes.size());
  for (const ExprNode& node : expr.nodes) {
    hash.add(node.op).add(node.dtype).add(node.overflow).add(node.argument).add(node.literal).add_list(node.operand);
  }
}

}  // namespace

size_t InternHash::operator()(const TensorType& value) const {
  return WordHash().add(value.dtype).add_list(value.extents).result();
}

size_t InternHash::operator()(const Geometry& value) const {
  return WordHash().add_list(value.extents).add_list(value.strides).result();
}

size_t InternHash::operator()(const KernelContract& value) const {
  WordHash hash;
  hash.add(value.family)
      .add_list(value.extents)
      .add(value.math)
      .add(value.math_b)
      .add(value.accumulate)
      .add(value.stage_k);
  for (const OperandContract& operand : value.operands) hash.add(operand.dtype).add_list(operand.access);
  hash.add(value.inner).add(value.kind).add(std::bit_cast<uint64_t>(value.epsilon));
  hash.add(value.last).add(value.exclusive).add(value.reverse);
  if (value.map) add(hash, *value.map);
  if (value.family == Family::attention) {
    const KernelContract::AttentionKind& kind = value.attention;
    for (const double number : {kind.scale, kind.softcap, kind.masked_score}) hash.add(std::bit_cast<uint64_t>(number));
    hash.add(kind.masked).add(kind.causal).add(kind.continues).add(kind.partial).add(kind.empty_is_zero);
  }
  add(hash, value.expr);
  return hash.result();
}

size_t InternHash::operator()(const CopyDescriptor& value) const {
  return WordHash()
      .add(value.source)
      .add(value.destination)
      .add(value.overflow)
      .add_list(value.counts)
      .add_list(value.source_strides)
      .add_list(value.destination_strides)
      .add(value.chunk)
      .result();
}

}  // namespace low
