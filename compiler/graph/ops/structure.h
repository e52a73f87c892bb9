// What a graph is put together with: inputs, constants, outputs, and repeats of a body.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/base/once.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/rules.h"

namespace low {

class Graph;

// () -> (value). The n-th `input` operation is the graph's n-th input; its name is the operation's.
struct Input {
  static constexpr std::string_view name = "input";
  bool operator==(const Input&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};
std::string problem(const Input& op, const OpTypes& types);

// () -> (value). `sha256` of dtype, shape and bytes is how a constant prints.
struct Constant {
  static constexpr std::string_view name = "constant";
  std::shared_ptr<const Tensor> tensor;
  std::shared_ptr<Once<std::string>> hash = std::make_shared<Once<std::string>>();  // what constant_hash() asks
  bool operator==(const Constant& other) const { return tensor == other.tensor || *tensor == *other.tensor; }

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};
std::string problem(const Constant& op, const OpTypes& types);
Tensor fold(const Constant& op, FoldOperands operands, const Type& result);

// (value) -> (). The n-th `output` operation is the graph's n-th output; its name is the operation's.
struct Output {
  static constexpr std::string_view name = "output";
  bool operator==(const Output&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};
std::string problem(const Output& op, const OpTypes& types);

// Runs `body` `count` times.
//   operands: carried initial values, then invariant, then iterated ([count, …]: iteration i sees element i of axis 0)
//   body inputs: carried, invariant, iterated, in this order; body outputs: next carried, then collected
//   results: final carried values, then collected ones ([count, …]).
// The iteration number is an iterated constant 0, 1, 2, … that the frontend makes where a body asks for it.
struct Repeat {
  static constexpr std::string_view name = "repeat";
  int64_t count = 0;
  uint32_t carried = 0;
  uint32_t invariant = 0;
  uint32_t iterated = 0;
  uint32_t collected = 0;
  std::shared_ptr<const Graph> body;
  bool operator==(const Repeat& other) const;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("count", self.count);
    visit("carried", self.carried);
    visit("invariant", self.invariant);
    visit("iterated", self.iterated);
    visit("collected", self.collected);
  }
};

}  // namespace low
