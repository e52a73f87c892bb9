#include <algorithm>

#include "compiler/low/expand/distributed_expander.h"
#include "compiler/low/expand/partial_sums.h"
#include "compiler/search/distributed_space.h"

namespace low {
namespace {

// An operand [batch…, rows, columns] as stored, and which of its batches a batch of the result reads.
struct Operand {
  int64_t rows = 0;  // of one batch's matrix as stored
  bool transposed = false;
  Strides batch_strides;  // over the result's batch dimensions, in batches

  int64_t batch(const Shape& result, int64_t index) const {
    int64_t own = 0;
    for (int axis = batch_strides.rank() - 1; axis >= 0; --axis) {
      own += index % result[axis] * batch_strides[axis];
      index /= result[axis];
    }
    return own;
  }
  // Rows `outer` and columns `inner` of the logical matrix, as a rectangle of the stored one.
  Rect rect(int64_t own_batch, Range outer, Range inner) const {
    if (transposed) return {own_batch * rows + inner.begin, outer.begin, inner.size(), outer.size()};
    return {own_batch * rows + outer.begin, inner.begin, outer.size(), inner.size()};
  }
};

Operand operand_of(const Shape& shape, const Shape& result, bool transposed) {
  Shape from, to;
  for (int axis = 0; axis + 2 < shape.rank(); ++axis) from.append(shape[axis]);
  for (int axis = 0; axis + 2 < result.rank(); ++axis) to.append(result[axis]);
  return {shape[shape.rank() - 2], transposed, expanded(row_major(from), from, to).strides};
}

// Strides over the logical (outer, inner) axes.
Strides logical(const Placed& place, bool transposed) {
  return transposed ? Strides{place.layout.strides[1], place.layout.strides[0]} : place.layout.strides;
}

}  // namespace

// The expansion of one matmul.
class DistributedExpander::MatmulExpansion {
 public:
  MatmulExpansion(DistributedExpander& expander, RegionState& region, const Op& op, const MatmulPlan& plan)
      : e_(expander),
        region_(region),
        plan_(plan),
        attributes_(std::get<Matmul>(op.attributes)),
        operands_(region.graph.operands(op)),
        result_type_(region.graph.type(region.graph.result(op))),
        a_(operand_of(type(0).shape, shape(), attributes_.transpose_a)),
        b_(operand_of(type(1).shape, shape(), attributes_.transpose_b)),
        a_value_(region.values[operands_[0]]),
        b_value_(region.values[operands_[1]]),
        output_(region.values[region.graph.result(op)]),
        epilogue_(epilogue_of(attributes_, result_type_.dtype)),
        math_(gemm_math(expander.machine_, attributes_.accumulate, type(0).dtype, type(1).dtype)) {
    const Shape& a = type(0).shape;
    m_ = shape()[shape().rank() - 2];
    k_ = attributes_.transpose_a ? a[a.rank() - 2] : a[a.rank() - 1];
    for (uint32_t p = 0; p < plan.grid_k; ++p)
      panels_ = std::max(panels_, ceil_div(part_range(k_, plan.grid_k, p).size(), plan.block_k));
  }

  Result<void> run() {
    find_work();
    LOW_TRY_VOID(shard_large_b());
    LOW_TRY_VOID(allocate_sums());
    for (int64_t panel = 0; panel < panels_; ++panel) LOW_TRY_VOID(multiply(panel));
    if (split()) return add_partial_sums();
    return {};
  }

 private:
  // A whole part of the result (before its rows are shared among the tiles of a split k), with the share of k of its
  // tile.
  struct Work {
    int64_t batch;
    Rect rect;  // of the result
    TileId tile;
    Range share;
    Range depth(const MatmulPlan& plan, int64_t panel) const {
      return {std::min(share.end, share.begin + panel * plan.block_k),
              std::min(share.end, share.begin + (panel + 1) * plan.block_k)};
    }
  };
  // What a run does besides multiplying.
  struct Kind {
    bool final;  // applies the epilogue and writes the result, instead of sums
    bool adds;   // to the sums of earlier panels
  };

  const Type& type(size_t operand) const { return region_.graph.type(operands_[operand]); }
  const Shape& shape() const { return result_type_.shape; }
  std::span<const ValueId> extras() const { return operands_.subspan(2); }
  int extra_count() const { return static_cast<int>(extras().size()); }
  DType accumulate() const { return attributes_.accumulate; }
  bool split() const { return plan_.grid_k > 1; }

