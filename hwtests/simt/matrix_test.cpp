// Every matrix instruction of every chip on operands with a single one, which lies where the ISA documents' formulas say
// that lane l has its item i.
#include "hwtests/simt/matrix.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/kernels/device/amd/simt_shim.h"

namespace low::simt {
namespace {

using namespace device;
using enum MatrixFormat;

// Along k of a and of b; a's row and b's column are l % 16 everywhere.
int k_of(const MatrixInstruction& row, const Chip& chip, int l, int i) {
  switch (chip.generation) {
    case Generation::cdna2:  // "AMD Instinct MI200", section 7, and its successors: MFMA
    case Generation::cdna3:
    case Generation::cdna4:
      return row.k == 128 ? 64 * (i / 16) + 16 * (l / 16) + i % 16 : row.k / 4 * (l / 16) + i;
    case Generation::rdna3:  // "RDNA3", section 7.9
      return i;
    case Generation::rdna4:  // "RDNA4", section 7.12
      return 8 * (l / 16) + i;
  }
  return 0;
}
// The row of the result; its column is l % 16.
int row_of(const Chip& chip, int l, int i) {
  switch (chip.generation) {
    case Generation::cdna2:
    case Generation::cdna3:
    case Generation::cdna4:
      return 4 * (l / 16) + i;
    case Generation::rdna3:
      return 2 * i + l / 16;
    case Generation::rdna4:
      return 8 * (l / 16) + i;
  }
  return 0;
}

// Items of all lanes, as they lie in registers.
struct Wave {
  Wave(int lanes, int items, DType type) : per_lane(items), dtype(type), size(byte_size(type)) {
    bytes.resize(static_cast<size_t>(lanes * items) * size);
  }
  unsigned char* at(int lane, int item) { return &bytes[static_cast<size_t>(lane * per_lane + item) * size]; }
  void set(int lane, int item, int number) {
    const uint64_t bits = is_float(dtype) ? encode(dtype, number, Overflow::saturate) : static_cast<uint64_t>(number);
    std::memcpy(at(lane, item), &bits, size);
  }
  int per_lane;
  DType dtype;
  size_t size;
  std::vector<unsigned char> bytes;
};

// One operand has a one at (place, k), where place is a row of a or a column of b; the other has numbers that differ.
void check_one_hot(MatrixModel& model, const MatrixInstruction& row, const Chip& chip) {
  const auto number = [](int place, int k) { return (3 * k + place) % 4; };
  const DType sum_type = row.a == i8 ? DType::i32 : DType::f32;
  const int lanes = row.lanes;
  for (const bool hot_a : {true, false}) {
    Wave a(lanes, items_of(row.a_layout), dtype_of(row.a, chip)),
        b(lanes, items_of(row.b_layout), dtype_of(row.b, chip)), c(lanes, items_of(row.c_layout), sum_type), sums = c;
    Wave &hot = hot_a ? a : b, &other = hot_a ? b : a;
    std::vector<MatrixItems> items;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (int l = 0; l < lanes; ++l) {
      for (int i = 0; i < other.per_lane; ++i) other.set(l, i, number(l % 16, k_of(row, chip, l, i)));
      for (int i = 0; i < c.per_lane; ++i) c.set(l, i, 16 * row_of(chip, l, i) + l % 16);
      items.push_back({a.at(l, 0), b.at(l, 0), c.at(l, 0)});
      out.push_back(sums.at(l, 0));
    }
    for (const MatrixItems& one : items) in.push_back(&one);
    for (int l = 0; l < lanes; ++l) {
      for (int i = 0; i < hot.per_lane; ++i) {
        // RDNA3's lanes hold everything twice.
        const int twin = chip.generation == Generation::rdna3 ? (l + 16) % 32 : l;
        const int hot_place = l % 16, hot_k = k_of(row, chip, l, i);
        hot.set(l, i, 1);
        hot.set(twin, i, 1);
        model.multiply(row, in.data(), out.data());
        hot.set(l, i, 0);
        hot.set(twin, i, 0);
        for (int lane = 0; lane < lanes; ++lane) {
          for (int item = 0; item < c.per_lane; ++item) {
            const int m = row_of(chip, lane, item), n = lane % 16, hot_at = hot_a ? m : n, at = hot_a ? n : m;
            const int expected = 16 * m + n + (hot_at == hot_place ? number(at, hot_k) : 0);
            int32_t whole = 0;
            float real = 0;
            std::memcpy(&whole, sums.at(lane, item), sizeof whole);
            std::memcpy(&real, sums.at(lane, item), sizeof real);
            ASSERT_EQ(row.a == i8 ? static_cast<double>(whole) : static_cast<double>(real), expected)
                << "lane " << lane << ", item " << item;
          }
        }
      }
    }
  }
}

TEST(MatrixModel, OneHotOperands) {
  int instructions = 0;
  for (const Chip* chip : chips) {
    MatrixModel model(*chip);
    for (const MatrixFormat a : {fp8, bf8, f16, bf16, f32, i8}) {
      for (const MatrixFormat b : {fp8, bf8, f16, bf16, f32, i8}) {
        const MatrixInstruction row = matrix_for(*chip, a, b);
        if (row.lanes == 0) continue;
        SCOPED_TRACE(std::string(chip->target) + " " + std::string(name(dtype_of(a, *chip))) + " " +
                     std::string(name(dtype_of(b, *chip))));
        ASSERT_NO_FATAL_FAILURE(check_one_hot(model, row, *chip));
        ++instructions;
      }
    }
  }
  std::printf("%d matrix instructions\n", instructions);
}

}  // namespace
}  // namespace low::simt
