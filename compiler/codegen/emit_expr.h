// Expressions as C++ over the kernel library.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/graph/expr.h"

namespace low {

// The kernel library's names: "f32", "boolean" in memory; "bool" in a register.
std::string_view storage_type(DType type);
std::string_view value_type(DType type);

// One statement a node, indented by four, the last one `return …;`. `inputs` are the names of the inputs' values.
std::string emit_expr(const Expr& expr, std::span<const std::string> inputs);

}  // namespace low
