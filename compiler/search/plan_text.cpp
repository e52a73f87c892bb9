// Text form of plans.
//
//   low-plan 2
//   machine host
//   tiles 16
//   graph <64 hexadecimal digits>
//   none
//   matmul grid 1 4 4 1 block 365 538 256                       (batch m n k, m n k)
//   attention flash grid 1 1 16 block 729 729                   (batch m heads, rows keys)
//   split axis 0 parts 16
//   view
//   copy axis 0 parts 16
//   repeat
//     …the body's lines…
//   end
//   output axis 0 parts 16                                      (after a region's operations)
//
// Indentation is for people; `end` closes a repeat.
#include <charconv>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "compiler/search/plan.h"

namespace low {
namespace {

constexpr int max_depth = 64;

class Printer {
 public:
  void region(const RegionPlan& region, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    for (const OpPlan& op : region.ops) {
      text += indent;
      if (std::holds_alternative<NoPlan>(op)) {
        text += "none\n";
      } else if (const auto* matmul = std::get_if<MatmulPlan>(&op)) {
        fmt::format_to(std::back_inserter(text), "matmul grid {} {} {} {} block {} {} {}\n", matmul->grid_batch,
                       matmul->grid_m, matmul->grid_n, matmul->grid_k, matmul->block_m, matmul->block_n,
                       matmul->block_k);
      } else if (const auto* split = std::get_if<SplitPlan>(&op)) {
        fmt::format_to(std::back_inserter(text), "split axis {} parts {}\n", split->axis, split->parts);
      } else if (const auto* movement = std::get_if<MovementPlan>(&op)) {
        if (movement->copy) {
          fmt::format_to(std::back_inserter(text), "copy axis {} parts {}\n", movement->split.axis,
                         movement->split.parts);
        } else {
          text += "view\n";
        }
      } else if (const auto* attention = std::get_if<AttentionPlan>(&op)) {
        fmt::format_to(std::back_inserter(text), "attention {} grid {} {} {} block {} {}", name(attention->algorithm),
                       attention->grid_batch, attention->grid_m, attention->grid_heads, attention->block_m,
                       attention->block_n);
        if (attention->key_parts > 0) fmt::format_to(std::back_inserter(text), " keys {}", attention->key_parts);
        text += '\n';
      } else {
        text += "repeat\n";
        for (const RegionPlan& body : std::get<RepeatPlan>(op).body) this->region(body, depth + 1);
        text += indent + "end\n";
      }
    }
    for (const SplitPlan& output : region.outputs) {
      fmt::format_to(std::back_inserter(text), "{}output axis {} parts {}\n", indent, output.axis, output.parts);
    }
  }

  std::string text;
};

// Lines of words, and the number of the current line for messages.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  // The words of the next line that has any; false at the end.
  bool next() {
    while (!text_.empty()) {
      ++number_;
      const size_t end = text_.find('\n');
      std::string_view line = text_.substr(0, end);
      text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
      words_.clear();
      while (true) {
        const size_t begin = line.find_first_not_of(' ');
        if (begin == std::string_view::npos) break;
        line.remove_prefix(begin);
        const size_t length = std::min(line.find(' '), line.size());
        words_.push_back(line.substr(0, length));
        line.remove_prefix(length);
        if (words_.size() > 16) break;  // more than any line has: refused by whoever reads it
      }
      if (!words_.empty()) return true;
    }
    words_.clear();
    return false;
  }

  [[nodiscard]] std::unexpected<Error> wrong(std::string_view message) const {
    return fail(ErrorKind::invalid, fmt::format("plan, line {}: {}", number_, message));
  }

  [[nodiscard]] size_t size() const { return words_.size(); }
  std::string_view operator[](size_t i) const { return words_[i]; }

