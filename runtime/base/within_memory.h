// The end of exceptions that say that memory ran out.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace low {

// What `function` returns; ErrorKind::unsupported, naming the stage, when it asks for more memory than there is.
template <typename Function>
auto within_memory(std::string_view stage, Function&& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return fail(ErrorKind::unsupported, std::string(stage) + ": there is not enough memory for this model");
}

}  // namespace low
