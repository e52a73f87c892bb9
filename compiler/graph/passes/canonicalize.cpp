#include <algorithm>

#include "compiler/base/hash.h"
#include "compiler/graph/fold.h"
#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/graph/passes/rewriter.h"

namespace low {
namespace {

constexpr int64_t fold_limit_bytes = int64_t{64} << 20;
// A folded result may be larger than its operands up to this size.
constexpr int64_t growth_limit_bytes = 4096;
// The least that all folded results may have together, and the steps that they may take: a second. A few bytes that
// name constants of megabytes would ask for any number of each.
constexpr int64_t least_max_bytes = int64_t{64} << 20;
constexpr double least_max_steps = double{1 << 26};
// Each round finishes what the one before made possible; real models need fewer than ten.
constexpr int max_rounds = 200;

// Equal operations have equal hashes. Never ordered by, nor printed.
uint64_t hash_of(const Attributes& attributes, std::span<const ValueId> operands, std::span<const Type> types) {
  WordHash hash;
  hash.add(attributes.index());
  for (const ValueId operand : operands) hash.add(operand.index);
  for (const Type& type : types) hash.add(type.dtype).add_list(type.shape);
  if (const auto* constant = std::get_if<Constant>(&attributes)) {
    const std::span<const std::byte> bytes = constant->tensor->bytes();
    hash.add_list(bytes.first(std::min<size_t>(bytes.size(), 64)));
  }
  return hash.result();
}

int64_t bytes_of(const Type& type) { return type.shape.elements() * static_cast<int64_t>(byte_size(type.dtype)); }

int64_t constant_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<Constant>(op.attributes)) bytes += bytes_of(graph.type(graph.result(op)));
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) bytes += constant_bytes(*repeat->body);
  }
  return bytes;
}

}  // namespace

FoldBudget fold_budget(const Graph& graph, int64_t times) {
  const int64_t bytes = times * constant_bytes(graph);
  return {.bytes = least_max_bytes + bytes, .steps = least_max_steps + static_cast<double>(bytes)};
}

namespace {

// Element operations that folding takes, about.
double fold_steps(const Attributes& attributes, std::span<const Tensor* const> operands, const Type& result) {
  double steps = static_cast<double>(result.shape.elements());
  if (const auto* matmul = std::get_if<Matmul>(&attributes)) {
    const Shape& a = operands[0]->shape();
    return steps * static_cast<double>(std::max<int64_t>(a[a.rank() - (matmul->transpose_a ? 2 : 1)], 1));
  }
  if (const auto* pointwise = std::get_if<Pointwise>(&attributes))
    return steps * static_cast<double>(pointwise->expr.nodes.size());
  // What reads all of its operands for few results.
  for (const Tensor* operand : operands) steps = std::max(steps, static_cast<double>(operand->elements()));
  return steps;
}

}  // namespace

Result<Graph> rewrite_once(const Graph& graph, const PassOptions& options, FoldBudget& budget) {
  const std::vector<bool> needed = needed_values(graph);
  Rewriter rewriter(budget);
  std::vector<ValueId> map(graph.value_count());
  for (const Op& op : graph.ops()) {
    // Constants come when something reads them.
    if (std::holds_alternative<Constant>(op.attributes)) continue;
    std::vector<ValueId> operands;
    const auto read = [&] {
      for (const ValueId operand : graph.operands(op)) {
        ValueId& value = map[operand.index];
        const Op& from = graph.op(graph.value(operand).producer);
        if (!value.valid()) value = rewriter.emit(from.attributes, {}, graph.type(operand), from.name);
        operands.push_back(value);
      }
    };
    if (std::holds_alternative<Output>(op.attributes)) read();
    if (std::holds_alternative<Input>(op.attributes)) {
      map[op.results.begin] = rewriter.input(op.name, graph.type(graph.result(op)));
      continue;
    }
    if (std::holds_alternative<Output>(op.attributes)) {
      rewriter.output(op.name, operands[0]);
      continue;
    }
    std::vector<bool> used;
    for (uint32_t i = 0; i < op.results.count; ++i) used.push_back(needed[graph.result(op, i).index]);
    if (std::ranges::find(used, true) == used.end()) continue;
    read();
    const std::vector<Type> types = result_types(graph, op);
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      LOW_TRY(const std::vector<ValueId> results,
              rewrite_repeat(rewriter, *repeat, operands, types, used, op.name, options));
      std::ranges::copy(results, map.begin() + op.results.begin);
      continue;
    }
    map[op.results.begin] = rewriter.emit(op.attributes, operands, types[0], op.name);
  }
  return std::move(rewriter).finish();
}