  Result<void> expect_size(size_t size) const {
    if (words_.size() == size) return {};
    return wrong(fmt::format("'{}' has {} words; expected are {}", words_[0].substr(0, 20), words_.size(), size));
  }
  Result<void> expect_word(size_t i, std::string_view word) const {
    if (words_[i] == word) return {};
    return wrong(fmt::format("'{}' where '{}' is expected", words_[i].substr(0, 40), word));
  }
  template <typename T>
  Result<T> number(size_t i) const {
    T value{};
    const std::string_view word = words_[i];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 0 || word[0] == '-') {
      return wrong(fmt::format("'{}' is not a number from 0 to {}", word.substr(0, 40), std::numeric_limits<T>::max()));
    }
    if (word.size() > 1 && word[0] == '0') return wrong(fmt::format("'{}' has leading zeros", word.substr(0, 40)));
    return value;
  }
  // "WORD axis N parts N"
  Result<SplitPlan> split() const {
    LOW_TRY_VOID(expect_size(5));
    LOW_TRY_VOID(expect_word(1, "axis"));
    LOW_TRY_VOID(expect_word(3, "parts"));
    SplitPlan plan;
    LOW_TRY(plan.axis, number<uint32_t>(2));
    LOW_TRY(plan.parts, number<uint32_t>(4));
    return plan;
  }

 private:
  std::string_view text_;
  std::vector<std::string_view> words_;
  size_t number_ = 0;
};

Result<MatmulPlan> parse_matmul(const Lines& line) {
  LOW_TRY_VOID(line.expect_size(10));
  LOW_TRY_VOID(line.expect_word(1, "grid"));
  LOW_TRY_VOID(line.expect_word(6, "block"));
  MatmulPlan plan;
  LOW_TRY(plan.grid_batch, line.number<uint32_t>(2));
  LOW_TRY(plan.grid_m, line.number<uint32_t>(3));
  LOW_TRY(plan.grid_n, line.number<uint32_t>(4));
  LOW_TRY(plan.grid_k, line.number<uint32_t>(5));
  LOW_TRY(plan.block_m, line.number<int64_t>(7));
  LOW_TRY(plan.block_n, line.number<int64_t>(8));
  LOW_TRY(plan.block_k, line.number<int64_t>(9));
  return plan;
}

Result<AttentionPlan> parse_attention(const Lines& line) {
  const bool keys = line.size() > 9;
  LOW_TRY_VOID(line.expect_size(keys ? 11 : 9));
  if (keys) LOW_TRY_VOID(line.expect_word(9, "keys"));
  LOW_TRY_VOID(line.expect_word(2, "grid"));
  LOW_TRY_VOID(line.expect_word(6, "block"));
  AttentionPlan plan;
  const std::optional<AttentionAlgorithm> algorithm = attention_algorithm(line[1]);
  if (!algorithm)
    return line.wrong(fmt::format("'{}' where 'flash' or 'materialized' is expected", line[1].substr(0, 40)));
  plan.algorithm = *algorithm;
  LOW_TRY(plan.grid_batch, line.number<uint32_t>(3));
  LOW_TRY(plan.grid_m, line.number<uint32_t>(4));
  LOW_TRY(plan.grid_heads, line.number<uint32_t>(5));
  LOW_TRY(plan.block_m, line.number<int64_t>(7));
  LOW_TRY(plan.block_n, line.number<int64_t>(8));
  if (keys) {
    LOW_TRY(plan.key_parts, line.number<uint32_t>(10));
    if (plan.key_parts == 0) return line.wrong("keys in 0 parts");
  }
  return plan;
}

