// Graphs as text (parse.cpp reads it back):
//
//   low-graph 1
//   %0 = input : f32[2,3] "x"
//   %1 = constant : f32[3] {data=[1,2.5,-0]} "bias"
//   %2 = constant : f32[3,700] {sha256=…} "weight"
//   %3 = matmul %0 %2 : f32[2,700] {accumulate=f32 epilogue="t0 = …"}
//   %4 %5 = repeat %3 %1 : f32[2,700] f32[4,3] {count=4 carried=1 invariant=1 iterated=0 collected=1} "layers" {
//     %0 = input : f32[2,700] "h"
//     …
//   }
//   output %4 "y"
//
// Values are numbered by their ids. Attributes at their defaults (false, propagate for casts, saturate for quantize)
// are left out.
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "compiler/base/overloaded.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/kind_names.h"
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

std::string data_text(const Tensor& tensor) {
  if (tensor.elements() > max_inline_elements) return "sha256=" + constant_hash(tensor);
  std::string out = "data=[";
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (i > 0) out += ',';
    out += literal_to_string(tensor.dtype(), tensor.bits(i), LiteralStyle::decimal);
  }
  return out + "]";
}

std::string axis_text(std::optional<int> axis) { return axis ? fmt::format("axis={} ", *axis) : ""; }

std::string matmul_text(const Matmul& a) {
  std::string out = fmt::format("accumulate={}", name(a.accumulate));
  if (a.transpose_a) out += " transpose_a";
  if (a.transpose_b) out += " transpose_b";
  if (a.epilogue) out += " epilogue=" + quote(to_string(*a.epilogue));
  return out;
}

std::string reduce_text(const Reduce& a) {
  std::string out = fmt::format("kind={} axes={} accumulate={}", reduce_kinds[static_cast<size_t>(a.kind)],
                                to_string(a.axes), name(a.accumulate));
  if (a.last) out += " last";
  if (a.map) out += " map=" + quote(to_string(*a.map));
  if (a.epilogue) out += " epilogue=" + quote(to_string(*a.epilogue));
  return out;
}

std::string double_to_string(double value) {
  return literal_to_string(DType::f64, std::bit_cast<uint64_t>(value), LiteralStyle::decimal);
}

std::string rowwise_text(const Rowwise& a) {
  std::string out = fmt::format("kind={} axes={}", rowwise_kinds[static_cast<size_t>(a.kind)], to_string(a.axes));
  if (a.epsilon != 0) out += " epsilon=" + double_to_string(a.epsilon);
  if (a.epilogue) out += " epilogue=" + quote(to_string(*a.epilogue));
  return out;
}

std::string attention_text(const Attention& a) {
  std::string out = fmt::format("q_heads={} kv_heads={}", a.q_heads, a.kv_heads);
  if (a.masked) out += fmt::format(" mask_heads={}", a.mask_heads);
  out += " scale=" + double_to_string(a.scale);
  if (a.softcap != 0) out += " softcap=" + double_to_string(a.softcap);
  if (a.diagonal) out += fmt::format(" diagonal={}", *a.diagonal);
  if (a.empty_is_zero) out += " empty_is_zero";
  if (std::isfinite(a.masked_score)) out += " masked_score=" + double_to_string(a.masked_score);
  if (a.epilogue) out += " epilogue=" + quote(to_string(*a.epilogue));
  return out;
}

std::string gather_text(const Gather& a) {
  const std::string_view mode = gather_modes[static_cast<size_t>(a.mode)];
  if (a.mode == Gather::Mode::nd) return fmt::format("mode={} batch_axes={}", mode, a.batch_axes);
  return fmt::format("mode={} axis={}", mode, a.axis);
}

// The text between the braces.
std::string attributes_text(const Attributes& attributes) {
  return std::visit(
      Overloaded{
          [](const Constant& a) { return data_text(*a.tensor); },
          [](const Pointwise& a) { return "expr=" + quote(to_string(a.expr)); },
          [](const Matmul& a) { return matmul_text(a); },
          [](const Transpose& a) { return "permutation=" + to_string(a.permutation); },
          [](const Slice& a) { return fmt::format("start={} step={}", to_string(a.start), to_string(a.step)); },
          [](const Quantize& a) { return axis_text(a.axis) + (a.overflow == Overflow::propagate ? "propagate" : ""); },
          [](const Dequantize& a) { return axis_text(a.axis); },
          [](const Cast& a) { return std::string(a.overflow == Overflow::saturate ? "saturate" : ""); },
          [](const Repeat& a) {
            return fmt::format("count={} carried={} invariant={} iterated={} collected={}", a.count, a.carried,
                               a.invariant, a.iterated, a.collected);
          },
          [](const Concat& a) { return fmt::format("axis={}", a.axis); },
          [](const Pad& a) {
            return fmt::format("mode={} before={}", pad_modes[static_cast<size_t>(a.mode)], to_string(a.before));
          },
          [](const Gather& a) { return gather_text(a); },
          [](const Reduce& a) { return reduce_text(a); },
          [](const Cumulative& a) {
            return fmt::format("axis={}{}{}", a.axis, a.exclusive ? " exclusive" : "", a.reverse ? " reverse" : "");
          },
          [](const Rowwise& a) { return rowwise_text(a); },
          [](const Attention& a) { return attention_text(a); },
          [](const auto&) { return std::string(); },
      },
      attributes);
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
    std::string attributes = attributes_text(op.attributes);
    while (attributes.ends_with(' ')) attributes.pop_back();
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

void collect(const Graph& graph, ConstantsByHash& out) {
  for (const Op& op : graph.ops()) {
    if (const auto* constant = std::get_if<Constant>(&op.attributes)) {
      if (constant->tensor->elements() > max_inline_elements) {
        out.emplace_back(constant_hash(*constant->tensor), constant->tensor);
      }
    } else if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      collect(*repeat->body, out);
    }
  }
}

std::string hash_text(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace

std::string print(const Graph& graph) {
  std::string out = "low-graph 1\n";
  print_region(graph, "", out);
  return out;
}

ConstantsByHash constants_by_hash(const Graph& graph) {
  ConstantsByHash out;
  collect(graph, out);
  return out;
}

std::string constant_hash(const Tensor& tensor) {
  // A hash of a hash: dtype and shape take part, and the bytes need not be copied behind them.
  return hash_text(to_string(Type{tensor.dtype(), tensor.shape()}) + " " + sha256_hex(tensor.bytes()));
}

std::string digest(const Graph& graph) { return hash_text(print(graph)); }

}  // namespace low
