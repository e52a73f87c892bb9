// rowwise: softmax and normalizations.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

inline constexpr std::array<std::string_view, 5> rowwise_kinds = {"softmax", "log_softmax", "layer_norm", "rms_norm",
                                                                  "masked_softmax"};

// (value, extras…) -> (value): normalizes groups of elements: all that differ only in `axes`. Floats; computed in f32
// (f64 for f64), in two passes:
//  softmax: exp(x - max) / sum(exp(x - max)); a group of -infinities alone gives NaN, as in ONNX
//  log_softmax: x - max - log(sum(exp(x - max)))
//  masked_softmax: softmax, but a group of -infinities alone, in which nothing takes part, gives zeros
//  layer_norm: (x - mean) / sqrt(mean((x - mean)^2) + epsilon)
//  rms_norm: x / sqrt(mean(x^2) + epsilon)
// The epilogue maps (normalized, extras…) to the result's element as in Matmul (scale and bias are extras). epsilon is
// 0 or more, and 0 for the softmaxes.
struct Rowwise {
  static constexpr std::string_view name = "rowwise";
  static constexpr Parts parts = Parts::rows;
  enum class Kind : uint8_t { softmax, log_softmax, layer_norm, rms_norm, masked_softmax } kind = Kind::softmax;
  Shape axes;  // ascending, not empty
  double epsilon = 0;
  std::optional<Expr> epilogue = std::nullopt;
  Shape joined_axes() const { return axes; }
  bool operator==(const Rowwise&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, rowwise_kinds);
    visit("axes", self.axes);
    visit("epsilon", self.epsilon);
    visit("epilogue", self.epilogue);
  }
};
std::string problem(const Rowwise& op, const OpTypes& types);
Tensor fold(const Rowwise& op, FoldOperands operands, const Type& result);

}  // namespace low