  void find_work() {
    MatmulPlan whole = plan_;
    whole.grid_k = 1;
    for (const Part& part : matmul_parts(shape(), whole)) {
      for (uint32_t p = 0; p < plan_.grid_k; ++p) {
        work_.push_back({part.rect.row / m_, part.rect, TileId(part.tile.index * plan_.grid_k + p),
                         part_range(k_, plan_.grid_k, p)});
      }
    }
  }

  // A large constant b: tile (i, j) keeps the i-th slice of the rows of its own rectangle.
  Result<void> shard_large_b() {
    if (!b_value_->constant || !b_value_->shards.empty()) return {};
    const Shape& b = type(1).shape;
    double bound = 1;
    for (int axis = 0; axis + 2 < b.rank(); ++axis) bound *= static_cast<double>(b[axis]);
    LOW_TRY_VOID(e_.budget_.expect(bound * plan_.grid_m * plan_.grid_n * plan_.grid_k));
    int64_t batches = 1;
    for (int axis = 0; axis + 2 < b.rank(); ++axis) batches *= b[axis];
    std::vector<Part> kept;
    bool large = false;
    for (uint32_t gn = 0; gn < plan_.grid_n; ++gn) {
      const Range columns = part_range(shape()[shape().rank() - 1], plan_.grid_n, gn);
      if (columns.size() == 0) continue;
      for (uint32_t p = 0; p < plan_.grid_k; ++p) {
        const Range share = part_range(k_, plan_.grid_k, p);
        for (uint32_t gm = 0; gm < plan_.grid_m; ++gm) {
          const Range slice = part_range(share.size(), plan_.grid_m, gm);
          if (slice.size() == 0) continue;
          const Range rows{share.begin + slice.begin, share.begin + slice.end};
          large = large || rows.size() * columns.size() * plan_.grid_m > max_replicated_elements;
          const TileId tile((gm * plan_.grid_n + gn) * plan_.grid_k + p);
          for (int64_t batch = 0; batch < batches; ++batch) kept.push_back({b_.rect(batch, rows, columns), tile});
        }
      }
    }
    if (large) return e_.shard_constant(*b_value_, kept);
    return {};
  }

  // Sums that outlive a superstep.
  Result<void> allocate_sums() {
    sums_.resize(work_.size());
    const bool kept = split() || panels_ > 1;
    LOW_TRY_VOID(e_.budget_.take(static_cast<double>(work_.size()) * (kept ? 2 : 1)));
    if (!kept) return {};
    for (size_t i = 0; i < work_.size(); ++i)
      sums_[i] = e_.new_local(accumulate(), work_[i].rect.rows, work_[i].rect.columns, work_[i].tile);
    return {};
  }

  // One superstep: every part's products of one panel of k.
  Result<void> multiply(int64_t panel) {
    LOW_TRY_VOID(e_.begin_superstep());
    for (size_t i = 0; i < work_.size(); ++i) {
      const Work& part = work_[i];
      const Range depth = part.depth(plan_, panel);
      const bool last = panel + 1 == panels_;
      if (depth.size() == 0 && panel > 0 && (split() || !last)) continue;  // nothing to add
      const Kind kind{.final = last && !split(), .adds = panel > 0};
      LOW_TRY_VOID(pull_operands(part, depth, kind.final));
      if (kind.adds) places_.push_back(sums_[i]);
      places_.push_back(kind.final ? output_->shards[i].place : sums_[i]);
      const Shape extents{part.rect.rows, part.rect.columns, depth.size()};
      LOW_TRY_VOID(e_.run(forms_, {extents[0], extents[1], extents[2], kind.final ? 1 : 0, kind.adds ? 1 : 0}, places_,
                          part.tile, [&] { return product_form(extents, kind); }));
    }
    e_.end_superstep();
    return {};
  }

  // a, b and, for the epilogue, its extras: into places_.
  Result<void> pull_operands(const Work& part, Range depth, bool with_extras) {
    const Range rows{part.rect.row % m_, part.rect.row % m_ + part.rect.rows};
    const Range columns{part.rect.column, part.rect.column + part.rect.columns};
    places_.clear();
    LOW_TRY(Placed of_a, e_.pull(a_value_, a_.rect(a_.batch(shape(), part.batch), rows, depth), part.tile));
    places_.push_back(std::move(of_a));
    LOW_TRY(Placed of_b, e_.pull(b_value_, b_.rect(b_.batch(shape(), part.batch), depth, columns), part.tile));
    places_.push_back(std::move(of_b));
    if (with_extras) return pull_extras(part.rect, part.tile);
    return {};
  }
  Result<void> pull_extras(const Rect& rect, TileId tile) {
    for (const ValueId extra : extras()) {
      LOW_TRY(Placed place,
              e_.pull_broadcast(region_.values[extra], region_.graph.type(extra).shape, shape(), rect, tile));
      places_.push_back(std::move(place));
    }
    return {};
  }

