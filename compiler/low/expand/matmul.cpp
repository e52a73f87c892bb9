#include "compiler/low/expand/distributed_value.h"
#include "compiler/low/expand/expander.h"
#include "compiler/low/expand/partial_sums.h"

namespace low {
namespace {

// A [batch…, rows, columns] operand, broadcast to the result's batch dimensions.
struct Matrix {
  const Placed* place;
  Strides batch;  // strides over the result's batch dimensions
  int64_t row_stride, column_stride;
};

Matrix matrix(const Placed& place, const Shape& shape, const Shape& result, bool transposed) {
  const int rank = shape.rank();
  Shape from, to;
  Layout layout{.strides = {}, .offset = 0};
  for (int axis = 0; axis < rank - 2; ++axis) {
    from.append(shape[axis]);
    layout.strides.append(place.layout.strides[axis]);
  }
  for (int axis = 0; axis < result.rank() - 2; ++axis) to.append(result[axis]);
  const int64_t rows = place.layout.strides[rank - 2], columns = place.layout.strides[rank - 1];
  return {.place = &place,
          .batch = expanded(layout, from, to).strides,
          .row_stride = transposed ? columns : rows,
          .column_stride = transposed ? rows : columns};
}

int64_t batch_offset(const Matrix& m, const Shape& result, int64_t batch) {
  int64_t offset = m.place->layout.offset;
  for (int axis = m.batch.rank() - 1; axis >= 0; --axis) {
    offset += batch % result[axis] * m.batch[axis];
    batch /= result[axis];
  }
  return offset;
}

}  // namespace

// The expansion of one matmul.
class Expander::MatmulExpansion {
 public:
  MatmulExpansion(Expander& expander, RegionState& region, const Op& op, const MatmulPlan& plan)
      : e_(expander),
        region_(region),
        plan_(plan),
        attributes_(std::get<Matmul>(op.attributes)),
        operands_(region.graph.operands(op)),
        type_(region.graph.type(region.graph.result(op))),
        epilogue_(epilogue_of(attributes_, type_.dtype)) {
    const Shape& a = region.graph.type(operands_[0]).shape;
    const int rank = shape().rank();
    m_ = shape()[rank - 2];
    n_ = shape()[rank - 1];
    k_ = attributes_.transpose_a ? a[a.rank() - 2] : a[a.rank() - 1];
    for (int axis = 0; axis < rank - 2; ++axis) batches_ *= shape()[axis];
  }

  void run(const Placed& result) {
    find_matrices(result);
    if (split()) place_partial_sums();
    multiply();
    if (split()) add_partial_sums();
  }

 private:
  static constexpr int64_t panel = device::panel_columns;
  const Shape& shape() const { return type_.shape; }
  DType dtype(size_t operand) const { return region_.graph.type(operands_[operand]).dtype; }
  DType accumulate() const { return attributes_.accumulate; }
  bool split() const { return plan_.grid_k > 1; }
  size_t extra_count() const { return operands_.size() - 2; }
  const Matrix& result() const { return matrices_.back(); }

  // a over (m, k), b over (k, n), extras and result over (m, n).
  void find_matrices(const Placed& result) {
    for (size_t i = 0; i < 2; ++i) {
      const bool transposed = i == 0 ? attributes_.transpose_a : attributes_.transpose_b;
      const Shape& own = region_.graph.type(operands_[i]).shape;
      matrices_.push_back(matrix(region_.places[operands_[i]], own, shape(), transposed));
    }
    pack_constant();
    extras_.reserve(extra_count());  // the matrices refer to them
    for (const ValueId extra : operands_.subspan(2)) {
      extras_.push_back(region_.places[extra]);
      extras_.back().layout = expanded(extras_.back().layout, region_.graph.type(extra).shape, shape());
      matrices_.push_back(matrix(extras_.back(), shape(), shape(), false));
    }
    matrices_.push_back(matrix(result, shape(), shape(), false));
  }

