// What machines without global memory compute only along the last axis, or not at all, in terms of what they do.
#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/passes.h"

namespace low {
namespace {

bool is_last_axis(const Shape& axes, const Shape& shape) { return axes == Shape{shape.rank() - 1}; }

bool is_legal(const Graph& graph);
bool is_legal(const Graph& graph, const Op& op) {
  if (std::holds_alternative<Pad>(op.attributes)) return false;
  if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) return is_legal(*repeat->body);
  if (op.operands.count == 0) return true;
  const Shape& shape = graph.type(graph.operands(op)[0]).shape;
  return parts_of(op.attributes) != Parts::rows || is_last_axis(joined_axes(op.attributes), shape);
}
bool is_legal(const Graph& graph) {
  return std::ranges::all_of(graph.ops(), [&](const Op& op) { return is_legal(graph, op); });
}

int64_t product(const Shape& shape, int begin, int end) {
  int64_t result = 1;
  for (int axis = begin; axis < end; ++axis) result *= shape[axis];
  return result;
}

// Elements start, start + step, … of an axis.
struct AxisRun {
  int64_t start = 0, step = 1, count = 0;
};

int64_t modulo(int64_t value, int64_t period) { return (value % period + period) % period; }

// The runs that a padded axis of `total` elements consists of; nothing if there are more than a few.
std::vector<AxisRun> periodic_runs(bool reflect, int64_t extent, int64_t before, int64_t total) {
  constexpr size_t few = 8;
  const int64_t period = reflect ? 2 * extent - 2 : extent;
  std::vector<AxisRun> runs;
  for (int64_t done = 0; done < total;) {
    if (runs.size() == few) return {};
    const int64_t place = modulo(done - before, period);
    AxisRun run = place < extent ? AxisRun{place, 1, extent - place} : AxisRun{period - place, -1, period - place};
    run.count = std::min(run.count, total - done);
    runs.push_back(run);
    done += run.count;
  }
  return runs;
}

class Legalizer {
 public:
  explicit Legalizer(const Graph& graph) : graph_(graph), map_(graph.value_count()) {}

  Result<Graph> run() && {
    for (const Op& op : graph_.ops()) {
      if (is_legal(graph_, op) || std::holds_alternative<Repeat>(op.attributes)) {
        Attributes attributes = op.attributes;
        LOW_TRY_VOID(rewrite_body(attributes, [](const Graph& body) { return Legalizer(body).run(); }));
        copy_op(graph_, op, std::move(attributes), builder_, map_);
      } else {
        map_[op.results.begin] = rewritten(op, mapped_operands(graph_, op, map_));
      }
    }
    return std::move(builder_).finish();
  }

 private:
  ValueId rewritten(const Op& op, std::span<const ValueId> operands) {
    if (const auto* pad = std::get_if<Pad>(&op.attributes)) {
      return padded(*pad, operands, graph_.type(graph_.result(op)).shape, op.name);
    }
    const ValueId moved = std::visit(
        [&]<typename Kind>(const Kind& kind) {
          // Along one axis, and of one operand.
          if constexpr (JoinsAxes<Kind> && requires { kind.axis; }) {
            return along_last(kind, op, operands[0]);
          } else {
            return ValueId();
          }
        },
        op.attributes);
    if (moved.valid()) return moved;
    const auto* reduce = std::get_if<Reduce>(&op.attributes);
    const int last = shape(operands[0]).rank() - 1;
    if (reduce == nullptr || reduce->axes.rank() < 2 || reduce->axes[reduce->axes.rank() - 1] != last) {
      return grouped(op, op.attributes, operands);
    }
    std::vector<ValueId> partial(operands.begin(), operands.end());
    partial[0] = reduced_rows(*reduce, operands[0], op.name);
    Reduce others = *reduce;
    others.map.reset();
    return grouped(op, others, partial);
  }

