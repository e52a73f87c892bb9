// What each family of kernels says of itself, as members of its struct:
//
//   name, fields(self, visit)        in texts and names of kernels; its fields, once (see contract_fields.h)
//   run_extents(operands)            the extents of a run's iteration space, from those of its operands
//   operand_extents(contract, extents, index)     the other way round
//   operand_count()                  how many operands there are, the result included
//   problem(contract)                what is wrong with a contract by itself; its operands' numbers of axes are right
//   run_problem(contract, extents)   what is wrong with a run of these extents
//   add_work(work, contract, extents)             what such a run does, but for the bytes that it reads and writes
//
// and where there is something to say:
//
//   iteration_rank, inner            axes of the iteration space; those that are inner ones
//   axes_problem(contract)           what is wrong with the numbers of axes, before anything else is looked at
//   expr_operands(), accumulate      what the expression reads; none: there is no expression
//   first_in_place()                 the first operand from which on one may lie exactly where the result does
//   picked_operand()                 the operand that indices pick elements from
//   matrix_flop(extents)             matrix operations of a run, a multiply-add counting two
//   scratch_bytes(contract, extents, tiling)      that such a run needs on a target of this tiling
//   unimplemented()                  what no kernel of the library does, of a contract without a problem
//   elements_that_count(contract, extents, index)   of an operand's view, where it has others besides
//   gains_by_dots(contract)          whether it uses dot products of narrow elements where a target has them
//   configure(contract, extents)     sets the fields that say how the kernel goes about runs of these extents
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/type.h"
#include "compiler/kernels/data/tiling.h"
#include "compiler/kernels/work.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace low {

struct KernelContract;
struct OperandContract;

// How many operands, the result included.
struct OperandCount {
  size_t least = 2;
  bool exact = false;  // no extras, and no expression
};
// Number of the expression's inputs that are no operands, and the first operand that is one.
struct ExprOperands {
  size_t leading = 0, first = 0;
};

// For families' problems and work.
std::string out_of_range(const Shape& extents);
bool strided_both_ways(const OperandContract& matrix);

}  // namespace low
