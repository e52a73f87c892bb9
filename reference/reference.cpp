#include "reference/reference.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "reference/operations.h"

namespace low::reference {
namespace {

using Handle = std::shared_ptr<const Tensor>;

Handle share(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }

// Inputs and results of a graph or of one iteration of a body, in their order.
std::vector<Handle> run_graph(const Graph& graph, std::span<const Handle> inputs, ThreadPool* pool);

// Computes the results of one operation from its operands.
class Interpreter {
 public:
  Interpreter(const Graph& graph, const Op& op, Operands operands, ThreadPool* pool)
      : graph_(graph), op_(op), operands_(operands), pool_(pool) {}

  std::vector<Handle> operator()(const Input&) const { return {operands_[0]}; }
  std::vector<Handle> operator()(const Constant& constant) const { return {constant.tensor}; }
  std::vector<Handle> operator()(const Output&) const { return {}; }
  template <typename Attributes>
  std::vector<Handle> operator()(const Attributes& attributes) const {
    return {share(compute(attributes, operands_, type(0), pool_))};
  }
  std::vector<Handle> operator()(const Repeat& repeat) const {
    std::vector<Handle> values(operands_.begin(), operands_.begin() + repeat.carried);
    std::vector<Tensor> collected;
    for (uint32_t i = 0; i < repeat.collected; ++i) {
      const Type& result = type(repeat.carried + i);
      collected.emplace_back(result.dtype, result.shape);
    }
    const Operands invariant = operands_.subspan(repeat.carried, repeat.invariant);
    const Operands iterated = operands_.subspan(repeat.carried + repeat.invariant, repeat.iterated);
    for (int64_t iteration = 0; iteration < repeat.count; ++iteration) {
      values.insert(values.end(), invariant.begin(), invariant.end());
      for (const Handle& operand : iterated) values.push_back(share(take(*operand, iteration)));
      values = run_graph(*repeat.body, values, pool_);
      for (uint32_t i = 0; i < repeat.collected; ++i) put(collected[i], iteration, *values[repeat.carried + i]);
      values.resize(repeat.carried);
    }
    for (Tensor& tensor : collected) values.push_back(share(std::move(tensor)));
    return values;
  }

 private:
  const Type& type(uint32_t result) const { return graph_.type(graph_.result(op_, result)); }

  const Graph& graph_;
  const Op& op_;
  Operands operands_;
  ThreadPool* pool_;
};

std::vector<Handle> run_graph(const Graph& graph, std::span<const Handle> inputs, ThreadPool* pool) {
  // How often each value is still to be read: its tensor is let go after the last time.
  Table<ValueId, uint32_t> uses(graph.value_count());
  for (const Op& op : graph.ops()) {
    for (const ValueId operand : graph.operands(op)) ++uses[operand];
  }
  Table<ValueId, Handle> values(graph.value_count());
  std::vector<Handle> outputs;
  size_t next_input = 0;
  for (const Op& op : graph.ops()) {
    std::vector<Handle> operands;
    for (const ValueId operand : graph.operands(op)) {
      operands.push_back(values[operand]);
      if (--uses[operand] == 0) values[operand].reset();
    }
    if (std::holds_alternative<Input>(op.attributes)) operands.push_back(inputs[next_input++]);
    if (std::holds_alternative<Output>(op.attributes)) outputs.push_back(operands[0]);
    const std::vector<Handle> results = std::visit(Interpreter(graph, op, operands, pool), op.attributes);
    for (uint32_t i = 0; i < results.size(); ++i) {
      const ValueId result = graph.result(op, i);
      if (uses[result] > 0) values[result] = results[i];
    }
  }
  return outputs;
}

}  // namespace

Result<std::vector<Tensor>> run(const Graph& graph, std::span<const Tensor> inputs, ThreadPool* pool) {
  if (inputs.size() != graph.inputs().size()) {
    return fail(ErrorKind::usage, fmt::format("the model has {} inputs, but {} tensors were given",
                                              graph.inputs().size(), inputs.size()));
  }
  std::vector<Handle> handles;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Op& op = graph.op(graph.inputs()[i]);
    const Type& type = graph.type(graph.result(op));
    if (inputs[i].dtype() != type.dtype || inputs[i].shape() != type.shape) {
      return fail(ErrorKind::usage,
                  fmt::format("input '{}' is {}{}, but a tensor of {}{} was given", op.name, name(type.dtype),
                              to_string(type.shape), name(inputs[i].dtype()), to_string(inputs[i].shape())));
    }
    // The caller keeps the tensor: nothing to delete.
    handles.emplace_back(Handle(), &inputs[i]);
  }
  try {
    std::vector<Tensor> results;
    for (const Handle& output : run_graph(graph, handles, pool)) results.push_back(*output);
    return results;
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::unsupported, "the reference needs more memory than there is");
  }
}

}  // namespace low::reference
