#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/layer_runs.h"
#include "compiler/graph/passes/passes.h"

namespace low {
namespace {

constexpr int max_outer_depth = 8;    // regions around a run
constexpr int max_inner_depth = 16;   // regions inside a run: together with the new one below verify's limit
constexpr size_t min_operations = 4;  // that compute, in a layer without a heavy one
constexpr int max_rolls = 64;         // runs of one region

enum class Weight { moves, computes, heavy };

Weight weight_of(const Op& op) {
  const Attributes& a = op.attributes;
  if (std::holds_alternative<Reshape>(a) || std::holds_alternative<Transpose>(a) || std::holds_alternative<Slice>(a) ||
      std::holds_alternative<Expand>(a)) {
    return Weight::moves;
  }
  const bool light = std::holds_alternative<Pointwise>(a) || std::holds_alternative<Quantize>(a) ||
                     std::holds_alternative<Dequantize>(a) || std::holds_alternative<Cast>(a);
  return light ? Weight::computes : Weight::heavy;
}

int region_depth(const Op& op) {
  const auto* repeat = std::get_if<Repeat>(&op.attributes);
  if (repeat == nullptr) return 0;
  int depth = 0;
  for (const Op& inner : repeat->body->ops()) depth = std::max(depth, region_depth(inner));
  return depth + 1;
}

// What the names of one operation in all layers share: "h.0.add" and "h.1.add" are "h.add".
std::string common_name(const std::vector<std::string>& names) {
  const std::string& first = names[0];
  if (std::ranges::all_of(names, [&](const std::string& name) { return name == first; })) return first;
  size_t prefix = first.size();
  size_t shortest = first.size();
  for (const std::string& name : names) {
    const auto end = std::ranges::mismatch(name, first).in2;
    prefix = std::min(prefix, static_cast<size_t>(end - first.begin()));
    shortest = std::min(shortest, name.size());
  }
  size_t suffix = 0;
  while (suffix < shortest - prefix && std::ranges::all_of(
                                           names,
                                           [&](const std::string& name) {
                                             return name[name.size() - 1 - suffix] == first[first.size() - 1 - suffix];
                                           })) {
    ++suffix;
  }
  std::string out = first.substr(0, prefix);
  while (!out.empty() && (out.back() == '_' || out.back() == '.')) out.pop_back();
  return out + first.substr(first.size() - suffix);
}

// The shape of `count` values stacked along a new axis 0, if there can be such a tensor.
std::optional<Shape> stacked_shape(size_t count, const Type& type) {
  if (type.shape.rank() == max_rank) return std::nullopt;
  Shape shape{static_cast<int64_t>(count)};
  for (const int64_t extent : type.shape) shape.append(extent);
  const std::optional<int64_t> elements = checked_elements(shape.extents());
  if (!elements || *elements > max_tensor_bytes / static_cast<int64_t>(byte_size(type.dtype))) return std::nullopt;
  return shape;
}

// One run under inspection, then turned into a repeat. A result of a layer is named by (position in the layer, result).
class Roller {
 public:
  Roller(const Graph& graph, const OpSequence& sequence, const LayerRun& run)
      : graph_(graph), sequence_(sequence), run_(run) {}

  // Finds out what every operand of a layer is. False when the run is not one of layers.
  bool classify() {
    if (!pays()) return false;
    for (size_t k = 0; k < run_.period; ++k) {
      const size_t operands = op(0, k).operands.count;
      slots_.emplace_back();
      for (size_t o = 0; o < operands; ++o) {
        std::optional<Slot> slot = classify(k, o);
        if (!slot) return false;
        slots_.back().push_back(*slot);
      }
    }
    if (!is_chain()) return false;
    find_uses();
    return std::ranges::all_of(collected_, [&](const Place& place) {
      return stacked_shape(run_.count, graph_.type(value(0, place))).has_value();
    });
  }

  // Of runs that save as much, the better one costs less: hands less on, and does not part a matmul from its epilogue.
  std::tuple<size_t, size_t, bool> cost() const {
    return {collected_.size(), carried_.size(), weight_of(op(0, run_.period - 1)) == Weight::heavy};
  }

