// The rules of graph.h; those of each kind of operation are in ops/.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "compiler/graph/graph.h"

namespace low {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, int depth) : graph_(graph), depth_(depth) {}

  Result<void> run() {
    size_t values = 0;
    size_t inputs = 0;
    size_t outputs = 0;
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      op_ = &op;
      const std::string error = check(op, OpId(i), values);
      if (!error.empty()) {
        return fail(ErrorKind::internal, fmt::format("operation {} ({}{}): {}", i, kind_name(op.attributes),
                                                     op.name.empty() ? "" : " \"" + op.name + "\"", error));
      }
      values += op.results.count;
      const bool is_input = std::holds_alternative<Input>(op.attributes);
      const bool is_output = std::holds_alternative<Output>(op.attributes);
      if ((is_input && (inputs >= graph_.inputs().size() || graph_.inputs()[inputs++] != OpId(i))) ||
          (is_output && (outputs >= graph_.outputs().size() || graph_.outputs()[outputs++] != OpId(i)))) {
        return fail(ErrorKind::internal, fmt::format("operation {}: not in the graph's list of inputs or outputs", i));
      }
    }
    if (values != graph_.value_count() || inputs != graph_.inputs().size() || outputs != graph_.outputs().size()) {
      return fail(
          ErrorKind::internal,
          fmt::format("{} values, {} inputs and {} outputs are listed, but operations make "
                      "{}, {} and {}",
                      graph_.value_count(), graph_.inputs().size(), graph_.outputs().size(), values, inputs, outputs));
    }
    return {};
  }

 private:
  const Type& operand(size_t i) const { return graph_.type(graph_.operands(*op_)[i]); }
  size_t operands() const { return op_->operands.count; }

  std::string check(const Op& op, OpId id, size_t values) const {
    if (op.results.begin != values || values + op.results.count > graph_.value_count()) return "results out of order";
    for (const ValueId value : graph_.operands(op)) {
      if (value.index >= values)
        return fmt::format("operand %{} is not the result of an earlier operation", value.index);
    }
    for (uint32_t i = 0; i < op.results.count; ++i) {
      const Value& value = graph_.value(graph_.result(op, i));
      if (value.producer != id || value.result != i) return "a result that names another producer";
      if (static_cast<int>(value.type.dtype) >= dtype_count) return "a result of unknown dtype";
      if (!checked_elements(value.type.shape.extents())) {
        return fmt::format("result {} has the illegal shape {}", i, to_string(value.type.shape));
      }
    }
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) return check(*repeat);
    OpTypes types;
    for (const ValueId value : graph_.operands(op)) types.operands.push_back(graph_.type(value));
    for (uint32_t i = 0; i < op.results.count; ++i) types.results.push_back(graph_.type(graph_.result(op, i)));
    return std::visit(
        [&]<typename Kind>(const Kind& attributes) -> std::string {
          if constexpr (std::same_as<Kind, Repeat>)
            return "";
          else
            return problem(attributes, types);
        },
        op.attributes);
  }

  std::string check(const Repeat& a) const {
    if (a.body == nullptr) return "no body";
    if (a.count < 0) return fmt::format("count {}", a.count);
    const uint64_t needed = uint64_t{a.carried} + a.invariant + a.iterated;
    const uint64_t made = uint64_t{a.carried} + a.collected;
    if (operands() != needed) return fmt::format("{} operands; {} are needed", operands(), needed);
    if (op_->results.count != made) return fmt::format("{} results; {} are needed", op_->results.count, made);
    if (depth_ >= max_region_depth) return fmt::format("more than {} nested regions", max_region_depth);
    if (const Result<void> verified = Verifier(*a.body, depth_ + 1).run(); !verified) {
      return fmt::format("body: {}", verified.error().message);
    }
    const Graph& body = *a.body;
    if (body.inputs().size() != needed || body.outputs().size() != made) {
      return fmt::format("a body of {} inputs and {} outputs; {} and {} are needed", body.inputs().size(),
                         body.outputs().size(), needed, made);
    }
    for (size_t i = 0; i < needed; ++i) {
      const Type& inner = body.type(body.result(body.op(body.inputs()[i])));
      const bool per_iteration = i >= size_t{a.carried} + a.invariant;
      if (!matches(operand(i), inner, per_iteration, a.count)) {
        return fmt::format("operand {} is {}; the body's input is {}", i, to_string(operand(i)), to_string(inner));
      }
    }
    for (size_t i = 0; i < made; ++i) {
      const Type& inner = body.type(body.operands(body.op(body.outputs()[i]))[0]);
      const Type& outer = graph_.type(graph_.result(*op_, static_cast<uint32_t>(i)));
      if (!matches(outer, inner, i >= a.carried, a.count)) {
        return fmt::format("result {} is {}; the body's output is {}", i, to_string(outer), to_string(inner));
      }
      if (i < a.carried && outer != operand(i)) {
        return fmt::format("carried value {} begins as {} and ends as {}", i, to_string(operand(i)), to_string(outer));
      }
    }
    return "";
  }

  // Whether `outer` is `inner`, or [count, inner…] of a value per iteration.
  static bool matches(const Type& outer, const Type& inner, bool per_iteration, int64_t count) {
    if (!per_iteration) return outer == inner;
    return outer.dtype == inner.dtype && outer.shape.rank() == inner.shape.rank() + 1 && outer.shape[0] == count &&
           std::ranges::equal(outer.shape.extents().subspan(1), inner.shape.extents());
  }

  const Graph& graph_;
  int depth_;
  const Op* op_ = nullptr;
};

}  // namespace

Result<void> verify(const Graph& graph) { return Verifier(graph, 0).run(); }

}  // namespace low
