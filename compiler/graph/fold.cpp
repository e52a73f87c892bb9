#include "compiler/graph/fold.h"

#include <fmt/format.h>

namespace low {
namespace {

template <typename Kind>
concept Folds = requires(const Kind& op, FoldOperands operands, const Type& type) { fold(op, operands, type); };

}  // namespace

bool foldable(const Attributes& attributes) {
  return std::visit([]<typename Kind>(const Kind&) { return Folds<Kind>; }, attributes);
}

Result<std::vector<Tensor>> fold(const Graph& graph, const Op& op, FoldOperands operands) {
  return std::visit(
      [&]<typename Kind>(const Kind& attributes) -> Result<std::vector<Tensor>> {
        if constexpr (Folds<Kind>) {
          std::vector<Tensor> results;
          results.push_back(fold(attributes, operands, graph.type(graph.result(op))));
          return results;
        } else {
          return fail(ErrorKind::internal, fmt::format("{} cannot be folded", kind_name(op.attributes)));
        }
      },
      op.attributes);
}

}  // namespace low
