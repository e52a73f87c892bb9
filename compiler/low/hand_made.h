// Tile graphs made by hand, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/low/builder.h"

namespace low::hand_made {

inline Geometry row_major_geometry(const Shape& extents) { return {extents, extents.row_major_strides()}; }

// A contract, and the extents of a run.
struct SizedContract : KernelContract {
  Shape extents;
};

// A builder with shorthands.
struct Maker {
  TileGraphBuilder builder;

  explicit Maker(uint32_t tiles, std::string machine = "host") : builder(std::move(machine), tiles) {}

  AllocationId allocation(DType dtype, const Shape& extents, Role role = Role::intermediate, TileId home = TileId()) {
    return builder.allocation({builder.type({dtype, extents}), home, role, 0});
  }
  AllocationId input(const std::string& name, DType dtype, const Shape& extents) {
    const AllocationId id = allocation(dtype, extents, Role::input);
    builder.input(name, {dtype, extents}, id);
    return id;
  }
  AllocationId output(const std::string& name, DType dtype, const Shape& extents) {
    const AllocationId id = allocation(dtype, extents, Role::output);
    builder.output(name, {dtype, extents}, id);
    return id;
  }
  AllocationId parameter(Tensor tensor) {
    auto shared = std::make_shared<const Tensor>(std::move(tensor));
    const uint32_t binding = builder.constant(shared);
    return builder.allocation({builder.type({shared->dtype(), shared->shape()}), TileId(), Role::parameter, binding});
  }
  View view(AllocationId allocation, const Shape& extents, const Strides& strides, int64_t offset = 0,
            const std::vector<Term>& terms = {}) {
    return {allocation, builder.geometry({extents, strides}), offset, builder.terms(terms)};
  }
  // `count` elements from `offset` on.
  View line(AllocationId allocation, int64_t offset, int64_t count, const std::vector<Term>& terms = {}) {
    return view(allocation, {count}, {1}, offset, terms);
  }
  // result[i] = a[i] op b[i], f32.
  ContractId binary(ExprOp op = ExprOp::add) {
    ExprBuilder expr(2);
    const uint16_t a = expr.input(0, DType::f32), b = expr.input(1, DType::f32);
    KernelContract contract;
    contract.operands.assign(3, {DType::f32, {Access::unit}});
    contract.expr = std::move(expr).finish(expr.binary(op, a, b));
    return builder.contract(contract);
  }
  // result[m, n] = sum of a[m, k] * b[k, n], dense row-major operands.
  ContractId gemm(DType a, DType b, DType math, DType accumulate) {
    ExprBuilder expr(1);
    KernelContract contract;
    contract.family = GemmKernel{.math_a = math, .math_b = math, .accumulate = accumulate};
    const std::vector<Access> rows{Access::strided, Access::unit};
    contract.operands = {{a, rows}, {b, rows}, {accumulate, rows}};
    contract.expr = std::move(expr).finish(expr.input(0, accumulate));
    return builder.contract(contract);
  }
  DescriptorId chunk(DType from, DType to, int64_t count) {
    CopyDescriptor copy;
    copy.source = from;
    copy.destination = to;
    copy.chunk = count;
    return builder.descriptor(copy);
  }
  void run(uint32_t tile, ContractId contract, std::vector<View> operands) {
    builder.run(contract, TileId(tile), operands);
  }
  // `count` f32 elements.
  void copy(uint32_t tile, AllocationId from, int64_t from_offset, AllocationId to, int64_t to_offset, int64_t count,
            const std::vector<Term>& from_terms = {}, const std::vector<Term>& to_terms = {}) {
    builder.copy(chunk(DType::f32, DType::f32, count), line(from, from_offset, count, from_terms),
                 line(to, to_offset, count, to_terms), TileId(tile));
  }
  Result<TileGraph> finish() { return std::move(builder).finish(); }
};

inline Tensor f32_tensor(const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DType::f32, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.set_value(static_cast<int64_t>(i), values[i]);
  return tensor;
}

inline std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.value(i));
  return values;
}

