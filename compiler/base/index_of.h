// Lists in which each item is once, by first use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace low {

// The index of `item`, which is appended if it is not there. For lists of up to a few hundred items.
template <typename T>
uint32_t index_of(std::vector<T>& items, const T& item) {
  const auto found = std::ranges::find(items, item);
  const auto index = static_cast<uint32_t>(found - items.begin());
  if (found == items.end()) items.push_back(item);
  return index;
}

}  // namespace low
