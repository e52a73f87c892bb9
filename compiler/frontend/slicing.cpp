// Operators that cut, join and repeat tensors.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

// What a slice of all axes reads: everything, until an axis is changed.
struct Cut {
  Shape start, step, extents;
  explicit Cut(const Shape& shape) : start(shape), step(shape), extents(shape) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      start[axis] = 0;
      step[axis] = 1;
    }
  }
};

// Negative bounds count from the end; both are then clamped to what a walk in the step's direction can reach.
void cut_axis(Cut& cut, int axis, int64_t start, int64_t end, int64_t step) {
  const int64_t extent = cut.extents[axis];
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  // A larger step takes the same elements: one, or none.
  step = std::clamp(step, -std::max<int64_t>(extent, 1), std::max<int64_t>(extent, 1));
  int64_t count = 0;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    end = std::clamp<int64_t>(end, 0, extent);
    count = end > start ? (end - start - 1) / step + 1 : 0;
  } else {
    start = std::clamp<int64_t>(start, -1, extent - 1);
    end = std::clamp<int64_t>(end, -1, extent - 1);
    count = start > end ? (start - end - 1) / -step + 1 : 0;
  }
  cut.start[axis] = count == 0 ? 0 : start;
  cut.step[axis] = step;
  cut.extents[axis] = count;
}

// axes: 0, 1, … where none are given.
Handled slice(Node& node, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
              const std::optional<std::vector<int64_t>>& axes, const std::vector<int64_t>& steps) {
  const ModelValue& x = node.input(0);
  if (ends.size() != starts.size() || (axes && axes->size() != starts.size()) || steps.size() != starts.size() ||
      starts.size() > static_cast<size_t>(x.rank())) {
    return node.invalid(fmt::format("{} starts, {} ends, {} axes and {} steps for {}", starts.size(), ends.size(),
                                    axes ? axes->size() : starts.size(), steps.size(), to_string(x.type)));
  }
  if (axes) {
    LOW_TRY_VOID(mark_axes(node, *axes, x.rank()));
  }
  Cut cut(x.shape());
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axes ? (*axes)[i] : static_cast<int64_t>(i);
    if (steps[i] == 0) return node.invalid("a step is 0");
    cut_axis(cut, static_cast<int>(axis < 0 ? axis + x.rank() : axis), starts[i], ends[i], steps[i]);
  }
  return one(node.emit().slice(x, cut.start, cut.step, cut.extents));
}

// How long the parts of Split are along its axis.
Result<std::vector<int64_t>> part_sizes(Node& node, int64_t extent) {
  const int64_t parts = node.output_count();
  std::optional<std::vector<int64_t>> stated;
  if (node.opset() < 13) {
    LOW_TRY(stated, node.integers("split"));
  } else if (node.has(1)) {
    LOW_TRY(stated, node.constant_integers(1, "the split"));
  }
  LOW_TRY(const int64_t count, node.integer("num_outputs", parts));
  if (count != parts) return node.invalid(fmt::format("num_outputs is {}, the node has {}", count, parts));
  if (stated) {
    if (static_cast<int64_t>(stated->size()) != parts) {
      return node.invalid(fmt::format("{} sizes for {} outputs", stated->size(), parts));
    }
    int64_t sum = 0;
    for (const int64_t size : *stated) {
      if (size < 0 || size > extent - sum) return node.invalid(fmt::format("the sizes do not add up to {}", extent));
      sum += size;
    }
    if (sum != extent) return node.invalid(fmt::format("the sizes add up to {} instead of {}", sum, extent));
    return *stated;
  }
  if (parts == 0) return node.invalid("there are no outputs");
  if (node.opset() < 18 && extent % parts != 0) {
    return node.invalid(fmt::format("{} elements cannot be split into {} equal parts", extent, parts));
  }
  // All of one size but the last, which may be shorter.
  const int64_t size = (extent + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
  return sizes;
}

// Pads as [before…, after…] of `axes` (all when there are none), for every axis.
struct Margins {
  std::vector<int64_t> before, after;
};
Result<Margins> margins(const Node& node, const std::vector<int64_t>& pads,
                        const std::optional<std::vector<int64_t>>& axes) {
  const int rank = node.input(0).rank();
  const size_t count = axes ? axes->size() : static_cast<size_t>(rank);
  if (pads.size() != 2 * count) {
    return node.invalid(fmt::format("{} pads, {} are expected", pads.size(), 2 * count));
  }
  if (axes) {
    LOW_TRY_VOID(mark_axes(node, *axes, rank));
  }
  Margins result{std::vector<int64_t>(static_cast<size_t>(rank)), std::vector<int64_t>(static_cast<size_t>(rank))};
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = axes ? (*axes)[i] : static_cast<int64_t>(i);
    const auto place = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    result.before[place] = pads[i];
    result.after[place] = pads[i + count];
  }
  return result;
}

