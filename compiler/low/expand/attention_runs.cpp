#include "compiler/low/expand/attention_runs.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "compiler/low/expand/placed.h"

namespace low {

AttentionRuns::AttentionRuns(const Graph& graph, const Op& op, const Machine& machine)
    : machine_(machine), attributes_(std::get<Attention>(op.attributes)), extents_(attention_extents(graph, op)) {
  const std::span<const ValueId> operands = graph.operands(op);
  q_ = graph.type(operands[0]).dtype;
  k_ = graph.type(operands[1]).dtype;
  v_ = graph.type(operands[2]).dtype;
  result_ = graph.type(graph.result(op)).dtype;
  sum_ = attention_type(q_, k_, v_);
  math_ = attention_math(machine, q_, k_, v_);
  score_math_ = gemm_math(machine, sum_, q_, k_);
  value_math_ = gemm_math(machine, sum_, sum_, v_);
  if (attributes_.masked) {
    mask_ = graph.type(operands[3]).shape;
    mask_type_ = graph.type(operands[3]).dtype;
  }
  for (const ValueId extra : operands.subspan(attributes_.masked ? 4 : 3)) {
    extras_.push_back(extra);
    extra_types_.push_back(graph.type(extra).dtype);
  }
  epilogue_ = attributes_.epilogue ? *attributes_.epilogue : converted(sum_, result_);
}

int64_t AttentionRuns::mask_row(int64_t batch, int64_t head, int64_t row) const {
  const int64_t index = batch * extents_.q_heads + head;
  const int64_t b = mask_[0] == 1 ? 0 : index / attributes_.mask_heads;
  const int64_t h = mask_[1] == 1 ? 0 : index % attributes_.mask_heads;
  return (b * mask_[1] + h) * mask_[2] + (mask_[2] == 1 ? 0 : row);
}

Result<void> AttentionRuns::check_size() const {
  // Extents of tensors: their sum fits.
  if (!extents_.causal || extents_.m + extents_.n < max_causal_mask_elements) return {};
  return fail(ErrorKind::unsupported,
              fmt::format("expand: causal attention of {} rows and {} keys; together at most {} are supported",
                          extents_.m, extents_.n, max_causal_mask_elements - 1));
}

int32_t AttentionRuns::diagonal(int64_t row, int64_t key) const {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(
      std::clamp(std::clamp(*attributes_.diagonal, -most / 2, most / 2) + row - key, -most, most));
}

bool AttentionRuns::takes_part(int64_t row, int64_t rows, int64_t key) const {
  return !attributes_.diagonal || diagonal(row + rows - 1, key) >= 0;
}

Tensor AttentionRuns::causal_mask() const {
  Tensor mask(DType::boolean, {extents_.m, extents_.n});
  for (int64_t i = 0; i < extents_.m; ++i) {
    const int64_t keys = std::clamp<int64_t>(int64_t{diagonal(i, 0)} + 1, 0, extents_.n);
    std::fill_n(mask.bytes().begin() + i * extents_.n, keys, std::byte{1});
  }
  return mask;
}

Expr AttentionRuns::scores_expr() const {
  const bool causal = attributes_.diagonal.has_value();
  ExprBuilder expr(1 + (masked() ? 1 : 0) + (causal ? 1 : 0));
  uint16_t score = expr.binary(ExprOp::mul, expr.input(0, sum_), expr.constant(sum_, attributes_.scale));
  if (attributes_.softcap > 0) {
    const uint16_t cap = expr.constant(sum_, attributes_.softcap);
    score = expr.binary(ExprOp::mul, cap, expr.unary(ExprOp::tanh, expr.binary(ExprOp::div, score, cap)));
  }
  const uint16_t nothing = expr.constant(sum_, -std::numeric_limits<double>::infinity());
  int next = 1;
  if (masked()) {
    const uint16_t mask = expr.input(next++, mask_type_);
    if (mask_type_ == DType::boolean) {
      score = expr.where(mask, score, expr.constant(sum_, attributes_.masked_score));
    } else {
      const uint16_t added = expr.convert(mask, sum_), sum = expr.binary(ExprOp::add, score, added);
      score = attributes_.empty_is_zero ? expr.where(expr.binary(ExprOp::equal, added, nothing), nothing, sum) : sum;
    }
  }
  if (causal) score = expr.where(expr.input(next, DType::boolean), score, nothing);
  return std::move(expr).finish(score);
}

AttentionRuns::Form AttentionRuns::form(const AttentionStage& stage, int64_t rows, int64_t keys,
                                        std::span<const Strides> strides) const {
  using Kind = AttentionStage::Kind;
  Form form;
  KernelContract& contract = form.contract;
  const bool causal = attributes_.diagonal.has_value();
  const auto add = [&](DType dtype, const Shape& extents, const Strides& of) {
    contract.operands.push_back({dtype, access_list(extents, of)});
    form.extents.push_back(extents);
    form.strides.push_back(of);
  };
  const auto next = [&] { return strides[form.strides.size()]; };
  const auto turned = [&] { return Strides{next()[1], next()[0]}; };
  const Shape scores{rows, keys}, output{rows, extents_.dv};
  switch (stage.kind) {
    case Kind::flash: {
      contract.family = AttentionKernel{.d = extents_.d,
                                        .dv = extents_.dv,
                                        .math = math_,
                                        .accumulate = sum_,
                                        .masked = masked(),
                                        .causal = causal,
                                        .continues = stage.continues,
                                        .partial = stage.partial,
                                        .empty_is_zero = attributes_.empty_is_zero,
                                        .scale = attributes_.scale,
                                        .softcap = attributes_.softcap,
                                        .masked_score = attributes_.masked_score};
      const Shape state{rows, extents_.dv + 2};
      add(q_, {rows, extents_.d}, next());
      add(k_, {keys, extents_.d}, next());
      add(v_, {keys, extents_.dv}, next());
      if (masked()) add(mask_type_, scores, next());
      if (causal) add(DType::i32, {1}, {0});
      if (stage.continues) add(sum_, state, next());
      if (stage.partial) {
        add(sum_, state, next());
      } else {
        for (const DType extra : extra_types_) add(extra, output, next());
        add(result_, output, next());
        contract.expr = epilogue_;
      }
      break;
    }
    case Kind::scores:
      contract.family = gemm_kernel(machine_, score_math_, sum_, gemm_depth(machine_, rows, keys, extents_.d, q_, k_));
      contract.expr = scores_expr();
      add(q_, {rows, extents_.d}, next());
      add(k_, {extents_.d, keys}, turned());
      if (masked()) add(mask_type_, scores, next());
      if (causal) add(DType::boolean, scores, next());
      add(sum_, scores, next());
      break;
    case Kind::softmax:
      contract.family =
          RowwiseKernel{.kind = attributes_.empty_is_zero ? Rowwise::Kind::masked_softmax : Rowwise::Kind::softmax,
                        .accumulate = sum_};
      contract.expr = converted(sum_, sum_);
      add(sum_, scores, next());
      add(sum_, scores, next());
      break;
    case Kind::sums:
      contract.family =
          gemm_kernel(machine_, value_math_, sum_, gemm_depth(machine_, rows, extents_.dv, keys, sum_, v_));
      contract.expr = epilogue_;
      add(sum_, scores, next());
      add(v_, {keys, extents_.dv}, next());
      for (const DType extra : extra_types_) add(extra, output, next());
      add(result_, output, next());
      break;
  }
  configure(contract, run_extents(contract, form.extents));
  return form;
}

}  // namespace low