std::vector<bool> needed_values(const Graph& graph, const std::vector<bool>& live_outputs) {
  std::vector<bool> needed(graph.value_count());
  size_t output = graph.outputs().size();
  for (size_t i = graph.op_count(); i-- > 0;) {
    const Op& op = graph.op(OpId(i));
    bool live = false;
    if (std::holds_alternative<Output>(op.attributes)) {
      --output;
      live = live_outputs.empty() || live_outputs[output];
    }
    for (uint32_t j = 0; j < op.results.count; ++j) live = live || needed[graph.result(op, j).index];
    if (!live) continue;
    for (const ValueId operand : graph.operands(op)) needed[operand.index] = true;
  }
  return needed;
}

ValueId Rewriter::append(Attributes attributes, std::span<const ValueId> operands, std::span<const Type> types,
                         std::string name) {
  const uint64_t hash = hash_of(attributes, operands, types);
  const Graph& graph = builder_.peek();
  const auto [begin, end] = shared_.equal_range(hash);
  for (auto i = begin; i != end; ++i) {
    const Op& op = graph.op(i->second);
    bool same = std::ranges::equal(graph.operands(op), operands) && op.results.count == types.size() &&
                op.attributes == attributes;
    for (uint32_t j = 0; same && j < types.size(); ++j) same = graph.type(graph.result(op, j)) == types[j];
    if (same) return graph.result(op);
  }
  const OpId op = builder_.add(std::move(attributes), operands, types, std::move(name));
  shared_.emplace(hash, op);
  return builder_.peek().result(builder_.peek().op(op));
}

ValueId Rewriter::emit(Attributes attributes, std::span<const ValueId> operands, const Type& type, std::string name) {
  if (const std::optional<ValueId> simpler = simplify_op(*this, attributes, operands, type, name)) return *simpler;
  if (const std::optional<ValueId> folded = fold_constant(attributes, operands, type, name)) return *folded;
  return append(std::move(attributes), operands, {&type, 1}, std::move(name));
}

ValueId Rewriter::reshape(ValueId value, const Shape& shape, const std::string& name) {
  return emit(Reshape{}, {value}, {type(value).dtype, shape}, name);
}

ValueId Rewriter::constant(Tensor tensor, const std::string& name) {
  const Type type{tensor.dtype(), tensor.shape()};
  return append(Constant{std::make_shared<const Tensor>(std::move(tensor))}, {}, {&type, 1}, name);
}

std::optional<ValueId> Rewriter::fold_constant(const Attributes& attributes, std::span<const ValueId> operands,
                                               const Type& type, const std::string& name) {
  if (std::holds_alternative<Constant>(attributes) || !foldable(attributes)) return std::nullopt;
  std::vector<std::shared_ptr<const Tensor>> tensors;
  std::vector<const Tensor*> pointers;
  int64_t operand_bytes = 0;
  for (const ValueId operand : operands) {
    tensors.push_back(tensor(operand));
    if (tensors.back() == nullptr) return std::nullopt;
    pointers.push_back(tensors.back().get());
    operand_bytes += bytes_of(builder_.type(operand));
  }
  const int64_t bytes = bytes_of(type);
  if (bytes > fold_limit_bytes) return std::nullopt;
  const bool grows = bytes > operand_bytes;
  if (grows && bytes > growth_limit_bytes) return std::nullopt;
  // Compressed weights and broadcasts stay as they are, however small: what reads them does it better.
  const bool stays = std::holds_alternative<Dequantize>(attributes) || std::holds_alternative<Expand>(attributes);
  if (grows && stays && type.shape.elements() > 1) return std::nullopt;
  const double steps = fold_steps(attributes, pointers, type);
  if (bytes > budget_.bytes || steps > budget_.steps) return std::nullopt;
  budget_.bytes -= bytes;
  budget_.steps -= steps;
  // A graph of the operation alone, since `fold` asks a graph for types.
  GraphBuilder builder;
  std::vector<ValueId> inputs;
  for (const ValueId operand : operands) inputs.push_back(builder.input("", builder_.type(operand)));
  const OpId op = builder.add(attributes, inputs, {&type, 1});
  Result<std::vector<Tensor>> folded = fold(builder.peek(), builder.peek().op(op), pointers);
  if (!folded) return std::nullopt;
  return constant(std::move((*folded)[0]), name);
}

Result<Graph> canonicalize(const Graph& graph, const PassOptions& options) {
  FoldBudget budget = fold_budget(graph, 1);
  return canonicalize(graph, options, budget);
}

Result<Graph> canonicalize(const Graph& graph, const PassOptions& options, FoldBudget& budget) {
  LOW_TRY(Graph current, rewrite_once(graph, options, budget));
  for (int round = 0; round < max_rounds; ++round) {
    LOW_TRY(Graph next, rewrite_once(current, options, budget));
    if (next == current) return current;
    current = std::move(next);
  }
  return fail(ErrorKind::internal, "canonicalize: no fixed point was reached");
}

}  // namespace low