// y = (a + b) * a over 8 elements on two tiles: tile t has elements [4 t, 4 t + 4).
inline Result<TileGraph> two_tile_graph() {
  Maker make(2);
  const AllocationId a = make.input("a", DType::f32, {8});
  const AllocationId b = make.input("b", DType::f32, {8});
  const AllocationId sum = make.allocation(DType::f32, {8});
  const AllocationId y = make.output("y", DType::f32, {8});
  make.builder.begin_region();
  make.builder.begin_superstep();
  for (uint32_t t = 0; t < 2; ++t) {
    make.run(t, make.binary(), {make.line(a, 4 * t, 4), make.line(b, 4 * t, 4), make.line(sum, 4 * t, 4)});
  }
  make.builder.end_superstep();
  make.builder.begin_superstep();
  for (uint32_t t = 0; t < 2; ++t) {
    make.run(t, make.binary(ExprOp::mul), {make.line(sum, 4 * t, 4), make.line(a, 4 * t, 4), make.line(y, 4 * t, 4)});
  }
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

// Three elements, two halves of a buffer in turns: half[(i + 1) % 2] = half[i % 2] + w[i], i < count, beginning with x;
// and trace[i] = half[(i + 1) % 2] for each i. w[i] is (i, 10 i, 100 i).
inline Result<TileGraph> ping_pong_graph(int64_t count) {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {3});
  const AllocationId buffer = make.allocation(DType::f32, {2, 3});
  Tensor w(DType::f32, {count, 3});
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < 3; ++j) w.set_value(i * 3 + j, static_cast<double>(i) * (j == 0 ? 1 : j == 1 ? 10 : 100));
  }
  const AllocationId weights = make.parameter(std::move(w));
  const AllocationId y = make.output("y", DType::f32, {3});
  const AllocationId trace = make.output("trace", DType::f32, {count, 3});
  const auto period = static_cast<uint32_t>(count);
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(0, x, 0, buffer, 0, 3);
  make.builder.end_superstep();
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.run(0, make.binary(),
           {make.line(buffer, 0, 3, {{0, 2, 3}}), make.line(weights, 0, 3, {{0, period, 3}}),
            make.line(buffer, 3, 3, {{0, 2, -3}})});
  make.builder.end_superstep();
  make.builder.begin_superstep();
  make.copy(0, buffer, 3, trace, 0, 3, {{0, 2, -3}}, {{0, period, 3}});
  make.builder.end_superstep();
  const RegionId body = make.builder.end_region();
  make.builder.repeat(0, static_cast<uint64_t>(count), body);
  make.builder.begin_superstep();
  make.copy(0, buffer, count % 2 * 3, y, 0, 3);
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

// Four tiles without global memory. Tile t has two elements h[t] of x; `count` times in turns of two halves: h[t] =
// h[(t + 1) % 4] + w[t][i], where everybody is sent all of h. w[t][i] is (10 t + i, 100 t + i). Then y = h.
inline Result<TileGraph> islands_graph(int64_t count) {
  constexpr uint32_t tiles = 4;
  Maker make(tiles, "islands");
  const AllocationId x = make.input("x", DType::f32, {8});
  const AllocationId y = make.output("y", DType::f32, {8});
  std::vector<AllocationId> halves, gathered, weights;
  for (uint32_t t = 0; t < tiles; ++t) {
    halves.push_back(make.allocation(DType::f32, {2, 2}, Role::intermediate, TileId(t)));
    gathered.push_back(make.allocation(DType::f32, {8}, Role::intermediate, TileId(t)));
    Tensor w(DType::f32, {count, 2});
    for (int64_t i = 0; i < count; ++i) {
      w.set_value(2 * i, 10.0 * t + static_cast<double>(i));
      w.set_value(2 * i + 1, 100.0 * t + static_cast<double>(i));
    }
    const uint32_t binding = make.builder.constant(std::make_shared<const Tensor>(std::move(w)));
    weights.push_back(
        make.builder.allocation({make.builder.type({DType::f32, {count, 2}}), TileId(t), Role::parameter, binding}));
  }
  make.builder.begin_region();
  make.builder.begin_superstep();
  for (uint32_t t = 0; t < tiles; ++t) {
    make.builder.exchange(make.line(x, 2 * t, 2), std::vector{make.line(halves[t], 0, 2)});
  }
  make.builder.end_superstep();
  make.builder.begin_region();
  make.builder.begin_superstep();
  const Term current{0, 2, 2}, next{0, 2, -2};
  for (uint32_t t = 0; t < tiles; ++t) {
    std::vector<View> others;
    for (uint32_t to = 0; to < tiles; ++to) {
      if (to != t) others.push_back(make.line(gathered[to], 2 * t, 2));
    }
    make.builder.exchange(make.line(halves[t], 0, 2, {current}), others);
    make.copy(t, halves[t], 0, gathered[t], 2 * t, 2, {current});
    make.run(t, make.binary(),
             {make.line(gathered[t], 2 * ((t + 1) % tiles), 2),
              make.line(weights[t], 0, 2, {{0, static_cast<uint32_t>(count), 2}}), make.line(halves[t], 2, 2, {next})});
  }
  make.builder.end_superstep();
  const RegionId body = make.builder.end_region();
  make.builder.repeat(0, static_cast<uint64_t>(count), body);
  make.builder.begin_superstep();
  for (uint32_t t = 0; t < tiles; ++t) {
    make.builder.exchange(make.line(halves[t], count % 2 * 2, 2), std::vector{make.line(y, 2 * t, 2)});
  }
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

}  // namespace low::hand_made
