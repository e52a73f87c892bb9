#include "compiler/low/tile_graph.h"

#include <algorithm>

namespace low {
namespace {

// Ids and pools are canonical after finish(); spans are compared by what they hold, not by where that lies.
class Comparison {
 public:
  Comparison(const TileGraph& a, const TileGraph& b) : a_(a), b_(b) {}

  bool equal() const {
    return a_.machine() == b_.machine() && a_.tiles() == b_.tiles() && same(a_.types(), b_.types()) &&
           same(a_.geometries(), b_.geometries()) && same(a_.contracts(), b_.contracts()) &&
           same(a_.descriptors(), b_.descriptors()) && allocations() && constants() && same(a_.inputs(), b_.inputs()) &&
           same(a_.outputs(), b_.outputs()) && a_.root() == b_.root() && regions() && repeats() && supersteps() &&
           runs() && copies() && exchanges();
  }

 private:
  template <typename T>
  static bool same(std::span<const T> a, std::span<const T> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  template <typename T, typename Equal>
  static bool same(std::span<const T> a, std::span<const T> b, Equal equal) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
  }
  bool view(const View& x, const View& y) const {
    return x.allocation == y.allocation && x.geometry == y.geometry && x.offset == y.offset &&
           same(a_.terms(x), b_.terms(y));
  }
  bool views(std::span<const View> x, std::span<const View> y) const {
    return same(x, y, [this](const View& p, const View& q) { return view(p, q); });
  }
  bool allocations() const {
    return same(a_.allocations(), b_.allocations(), [](const Allocation& x, const Allocation& y) {
      return x.type == y.type && x.home == y.home && x.role == y.role && x.binding == y.binding;
    });
  }
  bool constants() const { return same(a_.constants(), b_.constants()); }
  bool regions() const {
    return same(a_.regions(), b_.regions(),
                [this](const Region& x, const Region& y) { return same(a_.steps(x), b_.steps(y)); });
  }
  bool repeats() const {
    return same(a_.repeats(), b_.repeats(), [](const RepeatStep& x, const RepeatStep& y) {
      return x.level == y.level && x.count == y.count && x.body == y.body;
    });
  }
  bool supersteps() const {
    return same(a_.supersteps(), b_.supersteps(), [this](const Superstep& x, const Superstep& y) {
      return x.exchanges == y.exchanges && same(a_.commands(x), b_.commands(y));
    });
  }
  bool runs() const {
    return same(a_.runs(), b_.runs(), [this](const KernelRun& x, const KernelRun& y) {
      return x.contract == y.contract && x.tile == y.tile && views(a_.operands(x), b_.operands(y));
    });
  }
  bool copies() const {
    return same(a_.copies(), b_.copies(), [this](const LocalCopy& x, const LocalCopy& y) {
      return x.descriptor == y.descriptor && x.tile == y.tile && view(x.source, y.source) &&
             view(x.destination, y.destination);
    });
  }
  bool exchanges() const {
    return same(a_.exchanges(), b_.exchanges(), [this](const Exchange& x, const Exchange& y) {
      return view(x.source, y.source) && views(a_.destinations(x), b_.destinations(y));
    });
  }

  const TileGraph& a_;
  const TileGraph& b_;
};

}  // namespace

Shape outer_extents(const KernelContract& contract) {
  return Shape(contract.extents.extents().first(static_cast<size_t>(contract.extents.rank() - contract.inner)));
}

Shape inner_extents(const KernelContract& contract) {
  return Shape(contract.extents.extents().last(static_cast<size_t>(contract.inner)));
}

Shape operand_extents(const KernelContract& contract, size_t index) {
  const bool result = index + 1 == contract.operands.size();
  switch (contract.family) {
    case Family::gemm: {
      const int64_t m = contract.extents[0], n = contract.extents[1], k = contract.extents[2];
      return index == 0 ? Shape{m, k} : index == 1 ? Shape{k, n} : Shape{m, n};
    }
    case Family::reduce:
      return index == 0 ? contract.extents : outer_extents(contract);
    case Family::gather: {
      Shape extents = outer_extents(contract);
      if (result) return extents;
      if (index == 1) {
        extents.append(contract.inner);
        return extents;
      }
      const std::vector<Access>& access = contract.operands[index].access;
      for (int axis = 0; axis < extents.rank(); ++axis) {
        if (static_cast<size_t>(axis) < access.size() && access[static_cast<size_t>(axis)] == Access::broadcast)
          extents[axis] = 1;
      }
      for (const int64_t extent : inner_extents(contract)) extents.append(extent);
      return extents;
    }
    case Family::attention: {
      const int64_t m = contract.extents[0], n = contract.extents[1], d = contract.extents[2], dv = contract.extents[3];
      const AttentionOperands known = attention_operands(contract);
      if (index == 0) return Shape{m, d};
      if (index == 1) return Shape{n, d};
      if (index == 2) return Shape{n, dv};
      if (index == known.mask) return Shape{m, n};
      if (index == known.diagonal) return Shape{1};
      const bool state = index == known.state || (result && contract.attention.partial);
      return Shape{m, state ? dv + 2 : dv};
    }
    case Family::pointwise:
    case Family::rowwise:
    case Family::cumulative:
      break;
  }
  return contract.extents;
}

DType leading_type(const KernelContract& contract) {
  const bool index =
      contract.family == Family::reduce && (contract.kind == static_cast<uint8_t>(Reduce::Kind::index_max) ||
                                            contract.kind == static_cast<uint8_t>(Reduce::Kind::index_min));
  return index ? DType::i64 : contract.accumulate;
}

ExprOperands expr_operands(const KernelContract& contract) {
  switch (contract.family) {
    case Family::gemm:
      return {1, 2};
    case Family::reduce:
    case Family::rowwise:
      return {1, 1};
    case Family::attention:
      return {1, attention_operands(contract).extras};
    default:
      return {0, 0};
  }
}

AttentionOperands attention_operands(const KernelContract& contract) {
  AttentionOperands found;
  if (contract.attention.masked) found.mask = found.extras++;
  if (contract.attention.causal) found.diagonal = found.extras++;
  if (contract.attention.continues) found.state = found.extras++;
  return found;
}

double matrix_flop(const KernelContract& contract) {
  const auto extent = [&](int axis) { return static_cast<double>(contract.extents[axis]); };
  if (contract.family == Family::gemm) return 2 * extent(0) * extent(1) * extent(2);
  if (contract.family == Family::attention) return 2 * extent(0) * extent(1) * (extent(2) + extent(3));
  return 0;
}

bool operator==(const TileGraph& a, const TileGraph& b) { return Comparison(a, b).equal(); }

}  // namespace low