// Negative margins cut first; then the others are added.
Handled pad(Node& node, const Margins& given, const std::optional<ModelValue>& fill) {
  const ModelValue& x = node.input(0);
  LOW_TRY(const std::string stated, node.text("mode", "constant"));
  Pad attributes;
  if (stated == "edge") {
    attributes.mode = Pad::Mode::edge;
  } else if (stated == "reflect") {
    attributes.mode = Pad::Mode::reflect;
  } else if (stated == "wrap" && node.opset() >= 19) {
    attributes.mode = Pad::Mode::wrap;
  } else if (stated != "constant") {
    return node.invalid(fmt::format("attribute mode is {}", in_quotes(stated)));
  }
  Cut cut(x.shape());
  Shape after = x.shape();
  attributes.before = x.shape();
  bool any = false;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t before = given.before[static_cast<size_t>(axis)];
    const int64_t behind = given.after[static_cast<size_t>(axis)];
    const int64_t extent = x.shape()[axis];
    const int64_t first = before < 0 ? before < -extent ? extent : -before : 0;
    const int64_t dropped = behind < 0 ? behind < -extent ? extent : -behind : 0;
    if (first + dropped > extent) {
      return node.invalid(
          fmt::format("pads {} and {} leave nothing of axis {} of {}", before, behind, axis, to_string(x.type)));
    }
    cut.extents[axis] = extent - first - dropped;
    cut.start[axis] = cut.extents[axis] == 0 ? 0 : first;
    attributes.before[axis] = std::max<int64_t>(before, 0);
    after[axis] = std::max<int64_t>(behind, 0);
    if (std::max(attributes.before[axis], after[axis]) > max_tensor_bytes) {
      return node.unsupported("the result is too large");
    }
    const bool grows = attributes.before[axis] > 0 || after[axis] > 0;
    if (grows && cut.extents[axis] == 0 && attributes.mode != Pad::Mode::constant) {
      return node.invalid(fmt::format("axis {} is empty: there is nothing to pad with", axis));
    }
    any = any || grows;
  }
  LOW_TRY(const ModelValue kept, node.emit().slice(x, cut.start, cut.step, cut.extents));
  if (!any) return std::vector{kept};
  std::vector<ModelValue> operands = {kept};
  if (attributes.mode == Pad::Mode::constant) {
    if (fill) {
      if (fill->dtype() != x.dtype() || fill->shape().elements() != 1) {
        return node.invalid(
            fmt::format("the value is {}, a scalar of type {} is expected", to_string(fill->type), name(x.dtype())));
      }
      LOW_TRY(operands.emplace_back(), node.emit().reshape(*fill, Shape{}));
    } else {
      operands.push_back(constant_value(Tensor(x.dtype(), Shape{})));
    }
  }
  return one(node.emit().pad(attributes, operands, after));
}

Handled import_concat(Node& node) {
  LOW_TRY(const int64_t stated, node.integer("axis", 1));
  if (node.opset() >= 4 && !node.has_attribute("axis")) return node.invalid("attribute axis is missing");
  LOW_TRY(const int axis, normalize_axis(node, stated, node.input(0).rank()));
  std::vector<ModelValue> operands;
  std::vector<Shape> shapes;
  for (int i = 0; i < node.input_count(); ++i) {
    if (!node.has(i)) return node.invalid(fmt::format("input {} is missing", i));
    const ModelValue& operand = node.input(i);
    operands.push_back(operand);
    shapes.push_back(operand.shape());
    if (operand.dtype() != node.input(0).dtype() || !concat_shape(shapes, axis)) {
      return node.invalid(fmt::format("inputs 0 and {} are {} and {}: they cannot be joined along axis {}", i,
                                      to_string(node.input(0).type), to_string(operand.type), axis));
    }
  }
  return one(node.emit().concat(operands, axis));
}

Handled import_slice_attributes(Node& node) {
  LOW_TRY(const auto starts, node.integers("starts"));
  LOW_TRY(const auto ends, node.integers("ends"));
  LOW_TRY(const auto axes, node.integers("axes"));
  if (!starts || !ends) return node.invalid("attributes starts and ends are expected");
  return slice(node, *starts, *ends, axes, std::vector<int64_t>(starts->size(), 1));
}