  template <typename Kind>
  ValueId along_last(Kind kind, const Op& op, ValueId operand) {
    Type type = graph_.type(graph_.result(op));
    const int last = type.shape.rank() - 1;
    Shape swap;
    for (int axis = 0; axis <= last; ++axis) swap.append(axis);
    std::swap(swap[kind.axis], swap[last]);
    std::swap(type.shape[kind.axis], type.shape[last]);
    kind.axis = last;
    const ValueId result = builder_.add_one(kind, {{builder_.transpose(operand, swap, op.name)}}, type, op.name);
    return builder_.transpose(result, swap, op.name);
  }

  Shape shape(ValueId value) const { return builder_.type(value).shape; }

  // Along the last of several axes first: rows stay where they are, and little is left to be moved.
  ValueId reduced_rows(const Reduce& reduce, ValueId value, const std::string& name) {
    Reduce first = reduce;
    first.axes = {shape(value).rank() - 1};
    first.epilogue.reset();
    return builder_.reduce(std::move(first), {&value, 1}, reduce.accumulate, name);
  }

  // reduce and rowwise over [rows, columns]: columns are all of the operation's axes together, rows all others.
  ValueId grouped(const Op& op, const Attributes& attributes, std::span<const ValueId> operands) {
    const auto* reduce = std::get_if<Reduce>(&attributes);
    const Shape& axes = reduce != nullptr ? reduce->axes : std::get<Rowwise>(attributes).axes;
    const Type type = graph_.type(graph_.result(op));
    Shape order;
    for (int axis = 0; axis < type.shape.rank(); ++axis) {
      if (std::ranges::find(axes, axis) == axes.end()) order.append(axis);
    }
    const int outer = order.rank();
    for (const int64_t axis : axes) order.append(axis);

    const auto as_matrix = [&](ValueId value) {
      const ValueId moved = builder_.transpose(value, order, op.name);
      const Shape from = shape(moved);
      return builder_.reshape(moved, {product(from, 0, outer), product(from, outer, from.rank())}, op.name);
    };
    std::vector<ValueId> matrices{as_matrix(operands[0])};
    for (const ValueId extra : operands.subspan(1)) {
      if (shape(extra).elements() == 1) {
        matrices.push_back(builder_.reshape(extra, {}, op.name));
        continue;
      }
      // Along rows, and along columns, either the same for all or written out.
      const int missing = type.shape.rank() - shape(extra).rank();
      Shape full;
      for (int axis = 0; axis < type.shape.rank(); ++axis) {
        full.append(axis < missing ? 1 : shape(extra)[axis - missing]);
      }
      Shape wide = full;
      for (const auto& [begin, end] : {std::pair(0, outer), std::pair(outer, order.rank())}) {
        bool varies = false;
        for (int i = begin; i < end; ++i) varies = varies || full[static_cast<int>(order[i])] != 1;
        for (int i = begin; varies && i < end; ++i) {
          wide[static_cast<int>(order[i])] = type.shape[static_cast<int>(order[i])];
        }
      }
      ValueId value = builder_.reshape(extra, full, op.name);
      if (!(wide == full)) value = builder_.expand(value, wide, op.name);
      matrices.push_back(as_matrix(value));
    }

    ValueId result;
    if (reduce != nullptr) {
      Reduce along_last = *reduce;
      along_last.axes = {1};
      result = builder_.reduce(std::move(along_last), matrices, type.dtype, op.name);
    } else {
      Rowwise along_last = std::get<Rowwise>(attributes);
      along_last.axes = {1};
      result = builder_.rowwise(std::move(along_last), matrices, type.dtype, op.name);
    }
    Shape moved, back = order;
    for (int i = 0; i < order.rank(); ++i) {
      moved.append(type.shape[static_cast<int>(order[i])]);
      back[static_cast<int>(order[i])] = i;
    }
    return builder_.transpose(builder_.reshape(result, moved, op.name), back, op.name);
  }

