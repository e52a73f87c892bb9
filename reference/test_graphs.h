// Graphs of one operation, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "reference/reference.h"

namespace low::reference {

inline Tensor make(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(dtype, shape);
  EXPECT_EQ(static_cast<size_t>(tensor.elements()), values.size());
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = values[static_cast<size_t>(i)];
    if (is_float(dtype)) {
      tensor.set_bits(i, encode(dtype, value, Overflow::propagate));
    } else {
      tensor.set_value(i, value);
    }
  }
  return tensor;
}

inline Tensor make_bits(DType dtype, const Shape& shape, const std::vector<uint64_t>& bits) {
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < bits.size(); ++i) tensor.set_bits(static_cast<int64_t>(i), bits[i]);
  return tensor;
}

inline std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.elements(); ++i) result.push_back(tensor.value(i));
  return result;
}

inline std::vector<uint64_t> all_bits(const Tensor& tensor) {
  std::vector<uint64_t> result;
  for (int64_t i = 0; i < tensor.elements(); ++i) result.push_back(tensor.bits(i));
  return result;
}

using Build = std::function<std::vector<ValueId>(GraphBuilder&, const std::vector<ValueId>&)>;

inline std::shared_ptr<const Graph> make_graph(const std::vector<Type>& inputs, const Build& build) {
  GraphBuilder builder;
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) values.push_back(builder.input("x" + std::to_string(i), inputs[i]));
  const std::vector<ValueId> results = build(builder, values);
  for (size_t i = 0; i < results.size(); ++i) builder.output("y" + std::to_string(i), results[i]);
  Result<Graph> graph = std::move(builder).finish();
  if (!graph) {
    ADD_FAILURE() << graph.error().message;
    return nullptr;
  }
  return std::make_shared<const Graph>(std::move(*graph));
}

inline std::vector<Tensor> run_all(const std::vector<Tensor>& inputs, const Build& build, ThreadPool* pool = nullptr) {
  std::vector<Type> types;
  for (const Tensor& input : inputs) types.push_back({input.dtype(), input.shape()});
  const std::shared_ptr<const Graph> graph = make_graph(types, build);
  if (!graph) return {};
  Result<std::vector<Tensor>> results = run(*graph, inputs, pool);
  if (!results) {
    ADD_FAILURE() << results.error().message;
    return {};
  }
  return std::move(*results);
}

using BuildOne = std::function<ValueId(GraphBuilder&, const std::vector<ValueId>&)>;
inline Tensor run_one(const std::vector<Tensor>& inputs, const BuildOne& build, ThreadPool* pool = nullptr) {
  std::vector<Tensor> results = run_all(
      inputs, [&](GraphBuilder& builder, const std::vector<ValueId>& x) { return std::vector{build(builder, x)}; },
      pool);
  return results.size() == 1 ? std::move(results[0]) : Tensor();
}

}  // namespace low::reference
