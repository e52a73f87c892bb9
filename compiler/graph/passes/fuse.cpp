#include <algorithm>
#include <set>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/graph/passes/rewriter.h"
#include "compiler/graph/quantize_expr.h"

namespace low {
namespace {

constexpr size_t max_inputs = 8;   // of a pointwise, and of an epilogue besides the accumulator
constexpr size_t max_nodes = 256;  // of one expression
constexpr int64_t max_literal_elements = 16;

// quantize, dequantize and cast become pointwise; constants of equal elements move into the expressions that read them.
// Scales of quantize and dequantize stay operands, so that a repeat can iterate them.
class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph), map_(graph.value_count()) {}

  Result<Graph> run() {
    for (const Op& op : graph_.ops()) {
      Attributes attributes = op.attributes;
      std::vector<ValueId> operands = mapped_operands(graph_, op, map_);
      const auto dtype = [&](size_t i) { return builder_.type(operands[i]).dtype; };
      const DType result = op.results.count > 0 ? graph_.type(graph_.result(op)).dtype : DType::f32;
      if (const auto* quantize = std::get_if<Quantize>(&op.attributes)) {
        attributes = Pointwise{quantize_expr(dtype(0), dtype(1), operands.size() > 2, result, quantize->overflow)};
        shape_parameters(operands, quantize->axis, op.name);
      } else if (const auto* dequantize = std::get_if<Dequantize>(&op.attributes)) {
        attributes = Pointwise{dequantize_expr(dtype(0), dtype(1), operands.size() > 2, result)};
        shape_parameters(operands, dequantize->axis, op.name);
      } else if (const auto* cast = std::get_if<Cast>(&op.attributes)) {
        ExprBuilder builder(1);
        const uint16_t node = builder.convert(builder.input(0, dtype(0)), result, cast->overflow);
        attributes = Pointwise{std::move(builder).finish(node)};
      } else if (auto* pointwise = std::get_if<Pointwise>(&attributes)) {
        pointwise->expr = with_literals(pointwise->expr, operands);
      }
      LOW_TRY_VOID(rewrite_body(attributes, fuse));
      copy_op(graph_, op, std::move(attributes), operands, op.name, builder_, map_);
    }
    return std::move(builder_).finish();
  }

 private:
  void shape_parameters(std::vector<ValueId>& operands, std::optional<int> axis, const std::string& name) {
    const Shape shape = parameter_shape(builder_.type(operands[0]).shape, axis);
    for (size_t i = 1; i < operands.size(); ++i) operands[i] = builder_.reshape(operands[i], shape, name);
  }

  // The one value of a small constant's elements.
  std::optional<uint64_t> literal(ValueId value) const {
    const Graph& graph = builder_.peek();
    const auto* constant = std::get_if<Constant>(&graph.op(graph.value(value).producer).attributes);
    if (constant == nullptr) return std::nullopt;
    const int64_t count = constant->tensor->elements();
    if (count < 1 || count > max_literal_elements) return std::nullopt;
    const uint64_t bits = constant->tensor->bits(0);
    for (int64_t i = 1; i < count; ++i) {
      if (constant->tensor->bits(i) != bits) return std::nullopt;
    }
    return bits;
  }

  Expr with_literals(const Expr& expr, std::vector<ValueId>& operands) const {
    std::vector<ValueId> kept;
    for (const ValueId operand : operands) {
      if (!literal(operand)) kept.push_back(operand);
    }
    ExprBuilder builder(static_cast<int>(kept.size()));
    std::vector<uint16_t> arguments;
    int next = 0;
    for (const ValueId operand : operands) {
      const DType dtype = builder_.type(operand).dtype;
      const std::optional<uint64_t> bits = literal(operand);
      arguments.push_back(bits ? builder.constant_bits(dtype, *bits) : builder.input(next++, dtype));
    }
    operands = std::move(kept);
    return std::move(builder).finish(builder.inline_expr(expr, arguments));
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
};

// An expression that is worth computing twice.
bool is_cheap(const Expr& expr) {
  return expr.nodes.size() <= 32 && std::ranges::none_of(expr.nodes, [](const ExprNode& node) {
           switch (node.op) {
             case ExprOp::exp:
             case ExprOp::log:
             case ExprOp::erf:
             case ExprOp::tanh:
             case ExprOp::sigmoid:
             case ExprOp::sin:
             case ExprOp::cos:
             case ExprOp::pow:
             case ExprOp::sqrt:
               return true;
             default:
               return false;
           }
         });
}

class Fusion {
 public:
  explicit Fusion(const Graph& graph) : graph_(graph), consumers_(graph.value_count()) {
    for (size_t i = 0; i < graph.op_count(); ++i) {
      const Op& op = graph.op(OpId(i));
      const std::span<const ValueId> operands = graph.operands(op);
      nodes_.push_back({op.attributes, {operands.begin(), operands.end()}, op.name, false});
      for (const ValueId operand : operands) consumers_[operand.index].insert(i);
    }
  }

