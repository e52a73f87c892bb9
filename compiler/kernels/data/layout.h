// Which lane of a wave holds which elements of a matrix: a layout says it once for kernels, for the order in which
// constants are packed, for the model of an instruction, and for tests.
//
//   a 16x16x32 instruction's operand a:  {.lane = {{k, 4, 8}, {m, 16, 1}}, .item = {{k, 8, 1}}}
//   lane 37 = 2 * 16 + 5, item 3:        k = 2 * 8 + 3 * 1, m = 5 * 1
//
//   lane    items of k    m
//   0..15   0..7          0..15
//   16..31  8..15         0..15
//   32..47  16..23        0..15
//   48..63  24..31        0..15
#pragma once

namespace low::device {

enum class Axis { none, m, n, k };

// A digit of a lane's or an item's number: digit times stride is added to the place along the axis. Stride 0: lanes that
// hold copies.
struct Digit {
  Axis axis = Axis::none;
  int count = 1, stride = 0;
  constexpr bool operator==(const Digit&) const = default;
};

// Each outermost digit first.
struct Layout {
  Digit lane[3] = {}, item[3] = {};
  constexpr bool operator==(const Layout&) const = default;
};

struct Element {
  int m = 0, n = 0, k = 0;
};

constexpr int count_of(const Digit (&digits)[3]) { return digits[0].count * digits[1].count * digits[2].count; }
constexpr int lanes_of(const Layout& layout) { return count_of(layout.lane); }
constexpr int items_of(const Layout& layout) { return count_of(layout.item); }

// Part of the code around it, however much there is: GPUs' kernels call no function.
[[gnu::always_inline]] constexpr void add_digits(const Digit (&digits)[3], int number, Element& element) {
  for (int i = 2; i >= 0; --i) {
    const int place = number % digits[i].count * digits[i].stride;
    number /= digits[i].count;
    if (digits[i].axis == Axis::m) element.m += place;
    if (digits[i].axis == Axis::n) element.n += place;
    if (digits[i].axis == Axis::k) element.k += place;
  }
}

// Items that are neighbours, from the first on.
constexpr int innermost_run(const Layout& layout) {
  int run = 1;
  for (int i = 2; i >= 0; --i) {
    if (layout.item[i].count == 1) continue;
    if (layout.item[i].stride != run) break;
    run *= layout.item[i].count;
  }
  return run;
}

// What `lane` holds as its item number `item`.
[[gnu::always_inline]] constexpr Element element_at(const Layout& layout, int lane, int item) {
  Element element;
  add_digits(layout.lane, lane, element);
  add_digits(layout.item, item, element);
  return element;
}

constexpr int place_along(const Element& element, Axis axis) {
  return axis == Axis::m ? element.m : axis == Axis::n ? element.n : axis == Axis::k ? element.k : 0;
}

// Whether a wave of `lanes` lanes holds each element of rows x columns, along these two axes and no other, as often as
// any other.
constexpr bool covers(const Layout& layout, int lanes, Axis row_axis, int rows, Axis column_axis, int columns) {
  constexpr int most = 8192;
  const int held = lanes * items_of(layout), elements = rows * columns;
  if (lanes_of(layout) != lanes || elements > most || held % elements != 0) return false;
  int times[most] = {};
  for (int lane = 0; lane < lanes; ++lane) {
    for (int item = 0; item < items_of(layout); ++item) {
      const Element element = element_at(layout, lane, item);
      const int row = place_along(element, row_axis), column = place_along(element, column_axis);
      if (row >= rows || column >= columns) return false;
      ++times[row * columns + column];
    }
  }
  for (int i = 0; i < elements; ++i) {
    if (times[i] != held / elements) return false;
  }
  return true;
}

}  // namespace low::device