Handled import_slice(Node& node) {
  LOW_TRY(const std::vector<int64_t> starts, node.constant_integers(1, "starts"));
  LOW_TRY(const std::vector<int64_t> ends, node.constant_integers(2, "ends"));
  std::optional<std::vector<int64_t>> axes;
  std::vector<int64_t> steps(starts.size(), 1);
  if (node.has(3)) {
    LOW_TRY(axes, node.constant_integers(3, "axes"));
  }
  if (node.has(4)) {
    LOW_TRY(steps, node.constant_integers(4, "steps"));
  }
  return slice(node, starts, ends, axes, steps);
}

Handled import_split(Node& node) {
  const ModelValue x = node.input(0);
  LOW_TRY(const int64_t stated, node.integer("axis", 0));
  LOW_TRY(const int axis, normalize_axis(node, stated, x.rank()));
  LOW_TRY(const std::vector<int64_t> sizes, part_sizes(node, x.shape()[axis]));
  std::vector<ModelValue> results;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    Cut cut(x.shape());
    cut.start[axis] = size == 0 ? 0 : first;
    cut.extents[axis] = size;
    LOW_TRY(results.emplace_back(), node.emit().slice(x, cut.start, cut.step, cut.extents));
    first += size;
  }
  return results;
}

Handled import_pad_attributes(Node& node) {
  LOW_TRY(const auto pads, node.integers("pads"));
  LOW_TRY(const float value, node.number("value", 0));
  if (!pads) return node.invalid("attribute pads is missing");
  LOW_TRY(const Margins given, margins(node, *pads, std::nullopt));
  Tensor fill(node.input(0).dtype(), Shape{});
  if (is_float(fill.dtype())) {
    fill.set_bits(0, encode(fill.dtype(), static_cast<double>(value), Overflow::propagate));
  } else {
    fill.set_value(0, static_cast<double>(value));
  }
  return pad(node, given, constant_value(std::move(fill)));
}

Handled import_pad(Node& node) {
  LOW_TRY(const std::vector<int64_t> pads, node.constant_integers(1, "pads"));
  std::optional<std::vector<int64_t>> axes;
  if (node.has(3)) {
    LOW_TRY(axes, node.constant_integers(3, "axes"));
  }
  LOW_TRY(const Margins given, margins(node, pads, axes));
  return pad(node, given, node.has(2) ? std::optional(node.input(2)) : std::nullopt);
}

// A new axis in front of each repeated one, which is expanded and then joined with it; where that exceeds the largest
// rank, the tensor is joined with itself.
Handled import_tile(Node& node) {
  const ModelValue x = node.input(0);
  LOW_TRY(const std::vector<int64_t> repeats, node.constant_integers(1, "the repeats"));
  if (repeats.size() != static_cast<size_t>(x.rank())) {
    return node.invalid(fmt::format("{} repeats for {}", repeats.size(), to_string(x.type)));
  }
  std::vector<int64_t> split, wide, joined;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t repeat = repeats[static_cast<size_t>(axis)];
    if (repeat < 0) return node.invalid(fmt::format("repeat {} is negative", repeat));
    if (repeat != 1) {
      split.push_back(1);
      wide.push_back(repeat);
    }
    split.push_back(x.shape()[axis]);
    wide.push_back(x.shape()[axis]);
    if (!checked_elements(wide)) return node.unsupported("the result is too large");
    joined.push_back(x.shape()[axis] * repeat);
  }
  if (split.size() <= static_cast<size_t>(max_rank)) {
    LOW_TRY(const ModelValue spread, node.emit().reshape(x, Shape(split)));
    LOW_TRY(const ModelValue expanded, node.emit().expand(spread, Shape(wide)));
    return one(node.emit().reshape(expanded, Shape(joined)));
  }
  if (Shape(joined).elements() == 0)
    return one(node.emit().expand(constant_value(Tensor(x.dtype(), Shape{})), Shape(joined)));
  Pad attributes{.mode = Pad::Mode::wrap, .before = x.shape()};
  Shape after(joined);
  for (int axis = 0; axis < x.rank(); ++axis) {
    attributes.before[axis] = 0;
    after[axis] -= x.shape()[axis];
  }
  return one(node.emit().pad(attributes, std::span(&x, 1), after));
}