  Result<Graph> run() {
    // Consumers first: a chain collects in its last operation, and a diamond closes when both its sides are in.
    for (size_t i = nodes_.size(); i-- > 0;) {
      while (!nodes_[i].dead && std::holds_alternative<Pointwise>(nodes_[i].attributes) && absorb_pointwise(i)) {
      }
    }
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (!nodes_[i].dead && std::holds_alternative<Pointwise>(nodes_[i].attributes)) become_epilogue(i);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].dead && std::holds_alternative<Reduce>(nodes_[i].attributes)) absorb_map(i);
    }
    return rebuild();
  }

 private:
  struct Node {
    Attributes attributes;
    std::vector<ValueId> operands;
    std::string name;
    bool dead;
  };

  size_t producer(ValueId value) const { return graph_.value(value).producer.index; }
  ValueId result(size_t i) const { return graph_.result(graph_.op(OpId(i))); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  bool only_consumer(ValueId value, size_t i) const {
    return consumers_[value.index].size() == 1 && consumers_[value.index].contains(i);
  }

  // Replaces the operands of node i; what only fed it dies.
  void replace_operands(size_t i, std::vector<ValueId> operands) {
    const std::vector<ValueId> old = std::exchange(nodes_[i].operands, std::move(operands));
    for (const ValueId value : nodes_[i].operands) consumers_[value.index].insert(i);
    for (const ValueId value : old) {
      if (std::ranges::find(nodes_[i].operands, value) != nodes_[i].operands.end()) continue;
      consumers_[value.index].erase(i);
      const size_t from = producer(value);
      if (!consumers_[value.index].empty() || nodes_[from].dead || !is_fusable(from)) continue;
      nodes_[from].dead = true;
      replace_operands(from, {});
    }
  }
  bool is_fusable(size_t i) const {
    return std::holds_alternative<Pointwise>(nodes_[i].attributes) || accumulator(i).has_value();
  }
  // The type that the epilogue of a matmul, reduce, rowwise or attention is given; nothing for other operations.
  std::optional<DType> accumulator(size_t i) const {
    if (const auto* matmul = std::get_if<Matmul>(&nodes_[i].attributes)) return matmul->accumulate;
    if (const auto* reduce = std::get_if<Reduce>(&nodes_[i].attributes)) {
      const bool is_index = reduce->kind == Reduce::Kind::index_max || reduce->kind == Reduce::Kind::index_min;
      return is_index ? DType::i64 : reduce->accumulate;
    }
    if (std::holds_alternative<Rowwise>(nodes_[i].attributes)) {
      return graph_.type(nodes_[i].operands[0]).dtype == DType::f64 ? DType::f64 : DType::f32;
    }
    if (std::holds_alternative<Attention>(nodes_[i].attributes)) {
      const std::vector<ValueId>& operands = nodes_[i].operands;
      return attention_type(graph_.type(operands[0]).dtype, graph_.type(operands[1]).dtype,
                            graph_.type(operands[2]).dtype);
    }
    return std::nullopt;
  }
  // Operands in front of the epilogue's extras.
  static size_t fixed_operands(const Attributes& attributes) {
    if (const auto* attention = std::get_if<Attention>(&attributes)) return attention->masked ? 4 : 3;
    return std::holds_alternative<Matmul>(attributes) ? 2 : 1;
  }
  static std::optional<Expr>& epilogue(Attributes& attributes) {
    if (auto* matmul = std::get_if<Matmul>(&attributes)) return matmul->epilogue;
    if (auto* reduce = std::get_if<Reduce>(&attributes)) return reduce->epilogue;
    if (auto* attention = std::get_if<Attention>(&attributes)) return attention->epilogue;
    return std::get<Rowwise>(attributes).epilogue;
  }

  static uint16_t position(std::vector<ValueId>& list, ValueId value) {
    const auto found = std::ranges::find(list, value);
    const auto index = static_cast<uint16_t>(found - list.begin());
    if (found == list.end()) list.push_back(value);
    return index;
  }

  // Inputs of an expression over `operands`, as nodes of a builder whose input i + first is list[i].
  std::vector<uint16_t> inputs(ExprBuilder& builder, std::span<const ValueId> operands, std::vector<ValueId>& list,
                               int first) const {
    std::vector<uint16_t> nodes;
    for (const ValueId operand : operands) {
      nodes.push_back(builder.input(first + position(list, operand), graph_.type(operand).dtype));
    }
    return nodes;
  }

  // Whether pointwise q may be computed inside pointwise p.
  bool may_absorb(size_t p, size_t q) const {
    const ValueId value = result(q);
    const Expr& expr = std::get<Pointwise>(nodes_[q].attributes).expr;
    const bool same_shape = shape(value) == shape(result(p));
    if (same_shape) return only_consumer(value, p);
    // A broadcast producer is computed again for each element of p: only when it is cheap, and reads nothing large.
    return is_cheap(expr) && nodes_[q].operands.size() <= 3;
  }

  // Inlines one producer into node p; false when there is none.
  bool absorb_pointwise(size_t p) {
    for (const ValueId value : nodes_[p].operands) {
      const size_t q = producer(value);
      if (!std::holds_alternative<Pointwise>(nodes_[q].attributes) || !may_absorb(p, q)) continue;
      std::vector<ValueId> list;
      for (const ValueId operand : nodes_[p].operands) {
        if (operand != value) position(list, operand);
      }
      for (const ValueId operand : nodes_[q].operands) position(list, operand);
      if (list.size() > std::max(max_inputs, nodes_[p].operands.size())) continue;
      ExprBuilder builder(static_cast<int>(list.size()));
      const std::vector<uint16_t> inner_inputs = inputs(builder, nodes_[q].operands, list, 0);
      const uint16_t inner = builder.inline_expr(std::get<Pointwise>(nodes_[q].attributes).expr, inner_inputs);
      std::vector<uint16_t> outer_inputs;
      for (const ValueId operand : nodes_[p].operands) {
        outer_inputs.push_back(operand == value ? inner
                                                : builder.input(position(list, operand), graph_.type(operand).dtype));
      }
      const Expr& outer = std::get<Pointwise>(nodes_[p].attributes).expr;
      if (builder.size() + outer.nodes.size() > 4 * max_nodes) continue;
      Expr expr = std::move(builder).finish(builder.inline_expr(outer, outer_inputs));
      if (expr.nodes.size() > max_nodes) continue;
      nodes_[p].attributes = Pointwise{std::move(expr)};
      replace_operands(p, std::move(list));
      return true;
    }
    return false;
  }

  // Makes pointwise p the epilogue of the latest matmul, reduce, rowwise or attention that it is the only consumer of.
  void become_epilogue(size_t p) {
    std::optional<ValueId> value;
    for (const ValueId operand : nodes_[p].operands) {
      if (!accumulator(producer(operand)) || !only_consumer(operand, p) || !(shape(operand) == shape(result(p)))) {
        continue;
      }
      if (!value || producer(operand) > producer(*value)) value = operand;
    }
    if (!value) return;
    const Node& m = nodes_[producer(*value)];
    Attributes attributes = m.attributes;
    std::optional<Expr>& old = epilogue(attributes);
    const size_t fixed = fixed_operands(attributes);
    const std::span<const ValueId> old_extras = std::span(m.operands).subspan(fixed);
    std::vector<ValueId> extras;
    for (const ValueId operand : old_extras) position(extras, operand);
    for (const ValueId operand : nodes_[p].operands) {
      if (operand != *value) position(extras, operand);
    }
    if (extras.size() > std::max(max_inputs, old_extras.size())) return;
    ExprBuilder builder(static_cast<int>(1 + extras.size()));
    uint16_t sum = builder.input(0, *accumulator(producer(*value)));
    if (old) {
      std::vector<uint16_t> arguments = {sum};
      const std::vector<uint16_t> rest = inputs(builder, old_extras, extras, 1);
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      sum = builder.inline_expr(*old, arguments);
    } else {
      sum = builder.convert(sum, graph_.type(*value).dtype);
    }
    std::vector<uint16_t> arguments;
    for (const ValueId operand : nodes_[p].operands) {
      arguments.push_back(operand == *value ? sum
                                            : builder.input(1 + position(extras, operand), graph_.type(operand).dtype));
    }
    Expr expr =
        std::move(builder).finish(builder.inline_expr(std::get<Pointwise>(nodes_[p].attributes).expr, arguments));
    if (expr.nodes.size() > max_nodes) return;
    old = std::move(expr);
    std::vector<ValueId> operands(m.operands.begin(), m.operands.begin() + static_cast<std::ptrdiff_t>(fixed));
    operands.insert(operands.end(), extras.begin(), extras.end());
    if (nodes_[p].name.empty()) nodes_[p].name = m.name;
    nodes_[p].attributes = std::move(attributes);
    replace_operands(p, std::move(operands));
  }

  // Makes a pointwise of one operand that only feeds reduce r its map.
  void absorb_map(size_t r) {
    const ValueId value = nodes_[r].operands[0];
    const size_t q = producer(value);
    const auto* pointwise = std::get_if<Pointwise>(&nodes_[q].attributes);
    if (pointwise == nullptr || nodes_[q].dead || nodes_[q].operands.size() != 1 || !only_consumer(value, r)) return;
    // An extra of r may be the value, too.
    if (std::ranges::count(nodes_[r].operands, value) != 1) return;
    const ValueId input = nodes_[q].operands[0];
    if (!(shape(input) == shape(value))) return;
    Reduce reduce = std::get<Reduce>(nodes_[r].attributes);
    ExprBuilder builder(1);
    const uint16_t element = builder.input(0, graph_.type(input).dtype);
    uint16_t mapped = builder.inline_expr(pointwise->expr, {&element, 1});
    mapped = reduce.map ? builder.inline_expr(*reduce.map, {&mapped, 1}) : builder.convert(mapped, reduce.accumulate);
    Expr expr = std::move(builder).finish(mapped);
    if (expr.nodes.size() > max_nodes) return;
    reduce.map = std::move(expr);
    std::vector<ValueId> operands = nodes_[r].operands;
    operands[0] = input;
    nodes_[r].attributes = std::move(reduce);
    replace_operands(r, std::move(operands));
  }

  Result<Graph> rebuild() const {
    GraphBuilder builder;
    std::vector<ValueId> map(graph_.value_count());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.dead) continue;
      const Op& op = graph_.op(OpId(i));
      std::vector<ValueId> operands;
      for (const ValueId operand : node.operands) operands.push_back(map[operand.index]);
      copy_op(graph_, op, node.attributes, operands, node.name, builder, map);
    }
    return std::move(builder).finish();
  }

  const Graph& graph_;
  std::vector<Node> nodes_;
  std::vector<std::set<size_t>> consumers_;  // of each value, operations that read it
};

}  // namespace

Result<Graph> fuse(const Graph& graph) {
  LOW_TRY(const Graph lowered, Lowering(graph).run());
  return Fusion(lowered).run();
}

Result<Graph> run_passes(const Graph& graph, const PassOptions& options) {
  FoldBudget budget = fold_budget(graph, 4);
  LOW_TRY(Graph current, roll_layers(graph));
  LOW_TRY(current, canonicalize(current, options, budget));
  LOW_TRY(current, fuse_attention(current));
  LOW_TRY(current, canonicalize(current, options, budget));
  LOW_TRY(current, fold_dequantize(current));
  LOW_TRY(current, canonicalize(current, options, budget));
  if (options.products) {
    LOW_TRY(current, legalize_products(current, *options.products));
    LOW_TRY(current, canonicalize(current, options, budget));
  }
  LOW_TRY(current, fuse(current));
  return canonicalize(current, options, budget);
}

}  // namespace low
