// What one expansion has made so far, counted before it is made.
#pragma once

#include <string_view>

#include "compiler/graph/graph.h"
#include "compiler/low/expansion_limits.h"
#include "compiler/machine/machine.h"

namespace low {

class ExpansionBudget {
 public:
  ExpansionBudget(const Machine& machine, const ExpansionLimits& limits)
      : machine_(machine.name), tiles_(machine.tiles), limit_(limits.pieces(machine.tiles)) {}

  // What is counted from here on is this operation's.
  void begin(const Op& op) { op_ = &op; }
  // Counts what is about to be made. ErrorKind::unsupported, naming the operation, when that is too much. A double,
  // since the numbers of a model or of a plan file multiply to any size.
  Result<void> take(double pieces) {
    pieces_ += pieces;
    if (pieces_ <= limit_) [[likely]]
      return {};
    return too_much();
  }
  // Fails already now if this much is sure to come, and is too much.
  Result<void> expect(double pieces) {
    if (pieces_ + pieces <= limit_) [[likely]]
      return {};
    return take(pieces);
  }
  // A superstep lists every tile's commands.
  Result<void> take_superstep() { return take(1 + tiles_ / 32); }

 private:
  std::unexpected<Error> too_much() const;

  std::string_view machine_;
  uint32_t tiles_;
  double limit_;
  const Op* op_ = nullptr;
  double pieces_ = 0;
};

}  // namespace low