  // A constant b that is the same for all batches lies in panels of columns, part by part, for each step of the
  // enclosing Repeats; not one of which few elements are many of b, and not if that took much more room.
  void pack_constant() {
    const Matrix& b = matrices_[1];
    const Allocation& allocation = e_.builder_.allocation_at(b.place->allocation);
    if (allocation.role != Role::parameter || !gemm_wants_panels(e_.machine_, accumulate(), n_)) return;
    const ConstantBox& constant = e_.builder_.constant_at(allocation.binding);
    const bool whole_panels = plan_.block_n % panel == 0 || plan_.block_n >= part_columns();
    const bool one_matrix = std::ranges::all_of(b.batch, [](int64_t stride) { return stride == 0; });
    const int64_t panels = ceil_div(part_columns(), panel);
    int64_t steps = 1;
    for (const Term& term : b.place->terms) steps *= term.period;
    constexpr int panel_axes = 4;
    if (!constant.whole() || !whole_panels || !one_matrix || panels * panel * plan_.grid_n * 4 > n_ * 5 ||
        steps * k_ * n_ > constant.elements() || b.place->terms.size() + panel_axes > max_rank)
      return;
    ConstantBox box{
        .source = constant.source, .shape = {}, .extents = {}, .strides = {}, .offset = b.place->layout.offset};
    const auto append = [&](int64_t extent, int64_t stride) {
      box.extents.append(extent);
      box.strides.append(stride);
    };
    for (const Term& term : b.place->terms) append(term.period, term.stride);
    append(plan_.grid_n, part_columns() * b.column_stride);
    append(panels, panel * b.column_stride);
    append(k_, b.row_stride);
    append(panel, b.column_stride);
    box.shape = box.extents;
    box.panels = ColumnPanels{.columns = n_, .part = part_columns()};
    panels_ = panels;
    packed_ = e_.parameter_place(std::move(box));
    packed_.terms = b.place->terms;
    for (size_t i = 0; i < packed_.terms.size(); ++i)
      packed_.terms[i].stride = packed_.layout.strides[static_cast<int>(i)];
  }
  int64_t part_columns() const { return part_size(n_, plan_.grid_n); }

  // With a split k, share p of it is summed into slice p of an allocation of its own, and added up in another
  // superstep.
  void place_partial_sums() {
    Shape all{plan_.grid_k};
    for (const int64_t extent : shape()) all.append(extent);
    const Placed place = e_.new_place({accumulate(), all});
    for (uint32_t p = 0; p < plan_.grid_k; ++p) {
      partials_.push_back(place);
      partials_.back().layout = row_major(shape());
      partials_.back().layout.offset = p * shape().elements();
    }
  }
  Matrix partial(uint32_t p) const { return matrix(partials_[p], shape(), shape(), false); }

  // One superstep: the blocks of every part.
  void multiply() {
    const MathRate math = gemm_math(e_.machine_, accumulate(), dtype(0), dtype(1));
    GemmKernel kernel = gemm_kernel(e_.machine_, math, accumulate(), plan_.block_k);
    kernel.panels = panels_ > 0;
    KernelContract contract{.family = kernel};
    contract.expr = split() ? plain_sum(accumulate()) : epilogue_;
    for (size_t i = 0; i < (split() ? 2 : operands_.size()); ++i) contract.operands.push_back({dtype(i), {}});
    contract.operands.push_back({split() ? accumulate() : type_.dtype, {}});

    e_.builder_.begin_superstep();
    for (uint32_t gb = 0; gb < plan_.grid_batch; ++gb) {
      const Range batches = part_range(batches_, plan_.grid_batch, gb);
      for (uint32_t gm = 0; gm < plan_.grid_m; ++gm) {
        const Range rows = part_range(m_, plan_.grid_m, gm);
        for (uint32_t gn = 0; gn < plan_.grid_n; ++gn) {
          const Range columns = part_range(n_, plan_.grid_n, gn);
          for (uint32_t p = 0; p < plan_.grid_k; ++p) {
            const TileId tile((((gb * plan_.grid_m + gm) * plan_.grid_n + gn) * plan_.grid_k + p) % e_.machine_.tiles);
            for (int64_t batch = batches.begin; batch < batches.end; ++batch)
              for (int64_t row = rows.begin; row < rows.end; row += plan_.block_m)
                for (int64_t column = columns.begin; column < columns.end; column += plan_.block_n)
                  run_block(contract, batch, {row, std::min(row + plan_.block_m, rows.end)},
                            {column, std::min(column + plan_.block_n, columns.end)}, p, tile);
          }
        }
      }
    }
    e_.builder_.end_superstep();
  }

