// FP8 operands of products in formats that the machine multiplies, and weights as its matrix instructions read them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <ranges>
#include <utility>
#include <vector>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/passes.h"

namespace low {
namespace {

// An operand in another form: each element times `factor`, a power of two, which changes no element's digits, and the last
// two axes exchanged if `transposed`.
struct Conversion {
  DType to;
  double factor = 1;
  bool transposed = false;
  auto operator<=>(const Conversion&) const = default;
};

// The format of the other standard with as many bits of exponent and mantissa. OCP's has a bias of one less: the same
// bits mean twice as much.
Conversion twin_of(DType format) {
  switch (format) {
    case DType::f8e4m3fn:
      return {DType::f8e4m3fnuz, 0.5};
    case DType::f8e5m2:
      return {DType::f8e5m2fnuz, 0.5};
    case DType::f8e4m3fnuz:
      return {DType::f8e4m3fn, 2};
    default:
      LOW_CHECK(format == DType::f8e5m2fnuz);
      return {DType::f8e5m2, 2};
  }
}

// By the bits of an FP8 element: the bits after the conversion, and whether they mean the same number or NaN.
struct CodeTable {
  std::array<uint16_t, 256> bits{};
  std::array<bool, 256> is_exact{};

  CodeTable(DType from, const Conversion& conversion) {
    for (uint64_t code = 0; code < 256; ++code) {
      const double value = decode(from, code) * conversion.factor;
      bits[code] = static_cast<uint16_t>(encode(conversion.to, value, Overflow::saturate));
      const double converted = decode(conversion.to, bits[code]);
      is_exact[code] = converted == value || (std::isnan(converted) && std::isnan(value));
    }
  }
};

bool is_exact(const Tensor& tensor, const Conversion& conversion) {
  const CodeTable table(tensor.dtype(), conversion);
  return std::ranges::all_of(tensor.bytes(),
                             [&](std::byte code) { return table.is_exact[std::to_integer<size_t>(code)]; });
}

Type converted_type(const Type& type, const Conversion& conversion) {
  Shape shape = type.shape;
  if (conversion.transposed) std::swap(shape[shape.rank() - 2], shape[shape.rank() - 1]);
  return {conversion.to, shape};
}

Tensor transposed_tensor(const Tensor& tensor) {
  Transpose op;
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) op.permutation.append(axis);
  std::swap(op.permutation[op.permutation.rank() - 2], op.permutation[op.permutation.rank() - 1]);
  const Tensor* const operands[] = {&tensor};
  return fold(op, operands, converted_type({tensor.dtype(), tensor.shape()}, {tensor.dtype(), 1, true}));
}

Tensor converted_tensor(const Tensor& tensor, const Conversion& conversion) {
  if (conversion.transposed) {
    const Tensor transposed = transposed_tensor(tensor);
    return conversion.to == tensor.dtype() ? transposed
                                           : converted_tensor(transposed, {conversion.to, conversion.factor, false});
  }
  const CodeTable table(tensor.dtype(), conversion);
  Tensor result(conversion.to, tensor.shape());
  const std::span<const std::byte> from = tensor.bytes();
  const std::span<std::byte> to = result.bytes();
  const size_t size = byte_size(conversion.to);
  for (size_t i = 0; i < from.size(); ++i)  // the low bytes of the bits: hosts are little-endian
    std::memcpy(to.data() + i * size, &table.bits[std::to_integer<size_t>(from[i])], size);
  return result;
}

Expr conversion_expr(DType from, const Conversion& conversion) {
  ExprBuilder builder(1);
  uint16_t value = builder.input(0, from);
  if (conversion.factor != 1) {
    value = builder.convert(value, DType::f32);
    value = builder.binary(ExprOp::mul, value, builder.constant(DType::f32, conversion.factor));
  }
  return std::move(builder).finish(builder.convert(value, conversion.to, Overflow::saturate));
}

// An epilogue that reads `factor` times what `epilogue` read, or what was converted without one.
std::optional<Expr> scaled_epilogue(const std::optional<Expr>& epilogue, double factor, DType accumulator,
                                    std::span<const DType> extras, DType result) {
  if (factor == 1) return epilogue;
  ExprBuilder builder(static_cast<int>(1 + extras.size()));
  std::vector<uint16_t> arguments{
      builder.binary(ExprOp::mul, builder.input(0, accumulator), builder.constant(accumulator, factor))};
  for (size_t i = 0; i < extras.size(); ++i) arguments.push_back(builder.input(static_cast<int>(1 + i), extras[i]));
  const uint16_t value =
      epilogue ? builder.inline_expr(*epilogue, arguments) : builder.convert(arguments.front(), result);
  return std::move(builder).finish(value);
}

bool is_move(const Attributes& attributes) {
  return std::holds_alternative<Reshape>(attributes) || std::holds_alternative<Transpose>(attributes) ||
         std::holds_alternative<Slice>(attributes) || std::holds_alternative<Expand>(attributes);
}

// One graph: the whole one, or a body within `outer`, whose operation the `operands` are of.
class ProductLegalizer {
 public:
  ProductLegalizer(const Graph& graph, const ProductForms& forms) : graph_(graph), forms_(forms) {}
  ProductLegalizer(const Graph& graph, ProductLegalizer& outer, const Repeat& repeat, std::span<const ValueId> operands)
      : graph_(graph), forms_(outer.forms_), outer_(&outer), repeat_(&repeat), operands_(operands) {}

