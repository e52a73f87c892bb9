#include "hwtests/simt/matrix.h"

#include <algorithm>
#include <cstring>

#include "compiler/kernels/device/amd/simt_shim.h"
#include "runtime/base/error.h"

namespace low::simt {
namespace {

using device::Axis;
using device::Fp8;
using device::MatrixFormat;
using device::MatrixInstruction;

std::vector<int> places_of(const device::Layout& layout, int lanes, Axis row, Axis column, int columns) {
  std::vector<int> places;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int item = 0; item < items_of(layout); ++item) {
      const device::Element at = element_at(layout, lane, item);
      places.push_back(place_along(at, row) * columns + place_along(at, column));
    }
  }
  return places;
}

// sums[m, n] += a[m, k] * b[k, n].
void add_products(const MatrixInstruction& row, const double* a, const double* b, double* sums) {
  for (int m = 0; m < row.m; ++m) {
    for (int k = 0; k < row.k; ++k) {
      const double factor = a[m * row.k + k];
      for (int n = 0; n < row.n; ++n) sums[m * row.n + n] += factor * b[k * row.n + n];
    }
  }
}

template <typename T>
T read_as(const void* items, int i) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(items) + static_cast<size_t>(i) * sizeof value, sizeof value);
  return value;
}

}  // namespace

DType dtype_of(MatrixFormat format, const device::Chip& chip) {
  switch (format) {
    case MatrixFormat::fp8:
      return chip.fp8 == Fp8::fnuz ? DType::f8e4m3fnuz : DType::f8e4m3fn;
    case MatrixFormat::bf8:
      return chip.fp8 == Fp8::fnuz ? DType::f8e5m2fnuz : DType::f8e5m2;
    case MatrixFormat::f16:
      return DType::f16;
    case MatrixFormat::bf16:
      return DType::bf16;
    case MatrixFormat::f32:
      return DType::f32;
    case MatrixFormat::i8:
      return DType::i8;
    case MatrixFormat::f64:
      break;
  }
  return DType::f64;
}

const MatrixModel::Known& MatrixModel::known(const MatrixInstruction& row) {
  const auto found = std::ranges::find(known_, row, &Known::row);
  if (found != known_.end()) return *found;
  return known_.emplace_back(Known{.row = row,
                                   .a = places_of(row.a_layout, row.lanes, Axis::m, Axis::k, row.k),
                                   .b = places_of(row.b_layout, row.lanes, Axis::k, Axis::n, row.n),
                                   .c = places_of(row.c_layout, row.lanes, Axis::m, Axis::n, row.n)});
}

const std::vector<double>& MatrixModel::table(MatrixFormat format) {
  std::vector<double>& numbers = tables_[static_cast<size_t>(format)];
  if (numbers.empty()) {
    const DType dtype = dtype_of(format, chip_);
    const uint64_t codes = uint64_t{1} << (8 * byte_size(dtype));
    for (uint64_t code = 0; code < codes; ++code) numbers.push_back(decode(dtype, code));
  }
  return numbers;
}

void MatrixModel::read(MatrixFormat format, const void* items, const int* places, int count, double* elements) {
  const std::vector<double>* const numbers =
      format == MatrixFormat::f32 || format == MatrixFormat::i8 ? nullptr : &table(format);
  const double* const number_of = numbers == nullptr ? nullptr : numbers->data();
  if (format == MatrixFormat::f32) {
    for (int i = 0; i < count; ++i) elements[places[i]] = static_cast<double>(read_as<float>(items, i));
  } else if (format == MatrixFormat::i8) {
    for (int i = 0; i < count; ++i) elements[places[i]] = read_as<int8_t>(items, i);
  } else if (numbers->size() == 256) {
    for (int i = 0; i < count; ++i) elements[places[i]] = number_of[read_as<uint8_t>(items, i)];
  } else {
    for (int i = 0; i < count; ++i) elements[places[i]] = number_of[read_as<uint16_t>(items, i)];
  }
}

void MatrixModel::multiply(const MatrixInstruction& row, const void* const* in, void* const* out) {
  const Known& places = known(row);
  const int a_items = items_of(row.a_layout), b_items = items_of(row.b_layout), c_items = items_of(row.c_layout);
  const bool integers = row.a == MatrixFormat::i8;
  std::vector<double> a(static_cast<size_t>(row.m * row.k)), b(static_cast<size_t>(row.k * row.n)),
      sums(static_cast<size_t>(row.m * row.n));
  double* const all_sums = sums.data();
  const int* const c_places = places.c.data();
  for (int lane = 0; lane < row.lanes; ++lane) {
    const auto& items = *static_cast<const MatrixItems*>(in[lane]);
    read(row.a, items.a, &places.a[static_cast<size_t>(lane * a_items)], a_items, a.data());
    read(row.b, items.b, &places.b[static_cast<size_t>(lane * b_items)], b_items, b.data());
    for (int i = 0; i < c_items; ++i)
      all_sums[c_places[lane * c_items + i]] =
          integers ? read_as<int32_t>(items.c, i) : static_cast<double>(read_as<float>(items.c, i));
  }
  add_products(row, a.data(), b.data(), sums.data());
  for (int lane = 0; lane < row.lanes; ++lane) {
    for (int i = 0; i < c_items; ++i) {
      const double sum = all_sums[c_places[lane * c_items + i]];
      auto* const to = static_cast<unsigned char*>(out[lane]) + static_cast<size_t>(i) * 4;
      if (integers) {
        const auto wrapped = static_cast<uint32_t>(static_cast<int64_t>(sum));
        std::memcpy(to, &wrapped, sizeof wrapped);
      } else {
        const auto rounded = static_cast<float>(sum);
        std::memcpy(to, &rounded, sizeof rounded);
      }
    }
  }
}

}  // namespace low::simt