  Result<Graph> roll() {
    LOW_TRY(Graph body, make_body());
    Repeat repeat{.count = static_cast<int64_t>(run_.count),
                  .carried = static_cast<uint32_t>(carried_.size()),
                  .invariant = static_cast<uint32_t>(invariant_.size()),
                  .iterated = static_cast<uint32_t>(iterated_.size()),
                  .collected = static_cast<uint32_t>(collected_.size()),
                  .body = std::make_shared<const Graph>(std::move(body))};
    const std::vector<bool> needed = needed_constants();
    map_.resize(graph_.value_count());
    std::vector<OpId> outputs;
    const OpId last = sequence_.ops[run_.begin + run_.count * run_.period - 1];
    for (const OpId id : sequence_.all) {
      const Op& op = graph_.op(id);
      if (std::holds_alternative<Output>(op.attributes)) {
        outputs.push_back(id);  // after everything: it may stand between layers
      } else if (in_run(id)) {
        if (id == last) add_repeat(std::move(repeat));
      } else if (!std::holds_alternative<Constant>(op.attributes) || needed[id.index]) {
        copy(op);
      }
    }
    for (const OpId id : outputs) copy(graph_.op(id));
    return std::move(builder_).finish();
  }

 private:
  using Place = std::pair<size_t, uint32_t>;
  enum class Source { inner, carried, invariant, iterated };
  struct Slot {
    Source source = Source::inner;
    Place place;       // of `inner`
    size_t index = 0;  // into carried_, invariant_ or iterated_
  };
  struct Carried {
    Place next;
    ValueId initial;
    bool operator==(const Carried&) const = default;
  };

  const Op& op(size_t layer, size_t k) const { return graph_.op(sequence_.ops[run_.begin + layer * run_.period + k]); }
  ValueId value(size_t layer, const Place& place) const { return graph_.result(op(layer, place.first), place.second); }
  bool in_run(OpId id) const {
    const size_t position = sequence_.position[id.index];
    return position != OpSequence::none && position >= run_.begin && position < run_.begin + run_.count * run_.period;
  }
  // Where a value of the run is made.
  struct Made {
    size_t layer;
    Place place;
  };
  std::optional<Made> made(ValueId value) const {
    const Value& v = graph_.value(value);
    if (!in_run(v.producer)) return std::nullopt;
    const size_t offset = sequence_.position[v.producer.index] - run_.begin;
    return Made{offset / run_.period, {offset % run_.period, v.result}};
  }
  const Constant* constant(ValueId value) const {
    return std::get_if<Constant>(&graph_.op(graph_.value(value).producer).attributes);
  }

  bool pays() const {
    size_t computing = 0;
    bool heavy = false;
    for (size_t k = 0; k < run_.period; ++k) {
      if (region_depth(op(0, k)) > max_inner_depth) return false;
      const Weight weight = weight_of(op(0, k));
      computing += weight == Weight::moves ? 0 : 1;
      heavy = heavy || weight == Weight::heavy;
    }
    return heavy || computing >= min_operations;
  }

  // Whether something goes from layer to layer: a carried value that depends on a carried one. Otherwise the run is one
  // of equal operations side by side (the projections of an attention), each beginning with what the one before only
  // happens to make, such as its weights.
  bool is_chain() const {
    std::vector<bool> depends;
    for (const std::vector<Slot>& slots : slots_) {
      depends.push_back(std::ranges::any_of(slots, [&](const Slot& slot) {
        return slot.source == Source::carried || (slot.source == Source::inner && depends[slot.place.first]);
      }));
    }
    return std::ranges::any_of(carried_, [&](const Carried& carried) { return depends[carried.next.first]; });
  }

  template <typename T>
  static size_t position(std::vector<T>& list, const T& element) {
    const auto found = std::ranges::find(list, element);
    const auto index = static_cast<size_t>(found - list.begin());
    if (found == list.end()) list.push_back(element);
    return index;
  }

