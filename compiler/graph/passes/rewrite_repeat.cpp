// Simplification of a repeat: what its body does not need is removed, what does not change becomes invariant or
// constant.
#include <algorithm>
#include <cstring>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/rewriter.h"

namespace low {
namespace {

enum class Role { dropped, carried, invariant, iterated, constant, alias };

struct BodyInput {
  Role role = Role::dropped;
  ValueId operand;                       // outside
  std::shared_ptr<const Tensor> tensor;  // of `constant`
  size_t same_as = 0;                    // of `alias`: another input
};

// The first element along axis 0 when all are equal.
std::optional<Tensor> common_slice(const Tensor& tensor) {
  const int64_t count = tensor.shape()[0];
  if (count < 1) return std::nullopt;
  const size_t bytes = tensor.bytes().size() / static_cast<size_t>(count);
  for (int64_t i = 0; i < count && bytes > 0; ++i) {
    if (std::memcmp(tensor.bytes().data() + static_cast<size_t>(i) * bytes, tensor.bytes().data(), bytes) != 0) {
      return std::nullopt;
    }
  }
  Tensor slice(tensor.dtype(), Shape(tensor.shape().extents().subspan(1)));
  std::ranges::copy(tensor.bytes().first(bytes), slice.bytes().begin());
  return slice;
}

class RepeatRewriter {
 public:
  RepeatRewriter(Rewriter& rewriter, const Repeat& repeat, Graph body, std::span<const ValueId> operands,
                 const std::vector<bool>& used)
      : r_(rewriter), repeat_(repeat), body_(std::move(body)), operands_(operands), live_(used) {}

  Result<std::vector<ValueId>> run(std::span<const Type> types, const std::string& name) {
    results_.assign(types.size(), ValueId());
    find_invariants();
    find_live();
    find_constants();
    find_order();
    LOW_TRY(Graph body, rebuild());
    Repeat out{.count = repeat_.count};
    std::vector<ValueId> operands;
    const auto add = [&](Role role, uint32_t& count) {
      for (const size_t i : order_) {
        if (inputs_[i].role != role) continue;
        operands.push_back(inputs_[i].operand);
        ++count;
      }
    };
    add(Role::carried, out.carried);
    add(Role::invariant, out.invariant);
    add(Role::iterated, out.iterated);
    std::vector<Type> kept;
    for (const size_t i : live_outputs()) {
      kept.push_back(types[i]);
      if (i >= repeat_.carried) ++out.collected;
    }
    if (kept.empty()) return results_;
    out.body = std::make_shared<const Graph>(std::move(body));
    const ValueId first = r_.append(std::move(out), operands, kept, name);
    size_t next = first.index;
    for (const size_t i : live_outputs()) results_[i] = ValueId(next++);
    return results_;
  }

 private:
  ValueId body_input(size_t i) const { return body_.result(body_.op(body_.inputs()[i])); }
  ValueId body_output(size_t i) const { return body_.operands(body_.op(body_.outputs()[i]))[0]; }

  // Roles as they are, but for carried values that each iteration passes on and collected ones that are iterated
  // inputs.
  void find_invariants() {
    inputs_.resize(operands_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool carried = i < repeat_.carried;
      inputs_[i].operand = operands_[i];
      inputs_[i].role = carried                                           ? Role::carried
                        : i < size_t{repeat_.carried} + repeat_.invariant ? Role::invariant
                                                                          : Role::iterated;
      if (!carried || body_output(i) != body_input(i)) continue;
      inputs_[i].role = Role::invariant;
      results_[i] = operands_[i];
      live_[i] = false;
    }
    for (size_t i = repeat_.carried; i < results_.size(); ++i) {
      for (size_t j = size_t{repeat_.carried} + repeat_.invariant; j < inputs_.size(); ++j) {
        if (body_output(i) != body_input(j)) continue;
        results_[i] = operands_[j];
        live_[i] = false;
      }
    }
  }

  // A carried value lives when its result is used, or when something that lives reads it.
  void find_live() {
    if (live_.empty()) return;
    while (true) {
      needed_ = needed_values(body_, live_);
      bool changed = false;
      for (size_t i = 0; i < repeat_.carried; ++i) {
        if (inputs_[i].role != Role::carried || live_[i] || !needed_[body_input(i).index]) continue;
        live_[i] = true;
        changed = true;
      }
      if (!changed) break;
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool keeps = inputs_[i].role == Role::carried ? live_[i] : needed_[body_input(i).index];
      if (!keeps) inputs_[i].role = Role::dropped;
    }
  }

  void find_constants() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      BodyInput& input = inputs_[i];
      std::shared_ptr<const Tensor> tensor = r_.tensor(input.operand);
      // A single slice is like all others, but says nothing of what more of them would be.
      if (input.role == Role::iterated && tensor != nullptr && repeat_.count > 1) {
        if (std::optional<Tensor> slice = common_slice(*tensor)) {
          tensor = std::make_shared<const Tensor>(*slice);
          input.operand = r_.constant(std::move(*slice), "");
          input.role = Role::invariant;
        }
      }
      if (input.role != Role::invariant) continue;
      if (tensor != nullptr && tensor->elements() == 1) {
        input.role = Role::constant;
        input.tensor = tensor;
        continue;
      }
      for (size_t j = 0; j < i; ++j) {
        if (inputs_[j].role == Role::invariant && inputs_[j].operand == input.operand) {
          input.role = Role::alias;
          input.same_as = j;
          break;
        }
      }
    }
  }

