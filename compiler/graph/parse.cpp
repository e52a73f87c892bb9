// Reads what text.cpp prints. Any text is either a verified graph or ErrorKind::invalid with the number of a line.
#include <algorithm>
#include <bit>
#include <concepts>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "compiler/base/named.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/literal_text.h"

namespace low {
namespace {

// A repeat's body is parsed by recursion.

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':' || c == '+';
}

// One key of an attribute list, with its value: text, a list of words, or nothing.
struct Attribute {
  std::string text;
  std::vector<std::string_view> list;
  enum class Kind { flag, word, string, list } kind = Kind::flag;
  bool used = false;
};

// One line, read from left to right. Functions that return false or nothing leave an error message.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  const std::string& error() const { return error_; }
  std::nullopt_t wrong(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return std::nullopt;
  }
  bool at_end() {
    skip();
    return text_.empty();
  }
  bool accept(char c) {
    skip();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool starts_with(char c) {
    skip();
    return text_.starts_with(c);
  }
  std::string_view word() {
    skip();
    size_t end = 0;
    while (end < text_.size() && is_word(text_[end])) ++end;
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    return word;
  }
  // "%12".
  std::optional<ValueId> value(size_t limit) {
    if (!accept('%')) return wrong("expected %number");
    const std::optional<int64_t> index = parse_integer(word());
    if (!index || *index < 0 || static_cast<size_t>(*index) >= limit) return wrong("unknown value");
    return ValueId(static_cast<size_t>(*index));
  }
  std::optional<std::vector<std::string_view>> list() {
    std::vector<std::string_view> words;
    if (!accept('[')) return wrong("expected '['");
    if (accept(']')) return words;
    do {
      words.push_back(word());
      if (words.back().empty() || words.size() > static_cast<size_t>(max_inline_elements)) return wrong("bad list");
    } while (accept(','));
    if (!accept(']')) return wrong("expected ']'");
    return words;
  }
  std::optional<Type> type() {
    const std::string_view text = word();
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype) return wrong(fmt::format("unknown dtype '{}'", text));
    const std::optional<std::vector<std::string_view>> words = list();
    if (!words) return std::nullopt;
    const std::optional<Shape> extents = shape(*words);
    if (!extents || !checked_elements(extents->extents())) return wrong("illegal shape");
    return Type{*dtype, *extents};
  }
  static std::optional<Shape> shape(const std::vector<std::string_view>& words) {
    Shape shape;
    if (words.size() > static_cast<size_t>(max_rank)) return std::nullopt;
    for (const std::string_view word : words) {
      const std::optional<int64_t> extent = parse_integer(word);
      if (!extent) return std::nullopt;
      shape.append(*extent);
    }
    return shape;
  }
  std::optional<std::string> string() {
    if (!accept('"')) return wrong("expected a string");
    std::string out;
    while (!text_.empty() && text_[0] != '"') {
      char c = text_[0];
      text_.remove_prefix(1);
      if (c == '\\') {
        if (text_.empty()) break;
        c = text_[0];
        text_.remove_prefix(1);
        if (c == 'x') {
          const std::optional<uint64_t> byte = text_.size() < 2 ? std::nullopt : hexadecimal(text_.substr(0, 2));
          if (!byte) return wrong("bad escape in a string");
          text_.remove_prefix(2);
          c = static_cast<char>(*byte);
        } else if (c != '"' && c != '\\') {
          return wrong("bad escape in a string");
        }
      }
      out += c;
    }
    if (text_.empty()) return wrong("unterminated string");
    text_.remove_prefix(1);
    return out;
  }
  // "{key key=word key="string" key=[1,2]}", if there is one.
  bool attributes(std::map<std::string_view, Attribute>& out) {
    if (!accept('{')) return true;
    while (!accept('}')) {
      const std::string_view key = word();
      if (key.empty() || out.contains(key)) {
        wrong("bad attributes");
        return false;
      }
      Attribute& attribute = out[key];
      if (!accept('=')) continue;
      if (starts_with('"')) {
        std::optional<std::string> text = string();
        if (!text) return false;
        attribute.kind = Attribute::Kind::string;
        attribute.text = std::move(*text);
      } else if (starts_with('[')) {
        std::optional<std::vector<std::string_view>> words = list();
        if (!words) return false;
        attribute.kind = Attribute::Kind::list;
        attribute.list = std::move(*words);
      } else {
        attribute.kind = Attribute::Kind::word;
        attribute.text = std::string(word());
      }
    }
    return true;
  }