  std::optional<Slot> classify(size_t k, size_t o) {
    std::vector<ValueId> values;
    for (size_t layer = 0; layer < run_.count; ++layer) values.push_back(graph_.operands(op(layer, k))[o]);
    const std::optional<Made> first = made(values[0]);
    const std::optional<Made> second = made(values[1]);
    const auto each_is = [&](size_t distance, const Place& place) {
      for (size_t layer = distance; layer < run_.count; ++layer) {
        if (values[layer] != value(layer - distance, place)) return false;
      }
      return true;
    };
    if (first) {
      if (first->layer != 0 || !each_is(0, first->place)) return std::nullopt;
      return Slot{Source::inner, first->place, 0};
    }
    if (second) {
      if (second->layer != 0 || !each_is(1, second->place)) return std::nullopt;
      return Slot{Source::carried, {}, position(carried_, Carried{second->place, values[0]})};
    }
    const auto same = [&](ValueId other) {
      return other == values[0] ||
             (constant(other) != nullptr && constant(values[0]) != nullptr && *constant(other) == *constant(values[0]));
    };
    if (std::ranges::all_of(values, same)) return Slot{Source::invariant, {}, position(invariant_, values[0])};
    for (const ValueId v : values) {
      if (constant(v) == nullptr) return std::nullopt;
    }
    if (!stacked_shape(run_.count, graph_.type(values[0]))) return std::nullopt;
    return Slot{Source::iterated, {}, position(iterated_, values)};
  }

  Tensor stack(const std::vector<ValueId>& constants) const {
    const Type& type = graph_.type(constants[0]);
    Tensor out(type.dtype, *stacked_shape(constants.size(), type));
    std::byte* to = out.bytes().data();
    for (const ValueId v : constants) {
      const std::span<const std::byte> bytes = constant(v)->tensor->bytes();
      to = std::ranges::copy(bytes, to).out;
    }
    return out;
  }

  // The carried value that holds this result after the last layer.
  std::optional<size_t> carried_index(const Place& place) const {
    for (size_t i = 0; i < carried_.size(); ++i) {
      if (carried_[i].next == place) return i;
    }
    return std::nullopt;
  }

  // Results of layers that later operations read, other than as the last carried ones.
  void find_uses() {
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      if (in_run(OpId(i))) continue;
      for (const ValueId operand : graph_.operands(graph_.op(OpId(i)))) {
        const std::optional<Made> from = made(operand);
        if (!from || (from->layer + 1 == run_.count && carried_index(from->place))) continue;
        position(collected_, from->place);
      }
    }
    std::ranges::sort(collected_);
  }

  std::string name_of(size_t k) const {
    std::vector<std::string> names;
    for (size_t layer = 0; layer < run_.count; ++layer) names.push_back(op(layer, k).name);
    return common_name(names);
  }

  Result<Graph> make_body() const {
    GraphBuilder body;
    std::vector<std::vector<ValueId>> inputs(4);
    const auto input = [&](Source source, ValueId like) {
      inputs[static_cast<size_t>(source)].push_back(body.input("", graph_.type(like)));
    };
    for (const Carried& carried : carried_) input(Source::carried, carried.initial);
    for (const ValueId invariant : invariant_) input(Source::invariant, invariant);
    for (const std::vector<ValueId>& values : iterated_) input(Source::iterated, values[0]);
    std::map<Place, ValueId> results;
    for (size_t k = 0; k < run_.period; ++k) {
      std::vector<ValueId> operands;
      for (const Slot& slot : slots_[k]) {
        operands.push_back(slot.source == Source::inner ? results.at(slot.place)
                                                        : inputs[static_cast<size_t>(slot.source)][slot.index]);
      }
      const Op& old = op(0, k);
      std::vector<Type> types;
      for (uint32_t r = 0; r < old.results.count; ++r) types.push_back(graph_.type(graph_.result(old, r)));
      const Op& added = body.peek().op(body.add(old.attributes, operands, types, name_of(k)));
      for (uint32_t r = 0; r < old.results.count; ++r) results[{k, r}] = body.peek().result(added, r);
    }
    for (const Carried& carried : carried_) body.output("", results.at(carried.next));
    for (const Place& place : collected_) body.output("", results.at(place));
    return std::move(body).finish();
  }

  // Constants that something other than the run reads, or the repeat as it is.
  std::vector<bool> needed_constants() const {
    std::vector<bool> needed(graph_.op_count());
    const auto need = [&](ValueId v) { needed[graph_.value(v).producer.index] = true; };
    for (size_t i = 0; i < graph_.op_count(); ++i) {
      if (in_run(OpId(i))) continue;
      for (const ValueId operand : graph_.operands(graph_.op(OpId(i)))) need(operand);
    }
    for (const ValueId v : invariant_) need(v);
    for (const Carried& carried : carried_) need(carried.initial);
    return needed;
  }

