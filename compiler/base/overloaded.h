// Functions as one that std::visit calls.
#pragma once

namespace low {

template <typename... T>
struct Overloaded : T... {
  using T::operator()...;
};

}  // namespace low
