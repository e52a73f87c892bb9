// Operators that move elements or change shapes.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

// A shape that the model states; it may still disagree with the elements there are.
Result<Shape> stated_shape(const Node& node, std::span<const int64_t> extents) {
  if (extents.size() > static_cast<size_t>(max_rank)) {
    return node.unsupported(fmt::format("rank {} exceeds the largest rank, {}", extents.size(), max_rank));
  }
  if (std::ranges::any_of(extents, [](int64_t extent) { return extent < 0; })) {
    return node.invalid(fmt::format("shape [{}] has a negative extent", fmt::join(extents, ",")));
  }
  if (!checked_elements(extents)) {
    return node.unsupported(fmt::format("shape [{}] is too large", fmt::join(extents, ",")));
  }
  return Shape(extents);
}

// The axes of Squeeze and Unsqueeze: attribute before opset 13, input since; nothing if absent. Unique, ascending.
Result<std::optional<std::vector<int64_t>>> axes_of(const Node& node) {
  std::optional<std::vector<int64_t>> axes;
  if (node.opset() < 13) {
    LOW_TRY(axes, node.integers("axes"));
  } else if (node.has(1)) {
    LOW_TRY(axes, node.constant_integers(1, "axes"));
  }
  return axes;
}

// Extent 0 copies the input's (unless allowzero), one -1 takes what is left.
Handled import_reshape(Node& node) {
  LOW_TRY(std::vector<int64_t> extents, node.constant_integers(1, "the shape"));
  LOW_TRY(const int64_t allow_zero, node.integer("allowzero", 0));
  const ModelValue& x = node.input(0);
  const auto stated = fmt::format("[{}]", fmt::join(extents, ","));
  const auto disagree = [&] {
    return node.invalid(fmt::format("{} cannot be reshaped to {}", to_string(x.type), stated));
  };
  std::optional<size_t> inferred;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 0 && allow_zero == 0) {
      if (i >= static_cast<size_t>(x.rank())) return disagree();
      extents[i] = x.shape()[static_cast<int>(i)];
    } else if (extents[i] == -1) {
      if (inferred) return node.invalid(fmt::format("shape {} has more than one -1", stated));
      inferred = i;
      extents[i] = 1;
    }
  }
  LOW_TRY(Shape shape, stated_shape(node, extents));
  if (inferred) {
    const int64_t others = shape.elements();
    const int64_t elements = x.shape().elements();
    if (others == 0 || elements % others != 0) return disagree();
    shape[static_cast<int>(*inferred)] = elements / others;
  }
  if (shape.elements() != x.shape().elements()) return disagree();
  return one(node.emit().reshape(x, shape));
}

Handled import_transpose(Node& node) {
  LOW_TRY(const auto stated, node.integers("perm"));
  const ModelValue& x = node.input(0);
  Shape permutation;
  if (!stated) {
    for (int axis = x.rank(); axis-- > 0;) permutation.append(axis);
    return one(node.emit().transpose(x, permutation));
  }
  if (stated->size() != static_cast<size_t>(x.rank())) {
    return node.invalid(fmt::format("perm [{}] does not fit {}", fmt::join(*stated, ","), to_string(x.type)));
  }
  LOW_TRY_VOID(mark_axes(node, *stated, x.rank()));
  for (const int64_t axis : *stated) permutation.append(axis < 0 ? axis + x.rank() : axis);
  return one(node.emit().transpose(x, permutation));
}

Handled import_squeeze(Node& node) {
  LOW_TRY(const auto axes, axes_of(node));
  const ModelValue& x = node.input(0);
  std::vector<bool> drop(static_cast<size_t>(x.rank()));
  if (axes) {
    LOW_TRY(drop, mark_axes(node, *axes, x.rank()));
  } else {
    for (int axis = 0; axis < x.rank(); ++axis) drop[static_cast<size_t>(axis)] = x.shape()[axis] == 1;
  }
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!drop[static_cast<size_t>(axis)]) {
      shape.append(x.shape()[axis]);
    } else if (x.shape()[axis] != 1) {
      return node.invalid(fmt::format("axis {} of {} is not 1", axis, to_string(x.type)));
    }
  }
  return one(node.emit().reshape(x, shape));
}

Handled import_unsqueeze(Node& node) {
  LOW_TRY(const auto axes, axes_of(node));
  if (!axes) return node.invalid("axes are missing");
  const ModelValue& x = node.input(0);
  if (axes->size() > static_cast<size_t>(max_rank - x.rank())) {
    return node.unsupported(
        fmt::format("rank {} exceeds the largest rank, {}", axes->size() + static_cast<size_t>(x.rank()), max_rank));
  }
  const int rank = x.rank() + static_cast<int>(axes->size());
  LOW_TRY(const std::vector<bool> added, mark_axes(node, *axes, rank));
  Shape shape;
  int from = 0;
  for (int axis = 0; axis < rank; ++axis) shape.append(added[static_cast<size_t>(axis)] ? 1 : x.shape()[from++]);
  return one(node.emit().reshape(x, shape));
}

// [d0 … d(axis-1), d(axis) …]; axis may be the rank, negative ones count from it.
Handled import_flatten(Node& node) {
  LOW_TRY(const int64_t stated, node.integer("axis", 1));
  const ModelValue& x = node.input(0);
  const int64_t axis = stated < 0 ? stated + x.rank() : stated;
  if (axis < 0 || axis > x.rank()) {
    return node.invalid(fmt::format("axis {} is out of range for {}", stated, to_string(x.type)));
  }
  Shape shape{1, 1};
  // A product of some extents can overflow where another extent is 0.
  for (int i = 0; i < x.rank(); ++i) {
    int64_t& extent = shape[i < axis ? 0 : 1];
    if (__builtin_mul_overflow(extent, x.shape()[i], &extent)) return node.unsupported("the result is too large");
  }
  return one(node.emit().reshape(x, shape));
}

// Both ways: an extent of 1 in the stated shape keeps the input's.
Handled import_expand(Node& node) {
  LOW_TRY(const std::vector<int64_t> extents, node.constant_integers(1, "the shape"));
  LOW_TRY(const Shape stated, stated_shape(node, extents));
  const auto shape = broadcast(node.input(0).shape(), stated);
  if (!shape) {
    return node.invalid(fmt::format("{} does not broadcast to {}", to_string(node.input(0).type), to_string(stated)));
  }
  return one(node.emit().expand(node.input(0), *shape));
}

Handled import_identity(Node& node) { return std::vector{node.input(0)}; }

}  // namespace

std::span<const OperatorInfo> movement_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Expand", 8, 2, 2, 1, "", import_expand},
      {"", "Flatten", 1, 1, 1, 1, "axis", import_flatten},
      {"", "Identity", 1, 1, 1, 1, "", import_identity},
      {"", "Reshape", 5, 2, 2, 1, "", import_reshape},
      {"", "Reshape", 14, 2, 2, 1, "allowzero", import_reshape},
      {"", "Squeeze", 1, 1, 1, 1, "axes", import_squeeze},
      {"", "Squeeze", 13, 1, 2, 1, "", import_squeeze},
      {"", "Transpose", 1, 1, 1, 1, "perm", import_transpose},
      {"", "Unsqueeze", 1, 1, 1, 1, "axes", import_unsqueeze},
      {"", "Unsqueeze", 13, 2, 2, 1, "", import_unsqueeze},
  };
  return rows;
}

}  // namespace low
