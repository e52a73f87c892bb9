// One random attention operation; part of random_graph.
#pragma once

#include "compiler/graph/graph.h"
#include "runtime/tensor/random_tensor.h"

namespace low::reference {

// `value`: f32 of rank 1 or more, whose last axis is not empty; it becomes the queries, and now and then the keys and
// values too, which else are constants or elements of `other` (f32). Heads, batches and numbers of keys differ; masks
// of each dtype broadcast along any axis, and some are computed; diagonals lie anywhere. Rows without a key give 0, by
// attribute or by an epilogue: no NaN leaves. `narrow`: operands, mask and result may be of 16 and 8 bits. The result
// is f32, of rank 3 and unbounded size.
ValueId random_attention(GraphBuilder& builder, RandomBits& random, ValueId value, ValueId other, bool narrow);

}  // namespace low::reference
