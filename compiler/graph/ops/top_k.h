// top_k: where the largest or smallest elements along an axis stand.
#pragma once

#include <string_view>

#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

// (value) -> (i64 of its shape, but `k` along `axis`): the indices along `axis` of the k largest elements, from the
// largest on; of the k smallest if `smallest`. Of equal elements, the one with the lower index comes first. NaN is
// equal to NaN and larger than all else. Numbers, not booleans; k is at most the axis' extent.
struct TopK {
  static constexpr std::string_view name = "top_k";
  static constexpr Parts parts = Parts::rows;
  int axis = 0;
  int64_t k = 1;
  bool smallest = false;
  Shape joined_axes() const { return {axis}; }
  bool operator==(const TopK&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("axis", self.axis);
    visit("k", self.k);
    visit("smallest", self.smallest);
  }
};
std::string problem(const TopK& op, const OpTypes& types);
Tensor fold(const TopK& op, FoldOperands operands, const Type& result);

}  // namespace low