  void add_repeat(Repeat repeat) {
    std::vector<ValueId> operands;
    for (const Carried& carried : carried_) operands.push_back(map_[carried.initial.index]);
    for (const ValueId v : invariant_) operands.push_back(map_[v.index]);
    for (const std::vector<ValueId>& constants : iterated_) operands.push_back(builder_.constant(stack(constants)));
    const std::vector<ValueId> results = builder_.repeat(std::move(repeat), operands, "layers");
    for (size_t i = 0; i < carried_.size(); ++i) carried_result_[carried_[i].next] = results[i];
    for (size_t i = 0; i < collected_.size(); ++i) collected_result_[collected_[i]] = results[carried_.size() + i];
  }

  // A value of the old graph that operations outside of the run read.
  ValueId mapped(ValueId v) {
    if (map_[v.index].valid()) return map_[v.index];
    const Made from = *made(v);
    ValueId& out = map_[v.index];
    if (from.layer + 1 == run_.count && carried_index(from.place)) {
      out = carried_result_.at(from.place);
      return out;
    }
    const Shape& shape = graph_.type(v).shape;
    Shape start{static_cast<int64_t>(from.layer)};
    Shape step{1};
    Shape extents{1};
    for (const int64_t extent : shape) {
      start.append(0);
      step.append(1);
      extents.append(extent);
    }
    out = builder_.reshape(builder_.slice(collected_result_.at(from.place), start, step, extents), shape);
    return out;
  }

  void copy(const Op& old) {
    std::vector<ValueId> operands;
    for (const ValueId operand : graph_.operands(old)) operands.push_back(mapped(operand));
    copy_op(graph_, old, old.attributes, operands, old.name, builder_, map_);
  }

  const Graph& graph_;
  const OpSequence& sequence_;
  const LayerRun run_;
  std::vector<std::vector<Slot>> slots_;  // of each operation of a layer, for each operand
  std::vector<Carried> carried_;
  std::vector<ValueId> invariant_;
  std::vector<std::vector<ValueId>> iterated_;  // constants, one for each layer
  std::vector<Place> collected_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
  std::map<Place, ValueId> carried_result_, collected_result_;
};

// Rolls the best run; nothing when there is none.
Result<std::optional<Graph>> roll_one(const Graph& graph) {
  const OpSequence sequence = op_sequence(graph);
  const std::vector<LayerRun> runs = find_layer_runs(graph, sequence);
  // Where a layer begins is a choice.
  std::optional<LayerRun> best;
  std::tuple<size_t, size_t, bool> least;
  for (const LayerRun& run : runs) {
    if (best && (run.saved() != best->saved() || run.period != best->period)) break;
    Roller roller(graph, sequence, run);
    if (!roller.classify()) continue;
    if (best && roller.cost() >= least) continue;
    best = run;
    least = roller.cost();
  }
  if (!best) return std::optional<Graph>();
  Roller roller(graph, sequence, *best);
  LOW_CHECK(roller.classify());
  LOW_TRY(Graph rolled, roller.roll());
  return std::optional<Graph>(std::move(rolled));
}

Result<Graph> roll_region(const Graph& graph, int depth);

// The graph with the bodies of its repeats rolled.
Result<Graph> roll_bodies(const Graph& graph, int depth) {
  GraphBuilder builder;
  for (const Op& op : graph.ops()) {
    Attributes attributes = op.attributes;
    LOW_TRY_VOID(rewrite_body(attributes, [&](const Graph& body) { return roll_region(body, depth + 1); }));
    builder.add(std::move(attributes), graph.operands(op), result_types(graph, op), op.name);
  }
  return std::move(builder).finish();
}

Result<Graph> roll_region(const Graph& graph, int depth) {
  if (depth > max_outer_depth) return graph;
  Graph current = graph;
  for (int rolls = 0; rolls < max_rolls; ++rolls) {
    LOW_TRY(std::optional<Graph> next, roll_one(current));
    if (!next) break;
    current = *std::move(next);
  }
  const bool has_regions =
      std::ranges::any_of(current.ops(), [](const Op& op) { return std::holds_alternative<Repeat>(op.attributes); });
  if (!has_regions) return current;
  return roll_bodies(current, depth);
}

}  // namespace

Result<Graph> roll_layers(const Graph& graph) { return roll_region(graph, 0); }

}  // namespace low