  // Inputs in the order of their first use, those without one last.
  void find_order() {
    std::vector<size_t> use(body_.value_count(), SIZE_MAX);
    size_t next = 0;
    for (const Op& op : body_.ops()) {
      for (const ValueId operand : body_.operands(op)) {
        size_t& first = use[operand.index];
        if (first == SIZE_MAX && !std::holds_alternative<Output>(op.attributes)) first = next++;
      }
    }
    for (size_t i = 0; i < inputs_.size(); ++i) order_.push_back(i);
    std::ranges::sort(order_, {}, [&](size_t i) { return std::pair(use[body_input(i).index], i); });
  }

  // Carried ones in the order of their inputs, then collected ones.
  std::vector<size_t> live_outputs() const {
    std::vector<size_t> out;
    for (const size_t i : order_) {
      if (i < repeat_.carried && live_[i]) out.push_back(i);
    }
    for (size_t i = repeat_.carried; i < live_.size(); ++i) {
      if (live_[i]) out.push_back(i);
    }
    return out;
  }

  Result<Graph> rebuild() const {
    GraphBuilder builder;
    std::vector<ValueId> map(body_.value_count());
    for (const Role role : {Role::carried, Role::invariant, Role::iterated, Role::constant, Role::alias}) {
      for (const size_t i : order_) {
        if (inputs_[i].role != role) continue;
        const Op& op = body_.op(body_.inputs()[i]);
        ValueId& value = map[body_.result(op).index];
        if (role == Role::alias) {
          value = map[body_input(inputs_[i].same_as).index];
        } else if (role == Role::constant) {
          value = builder.constant(inputs_[i].tensor, op.name);
        } else {
          value = builder.input(op.name, body_.type(body_.result(op)));
        }
      }
    }
    for (const Op& op : body_.ops()) {
      if (std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Output>(op.attributes)) continue;
      bool needed = false;
      for (uint32_t i = 0; i < op.results.count; ++i) needed = needed || needed_[body_.result(op, i).index];
      if (needed) copy_op(body_, op, op.attributes, builder, map);
    }
    for (const size_t i : live_outputs()) {
      builder.output(body_.op(body_.outputs()[i]).name, map[body_output(i).index]);
    }
    return std::move(builder).finish();
  }

  Rewriter& r_;
  const Repeat& repeat_;
  const Graph body_;
  std::span<const ValueId> operands_;
  std::vector<bool> live_;    // outputs of the body that stay
  std::vector<bool> needed_;  // values of the body that they need
  std::vector<BodyInput> inputs_;
  std::vector<size_t> order_;  // of inputs
  std::vector<ValueId> results_;
};

// The operations of a body that runs once.
std::vector<ValueId> inline_body(Rewriter& r, const Repeat& repeat, const Graph& body,
                                 std::span<const ValueId> operands, std::span<const Type> types,
                                 const std::string& name) {
  std::vector<ValueId> map(body.value_count());
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueId inner = body.result(body.op(body.inputs()[i]));
    const bool iterated = i >= size_t{repeat.carried} + repeat.invariant;
    map[inner.index] = iterated ? r.reshape(operands[i], body.type(inner).shape, name) : operands[i];
  }
  std::vector<ValueId> results;
  for (const Op& op : body.ops()) {
    if (std::holds_alternative<Input>(op.attributes)) continue;
    std::vector<ValueId> values;
    for (const ValueId operand : body.operands(op)) values.push_back(map[operand.index]);
    if (std::holds_alternative<Output>(op.attributes)) {
      const bool collected = results.size() >= repeat.carried;
      results.push_back(collected ? r.reshape(values[0], types[results.size()].shape, name) : values[0]);
      continue;
    }
    std::vector<Type> made;
    for (uint32_t i = 0; i < op.results.count; ++i) made.push_back(body.type(body.result(op, i)));
    const ValueId first = made.size() == 1 && !std::holds_alternative<Repeat>(op.attributes)
                              ? r.emit(op.attributes, values, made[0], op.name)
                              : r.append(op.attributes, values, made, op.name);
    for (uint32_t i = 0; i < op.results.count; ++i) map[op.results.begin + i] = ValueId(size_t{first.index} + i);
  }
  return results;
}

}  // namespace

Result<std::vector<ValueId>> rewrite_repeat(Rewriter& rewriter, const Repeat& repeat, std::span<const ValueId> operands,
                                            std::span<const Type> types, const std::vector<bool>& used,
                                            const std::string& name, const PassOptions& options) {
  if (repeat.count == 0) {
    std::vector<ValueId> results;
    for (size_t i = 0; i < types.size(); ++i) {
      results.push_back(i < repeat.carried ? operands[i]
                                           : rewriter.constant(Tensor(types[i].dtype, types[i].shape), name));
    }
    return results;
  }
  LOW_TRY(Graph body, rewrite_once(*repeat.body, options, rewriter.budget()));
  if (repeat.count == 1 && !options.keep_single_repeats)
    return inline_body(rewriter, repeat, body, operands, types, name);
  return RepeatRewriter(rewriter, repeat, std::move(body), operands, used).run(types, name);
}

}  // namespace low
