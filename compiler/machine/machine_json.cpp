// Reading a machine's JSON file.
//
//   {"name": "…", "description": "…", "targets": ["…"],
//    "logical_tiles": bool, "global_memory": bool,
//    "math": [{"a": ["f16"], "b": ["f16"], "flop_per_cycle": NUMBER}, …],   every pair of an a and a b has this rate
//    "tiles": NUMBER, …}
// where NUMBER is {"value": 304, "source": "where it comes from"}. All keys of the table below are needed, and no
// others.
#include <algorithm>
#include <cmath>
#include <set>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "compiler/machine/machine.h"

namespace low {
namespace {

namespace json = boost::json;

// What a number may be. Products of a few of them stay far inside of double and int64_t.
struct Range {
  double low;
  double high;
  bool whole;
};
constexpr Range count_range{1, 65536, true};
constexpr Range bytes_range{0, 1e15, true};
constexpr Range scratch_range{1, 1e12, true};
constexpr Range rate_range{1e-3, 1e9, false};
constexpr Range time_range{0, 1e6, false};
constexpr Range clock_range{1e3, 1e12, false};

class Reader {
 public:
  Reader(const json::object& object, std::string_view what) : object_(object), what_(what) {}

  [[nodiscard]] std::unexpected<Error> wrong(std::string_view message) const {
    return fail(ErrorKind::invalid, fmt::format("machine {}: {}", what_, message));
  }

  Result<const json::value*> get(std::string_view key) {
    used_.insert(std::string(key));
    const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
    if (value == nullptr) return wrong(fmt::format("'{}' is missing", key));
    return value;
  }

  Result<std::string> text(std::string_view key) {
    LOW_TRY(const json::value* value, get(key));
    if (!value->is_string() || value->get_string().empty()) {
      return wrong(fmt::format("'{}' has to be a string that is not empty", key));
    }
    return std::string(value->get_string().data(), value->get_string().size());
  }

  Result<bool> flag(std::string_view key) {
    LOW_TRY(const json::value* value, get(key));
    if (!value->is_bool()) return wrong(fmt::format("'{}' has to be true or false", key));
    return value->get_bool();
  }

  Result<std::vector<std::string>> texts(std::string_view key) {
    LOW_TRY(const json::value* value, get(key));
    const auto bad = [&] { return wrong(fmt::format("'{}' has to be a list of strings", key)); };
    if (!value->is_array()) return bad();
    std::vector<std::string> result;
    for (const json::value& element : value->get_array()) {
      if (!element.is_string() || element.get_string().empty()) return bad();
      result.emplace_back(element.get_string().data(), element.get_string().size());
    }
    return result;
  }

  // {"value": number, "source": "…"}
  Result<double> number(std::string_view key, const Range& range) {
    LOW_TRY(const json::value* value, get(key));
    if (!value->is_object()) return wrong(fmt::format("'{}' has to be an object of 'value' and 'source'", key));
    const std::string inner = fmt::format("{}: '{}'", what_, key);
    Reader pair(value->get_object(), inner);
    LOW_TRY_VOID(pair.text("source"));
    LOW_TRY(const json::value* literal, pair.get("value"));
    LOW_TRY_VOID(pair.finish());
    if (!literal->is_number()) return wrong(fmt::format("'{}': 'value' has to be a number", key));
    const auto found = literal->to_number<double>();
    if (!(found >= range.low && found <= range.high) || (range.whole && found != std::floor(found))) {
      return wrong(fmt::format("'{}' is {}; expected is a {}number from {} to {}", key, found,
                               range.whole ? "whole " : "", range.low, range.high));
    }
    return found;
  }

  // Refuses keys that nobody asked for.
  [[nodiscard]] Result<void> finish() const {
    for (const json::key_value_pair& entry : object_) {
      const std::string key(entry.key().data(), entry.key().size());
      if (!used_.contains(key)) return wrong(fmt::format("unknown key '{}'", key));
    }
    return {};
  }

