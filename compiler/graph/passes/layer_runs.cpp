#include "compiler/graph/passes/layer_runs.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/base/hash.h"

namespace low {
namespace {

constexpr size_t max_lag = 8;       // equal operations in one layer, of the rarest kind
constexpr size_t max_periods = 64;  // tried
constexpr size_t max_runs = 256;
constexpr size_t max_starts = 32;  // of one stretch

template <typename Kind>
bool is(const Op& op) {
  return std::holds_alternative<Kind>(op.attributes);
}

// Number of readers of each operation's results, and one of them.
struct Readers {
  std::vector<size_t> count;
  std::vector<OpId> reader;
};
Readers readers_of(const Graph& graph) {
  Readers readers{std::vector<size_t>(graph.op_count()), std::vector<OpId>(graph.op_count())};
  for (size_t i = 0; i < graph.op_count(); ++i) {
    for (const ValueId operand : graph.operands(graph.op(OpId(i)))) {
      const OpId from = graph.value(operand).producer;
      if (readers.reader[from.index] == OpId(i)) continue;
      ++readers.count[from.index];
      readers.reader[from.index] = OpId(i);
    }
  }
  return readers;
}

class RunFinder {
 public:
  RunFinder(const Graph& graph, const OpSequence& sequence) : graph_(graph), sequence_(sequence) {
    // Small numbers for equal kinds of operations: exact, so that what follows compares no more than two integers.
    std::multimap<uint64_t, std::pair<const Op*, size_t>> known;
    for (size_t i = 0; i < size(); ++i) {
      const uint64_t hash = hash_of(op(i));
      size_t kind = SIZE_MAX;
      const auto [begin, end] = known.equal_range(hash);
      for (auto found = begin; found != end && kind == SIZE_MAX; ++found) {
        if (same_kind(op(i), *found->second.first)) kind = found->second.second;
      }
      if (kind == SIZE_MAX) {
        kind = places_.size();
        places_.emplace_back();
        known.emplace(hash, std::pair(&op(i), kind));
      }
      kinds_.push_back(kind);
      places_[kind].push_back(i);
    }
  }

  std::vector<LayerRun> run() {
    for (const size_t period : periods()) search(period);
    std::ranges::sort(runs_, [](const LayerRun& a, const LayerRun& b) {
      return std::tuple(b.saved(), a.period, a.begin) < std::tuple(a.saved(), b.period, b.begin);
    });
    if (runs_.size() > max_runs) runs_.resize(max_runs);
    return std::move(runs_);
  }

 private:
  enum class Match { no, first_layer, any_layer };

  size_t size() const { return sequence_.ops.size(); }
  const Op& op(size_t i) const { return graph_.op(sequence_.ops[i]); }

  uint64_t hash_of(const Op& op) const {
    WordHash hash;
    hash.add(op.attributes.index());
    const auto add = [&](const Type& type) { hash.add(type.dtype).add_list(type.shape); };
    for (const ValueId operand : graph_.operands(op)) add(graph_.type(operand));
    for (uint32_t i = 0; i < op.results.count; ++i) add(graph_.type(graph_.result(op, i)));
    const Expr* expr = nullptr;
    if (const auto* pointwise = std::get_if<Pointwise>(&op.attributes)) expr = &pointwise->expr;
    if (const auto* matmul = std::get_if<Matmul>(&op.attributes); matmul != nullptr && matmul->epilogue) {
      expr = &*matmul->epilogue;
    }
    if (expr != nullptr) {
      for (const ExprNode& node : expr->nodes) hash.add(node.op).add(node.argument).add(node.literal);
    }
    return hash.result();
  }

  bool same_kind(const Op& a, const Op& b) const {
    if (a.operands.count != b.operands.count || a.results.count != b.results.count) return false;
    for (uint32_t i = 0; i < a.operands.count; ++i) {
      if (graph_.type(graph_.operands(a)[i]) != graph_.type(graph_.operands(b)[i])) return false;
    }
    for (uint32_t i = 0; i < a.results.count; ++i) {
      if (graph_.type(graph_.result(a, i)) != graph_.type(graph_.result(b, i))) return false;
    }
    return a.attributes == b.attributes;
  }

  // Distances between operations of one kind, the most frequent first. A layer may hold several of a kind, hence the
  // lags.
  std::vector<size_t> periods() const {
    std::map<size_t, size_t> votes;
    for (const std::vector<size_t>& places : places_) {
      for (size_t lag = 1; lag <= max_lag; ++lag) {
        for (size_t i = 0; i + lag < places.size(); ++i) ++votes[places[i + lag] - places[i]];
      }
    }
    std::vector<std::pair<size_t, size_t>> order(votes.begin(), votes.end());
    std::ranges::sort(order, [](const auto& a, const auto& b) {
      return std::pair(b.second, a.first) < std::pair(a.second, b.first);
    });
    std::vector<size_t> out;
    for (size_t i = 0; i < std::min(order.size(), max_periods); ++i) out.push_back(order[i].first);
    return out;
  }

