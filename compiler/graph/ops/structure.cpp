#include "compiler/graph/ops/structure.h"

#include <fmt/format.h>

namespace low {

std::string problem(const Input&, const OpTypes& op) { return op.counts(0, 0, 1); }

std::string problem(const Output&, const OpTypes& op) { return op.counts(1, 1, 0); }

std::string problem(const Constant& a, const OpTypes& op) {
  if (std::string error = op.counts(0, 0, 1); !error.empty()) return error;
  if (a.tensor == nullptr) return "no tensor";
  if (static_cast<int64_t>(a.tensor->bytes().size()) !=
      a.tensor->elements() * static_cast<int64_t>(byte_size(a.tensor->dtype()))) {
    return "a tensor without its bytes";
  }
  return op.expect({a.tensor->dtype(), a.tensor->shape()});
}

Tensor fold(const Constant& op, FoldOperands, const Type&) { return *op.tensor; }

}  // namespace low
