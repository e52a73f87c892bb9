// The last step of fuse_attention.
#pragma once

#include "compiler/graph/graph.h"

namespace low {

// Before: attention over tensors [batch * heads, rows, d] that are transposes of [batch, rows, heads, d], the result
// likewise transposed back. After: attention over the packed heads [batch, rows, heads * d], and views. Precondition:
// canonical.
Result<Graph> pack_heads(const Graph& graph);

}  // namespace low
