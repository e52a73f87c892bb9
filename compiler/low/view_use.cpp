#include "compiler/low/view_use.h"

#include <algorithm>
#include <numeric>

#include <boost/container/small_vector.hpp>
#include <fmt/format.h>

#include "compiler/low/furthest.h"

namespace low {
namespace {

constexpr uint64_t max_joint_iterations = 4096;

// A number for each enclosing Repeat, outermost first.
using Iteration = boost::container::small_vector<uint64_t, 4>;

size_t element_bytes(const TileGraph& graph, const ViewUse& use) {
  return byte_size(graph.type(use.view.allocation).dtype);
}

ByteBox box_of(const TileGraph& graph, const ViewUse& use) {
  return byte_box(use.extents, use.strides, use.chunk, use.view.offset, element_bytes(graph, use));
}

int64_t shift_bytes(const TileGraph& graph, const ViewUse& use, std::span<const uint64_t> iteration) {
  int64_t shift = 0;
  for (const Term& term : graph.terms(use.view)) {
    shift += static_cast<int64_t>(iteration[term.level] % term.period) * term.stride;
  }
  return shift * static_cast<int64_t>(element_bytes(graph, use));
}

bool same_terms(const TileGraph& graph, const ViewUse& a, const ViewUse& b) {
  return element_bytes(graph, a) == element_bytes(graph, b) &&
         std::ranges::equal(graph.terms(a.view), graph.terms(b.view));
}

// How often the iteration of each level has to be tried: until the joint value of both uses' terms repeats. 1 for other
// levels.
Iteration joint_periods(const TileGraph& graph, const ViewUse& a, const ViewUse& b, std::span<const uint64_t> counts) {
  Iteration periods(counts.size(), 1);
  for (const View& view : {a.view, b.view}) {
    for (const Term& term : graph.terms(view)) {
      uint64_t& period = periods[term.level];
      // Below 2^32 each, and the count caps what does not fit.
      const uint64_t step = term.period / std::gcd(period, uint64_t{term.period});
      uint64_t product = 0;
      if (__builtin_mul_overflow(period, step, &product)) product = counts[term.level];
      period = std::min(product, counts[term.level]);
    }
  }
  return periods;
}

// Of views that move in different ways; x and y are their boxes in iteration 0.
bool overlap_in_iterations(const TileGraph& graph, const ViewUse& a, const ByteBox& x, const ViewUse& b,
                           const ByteBox& y, std::span<const uint64_t> counts) {
  const Iteration periods = joint_periods(graph, a, b, counts);
  uint64_t joint = 1;
  for (const uint64_t period : periods) {
    if (period == 0) return false;  // a Repeat of no iterations
    if (__builtin_mul_overflow(joint, period, &joint)) joint = UINT64_MAX;
  }
  Iteration iteration(counts.size());
  if (joint > max_joint_iterations) {
    Reach p, q;
    if (!reach(a.extents, a.strides, a.chunk, a.view.offset, graph.terms(a.view), counts, p) ||
        !reach(b.extents, b.strides, b.chunk, b.view.offset, graph.terms(b.view), counts, q)) {
      return true;
    }
    const auto m = static_cast<int64_t>(element_bytes(graph, a)), n = static_cast<int64_t>(element_bytes(graph, b));
    return p.low * m < (q.high + 1) * n && q.low * n < (p.high + 1) * m;
  }
  for (uint64_t i = 0; i < joint; ++i) {
    uint64_t rest = i;
    for (size_t level = 0; level < periods.size(); ++level) {
      iteration[level] = rest % periods[level];
      rest /= periods[level];
    }
    if (overlap(shifted(x, shift_bytes(graph, a, iteration)), shifted(y, shift_bytes(graph, b, iteration))))
      return true;
  }
  return false;
}

// Numbers for the ways in which views move from iteration to iteration: what same_terms tells apart.
class Shifts {
 public:
  explicit Shifts(const TileGraph& graph) : graph_(graph) {}
  uint32_t number(const ViewUse& use) {
    const auto found = std::ranges::find_if(known_, [&](const ViewUse& other) {
      return (other.view.terms == use.view.terms && element_bytes(graph_, other) == element_bytes(graph_, use)) ||
             same_terms(graph_, other, use);
    });
    const auto index = static_cast<uint32_t>(found - known_.begin());
    if (found == known_.end()) known_.push_back(use);
    return index;
  }

 private:
  const TileGraph& graph_;
  std::vector<ViewUse> known_;  // one of each; few
};

struct PlacedUse {
  ViewUse use;
  uint32_t shift = 0;         // of Shifts
  ByteBox box;                // of iteration 0
  int64_t low = 0, high = 0;  // bytes over all iterations, `high` past the last
};

// Races among the uses of one storage.
class StorageRaces {
 public:
  StorageRaces(const TileGraph& graph, std::span<const uint64_t> counts, std::vector<PlacedUse>& uses,
               RuleBudget& budget)
      : graph_(graph), counts_(counts), uses_(uses), budget_(budget) {}

