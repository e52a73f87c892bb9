// Any text as an expression: refused, or one that is printed and read back, and evaluates.
#include <cstdint>

#include "compiler/graph/expr.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<Expr> expr = parse_expr({reinterpret_cast<const char*>(data), size});
  if (!expr) return 0;
  const Result<Expr> again = parse_expr(to_string(*expr));
  LOW_CHECK(again && to_string(*again) == to_string(*expr));
  for (const uint64_t bits : {uint64_t{0}, uint64_t{1}, UINT64_MAX, uint64_t{0x7f800000}}) {
    const std::vector<uint64_t> inputs(expr->inputs, bits);
    static_cast<void>(evaluate(*expr, inputs));
  }
  return 0;
}