 private:
  const json::object& object_;
  std::string what_;
  std::set<std::string> used_;
};

Result<void> read_math(Reader& reader, std::string_view what, std::vector<MathRate>& out) {
  LOW_TRY(const json::value* value, reader.get("math"));
  if (!value->is_array()) return reader.wrong("'math' has to be a list");
  for (const json::value& element : value->get_array()) {
    if (!element.is_object()) return reader.wrong("'math' has to be a list of objects");
    Reader entry(element.get_object(), fmt::format("{}: 'math'", what));
    LOW_TRY(const std::vector<std::string> a_names, entry.texts("a"));
    LOW_TRY(const std::vector<std::string> b_names, entry.texts("b"));
    LOW_TRY(const double rate, entry.number("flop_per_cycle", rate_range));
    LOW_TRY_VOID(entry.finish());
    for (const std::string& a_name : a_names) {
      for (const std::string& b_name : b_names) {
        const std::optional<DType> a = parse_dtype(a_name);
        const std::optional<DType> b = parse_dtype(b_name);
        if (!a || !b) return entry.wrong(fmt::format("unknown dtype '{}'", a ? b_name : a_name));
        const bool twice = std::ranges::any_of(out, [&](const MathRate& r) { return r.a == *a && r.b == *b; });
        if (twice) return entry.wrong(fmt::format("two rates for {} and {}", a_name, b_name));
        out.push_back({*a, *b, rate});
      }
    }
  }
  return {};
}

Result<Machine> read_machine(const json::object& object, std::string_view what) {
  Reader reader(object, what);
  Machine machine;
  LOW_TRY(machine.name, reader.text("name"));
  LOW_TRY(machine.description, reader.text("description"));
  LOW_TRY(machine.targets, reader.texts("targets"));
  LOW_TRY(machine.logical_tiles, reader.flag("logical_tiles"));
  LOW_TRY(machine.global_memory, reader.flag("global_memory"));
  LOW_TRY_VOID(read_math(reader, what, machine.math));

  double tiles = 0, clusters = 0, lanes = 0, matrix_rows = 0, matrix_columns = 0, alignment = 0;
  double global_bytes = 0, tile_bytes = 0, scratch = 0, accumulators = 0;
  double across = 0, device = 0, cache = 0, cache_bytes = 0, launch = 0, transfer = 0, command = 0;
  struct Field {
    const char* key;
    Range range;
    double* value;
  };
  const Field fields[] = {
      {"tiles", count_range, &tiles},
      {"clusters", count_range, &clusters},
      {"global_memory_bytes", bytes_range, &global_bytes},
      {"tile_memory_bytes", bytes_range, &tile_bytes},
      {"scratch_bytes", scratch_range, &scratch},
      {"vector_lanes", count_range, &lanes},
      {"vector_flop_per_cycle", rate_range, &machine.vector_flop_per_cycle},
      {"clock_hz", clock_range, &machine.clock_hz},
      {"own_bytes_per_cycle", rate_range, &machine.own_bytes_per_cycle},
      {"cluster_bytes_per_cycle", rate_range, &machine.cluster_bytes_per_cycle},
      {"across_gb_per_s", rate_range, &across},
      {"device_gb_per_s", rate_range, &device},
      {"shared_cache_bytes", bytes_range, &cache_bytes},
      {"shared_cache_gb_per_s", rate_range, &cache},
      {"launch_microseconds", time_range, &launch},
      {"transfer_microseconds", time_range, &transfer},
      {"command_microseconds", time_range, &command},
      {"alignment_bytes", count_range, &alignment},
      {"matrix_rows", count_range, &matrix_rows},
      {"matrix_columns", count_range, &matrix_columns},
      {"accumulator_bytes", bytes_range, &accumulators},
  };
  for (const Field& field : fields) {
    LOW_TRY(*field.value, reader.number(field.key, field.range));
  }
  LOW_TRY_VOID(reader.finish());

  machine.tiles = static_cast<uint32_t>(tiles);
  machine.clusters = static_cast<uint32_t>(clusters);
  machine.vector_lanes = static_cast<uint32_t>(lanes);
  machine.matrix_rows = static_cast<uint32_t>(matrix_rows);
  machine.matrix_columns = static_cast<uint32_t>(matrix_columns);
  machine.alignment_bytes = static_cast<uint32_t>(alignment);
  machine.global_memory_bytes = static_cast<uint64_t>(global_bytes);
  machine.tile_memory_bytes = static_cast<uint64_t>(tile_bytes);
  machine.scratch_bytes = static_cast<uint64_t>(scratch);
  machine.accumulator_bytes = static_cast<uint64_t>(accumulators);
  machine.across_bytes_per_cycle = across * 1e9 / machine.clock_hz;
  machine.device_bytes_per_cycle = device * 1e9 / machine.clock_hz;
  machine.shared_cache_bytes = static_cast<uint64_t>(cache_bytes);
  machine.shared_cache_bytes_per_cycle = cache * 1e9 / machine.clock_hz;
  machine.launch_cycles = launch * 1e-6 * machine.clock_hz;
  machine.transfer_cycles = transfer * 1e-6 * machine.clock_hz;
  machine.command_cycles = command * 1e-6 * machine.clock_hz;

  if (!machine.global_memory && machine.clusters > 1)
    return reader.wrong(fmt::format("{} clusters without global memory; exchanges know one", machine.clusters));
  if (machine.clusters > machine.tiles) {
    return reader.wrong(fmt::format("{} clusters of {} tiles", machine.clusters, machine.tiles));
  }
  if ((machine.alignment_bytes & (machine.alignment_bytes - 1)) != 0) {
    return reader.wrong(fmt::format("'alignment_bytes' is {}, which is no power of two", machine.alignment_bytes));
  }
  if (!machine.global_memory && machine.tile_memory_bytes == 0) {
    return reader.wrong("neither global memory nor memory of the tiles");
  }
  return machine;
}

}  // namespace

Result<Machine> parse_machine(std::string_view json, std::string_view what) {
  try {
    boost::system::error_code error;
    const json::value root = json::parse(json::string_view(json.data(), json.size()), error);
    if (error) return fail(ErrorKind::invalid, fmt::format("machine {}: not JSON: {}", what, error.message()));
    if (!root.is_object()) return fail(ErrorKind::invalid, fmt::format("machine {}: not a JSON object", what));
    return read_machine(root.get_object(), what);
  } catch (const std::exception& exception) {
    return fail(ErrorKind::invalid, fmt::format("machine {}: {}", what, exception.what()));
  }
}

}  // namespace low
