// Layouts by number, so that states of a search are short lists of numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

namespace low {

using LayoutNumber = int32_t;
inline constexpr LayoutNumber no_layout = -1;

// Equal layouts have one number, in the order in which they were first asked for. hash_of(Layout) is known.
template <typename Layout>
class LayoutTable {
 public:
  LayoutNumber number(const Layout& layout) {
    std::vector<LayoutNumber>& alike = numbers_[hash_of(layout)];
    for (const LayoutNumber other : alike) {
      if ((*this)[other] == layout) return other;
    }
    alike.push_back(static_cast<LayoutNumber>(layouts_.size()));
    layouts_.push_back(layout);
    return alike.back();
  }
  const Layout& operator[](LayoutNumber number) const { return layouts_[static_cast<size_t>(number)]; }

 private:
  std::deque<Layout> layouts_;                                       // they keep their place
  std::unordered_map<uint64_t, std::vector<LayoutNumber>> numbers_;  // by hash; looked up only
};

}  // namespace low
