// A model constant as parameters hold it: the whole, or a dense copy of a box of it, cut only when somebody asks for
// its bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/base/once.h"
#include "runtime/tensor/tensor.h"

namespace low {

// Columns of a matrix in panels, as kernels for packed matrices read them: the box's last four axes are parts of the
// columns, panels of a part, rows, and columns of a panel. What is beyond a part's or the matrix's last column is 0.
struct ColumnPanels {
  int64_t columns = 0;  // of the matrix
  int64_t part = 0;     // of a part; the last one may have fewer
  bool operator==(const ColumnPanels&) const = default;
};

struct ConstantBox {
  std::shared_ptr<const Tensor> source;
  Shape shape;  // of the tensor that the box stands for; as many elements as the box has
  // The box in `source`, in its row-major elements; no axes: all of `source`.
  Shape extents;
  Strides strides;
  int64_t offset = 0;
  std::optional<ColumnPanels> panels = std::nullopt;
  // What tensor() and sha256() gave when they were first asked; copies of the box share it.
  struct Made {
    Once<std::shared_ptr<const Tensor>> tensor;
    Once<std::string> hash;
  };
  std::shared_ptr<Made> made = std::make_shared<Made>();

  bool whole() const { return extents.rank() == 0; }
  DType dtype() const { return source->dtype(); }
  int64_t elements() const { return shape.elements(); }
  uint64_t byte_count() const { return static_cast<uint64_t>(elements()) * byte_size(dtype()); }
  // `source` itself, or a new tensor, made once.
  std::shared_ptr<const Tensor> tensor() const;
  // Of its bytes (hex).
  const std::string& sha256() const;
  // The same box of the same tensor: sufficient for equal content, not necessary.
  bool same_box(const ConstantBox& other) const;
};
ConstantBox whole_constant(std::shared_ptr<const Tensor> tensor);

// By content.
bool operator==(const ConstantBox& a, const ConstantBox& b);

}  // namespace low
