#include "runtime/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace low {

void check_failed(const char* file, int line, const char* text) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold\n", file, line, text);
  std::abort();
}

}  // namespace low
