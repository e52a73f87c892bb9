#include "compiler/low/tile_graph.h"

#include <boost/container/small_vector.hpp>

#include <algorithm>

namespace low {

Shape TileGraph::extents(const KernelRun& run) const {
  boost::container::small_vector<Shape, 8> shapes;
  for (const View& view : operands(run)) shapes.push_back(geometry(view).extents);
  return run_extents(contract(run), shapes);
}
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

bool operator==(const TileGraph& a, const TileGraph& b) { return Comparison(a, b).equal(); }

}  // namespace low
