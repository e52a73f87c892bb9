// matmul: batched products of matrices.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/rules.h"

namespace low {

// (a, b, extras…) -> (value). a: [batch…, m, k], b: [batch…, k, n]; batch dimensions broadcast; result [batch…, m, n].
// Every product is accumulated in `accumulate` (f32 for float operands up to 32 bits, f64 for f64, i32/i64/u32/u64
// else). The epilogue maps (accumulator, extras…) to the result's element; extras broadcast to the result's shape.
// Without one, the accumulator is converted to the result's dtype.
struct Matmul {
  static constexpr std::string_view name = "matmul";
  DType accumulate = DType::f32;
  bool transpose_a = false;  // a is stored as [batch…, k, m]
  bool transpose_b = false;  // b is stored as [batch…, n, k]
  std::optional<Expr> epilogue;
  bool operator==(const Matmul&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("accumulate", self.accumulate);
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
    visit("epilogue", self.epilogue);
  }
};
std::string problem(const Matmul& op, const OpTypes& types);
Tensor fold(const Matmul& op, FoldOperands operands, const Type& result);

}  // namespace low
