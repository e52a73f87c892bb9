// attention: scaled dot-product attention with packed heads.
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/rules.h"

namespace low {

// (q, k, v[, mask], extras…) -> (value): scaled dot-product attention with packed heads.
//   q: [batch, m, q_heads * d], k: [kv_batch, n, kv_heads * d], v: [kv_batch, n, kv_heads * dv]; result [batch, m,
//   q_heads * dv].
// kv_batch divides batch and kv_heads divides q_heads: batch b reads batch b / (batch / kv_batch) of k and v, head h
// their head h / (q_heads / kv_heads) (grouped queries). Tensors [b, heads, m, d] are the case batch = b * heads of one
// packed head each.
//   score[i, j] = (sum over d of q[i] k[j]) * scale; with softcap > 0: softcap * tanh(score / softcap); + mask[i, j]
//   result[i]   = sum over j of softmax over j (score[i])[j] * v[j], then the epilogue
// `mask` is bool (false: the score becomes `masked_score`, which is finite or -infinity) or a float that is added; its
// shape [mb, mh, m, n] broadcasts to [batch * q_heads / mask_heads, mask_heads, m, n], whose leading two axes count the
// heads in the order (batch, head); mask_heads divides batch * q_heads. `diagonal`: j takes part in row i only if j <=
// i + diagonal (causal attention; a past of p keys shifts it by p). A row of -infinities alone gives NaN, as softmax
// does, unless `empty_is_zero`: then it gives 0, and a key whose mask is -infinity takes no part whatever its score
// (which may be NaN or infinite). Computed in f32 (f64 for f64 operands). q, k, v: floats (FP8 included) of dtypes that
// may differ. The epilogue maps (normalized element, extras…) to the result's element as in Rowwise; extras broadcast
// to the result's shape; without one, it is converted. d, dv, n and the numbers of heads are at least 1.
struct Attention {
  static constexpr std::string_view name = "attention";
  int64_t q_heads = 1, kv_heads = 1, mask_heads = 1;
  bool masked = false;
  double scale = 1;
  double softcap = 0;
  std::optional<int64_t> diagonal = std::nullopt;
  bool empty_is_zero = false;
  double masked_score = -std::numeric_limits<double>::infinity();  // -infinity but where the mask is bool
  std::optional<Expr> epilogue = std::nullopt;
  bool operator==(const Attention&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("q_heads", self.q_heads);
    visit("kv_heads", self.kv_heads);
    visit("masked", self.masked);
    visit("mask_heads", self.mask_heads);
    visit("scale", self.scale);
    visit("softcap", self.softcap);
    visit("diagonal", self.diagonal);
    visit("empty_is_zero", self.empty_is_zero);
    visit("masked_score", self.masked_score);
    visit("epilogue", self.epilogue);
  }
};
std::string problem(const Attention& op, const OpTypes& types);

// [batch, m, q_heads * dv]. Nothing when the heads do not divide the operands, or the operands do not fit each other.
std::optional<Shape> attention_shape(const Attention& attention, const Shape& q, const Shape& k, const Shape& v);
// What scores, softmax and sums are computed in.
DType attention_type(DType q, DType k, DType v);

}  // namespace low