  Result<void> check() {
    std::sort(uses_.begin(), uses_.end(), [](const PlacedUse& a, const PlacedUse& b) {
      return a.low != b.low ? a.low < b.low : a.use.tile < b.use.tile;
    });
    // A block that one tile reads in each of its runs counts once.
    uses_.erase(std::unique(uses_.begin(), uses_.end(),
                            [](const PlacedUse& a, const PlacedUse& b) {
                              return a.use.tile == b.use.tile && a.use.write == b.use.write && a.low == b.low &&
                                     a.high == b.high && a.shift == b.shift && a.box.begin == b.box.begin &&
                                     a.box.same_shape(b.box);
                            }),
                uses_.end());
    const bool one_shift =
        std::ranges::all_of(uses_, [this](const PlacedUse& use) { return use.shift == uses_[0].shift; });
    // Comparing all pairs whose ends interleave, or sorting all contiguous runs of bytes: both are exact, and which is
    // cheaper depends on the shapes.
    double segments = 0, pairs = 0;
    for (auto use = uses_.begin(); use != uses_.end(); ++use) {
      segments += static_cast<double>(segment_count(use->box));
      pairs +=
          static_cast<double>(std::ranges::lower_bound(use + 1, uses_.end(), use->high, {}, &PlacedUse::low) - use - 1);
    }
    const bool by_segments = one_shift && segments * 4 < pairs && segments <= max_segments;
    budget_.comparisons -= by_segments ? segments : pairs;
    if (budget_.comparisons < 0) return too_many();
    return by_segments ? check_segments() : check_pairs();
  }

 private:
  static constexpr double max_segments = double{1 << 23};  // at once: 200 MB

  static int64_t segment_count(const ByteBox& box) {
    int64_t count = 1;
    for (const ByteBox::Axis& axis : box.used()) {
      if (axis.stride != 1) count *= axis.extent;
    }
    return count;
  }

  [[nodiscard]] std::unexpected<Error> too_many() const {
    return fail(
        ErrorKind::unsupported,
        fmt::format("allocation {} is read and written in {} places of one superstep, which are too many to tell apart",
                    uses_[0].use.view.allocation.index, uses_.size()));
  }

  [[nodiscard]] std::unexpected<Error> race(const PlacedUse& a, const PlacedUse& b) const {
    const PlacedUse& writer = a.use.write ? a : b;
    const PlacedUse& other = a.use.write ? b : a;
    return fail(
        ErrorKind::internal,
        fmt::format("{} writes what {} {} in the same superstep, in allocation {}", to_string(writer.use),
                    to_string(other.use), other.use.write ? "writes" : "reads", writer.use.view.allocation.index));
  }

  // Finding out in which iterations two uses meet that move in different ways takes as long as so many comparisons.
  static constexpr double joint_setup = 8;
  // How many of these iterations may have to be looked at.
  double joint_iterations(const ViewUse& a, const ViewUse& b) const {
    double joint = 1;
    for (const uint64_t period : joint_periods(graph_, a, b, counts_)) joint *= static_cast<double>(period);
    return std::min(joint, static_cast<double>(max_joint_iterations));
  }

  Result<void> check_pairs() const {
    for (size_t i = 0; i < uses_.size(); ++i) {
      const PlacedUse& a = uses_[i];
      for (size_t j = i + 1; j < uses_.size() && uses_[j].low < a.high; ++j) {
        const PlacedUse& b = uses_[j];
        if (a.use.tile == b.use.tile || !(a.use.write || b.use.write)) continue;
        if (a.shift != b.shift) budget_.comparisons -= joint_setup + joint_iterations(a.use, b.use);
        if (budget_.comparisons < 0) return too_many();
        const bool meet = a.shift == b.shift ? overlap(a.box, b.box)
                                             : overlap_in_iterations(graph_, a.use, a.box, b.use, b.box, counts_);
        if (meet) return race(a, b);
      }
    }
    return {};
  }

  struct Segment {
    int64_t begin, end;
    uint32_t use;
  };

  void add_segments(std::vector<Segment>& segments, uint32_t use) const {
    const ByteBox& box = uses_[use].box;
    int outer = box.rank;
    int64_t length = 1;
    if (outer > 0 && box.axes[static_cast<size_t>(outer - 1)].stride == 1)
      length = box.axes[static_cast<size_t>(--outer)].extent;
    std::array<int64_t, max_rank + 2> index{};
    int64_t address = box.begin;
    while (true) {
      segments.push_back({address, address + length, use});
      int axis = outer - 1;
      for (; axis >= 0; --axis) {
        const auto a = static_cast<size_t>(axis);
        address += box.axes[a].stride;
        if (++index[a] < box.axes[a].extent) break;
        address -= box.axes[a].stride * box.axes[a].extent;
        index[a] = 0;
      }
      if (axis < 0) return;
    }
  }