  void run_block(KernelContract& contract, int64_t batch, Range rows, Range columns, uint32_t p, TileId tile) {
    const Range depth = part_range(k_, plan_.grid_k, p);
    std::vector<View> views;
    for (size_t i = 0; i < contract.operands.size(); ++i) {
      const bool is_result = i + 1 == contract.operands.size();
      if (i == 1 && panels_ > 0) {
        const int64_t part = columns.begin / part_columns(), first = columns.begin % part_columns() / panel;
        const int64_t offset = ((part * panels_ + first) * k_ + depth.begin) * panel;
        views.push_back(
            e_.view(packed_, offset, {ceil_div(columns.size(), panel), depth.size(), panel}, {k_ * panel, panel, 1}));
        contract.operands[i].access = {Access::strided, Access::strided, Access::unit};
        continue;
      }
      const Matrix operand = !is_result ? matrices_[i] : split() ? partial(p) : result();
      const Range down = i == 1 ? depth : rows, across = i == 0 ? depth : columns;
      const int64_t offset = batch_offset(operand, shape(), batch) + down.begin * operand.row_stride +
                             across.begin * operand.column_stride;
      views.push_back(
          e_.view(*operand.place, offset, {down.size(), across.size()}, {operand.row_stride, operand.column_stride}));
      contract.operands[i].access = {access_of(down.size(), operand.row_stride),
                                     access_of(across.size(), operand.column_stride)};
    }
    e_.builder_.run(configured(e_.builder_, contract, {rows.size(), columns.size(), depth.size()}), tile, views);
  }

  // Another superstep: the tiles share the rows, add up and apply the epilogue.
  void add_partial_sums() {
    KernelContract sum{.family = PointwiseKernel()};
    sum.expr =
        with_partials(epilogue_, accumulate(), static_cast<int>(extra_count()), static_cast<int>(plan_.grid_k) - 1);
    e_.builder_.begin_superstep();
    for (const Part& part : matmul_parts(shape(), plan_)) {
      const int64_t batch = part.rect.row / m_, row = part.rect.row % m_;
      const Shape extents{part.rect.rows, part.rect.columns};
      sum.operands.clear();
      std::vector<View> views;
      const auto add = [&](const Matrix& operand, DType dtype) {
        const int64_t offset =
            batch_offset(operand, shape(), batch) + row * operand.row_stride + part.rect.column * operand.column_stride;
        views.push_back(e_.view(*operand.place, offset, extents, {operand.row_stride, operand.column_stride}));
        sum.operands.push_back({dtype, access_list(extents, {operand.row_stride, operand.column_stride})});
      };
      add(partial(0), accumulate());
      for (size_t i = 2; i < operands_.size(); ++i) add(matrices_[i], dtype(i));
      for (uint32_t p = 1; p < plan_.grid_k; ++p) add(partial(p), accumulate());
      add(result(), type_.dtype);
      e_.builder_.run(configured(e_.builder_, sum, extents), TileId(part.tile.index % e_.machine_.tiles), views);
    }
    e_.builder_.end_superstep();
  }

  Expander& e_;
  RegionState& region_;
  const MatmulPlan& plan_;
  const Matmul& attributes_;
  std::span<const ValueId> operands_;
  const Type& type_;
  Expr epilogue_;
  int64_t m_ = 0, n_ = 0, k_ = 0, batches_ = 1;
  std::vector<Placed> extras_, partials_;
  int64_t panels_ = 0;  // of a part: b is read from `packed_`; 0: as it lies
  Placed packed_;
  std::vector<Matrix> matrices_;
};

void Expander::expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan) {
  const ValueId value = region.graph.result(op);
  const Placed place = result_place(region, value);
  region.places[value] = place;
  if (region.graph.type(value).shape.elements() == 0) return;  // however many batches of nothing
  MatmulExpansion(*this, region, op, plan).run(place);
}

}  // namespace low
