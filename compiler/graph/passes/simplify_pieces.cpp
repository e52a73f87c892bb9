// Local simplification of operations that put tensors together, or pick from them.
#include <algorithm>

#include "compiler/graph/passes/rewriter.h"

namespace low {
namespace {

// Beyond this many indices, it is not worth looking for an order in them.
constexpr int64_t max_indices = int64_t{1} << 20;

// start, start + step, …: the places on an axis of `extent` elements that constant indices name. A step of 0 is none.
struct Progression {
  int64_t start, step;
};
std::optional<Progression> progression(const Tensor& indices, int64_t extent) {
  const int64_t count = indices.elements();
  if (count < 1 || count > max_indices || extent < 1) return std::nullopt;
  const auto place = [&](int64_t i) {
    const int64_t index = indices.integer(i);
    return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
  };
  const Progression found{place(0), count == 1 ? 1 : place(1) - place(0)};
  if (found.step == 0) return std::nullopt;
  for (int64_t i = 2; i < count; ++i) {
    if (place(i) - place(i - 1) != found.step) return std::nullopt;
  }
  return found;
}

}  // namespace

// Nested ones along one axis become one; operands without elements along the axis are dropped.
std::optional<ValueId> simplify_concat(Rewriter& r, const Concat& concat, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name) {
  // A dozen concats that each read the one before twice would have thousands, in each of them; later stages look at all
  // of them.
  constexpr size_t most_operands = 512;
  std::vector<ValueId> values;
  for (const ValueId operand : operands) {
    if (r.type(operand).shape[concat.axis] == 0 && type.shape[concat.axis] != 0) continue;
    const std::optional<Concat> inner = r.producer<Concat>(operand);
    const size_t pieces = inner ? r.producer_operand_count(operand) : 0;
    if (!inner || inner->axis != concat.axis || values.size() + pieces > most_operands) {
      values.push_back(operand);
      continue;
    }
    for (size_t i = 0; i < pieces; ++i) values.push_back(r.producer_operand(operand, i));
  }
  // Where the result has no elements along the axis, all operands are alike.
  if (type.shape[concat.axis] == 0) values.resize(1);
  if (values.size() == 1) return values[0];
  if (std::ranges::equal(values, operands)) return std::nullopt;
  return r.emit(concat, values, type, name);
}

// Constant indices that are evenly spaced: a slice.
std::optional<ValueId> simplify_gather(Rewriter& r, const Gather& gather, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name) {
  const std::shared_ptr<const Tensor> indices = r.tensor(operands[1]);
  if (gather.mode != Gather::Mode::axis || indices == nullptr) return std::nullopt;
  const Shape data = r.type(operands[0]).shape;
  const std::optional<Progression> found = progression(*indices, data[gather.axis]);
  if (!found) return std::nullopt;
  Slice slice{data, data};
  for (int axis = 0; axis < data.rank(); ++axis) {
    slice.start[axis] = 0;
    slice.step[axis] = 1;
  }
  slice.start[gather.axis] = found->start;
  slice.step[gather.axis] = found->step;
  Shape cut = data;
  cut[gather.axis] = indices->elements();
  return r.reshape(r.emit(slice, {operands[0]}, {type.dtype, cut}, name), type.shape, name);
}

}  // namespace low