  // Whether operation i + period can be, a layer later, what operation i is.
  Match match(size_t i, size_t period) const {
    if (kinds_[i] != kinds_[i + period]) return Match::no;
    const std::span<const ValueId> earlier = graph_.operands(op(i));
    const std::span<const ValueId> later = graph_.operands(op(i + period));
    Match match = Match::any_layer;
    for (size_t k = 0; k < earlier.size(); ++k) {
      if (earlier[k] == later[k]) continue;
      const Value& a = graph_.value(earlier[k]);
      const Value& b = graph_.value(later[k]);
      if (is<Constant>(graph_.op(a.producer)) && is<Constant>(graph_.op(b.producer))) continue;
      const size_t from = sequence_.position[a.producer.index];
      const size_t to = sequence_.position[b.producer.index];
      if (to == OpSequence::none || to + period <= i) return Match::no;
      if (from != OpSequence::none && from + period == to && a.result == b.result) continue;
      match = Match::first_layer;
    }
    return match;
  }

  void search(size_t period) {
    const size_t end = size() - period;
    std::vector<Match> matches;
    for (size_t i = 0; i < end; ++i) matches.push_back(match(i, period));
    // The first operation from each on that does not match in layers after the first.
    std::vector<size_t> stop(end + 1, end);
    for (size_t i = end; i-- > 0;) stop[i] = matches[i] == Match::any_layer ? stop[i + 1] : i;
    for (size_t begin = 0; begin < end;) {
      size_t stretch = begin;
      while (stretch < end && matches[stretch] != Match::no) ++stretch;
      std::vector<LayerRun> found;
      for (size_t i = begin; i + period <= stretch; ++i) {
        // The first layer, which may differ, then as many whole ones as match.
        const size_t until = std::min(stop[i + period], stretch);
        found.push_back({i, period, 2 + (until - i - period) / period});
      }
      std::ranges::sort(found, [](const LayerRun& a, const LayerRun& b) {
        return std::pair(b.count, a.begin) < std::pair(a.count, b.begin);
      });
      if (found.size() > max_starts) found.resize(max_starts);
      runs_.insert(runs_.end(), found.begin(), found.end());
      begin = stretch + 1;
    }
  }

  const Graph& graph_;
  const OpSequence& sequence_;
  std::vector<size_t> kinds_;                // of each position
  std::vector<std::vector<size_t>> places_;  // of each kind
  std::vector<LayerRun> runs_;
};

}  // namespace

OpSequence op_sequence(const Graph& graph) {
  const Readers readers = readers_of(graph);
  std::vector<bool> constant(graph.op_count());
  std::vector<bool> sinks(graph.op_count());
  for (size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(OpId(i));
    const std::span<const ValueId> operands = graph.operands(op);
    constant[i] = is<Constant>(op) || (!operands.empty() && std::ranges::all_of(operands, [&](ValueId operand) {
                    return constant[graph.value(operand).producer.index];
                  }));
    sinks[i] = constant[i] && !is<Constant>(op) && !is<Output>(op) && readers.count[i] == 1;
  }
  OpSequence out;
  std::vector<bool> done(graph.op_count());
  std::vector<std::pair<OpId, size_t>> open;  // and the next operand to look at: a stack, since chains can be long
  const auto emit = [&](OpId root) {
    open.emplace_back(root, 0);
    while (!open.empty()) {
      const OpId id = open.back().first;
      const std::span<const ValueId> operands = graph.operands(graph.op(id));
      if (open.back().second < operands.size()) {
        const OpId from = graph.value(operands[open.back().second++]).producer;
        if (sinks[from.index] && !done[from.index]) open.emplace_back(from, 0);
        continue;
      }
      open.pop_back();
      if (!done[id.index]) out.all.push_back(id);
      done[id.index] = true;
    }
  };
  for (size_t i = 0; i < graph.op_count(); ++i) {
    if (!sinks[i]) emit(OpId(i));
  }
  out.position.assign(graph.op_count(), OpSequence::none);
  for (const OpId id : out.all) {
    const Op& op = graph.op(id);
    if (is<Input>(op) || is<Constant>(op) || is<Output>(op)) continue;
    out.position[id.index] = out.ops.size();
    out.ops.push_back(id);
  }
  return out;
}

std::vector<LayerRun> find_layer_runs(const Graph& graph, const OpSequence& sequence) {
  return RunFinder(graph, sequence).run();
}

}  // namespace low