Result<RegionPlan> parse_region(Lines& line, int depth) {
  RegionPlan region;
  while (line.next()) {
    const std::string_view word = line[0];
    if (word == "output") {
      LOW_TRY(const SplitPlan split, line.split());
      region.outputs.push_back(split);
      continue;
    }
    if (word == "end") {
      LOW_TRY_VOID(line.expect_size(1));
      if (depth == 0) return line.wrong("'end' without a repeat");
      return region;
    }
    if (!region.outputs.empty()) return line.wrong("an operation after a region's outputs");
    if (word == "none" || word == "view" || word == "repeat") {
      LOW_TRY_VOID(line.expect_size(1));
      if (word == "none") {
        region.ops.emplace_back(NoPlan{});
      } else if (word == "view") {
        region.ops.emplace_back(MovementPlan{});
      } else {
        if (depth == max_depth) return line.wrong(fmt::format("repeats are nested deeper than {}", max_depth));
        LOW_TRY(RegionPlan body, parse_region(line, depth + 1));
        RepeatPlan repeat;
        repeat.body.push_back(std::move(body));
        region.ops.emplace_back(std::move(repeat));
      }
    } else if (word == "matmul") {
      LOW_TRY(const MatmulPlan matmul, parse_matmul(line));
      region.ops.emplace_back(matmul);
    } else if (word == "attention") {
      LOW_TRY(const AttentionPlan attention, parse_attention(line));
      region.ops.emplace_back(attention);
    } else if (word == "split") {
      LOW_TRY(const SplitPlan split, line.split());
      region.ops.emplace_back(split);
    } else if (word == "copy") {
      LOW_TRY(const SplitPlan split, line.split());
      region.ops.emplace_back(MovementPlan{true, split});
    } else {
      return line.wrong(fmt::format("unknown decision '{}'", word.substr(0, 40)));
    }
  }
  if (depth > 0) return line.wrong("the text ends inside a repeat");
  return region;
}

bool is_name(std::string_view text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The second word of a line "KEY word".
Result<std::string_view> header(Lines& line, std::string_view key) {
  if (!line.next()) return line.wrong(fmt::format("the text ends where '{}' is expected", key));
  LOW_TRY_VOID(line.expect_word(0, key));
  LOW_TRY_VOID(line.expect_size(2));
  return line[1];
}

}  // namespace

std::string_view name(AttentionAlgorithm algorithm) {
  return algorithm == AttentionAlgorithm::flash ? "flash" : "materialized";
}

std::optional<AttentionAlgorithm> attention_algorithm(std::string_view word) {
  for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized})
    if (word == name(algorithm)) return algorithm;
  return std::nullopt;
}

std::string print(const Plan& plan) {
  Printer printer;
  printer.text =
      fmt::format("low-plan 2\nmachine {}\ntiles {}\ngraph {}\n", plan.machine, plan.tiles, plan.graph_digest);
  printer.region(plan.region, 0);
  return std::move(printer.text);
}

Result<Plan> parse_plan(std::string_view text) {
  Lines line(text);
  LOW_TRY(const std::string_view version, header(line, "low-plan"));
  if (version != "2") return line.wrong(fmt::format("version '{}'; this low reads version 2", version.substr(0, 20)));
  Plan plan;
  LOW_TRY(const std::string_view machine, header(line, "machine"));
  if (!is_name(machine)) return line.wrong(fmt::format("'{}' is not a machine's name", machine.substr(0, 40)));
  plan.machine = machine;
  LOW_TRY_VOID(header(line, "tiles"));
  LOW_TRY(plan.tiles, line.number<uint32_t>(1));
  LOW_TRY(const std::string_view digest, header(line, "graph"));
  if (!is_digest(digest)) return line.wrong("the graph's digest has to be 64 hexadecimal digits");
  plan.graph_digest = digest;
  LOW_TRY(plan.region, parse_region(line, 0));
  return plan;
}

Result<std::vector<Plan>> parse_plans(std::string_view text) {
  std::vector<Plan> plans;
  do {
    const size_t next = text.find("\nlow-plan", 1);
    const std::string_view one = text.substr(0, next == std::string_view::npos ? next : next + 1);
    text.remove_prefix(one.size());
    auto plan = parse_plan(one);
    if (!plan && !plans.empty()) return in_context(fmt::format("number {}", plans.size() + 1), plan.error());
    if (!plan) return std::unexpected(plan.error());
    plans.push_back(std::move(*plan));
  } while (!text.empty());
  return plans;
}

}  // namespace low
