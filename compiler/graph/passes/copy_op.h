// What passes share that build a new graph beside the old one, operation by operation.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/graph/graph.h"

namespace low {

using ValueMap = std::vector<ValueId>;  // the new value of each old one

std::vector<ValueId> mapped_operands(const Graph& graph, const Op& op, const ValueMap& map);
std::vector<Type> result_types(const Graph& graph, const Op& op);

// Appends an operation with the result types of `op`, an operation of `graph`; its results become the new values of
// op's.
void copy_op(const Graph& graph, const Op& op, Attributes attributes, std::span<const ValueId> operands,
             const std::string& name, GraphBuilder& builder, ValueMap& map);
// The same with the new values of op's operands, and its name.
void copy_op(const Graph& graph, const Op& op, Attributes attributes, GraphBuilder& builder, ValueMap& map);

// The body of a Repeat becomes pass(body), a Result<Graph>; other attributes stay.
template <typename Pass>
Result<void> rewrite_body(Attributes& attributes, Pass&& pass) {
  if (auto* repeat = std::get_if<Repeat>(&attributes)) {
    LOW_TRY(Graph body, pass(*repeat->body));
    repeat->body = std::make_shared<const Graph>(std::move(body));
  }
  return {};
}

}  // namespace low
