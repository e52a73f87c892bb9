// Rebuilds a graph operation by operation, with local simplification, folding and sharing on the way. Part of
// canonicalize.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/passes/passes.h"

namespace low {

// What folding constants may still make and take, in all rounds and all passes together: a few operations ask for
// products of any size, and each may want constants as large as those that it reads.
struct FoldBudget {
  int64_t bytes = 0;
  double steps = 0;  // element operations
};

class Rewriter {
 public:
  explicit Rewriter(FoldBudget& budget) : budget_(budget) {}

  // Appends an operation of one result, unless an existing or simpler value is the same; returns that value.
  ValueId emit(Attributes attributes, std::span<const ValueId> operands, const Type& type, std::string name);
  ValueId emit(Attributes attributes, std::initializer_list<ValueId> operands, const Type& type, std::string name) {
    return emit(std::move(attributes), std::span(operands.begin(), operands.size()), type, std::move(name));
  }
  // Appends as it is; equal operations are still shared. The first result of the operation.
  ValueId append(Attributes attributes, std::span<const ValueId> operands, std::span<const Type> types,
                 std::string name);

  ValueId reshape(ValueId value, const Shape& shape, const std::string& name);
  ValueId constant(Tensor tensor, const std::string& name);
  ValueId input(std::string name, const Type& type) { return builder_.input(std::move(name), type); }
  void output(std::string name, ValueId value) { builder_.output(std::move(name), value); }

  // By value: what the graph holds moves as operations are appended.
  Type type(ValueId value) const { return builder_.type(value); }
  // The attributes of the value's producer when it is of this kind; copied for the same reason.
  template <typename Kind>
  std::optional<Kind> producer(ValueId value) const {
    const auto* kind = std::get_if<Kind>(&producer_op(value).attributes);
    return kind == nullptr ? std::nullopt : std::optional<Kind>(*kind);
  }
  ValueId producer_operand(ValueId value, size_t i = 0) const {
    return builder_.peek().operands(producer_op(value))[i];
  }
  size_t producer_operand_count(ValueId value) const { return producer_op(value).operands.count; }
  // The tensor of a constant, or null.
  std::shared_ptr<const Tensor> tensor(ValueId value) const {
    const std::optional<Constant> constant = producer<Constant>(value);
    return constant ? constant->tensor : nullptr;
  }
  FoldBudget& budget() { return budget_; }
  Result<Graph> finish() && { return std::move(builder_).finish(); }

 private:
  const Op& producer_op(ValueId value) const { return builder_.peek().op(builder_.peek().value(value).producer); }
  std::optional<ValueId> fold_constant(const Attributes& attributes, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name);

  FoldBudget& budget_;
  GraphBuilder builder_;
  std::multimap<uint64_t, OpId> shared_;  // by a hash of kind, operands and types
};

// One step of simplification of an operation of one result: a value that is the same (simplify*.cpp).
std::optional<ValueId> simplify_op(Rewriter& rewriter, const Attributes& attributes, std::span<const ValueId> operands,
                                   const Type& type, const std::string& name);
std::optional<ValueId> simplify_pointwise(Rewriter& rewriter, const Pointwise& pointwise,
                                          std::span<const ValueId> operands, const Type& type, const std::string& name);
std::optional<ValueId> simplify_reduce(Rewriter& rewriter, const Reduce& reduce, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name);
std::optional<ValueId> simplify_rowwise(Rewriter& rewriter, const Rowwise& rowwise, std::span<const ValueId> operands,
                                        const Type& type, const std::string& name);
std::optional<ValueId> simplify_attention(Rewriter& rewriter, const Attention& attention,
                                          std::span<const ValueId> operands, const Type& type, const std::string& name);
std::optional<ValueId> simplify_concat(Rewriter& rewriter, const Concat& concat, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name);
std::optional<ValueId> simplify_gather(Rewriter& rewriter, const Gather& gather, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name);
std::optional<ValueId> simplify_matmul(Rewriter& rewriter, const Matmul& matmul, std::span<const ValueId> operands,
                                       const Type& type, const std::string& name);
// The epilogue without what it does not need; its extras are appended to `operands`. A plain conversion of the
// accumulator is what happens without an epilogue: nothing.
std::optional<Expr> compact_epilogue(const Rewriter& rewriter, const Expr& expr, std::span<const ValueId> extras,
                                     DType accumulator, const Type& type, std::vector<ValueId>& operands);
// Of an operation that works element by element (the others broadcast): moves a reshape of an operand behind it when
// that lowers the rank it works at. Gives the operands at the lower rank, and that shape.
struct SunkReshape {
  std::vector<ValueId> operands;
  Shape shape;
};
std::optional<SunkReshape> sink_reshape(Rewriter& rewriter, std::span<const ValueId> operands, const Shape& shape);

// For `times` as many bytes as the graph's constants have, and a few steps for each.
FoldBudget fold_budget(const Graph& graph, int64_t times);
Result<Graph> canonicalize(const Graph& graph, const PassOptions& options, FoldBudget& budget);

// One round over the graph and the bodies in it; canonicalize repeats it until nothing changes. A body's rounds are
// those of the graph around it: a fixed point of its own in each of them would cost exponentially in the depth of the
// nest.
Result<Graph> rewrite_once(const Graph& graph, const PassOptions& options, FoldBudget& budget);

// Appends a simplified repeat; one value for each old result, none for results that nothing uses.
Result<std::vector<ValueId>> rewrite_repeat(Rewriter& rewriter, const Repeat& repeat, std::span<const ValueId> operands,
                                            std::span<const Type> types, const std::vector<bool>& used,
                                            const std::string& name, const PassOptions& options);

// Which values an output (those with `live_outputs`, all when it is empty) needs.
std::vector<bool> needed_values(const Graph& graph, const std::vector<bool>& live_outputs = {});

}  // namespace low
