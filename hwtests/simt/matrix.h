// What the matrix instructions of a chip compute, from the table of which lane holds what (compiler/kernels/data/matrix.h)
// and the project's own decoding of numbers, of which the kernels share nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/kernels/data/matrix.h"
#include "runtime/tensor/dtype.h"

namespace low::simt {

// Of elements of this format on the chip.
DType dtype_of(device::MatrixFormat format, const device::Chip& chip);

class MatrixModel {
 public:
  explicit MatrixModel(const device::Chip& chip) : chip_(chip) {}

  // By a wave: in[i] is the MatrixItems (see simt_shim.h) of lane i, out[i] where its items of the sums go. Products are
  // summed in f64 and rounded once, for in which order a chip rounds is not documented; i32 sums wrap around.
  void multiply(const device::MatrixInstruction& row, const void* const* in, void* const* out);

 private:
  // Places of the elements that lanes hold, lane by lane, in row-major order of each operand.
  struct Known {
    device::MatrixInstruction row;
    std::vector<int> a, b, c;
  };
  const Known& known(const device::MatrixInstruction& row);
  // The numbers that a code of one or two bytes means.
  const std::vector<double>& table(device::MatrixFormat format);
  void read(device::MatrixFormat format, const void* items, const int* places, int count, double* elements);

  const device::Chip& chip_;
  std::vector<Known> known_;
  std::vector<double> tables_[7];  // by format
};

}  // namespace low::simt
