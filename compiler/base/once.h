// A value that is made when it is first asked for.
#pragma once

#include <mutex>

namespace low {

// Safe to ask from several threads: one makes it, with its own make(), and the others wait.
template <typename T>
class Once {
 public:
  template <typename Make>
  const T& get(Make&& make) {
    std::call_once(once_, [&] { value_ = make(); });
    return value_;
  }

 private:
  std::once_flag once_;
  T value_;
};

}  // namespace low