  // Axis by axis, since an element's place along an axis decides on its own where it is read.
  ValueId padded(const Pad& pad, std::span<const ValueId> operands, const Shape& to, const std::string& name) {
    ValueId value = operands[0];
    for (int axis = 0; axis < to.rank(); ++axis) {
      const int64_t extent = shape(value)[axis], before = pad.before[axis];
      const int64_t after = to[axis] - before - extent;
      if (before == 0 && after == 0) continue;
      if (pad.mode == Pad::Mode::constant) {
        value = joined(
            {filled(operands[1], value, axis, before, name), value, filled(operands[1], value, axis, after, name)},
            axis, name);
      } else if (pad.mode == Pad::Mode::edge || extent == 1) {
        value = joined({repeated(value, axis, 0, before, name), value, repeated(value, axis, extent - 1, after, name)},
                       axis, name);
      } else {
        value = periodic(value, axis, pad.mode == Pad::Mode::reflect, before, to[axis], name);
      }
    }
    return value;
  }

  ValueId joined(std::vector<ValueId> pieces, int axis, const std::string& name) {
    std::erase_if(pieces, [&](ValueId piece) { return !piece.valid() || shape(piece)[axis] == 0; });
    return pieces.size() == 1 ? pieces[0] : builder_.concat(pieces, axis, name);
  }

  // `count` along `axis`, none of which is no piece; like `value` otherwise.
  ValueId filled(ValueId fill, ValueId value, int axis, int64_t count, const std::string& name) {
    if (count == 0) return {};
    Shape to = shape(value);
    to[axis] = count;
    return builder_.expand(fill, to, name);
  }

  ValueId sliced(ValueId value, int axis, const AxisRun& run, const std::string& name) {
    Shape to = shape(value), start, step;
    if (run.start == 0 && run.step == 1 && run.count == to[axis]) return value;
    for (int i = 0; i < to.rank(); ++i) {
      start.append(i == axis ? run.start : 0);
      step.append(i == axis ? run.step : 1);
    }
    to[axis] = run.count;
    return builder_.slice(value, start, step, to, name);
  }

  // One element of an axis, `count` times.
  ValueId repeated(ValueId value, int axis, int64_t place, int64_t count, const std::string& name) {
    if (count == 0) return {};
    const ValueId one = sliced(value, axis, {place, 1, 1}, name);
    Shape to = shape(one);
    to[axis] = count;
    return count == 1 ? one : builder_.expand(one, to, name);
  }

  ValueId periodic(ValueId value, int axis, bool reflect, int64_t before, int64_t total, const std::string& name) {
    const int64_t extent = shape(value)[axis];
    std::vector<ValueId> pieces;
    for (const AxisRun& run : periodic_runs(reflect, extent, before, total)) {
      pieces.push_back(sliced(value, axis, run, name));
    }
    if (!pieces.empty()) return joined(pieces, axis, name);
    // Many periods: all of them one after another, of which a slice is taken.
    ValueId period = value;
    if (reflect && extent > 2) {
      period = joined({value, sliced(value, axis, {extent - 2, -1, extent - 2}, name)}, axis, name);
    }
    Shape to = shape(period);
    const int64_t outer = product(to, 0, axis), inner = product(to, axis + 1, to.rank()), length = to[axis];
    const int64_t first = modulo(-before, length);
    const int64_t copies = (first + total + length - 1) / length;
    ValueId all = builder_.reshape(period, {outer, 1, length * inner}, name);
    all = builder_.expand(all, {outer, copies, length * inner}, name);
    all = builder_.reshape(all, {outer, copies * length, inner}, name);
    all = sliced(all, 1, {first, 1, total}, name);
    to[axis] = total;
    return builder_.reshape(all, to, name);
  }

  const Graph& graph_;
  std::vector<ValueId> map_;
  GraphBuilder builder_;
};

}  // namespace

Result<Graph> legalize_for_distributed_memory(const Graph& graph, const PassOptions& options) {
  if (is_legal(graph)) return graph;
  LOW_TRY(const Graph legal, Legalizer(graph).run());
  LOW_TRY(Graph clean, canonicalize(legal, options));
  if (is_legal(clean)) return clean;
  return Legalizer(clean).run();
}

}  // namespace low
