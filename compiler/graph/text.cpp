// Graphs as text (parse.cpp reads it back):
//
//   low-graph 2
//   %0 = input : f32[2,3] "x"
//   %1 = constant : f32[3] {data=[1,2.5,-0]} "bias"
//   %2 = constant : f32[3,700] {sha256=…} "weight"
//   %3 = matmul %0 %2 : f32[2,700] {epilogue="t0 = …"}
//   %4 %5 = repeat %3 %1 : f32[2,700] f32[4,3] {count=4 carried=1 invariant=1 collected=1} "layers" {
//     %0 = input : f32[2,700] "h"
//     …
//   }
//   output %4 "y"
//
// Values are numbered by their ids. Attributes are the fields that ops/ lists; those at their defaults are
// left out, but for kinds.
#include <algorithm>
#include <bit>
#include <concepts>

#include <fmt/format.h>

#include "compiler/graph/graph.h"
#include "compiler/graph/literal_text.h"
#include "runtime/base/sha256.h"

namespace low {
namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string attributes_text(const Constant& op) {
  const Tensor& tensor = *op.tensor;
  if (tensor.elements() > max_inline_elements) return "sha256=" + constant_hash(op);
  std::string out = "data=[";
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (i > 0) out += ',';
    out += literal_to_string(tensor.dtype(), tensor.bits(i), LiteralStyle::decimal);
  }
  return out + "]";
}

// "name=value" of each field, the name alone of a flag; "" where there is nothing.
struct FieldTexts {
  std::vector<std::string> texts;
  std::vector<size_t> kinds;  // places of kinds in texts

  void add(std::string_view field, std::string_view value) { texts.push_back(fmt::format("{}={}", field, value)); }
  void operator()(std::string_view field, bool flag) { texts.emplace_back(flag ? field : ""); }
  template <std::integral Number>
  void operator()(std::string_view field, Number number) {
    add(field, fmt::format("{}", number));
  }
  void operator()(std::string_view field, double number) {
    add(field, literal_to_string(DType::f64, std::bit_cast<uint64_t>(number), LiteralStyle::decimal));
  }
  void operator()(std::string_view field, DType dtype) { add(field, name(dtype)); }
  void operator()(std::string_view field, const Shape& numbers) { add(field, to_string(numbers)); }
  void operator()(std::string_view field, const Expr& expr) { add(field, quote(to_string(expr))); }
  template <typename Kind, typename Names>
  void operator()(std::string_view field, Kind kind, const Names& names) {
    kinds.push_back(texts.size());
    add(field, names[static_cast<size_t>(kind)]);
  }
  template <typename T>
  void operator()(std::string_view field, const std::optional<T>& value) {
    if (value) {
      (*this)(field, *value);
    } else {
      texts.emplace_back();
    }
  }
};

// The text between the braces: kinds, and other attributes that differ from their defaults.
template <typename Kind>
std::string attributes_text(const Kind& op) {
  FieldTexts own, defaults;
  const Kind fresh{};
  Kind::fields(op, own);
  Kind::fields(fresh, defaults);
  std::string out;
  for (size_t i = 0; i < own.texts.size(); ++i) {
    if (own.texts[i] != defaults.texts[i] || std::ranges::find(own.kinds, i) != own.kinds.end())
      out += (out.empty() ? "" : " ") + own.texts[i];
  }
  return out;
}

void print_region(const Graph& graph, const std::string& indent, std::string& out) {
  for (const Op& op : graph.ops()) {
    out += indent;
    for (uint32_t i = 0; i < op.results.count; ++i) out += fmt::format("%{} ", graph.result(op, i).index);
    if (op.results.count > 0) out += "= ";
    out += kind_name(op.attributes);
    for (const ValueId operand : graph.operands(op)) out += fmt::format(" %{}", operand.index);
    if (op.results.count > 0) out += " :";
    for (uint32_t i = 0; i < op.results.count; ++i) out += " " + to_string(graph.type(graph.result(op, i)));
    const std::string attributes = std::visit([](const auto& a) { return attributes_text(a); }, op.attributes);
    if (!attributes.empty()) out += " {" + attributes + "}";
    if (!op.name.empty()) out += " " + quote(op.name);
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      out += " {\n";
      print_region(*repeat->body, indent + "  ", out);
      out += indent + "}";
    }
    out += '\n';
  }
}

// Those that print by hash.
template <typename F>
void for_each_large_constant(const Graph& graph, const F& f) {
  for (const Op& op : graph.ops()) {
    if (const auto* constant = std::get_if<Constant>(&op.attributes)) {
      if (constant->tensor->elements() > max_inline_elements) f(*constant);
    } else if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      for_each_large_constant(*repeat->body, f);
    }
  }
}

std::string hash_text(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace

std::string print(const Graph& graph) {
  std::string out = "low-graph 2\n";
  print_region(graph, "", out);
  return out;
}

ConstantsByHash constants_by_hash(const Graph& graph) {
  ConstantsByHash out;
  for_each_large_constant(
      graph, [&](const Constant& constant) { out.emplace_back(constant_hash(constant), constant.tensor); });
  return out;
}

std::string constant_hash(const Tensor& tensor) {
  // A hash of a hash: dtype and shape take part, and the bytes need not be copied behind them.
  return hash_text(to_string(Type{tensor.dtype(), tensor.shape()}) + " " + sha256_hex(tensor.bytes()));
}

const std::string& constant_hash(const Constant& constant) {
  return constant.hash->get([&] { return constant_hash(*constant.tensor); });
}

std::string digest(const Graph& graph) { return hash_text(print(graph)); }

std::string digest(const Graph& graph, ThreadPool& pool) {
  std::vector<const Constant*> large;
  for_each_large_constant(graph, [&](const Constant& constant) { large.push_back(&constant); });
  pool.parallel_for(static_cast<int64_t>(large.size()),
                    [&](int64_t i) { constant_hash(*large[static_cast<size_t>(i)]); });
  return digest(graph);
}

}  // namespace low