// The block size of DepthToSpace and SpaceToDepth, for an input [N, C, H, W].
Result<int64_t> block_size(const Node& node) {
  LOW_TRY(const int64_t block, node.integer("blocksize", 0));
  if (node.input(0).rank() != 4) {
    return node.invalid(fmt::format("input 0 is {}, a rank of 4 is expected", to_string(node.input(0).type)));
  }
  if (block < 1 || block > INT32_MAX) return node.invalid(fmt::format("blocksize is {}", block));
  return block;
}

// Whether a block's channels have the depth as their outer axis (CRD) or as their inner one (DCR).
Result<bool> depth_is_first(const Node& node) {
  LOW_TRY(const std::string mode, node.text("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") {
    return node.invalid(fmt::format("attribute mode is {}, \"DCR\" or \"CRD\" is expected", in_quotes(mode)));
  }
  return mode == "CRD";
}

Handled import_depth_to_space(Node& node) {
  LOW_TRY(const int64_t block, block_size(node));
  LOW_TRY(const bool depth_first, depth_is_first(node));
  const Shape from = node.input(0).shape();
  if (from[1] % (block * block) != 0) {
    return node.invalid(fmt::format("{} channels are not a multiple of {}", from[1], block * block));
  }
  const int64_t depth = from[1] / (block * block);
  const Shape parts = depth_first ? Shape{from[0], depth, block, block, from[2], from[3]}
                                  : Shape{from[0], block, block, depth, from[2], from[3]};
  LOW_TRY(const ModelValue spread, node.emit().reshape(node.input(0), parts));
  LOW_TRY(const ModelValue moved,
          node.emit().transpose(spread, depth_first ? Shape{0, 1, 4, 2, 5, 3} : Shape{0, 3, 4, 1, 5, 2}));
  int64_t height = 0, width = 0;
  if (__builtin_mul_overflow(from[2], block, &height) || __builtin_mul_overflow(from[3], block, &width)) {
    return node.unsupported("the result is too large");
  }
  return one(node.emit().reshape(moved, Shape{from[0], depth, height, width}));
}

Handled import_space_to_depth(Node& node) {
  LOW_TRY(const int64_t block, block_size(node));
  LOW_TRY(const bool depth_first, depth_is_first(node));
  const Shape from = node.input(0).shape();
  if (from[2] % block != 0 || from[3] % block != 0) {
    return node.invalid(fmt::format("{} is not a multiple of the blocksize, {}", to_string(from), block));
  }
  const Shape parts{from[0], from[1], from[2] / block, block, from[3] / block, block};
  LOW_TRY(const ModelValue spread, node.emit().reshape(node.input(0), parts));
  LOW_TRY(const ModelValue moved,
          node.emit().transpose(spread, depth_first ? Shape{0, 1, 3, 5, 2, 4} : Shape{0, 3, 5, 1, 2, 4}));
  int64_t depth = 0;
  if (__builtin_mul_overflow(from[1], block * block, &depth)) return node.unsupported("the result is too large");
  return one(node.emit().reshape(moved, Shape{from[0], depth, parts[2], parts[4]}));
}

}  // namespace

std::span<const OperatorInfo> slicing_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Concat", 1, 1, any_number, 1, "axis", import_concat},
      {"", "DepthToSpace", 1, 1, 1, 1, "blocksize", import_depth_to_space},
      {"", "DepthToSpace", 11, 1, 1, 1, "blocksize mode", import_depth_to_space},
      {"", "Pad", 2, 1, 1, 1, "mode pads value", import_pad_attributes},
      {"", "Pad", 11, 2, 3, 1, "mode", import_pad},
      {"", "Pad", 18, 2, 4, 1, "mode", import_pad},
      {"", "Slice", 1, 1, 1, 1, "axes ends starts", import_slice_attributes},
      {"", "Slice", 10, 3, 5, 1, "", import_slice},
      {"", "SpaceToDepth", 1, 1, 1, 1, "blocksize", import_space_to_depth},
      {"", "SpaceToDepth", 28, 1, 1, 1, "blocksize mode", import_space_to_depth},
      {"", "Split", 2, 1, 1, any_number, "axis split", import_split},
      {"", "Split", 13, 1, 2, any_number, "axis", import_split},
      {"", "Split", 18, 1, 2, any_number, "axis num_outputs", import_split},
      {"", "Tile", 6, 2, 2, 1, "", import_tile},
  };
  return rows;
}

}  // namespace low
