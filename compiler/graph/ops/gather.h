// gather: elements by indices.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

inline constexpr std::array<std::string_view, 3> gather_modes = {"axis", "elements", "nd"};

// (data, indices) -> (value). Indices are i32 or i64; a negative one counts from the end; one out of range is clamped
// to the axis, so that no input makes a program read elsewhere (ONNX leaves it undefined; the frontend refuses constant
// ones).
//  `axis`: indices [i…] replace axis `axis` of data: result [data before axis…, i…, data behind axis…] (ONNX Gather)
//  `elements`: indices and result have one shape; result[i…] = data[i… with i[axis] = indices[i…]] (GatherElements)
//  `nd`: indices [batch…, i…, depth]; the last axis is an index into the data's axes batch … batch + depth (GatherND),
//        each element of which is counted from the end or clamped on its own; result [batch…, i…, data behind axis
//        batch + depth…]; depth is at least 1
// Other axes of `elements` may be shorter in indices than in data. Where the result has elements, no indexed axis of
// data is empty.
struct Gather {
  static constexpr std::string_view name = "gather";
  static constexpr Parts parts = Parts::indexed;
  enum class Mode : uint8_t { axis, elements, nd } mode = Mode::axis;
  int axis = 0;        // axis, elements
  int batch_axes = 0;  // nd
  bool operator==(const Gather&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("mode", self.mode, gather_modes);
    visit("axis", self.axis);
    visit("batch_axes", self.batch_axes);
  }
};
std::string problem(const Gather& op, const OpTypes& types);
Tensor fold(const Gather& op, FoldOperands operands, const Type& result);

// Nothing when the shapes do not fit each other, the rank is beyond max_rank, or elements would be read from an empty
// axis.
std::optional<Shape> gather_shape(const Gather& gather, const Shape& data, const Shape& indices);

}  // namespace low