 private:
  static std::optional<uint64_t> hexadecimal(std::string_view text) {
    uint64_t value = 0;
    for (const char c : text) {
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) return std::nullopt;
      value = 16 * value + static_cast<uint64_t>(digit);
    }
    return value;
  }
  void skip() {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
  }

  std::string_view text_;
  std::string error_;
};

// The attributes of one operation, taken by name; the last check is that all were.
class AttributeReader {
 public:
  AttributeReader(std::map<std::string_view, Attribute> attributes, Line& line)
      : attributes_(std::move(attributes)), line_(line) {}

  bool has(std::string_view key) const { return attributes_.contains(key); }
  std::string word(std::string_view key) {
    const Attribute* attribute = take(key, Attribute::Kind::word);
    return attribute == nullptr ? "" : attribute->text;
  }
  std::vector<std::string_view> list(std::string_view key) {
    const Attribute* attribute = take(key, Attribute::Kind::list);
    return attribute == nullptr ? std::vector<std::string_view>() : attribute->list;
  }

  // Reads a field of an operation, as text.cpp's FieldTexts writes it; what is not there keeps its default.
  void operator()(std::string_view field, bool& flag) {
    flag = has(field) && take(field, Attribute::Kind::flag) != nullptr;
  }
  template <std::integral Number>
  void operator()(std::string_view field, Number& number) {
    if (!has(field)) return;
    const std::optional<int64_t> value = parse_integer(word(field));
    set(field, number,
        value && std::in_range<Number>(*value) ? std::optional(static_cast<Number>(*value)) : std::nullopt);
  }
  void operator()(std::string_view field, double& number) {
    if (!has(field)) return;
    const std::optional<uint64_t> bits = parse_literal(DType::f64, word(field));
    set(field, number, bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt);
  }
  void operator()(std::string_view field, DType& dtype) {
    if (has(field)) set(field, dtype, parse_dtype(word(field)));
  }
  void operator()(std::string_view field, Shape& numbers) {
    if (has(field)) set(field, numbers, Line::shape(list(field)));
  }
  void operator()(std::string_view field, Expr& expr) {
    const Attribute* attribute = has(field) ? take(field, Attribute::Kind::string) : nullptr;
    if (attribute == nullptr) return;
    if (Result<Expr> parsed = parse_expr(attribute->text)) {
      expr = std::move(*parsed);
    } else {
      line_.wrong(parsed.error().message);
    }
  }
  template <typename Kind, typename Names>
  void operator()(std::string_view field, Kind& kind, const Names& names) {
    if (has(field)) set(field, kind, named<Kind>(word(field), names));
  }
  template <typename T>
  void operator()(std::string_view field, std::optional<T>& value) {
    if (has(field)) (*this)(field, value.emplace());
  }
  void finish() {
    for (const auto& [key, attribute] : attributes_) {
      if (!attribute.used) line_.wrong(fmt::format("unexpected attribute '{}'", key));
    }
  }

 private:
  template <typename T>
  void set(std::string_view field, T& place, const std::optional<T>& value) {
    if (value) {
      place = *value;
    } else {
      line_.wrong(fmt::format("bad attribute {}", field));
    }
  }
  const Attribute* take(std::string_view key, Attribute::Kind kind) {
    const auto found = attributes_.find(key);
    if (found == attributes_.end() || found->second.kind != kind) {
      line_.wrong(fmt::format("attribute {} is missing or of the wrong kind", key));
      return nullptr;
    }
    found->second.used = true;
    return &found->second;
  }

  std::map<std::string_view, Attribute> attributes_;
  Line& line_;
};

class Parser {
 public:
  Parser(std::string_view text, const ConstantsByHash& constants) : rest_(text) {
    for (const auto& [hash, tensor] : constants) constants_.emplace(hash, tensor);
  }

  Result<Graph> run() {
    if (next_line() != "low-graph 2") return error("expected 'low-graph 2'");
    LOW_TRY(Graph graph, region(0));
    if (const Result<void> verified = verify(graph); !verified)
      return fail(ErrorKind::invalid, verified.error().message);
    return graph;
  }

 private:
  std::unexpected<Error> error(std::string_view message) const {
    return fail(ErrorKind::invalid, fmt::format("graph line {}: {}", line_number_, message));
  }

  std::string_view next_line() {
    const size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++line_number_;
    return line;
  }

