// Arithmetic of whole numbers.
#pragma once

#include <cstdint>

namespace low {

// a / b rounded up; a is 0 or more, b at least 1.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// The smallest multiple of `step` that is not less than a.
constexpr int64_t round_up(int64_t a, int64_t step) { return ceil_div(a, step) * step; }

}  // namespace low