  // Decides what becomes of each product, from the outside in; the bodies' demands for values from outside are known
  // then.
  void decide() {
    for (const OpId id : graph_.inputs()) input_numbers_.emplace(graph_.result(graph_.op(id)), input_numbers_.size());
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
        bodies_.try_emplace(i, *repeat->body, *this, *repeat, graph_.operands(op)).first->second.decide();
        continue;
      }
      const size_t operands = std::holds_alternative<Matmul>(op.attributes)      ? 2
                              : std::holds_alternative<Attention>(op.attributes) ? 3
                                                                                 : 0;
      if (operands == 0) continue;
      std::vector<Conversion> wanted = conversions(graph_.operands(op).first(operands));
      const auto* matmul = std::get_if<Matmul>(&op.attributes);
      if (matmul != nullptr && !matmul->transpose_b) transpose_weights(op, wanted);
      for (size_t k = 0; k < wanted.size(); ++k) demand(graph_.operands(op)[k], wanted[k]);
      if (!wanted.empty()) wanted_.emplace(i, std::move(wanted));
    }
  }

  bool changes() const {
    return !wanted_.empty() || std::ranges::any_of(bodies_, [](const auto& body) { return body.second.changes(); });
  }

  Result<Graph> rebuild() {
    map_.resize(graph_.value_count());
    if (repeat_ != nullptr) add_body_inputs();
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      const Op& op = graph_.op(OpId(i));
      if (repeat_ != nullptr && std::holds_alternative<Input>(op.attributes)) continue;
      Attributes attributes = op.attributes;
      std::vector<ValueId> operands = mapped_operands(graph_, op, map_);
      if (const auto body = bodies_.find(i); body != bodies_.end()) {
        LOW_TRY_VOID(body->second.rebuild_body(std::get<Repeat>(attributes), operands));
      } else if (const auto wanted = wanted_.find(i); wanted != wanted_.end()) {
        retype(op, wanted->second, attributes, operands);
      }
      copy_op(graph_, op, std::move(attributes), operands, op.name, builder_, map_);
    }
    return std::move(builder_).finish();
  }

 private:
  const Op& producer(ValueId value) const { return graph_.op(graph_.value(value).producer); }
  DType dtype(ValueId value) const { return graph_.type(value).dtype; }
  bool is_native(DType format) const { return std::ranges::find(forms_.fp8, format) != forms_.fp8.end(); }

  // What a value is a movement of.
  ValueId root(ValueId value) const {
    while (is_move(producer(value).attributes)) value = graph_.operands(producer(value))[0];
    return value;
  }

  // The number of the body's input when all iterations see the same value of it, or a part of one from outside.
  std::optional<size_t> shared_input(ValueId value) const {
    if (repeat_ == nullptr) return std::nullopt;
    const auto found = input_numbers_.find(value);
    return found == input_numbers_.end() || found->second < repeat_->carried ? std::nullopt
                                                                             : std::optional(found->second);
  }

  // Whether no element of the value is changed by the conversion to its twin, whatever it is when the model runs.
  bool is_exact_twin(ValueId value) const {
    const DType format = dtype(value);
    if (format == DType::f8e4m3fn) return true;  // all halves of its values are FNUZ's
    value = root(value);
    if (const auto input = shared_input(value)) return outer_->is_exact_twin(operands_[*input]);
    const Op& op = producer(value);
    if (const auto* constant = std::get_if<Constant>(&op.attributes))
      return is_exact(*constant->tensor, twin_of(format));
    if (format != DType::f8e5m2) return false;
    // All of E5M2 but its infinities.
    if (const auto* quantize = std::get_if<Quantize>(&op.attributes)) return quantize->overflow == Overflow::saturate;
    if (const auto* cast = std::get_if<Cast>(&op.attributes))
      return cast->overflow == Overflow::saturate && dtype(graph_.operands(op)[0]) != DType::f8e5m2;
    return false;
  }

  // For each operand of a product; nothing where the machine multiplies them as they are, or some are no FP8.
  std::vector<Conversion> conversions(std::span<const ValueId> operands) const {
    if (!std::ranges::all_of(operands, [&](ValueId value) { return is_fp8(dtype(value)); })) return {};
    std::vector<Conversion> result;
    for (const ValueId value : operands) {
      const DType format = dtype(value);
      const Conversion twin = twin_of(format);
      if (is_native(format)) {
        result.push_back({format, 1});
      } else if (is_native(twin.to) && is_exact_twin(value)) {
        result.push_back(twin);
      } else {
        return std::vector<Conversion>(operands.size(), {DType::bf16, 1});
      }
    }
    // One format serves all operands of attention.
    if (operands.size() == 3 && (result[1].to != result[0].to || result[2].to != result[0].to))
      return std::vector<Conversion>(operands.size(), {DType::bf16, 1});
    const bool as_they_are = std::ranges::all_of(operands, [&](ValueId value) { return is_native(dtype(value)); });
    return as_they_are ? std::vector<Conversion>() : result;
  }

  // Weights whose products are a matrix instruction's: it reads runs along the depth, which a constant may have as well.
  void transpose_weights(const Op& op, std::vector<Conversion>& wanted) const {
    const ValueId weights = graph_.operands(op)[1];
    const DType type = wanted.empty() ? dtype(weights) : wanted[1].to;
    if (std::ranges::find(forms_.matrices, type) == forms_.matrices.end() || !is_constant(weights)) return;
    for (size_t i = wanted.size(); i < 2; ++i) wanted.push_back({dtype(graph_.operands(op)[i]), 1});
    wanted[1].transposed = true;
  }
  bool is_constant(ValueId value) const {
    if (const auto input = shared_input(value)) return outer_->is_constant(operands_[*input]);
    return std::holds_alternative<Constant>(producer(value).attributes);
  }
  bool is_as_it_is(ValueId value, const Conversion& conversion) const {
    return conversion.to == dtype(value) && !conversion.transposed;
  }

  // A body converts what comes from outside there: once, not in each iteration.
  void demand(ValueId value, const Conversion& conversion) {
    if (is_as_it_is(value, conversion)) return;
    value = root(value);
    const auto input = shared_input(value);
    if (!input) return;
    const std::pair request(*input, conversion);
    if (std::ranges::find(requests_, request) != requests_.end()) return;
    requests_.push_back(request);
    outer_->demand(operands_[*input], conversion);
  }

  // Inputs as they were, and behind the invariant and the iterated ones those that are asked for in another format.
  void add_body_inputs() {
    std::ranges::sort(requests_);
    const size_t invariants = repeat_->carried + repeat_->invariant;
    for (size_t i = 0; i <= graph_.inputs().size(); ++i) {
      if (i == invariants) add_requests(0, invariants);
      if (i == graph_.inputs().size()) break;
      const Op& op = graph_.op(graph_.inputs()[i]);
      map_[op.results.begin] = builder_.input(op.name, graph_.type(graph_.result(op)));
    }
    add_requests(invariants, graph_.inputs().size());
  }
  void add_requests(size_t begin, size_t end) {
    for (const auto& [number, conversion] : requests_) {
      if (number < begin || number >= end) continue;
      const Op& op = graph_.op(graph_.inputs()[number]);
      const ValueId value = graph_.result(op);
      converted_.emplace(std::pair(value, conversion),
                         builder_.input(op.name, converted_type(graph_.type(value), conversion)));
    }
  }

  // As part of the outer graph's rebuilding: `operands` are of that, and get what the body asks for.
  Result<void> rebuild_body(Repeat& repeat, std::vector<ValueId>& operands) {
    LOW_TRY(Graph body, rebuild());
    const size_t invariants = repeat_->carried + repeat_->invariant;
    std::vector<ValueId> more_invariant, more_iterated;
    for (const auto& [number, conversion] : requests_)
      (number < invariants ? more_invariant : more_iterated)
          .push_back(outer_->converted(operands_[number], conversion));
    operands.insert(operands.end(), more_iterated.begin(), more_iterated.end());
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(invariants), more_invariant.begin(),
                    more_invariant.end());
    repeat.invariant += static_cast<uint32_t>(more_invariant.size());
    repeat.iterated += static_cast<uint32_t>(more_iterated.size());
    repeat.body = std::make_shared<const Graph>(std::move(body));
    return {};
  }

  // The new value of an old one in another format.
  ValueId converted(ValueId value, const Conversion& conversion) {
    if (is_as_it_is(value, conversion)) return map_[value.index];
    // Before what moves it, which then moves less often, and constants and inputs are reached.
    std::vector<ValueId> moves;
    for (; is_move(producer(value).attributes); value = graph_.operands(producer(value))[0]) moves.push_back(value);
    const auto [place, is_new] = converted_.try_emplace(std::pair(value, conversion));
    if (is_new) {
      const Op& op = producer(value);
      const auto* constant = std::get_if<Constant>(&op.attributes);
      place->second = constant != nullptr ? builder_.constant(converted_tensor(*constant->tensor, conversion), op.name)
                                          : builder_.pointwise(conversion_expr(dtype(value), conversion),
                                                               {{map_[value.index]}}, op.name);
    }
    ValueId result = place->second;
    for (const ValueId move : std::views::reverse(moves)) {
      const Op& op = producer(move);
      result = builder_.add_one(op.attributes, {{result}}, {conversion.to, graph_.type(move).shape}, op.name);
    }
    return result;
  }

  void retype(const Op& op, const std::vector<Conversion>& wanted, Attributes& attributes,
              std::vector<ValueId>& operands) {
    double inner = 1, outer = 1;  // of the sums over k, of the results
    for (size_t i = 0; i < wanted.size(); ++i) {
      operands[i] = converted(graph_.operands(op)[i], wanted[i]);
      (i < 2 ? inner : outer) /= wanted[i].factor;
    }
    const DType result = dtype(graph_.result(op));
    std::vector<DType> extras;
    if (auto* matmul = std::get_if<Matmul>(&attributes)) {
      for (size_t i = 2; i < operands.size(); ++i) extras.push_back(builder_.type(operands[i]).dtype);
      matmul->transpose_b |= wanted[1].transposed;
      matmul->epilogue = scaled_epilogue(matmul->epilogue, inner, matmul->accumulate, extras, result);
    } else {
      auto& attention = std::get<Attention>(attributes);
      for (size_t i = attention.masked ? 4 : 3; i < operands.size(); ++i)
        extras.push_back(builder_.type(operands[i]).dtype);
      attention.scale *= inner;
      attention.epilogue = scaled_epilogue(attention.epilogue, outer, DType::f32, extras, result);
    }
  }

  const Graph& graph_;
  const ProductForms& forms_;
  ProductLegalizer* outer_ = nullptr;
  const Repeat* repeat_ = nullptr;
  std::span<const ValueId> operands_;
  std::map<ValueId, size_t> input_numbers_;
  std::map<size_t, ProductLegalizer> bodies_;            // by operation
  std::map<size_t, std::vector<Conversion>> wanted_;     // of a product's operands, by operation
  std::vector<std::pair<size_t, Conversion>> requests_;  // of a body: its inputs in other formats
  std::map<std::pair<ValueId, Conversion>, ValueId> converted_;
  GraphBuilder builder_;
  ValueMap map_;
};

}  // namespace

Result<Graph> legalize_products(const Graph& graph, const ProductForms& forms) {
  ProductLegalizer legalizer(graph, forms);
  legalizer.decide();
  if (!legalizer.changes()) return graph;
  return legalizer.rebuild();
}

}  // namespace low