  // Up to the end of the text at depth 0, and up to a line "}" below.
  Result<Graph> region(int depth) {
    if (depth > max_region_depth) return error("too many nested regions");
    GraphBuilder builder;
    while (true) {
      if (rest_.empty()) {
        if (depth > 0) return error("a region without its end");
        break;
      }
      Line line(next_line());
      if (line.at_end()) continue;
      if (line.accept('}')) {
        if (depth == 0 || !line.at_end()) return error("unexpected '}'");
        break;
      }
      LOW_TRY_VOID(operation(line, builder, depth));
    }
    const int end = line_number_;
    Result<Graph> graph = std::move(builder).finish();
    if (!graph) return fail(ErrorKind::invalid, fmt::format("graph ending at line {}: {}", end, graph.error().message));
    return graph;
  }

  Result<void> operation(Line& line, GraphBuilder& builder, int depth) {
    const size_t values = builder.peek().value_count();
    size_t results = 0;
    while (line.starts_with('%')) {
      const std::optional<ValueId> value = line.value(values + results + 1);
      if (!value || value->index != values + results) return error("results must be numbered in order");
      ++results;
    }
    if (results > 0 && !line.accept('=')) return error("expected '='");
    const std::string kind(line.word());
    std::vector<ValueId> operands;
    while (line.starts_with('%')) {
      const std::optional<ValueId> value = line.value(values);
      if (!value) return error(line.error());
      operands.push_back(*value);
    }
    std::vector<Type> types;
    if (results > 0) {
      if (!line.accept(':')) return error("expected ':' and a type");
      for (size_t i = 0; i < results; ++i) {
        const std::optional<Type> type = line.type();
        if (!type) return error(line.error());
        types.push_back(*type);
      }
    }
    std::map<std::string_view, Attribute> attributes;
    if (!line.attributes(attributes)) return error(line.error());
    std::string name;
    if (line.starts_with('"')) {
      std::optional<std::string> text = line.string();
      if (!text) return error(line.error());
      name = std::move(*text);
    }
    AttributeReader reader(std::move(attributes), line);
    Result<Attributes> parsed = attributes_of(kind, types, reader, line, depth);
    if (!parsed) return std::unexpected(parsed.error());
    builder.add(std::move(*parsed), operands, types, std::move(name));
    return {};
  }

  Result<Attributes> attributes_of(const std::string& kind, const std::vector<Type>& types, AttributeReader& reader,
                                   Line& line, int depth) {
    const std::optional<size_t> place = named<size_t>(kind, kind_names);
    if (!place) return error(fmt::format("unknown operation '{}'", kind.substr(0, 40)));
    auto out = alternative_at<Attributes>(*place);
    if (std::holds_alternative<Constant>(out)) {
      LOW_TRY(out, constant(types, reader));
    } else {
      std::visit([&]<typename Kind>(Kind& op) { Kind::fields(op, reader); }, out);
    }
    reader.finish();
    if (!line.error().empty()) return error(line.error());
    if (auto* repeat = std::get_if<Repeat>(&out)) {
      if (!line.accept('{') || !line.at_end()) return error("expected '{' and a region");
      LOW_TRY(Graph body, region(depth + 1));
      repeat->body = std::make_shared<const Graph>(std::move(body));
    } else if (!line.at_end()) {
      return error("unexpected text at the end of the line");
    }
    return out;
  }

  Result<Attributes> constant(const std::vector<Type>& types, AttributeReader& reader) {
    if (types.size() != 1) return error("a constant has one result");
    if (reader.has("sha256")) {
      const auto found = constants_.find(reader.word("sha256"));
      if (found == constants_.end()) return error("a constant whose tensor was not given");
      return Constant{found->second};
    }
    const std::vector<std::string_view> words = reader.list("data");
    if (static_cast<size_t>(types[0].shape.elements()) != words.size()) {
      return error(fmt::format("{} elements for {}", words.size(), to_string(types[0])));
    }
    Tensor tensor(types[0].dtype, types[0].shape);
    for (size_t i = 0; i < words.size(); ++i) {
      const std::optional<uint64_t> bits = parse_literal(types[0].dtype, words[i]);
      if (!bits) return error(fmt::format("bad element {}", i));
      tensor.set_bits(static_cast<int64_t>(i), *bits);
    }
    return Constant{std::make_shared<const Tensor>(std::move(tensor))};
  }

  std::string_view rest_;
  std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> constants_;
  int line_number_ = 0;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const ConstantsByHash& constants) {
  return Parser(text, constants).run();
}

}  // namespace low