  Result<void> check_segments() const {
    std::vector<Segment> segments;
    for (uint32_t i = 0; i < uses_.size(); ++i) add_segments(segments, i);
    std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.use < b.use;
    });
    Furthest writes, reads;
    for (const Segment& segment : segments) {
      const PlacedUse& use = uses_[segment.use];
      if (const auto& entry = writes.of_another(use.use.tile); entry.end > segment.begin)
        return race(uses_[entry.use], use);
      if (use.use.write) {
        if (const auto& entry = reads.of_another(use.use.tile); entry.end > segment.begin)
          return race(uses_[entry.use], use);
      }
      (use.use.write ? writes : reads).add({.end = segment.end, .tile = use.use.tile, .use = segment.use});
    }
    return {};
  }

  const TileGraph& graph_;
  std::span<const uint64_t> counts_;
  std::vector<PlacedUse>& uses_;
  RuleBudget& budget_;
};

}  // namespace

std::string to_string(const ViewUse& use) {
  constexpr std::string_view kinds[] = {"exchange", "run", "copy"};
  return fmt::format("tile {}, {} {}, operand {}", use.tile.index, kinds[static_cast<size_t>(use.kind)], use.index,
                     use.operand);
}

bool uses_overlap(const TileGraph& graph, const ViewUse& a, const ViewUse& b, std::span<const uint64_t> counts) {
  const ByteBox x = box_of(graph, a), y = box_of(graph, b);
  return same_terms(graph, a, b) ? overlap(x, y) : overlap_in_iterations(graph, a, x, b, y, counts);
}

Result<void> verify_superstep_rule(const TileGraph& graph, const Superstep& superstep, std::span<const uint64_t> counts,
                                   RuleBudget& budget) {
  // Only allocations that a tile writes and that another tile touches can race: first who writes where, then who reads
  // that.
  enum : uint8_t { written = 1, several_tiles = 2 };
  const size_t allocations = graph.allocations().size();
  Table<AllocationId, uint8_t> state(allocations);
  Table<AllocationId, TileId> first_tile(allocations);
  bool suspects = false;
  const auto write = [&](const View& view, TileId tile) {
    const AllocationId id = view.allocation;
    if (state[id] == 0) {
      state[id] = written;
      first_tile[id] = tile;
    } else if (first_tile[id] != tile) {
      state[id] = written | several_tiles;
      suspects = true;
    }
  };
  const auto read = [&](const View& view, TileId tile) {
    const AllocationId id = view.allocation;
    if (state[id] == 0 || first_tile[id] == tile) return;
    state[id] = written | several_tiles;
    suspects = true;
  };
  for (const bool writes : {true, false}) {
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < superstep.exchanges.count; ++i) {
      const Exchange& exchange = graph.exchanges()[superstep.exchanges.begin + i];
      if (!writes && state[exchange.source.allocation] == 0) {
        ordinal += exchange.destinations.count;
        continue;
      }
      for (const View& destination : graph.destinations(exchange)) {
        const TileId tile = transfer_tile(graph, exchange.source, destination, ordinal++);
        writes ? write(destination, tile) : read(exchange.source, tile);
      }
    }
    for (const Command& command : graph.commands(superstep)) {
      const TileId tile = graph.tile(command);
      if (command.kind == Command::Kind::copy) {
        const LocalCopy& copy = graph.copies()[command.index];
        writes ? write(copy.destination, tile) : read(copy.source, tile);
        continue;
      }
      const std::span<const View> operands = graph.operands(graph.runs()[command.index]);
      if (writes) {
        write(operands.back(), tile);
      } else {
        for (const View& operand : operands.first(operands.size() - 1)) read(operand, tile);
      }
    }
  }
  if (!suspects) return {};
  Shifts shifts(graph);
  std::vector<std::pair<AllocationId, std::vector<PlacedUse>>> storages;
  Table<AllocationId, uint32_t> position(allocations, UINT32_MAX);
  bool in_range = true;
  for_each_use(graph, superstep, [&](const ViewUse& use) {
    const AllocationId id = use.view.allocation;
    if (state[id] != (written | several_tiles)) return;
    Reach elements;
    if (!reach(use.extents, use.strides, use.chunk, use.view.offset, graph.terms(use.view), counts, elements)) {
      in_range = false;
      return;
    }
    if (elements.high < elements.low) return;
    const auto bytes = static_cast<int64_t>(element_bytes(graph, use));
    if (position[id] == UINT32_MAX) {
      position[id] = static_cast<uint32_t>(storages.size());
      storages.emplace_back(id, std::vector<PlacedUse>());
    }
    storages[position[id]].second.push_back(
        {use, shifts.number(use), box_of(graph, use), elements.low * bytes, (elements.high + 1) * bytes});
  });
  if (!in_range) return fail(ErrorKind::internal, "a view is out of range");
  for (auto& [id, uses] : storages) LOW_TRY_VOID(StorageRaces(graph, counts, uses, budget).check());
  return {};
}

}  // namespace low