  // Of the run over places_ for (m, n, k) elements.
  RunForm product_form(const Shape& extents, Kind kind) {
    const int64_t m = extents[0], n = extents[1], k = extents[2];
    KernelContract contract{.family = gemm_kernel(e_.machine_, math_, accumulate(), plan_.block_k)};
    RunForm form;
    const auto add = [&](const Shape& box, bool transposed, DType dtype) {
      const Strides strides = logical(places_[form.geometries.size()], transposed);
      contract.operands.push_back({dtype, access_list(box, strides)});
      form.geometries.push_back(e_.geometry(box, strides));
    };
    add({m, k}, a_.transposed, a_value_->dtype);
    add({k, n}, b_.transposed, b_value_->dtype);
    if (kind.final)
      for (const ValueId extra : extras()) add({m, n}, false, region_.graph.type(extra).dtype);
    if (kind.adds) add({m, n}, false, accumulate());
    add({m, n}, false, kind.final ? result_type_.dtype : accumulate());
    contract.expr = with_partials(kind.final ? epilogue_ : plain_sum(accumulate()), accumulate(),
                                  kind.final ? extra_count() : 0, kind.adds ? 1 : 0);
    form.contract = configured(e_.builder_, contract, extents);
    return form;
  }

  // Every tile of a part adds up its share of rows of all partial sums, and applies the epilogue.
  Result<void> add_partial_sums() {
    std::vector<DistributedValueRef> partial;
    for (uint32_t p = 0; p < plan_.grid_k; ++p) {
      partial.push_back(e_.new_value(accumulate(), {output_->rows, output_->columns}));
      for (size_t i = p; i < work_.size(); i += plan_.grid_k)
        partial[p]->shards.push_back({work_[i].rect, work_[i].tile, sums_[i]});
    }
    LOW_TRY_VOID(e_.begin_superstep());
    for (const Shard& shard : output_->shards) {
      places_.clear();
      for (uint32_t p = 0; p < plan_.grid_k; ++p) {
        LOW_TRY(Placed place, e_.pull(partial[p], shard.rect, shard.tile));
        places_.push_back(std::move(place));
        if (p == 0) LOW_TRY_VOID(pull_extras(shard.rect, shard.tile));
      }
      places_.push_back(shard.place);
      LOW_TRY_VOID(e_.run(sum_forms_, {shard.rect.rows, shard.rect.columns}, places_, shard.tile,
                          [&] { return sum_form({shard.rect.rows, shard.rect.columns}); }));
    }
    e_.end_superstep();
    return {};
  }

  // Of the run over places_: the first partial sum, the extras, the other partial sums, the result.
  RunForm sum_form(const Shape& extents) {
    KernelContract contract{.family = PointwiseKernel()};
    contract.expr = with_partials(epilogue_, accumulate(), extra_count(), static_cast<int>(plan_.grid_k) - 1);
    RunForm form;
    for (size_t i = 0; i < places_.size(); ++i) {
      const bool extra = i > 0 && i < operands_.size() - 1;
      const DType dtype = i + 1 == places_.size() ? result_type_.dtype : extra ? type(i + 1).dtype : accumulate();
      contract.operands.push_back({dtype, access_list(extents, places_[i].layout.strides)});
      form.geometries.push_back(e_.geometry(extents, places_[i].layout.strides));
    }
    form.contract = configured(e_.builder_, contract, extents);
    return form;
  }

  DistributedExpander& e_;
  RegionState& region_;
  const MatmulPlan& plan_;
  const Matmul& attributes_;
  std::span<const ValueId> operands_;
  const Type& result_type_;
  Operand a_, b_;
  DistributedValueRef a_value_, b_value_, output_;
  Expr epilogue_;
  MathRate math_;
  int64_t m_ = 0, k_ = 0, panels_ = 1;
  std::vector<Work> work_;
  std::vector<Placed> sums_;  // of each work
  RunForms forms_, sum_forms_;
  std::vector<Placed> places_;  // of the operands of the next run
};

Result<void> DistributedExpander::expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan) {
  return MatmulExpansion(*this, region, op, plan).run();
}

}  // namespace low
