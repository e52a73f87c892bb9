#include "compiler/low/expand/expansion_budget.h"

#include <fmt/format.h>

namespace low {

std::unexpected<Error> ExpansionBudget::too_much() const {
  std::string with = "with the model's outputs";
  if (op_ != nullptr) with = fmt::format("with {} \"{}\"", kind_name(op_->attributes), op_->name);
  return fail(
      ErrorKind::unsupported,
      fmt::format(
          "expand: {}, the model needs {:.0f} or more pieces (operands of kernel runs, copies and transfers, and "
          "places for them) on {}; at most {:.0f} are supported",
          with, pieces_, machine_, limit_));
}

}  // namespace low
