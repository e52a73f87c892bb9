// Attention: which decisions there are, and what they cost. On all machines; see AttentionPlan.
#pragma once

#include <boost/container/static_vector.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/search/layout.h"
#include "compiler/search/search.h"

namespace low {

// q [batch, m, q_heads * d], k [kv_batch, n, kv_heads * d], v [kv_batch, n, kv_heads * dv].
struct AttentionExtents {
  int64_t batch = 1, m = 1, q_heads = 1, n = 1, d = 1, dv = 1;
  int64_t kv_batch = 1, kv_heads = 1;
  int64_t score_bytes = 4;
  // What the rows of the scores of a (batch, head) of q read.
  int64_t kv_batch_of(int64_t of_batch) const { return of_batch / (batch / kv_batch); }
  int64_t kv_head_of(int64_t of_head) const { return of_head / (q_heads / kv_heads); }
  bool causal = false;
};
AttentionExtents attention_extents(const Graph& graph, const Op& op);

// Causal attention with materialized scores reads a constant mask of m x n.
inline constexpr int64_t max_causal_mask_elements = int64_t{1} << 26;
// Whether that algorithm can compute it at all.
bool can_compute(const AttentionExtents& extents, AttentionAlgorithm algorithm);
// Why there is no decision for it, after a search that found none.
std::string attention_obstacle(const Graph& graph, const Op& op);

// At most `limit` candidates, grids that use many tiles first; with the algorithm `only`, or with any.
std::vector<AttentionPlan> attention_space(const Machine& machine, const AttentionExtents& extents,
                                           std::optional<AttentionAlgorithm> only, int64_t limit);
// Without global memory: numbers of parts, other than 0, that keys and values may be put together in.
std::vector<uint32_t> key_part_space(const Machine& machine, const AttentionExtents& extents);
// k and v of these extents as they are put together in parts: like results of the attention that is returned, for
// `width` = d or dv.
struct KeyParts {
  AttentionExtents extents;
  AttentionPlan plan;
};
KeyParts key_parts(const AttentionExtents& extents, const AttentionPlan& plan, int64_t width);
// What is wrong with a plan, or nothing.
std::optional<std::string> attention_violation(const Machine& machine, const AttentionExtents& extents,
                                               const AttentionPlan& plan);

// What the cost on a machine with global memory depends on, apart from the plan.
struct AttentionWork {
  AttentionExtents shape;
  DType q = DType::f32, k = DType::f32, v = DType::f32;
  int64_t result_bytes = 4;  // of an element
  int64_t mask_bytes = 0;    // of an element, if each score has its own
  int64_t score_nodes = 0;
  int64_t expression_nodes = 0;
  int64_t extra_bytes = 0;  // of extras, for each element of the result
  bool strided = false;
};
AttentionWork attention_work(const Graph& graph, const Op& op, std::span<const Layout> operands);
// The runs of one block of rows, one after the other on one tile: one, or three with materialized scores.
boost::container::static_vector<KernelWork, 3> attention_runs(const Machine& machine, const AttentionWork& work,
                                                              AttentionAlgorithm algorithm, int64_t rows, int64_t keys);
// One superstep.
CostSum attention_cost(const Machine& machine, const AttentionWork& work, const AttentionPlan& plan);
// That superstep, its busiest tile alone.
SuperstepWork attention_superstep(const Machine& machine, const AttentionWork& work, const AttentionPlan& plan);
// Bytes of scores that all tiles keep; 0 for flash.
uint64_t attention_scratch_bytes(const Machine& machine, const AttentionExtents& extents, const AttentionPlan& plan);

}  // namespace low
