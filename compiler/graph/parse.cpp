// Reads what text.cpp prints. Any text is either a verified graph or ErrorKind::invalid with the number of a line.
#include <algorithm>
#include <bit>
#include <map>

#include <fmt/format.h>

#include "compiler/graph/graph.h"
#include "compiler/graph/kind_names.h"
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
  bool flag(std::string_view key) { return take(key, Attribute::Kind::flag, false) != nullptr; }
  std::string word(std::string_view key) {
    const Attribute* attribute = take(key, Attribute::Kind::word, true);
    return attribute == nullptr ? "" : attribute->text;
  }
  int64_t integer(std::string_view key, int64_t maximum) {
    const std::optional<int64_t> value = parse_integer(word(key));
    if (!value || *value < 0 || *value > maximum) line_.wrong(fmt::format("bad attribute {}", key));
    return value && *value >= 0 && *value <= maximum ? *value : 0;
  }
  int64_t signed_integer(std::string_view key) {
    const std::optional<int64_t> value = parse_integer(word(key));
    if (!value) line_.wrong(fmt::format("bad attribute {}", key));
    return value.value_or(0);
  }
  DType dtype(std::string_view key) {
    const std::optional<DType> dtype = parse_dtype(word(key));
    if (!dtype) line_.wrong(fmt::format("bad attribute {}", key));
    return dtype.value_or(DType::f32);
  }
  double number(std::string_view key) {
    const std::optional<uint64_t> bits = parse_literal(DType::f64, word(key));
    if (!bits) line_.wrong(fmt::format("bad attribute {}", key));
    return bits ? std::bit_cast<double>(*bits) : 0;
  }
  template <typename Enum, size_t n>
  Enum choice(std::string_view key, const std::array<std::string_view, n>& names) {
    const std::optional<Enum> value = parse_name<Enum>(names, word(key));
    if (!value) line_.wrong(fmt::format("bad attribute {}", key));
    return value.value_or(Enum{});
  }
  std::optional<Expr> expr(std::string_view key) {
    const Attribute* attribute = take(key, Attribute::Kind::string, true);
    if (attribute == nullptr) return std::nullopt;
    Result<Expr> parsed = parse_expr(attribute->text);
    if (!parsed) return line_.wrong(parsed.error().message);
    return std::move(*parsed);
  }
  std::vector<std::string_view> list(std::string_view key) {
    const Attribute* attribute = take(key, Attribute::Kind::list, true);
    return attribute == nullptr ? std::vector<std::string_view>() : attribute->list;
  }
  Shape shape(std::string_view key) {
    const std::optional<Shape> shape = Line::shape(list(key));
    if (!shape) line_.wrong(fmt::format("bad attribute {}", key));
    return shape ? *shape : Shape();
  }
  std::optional<int> axis() {
    return has("axis") ? std::optional<int>(static_cast<int>(integer("axis", max_rank))) : std::nullopt;
  }
  void finish() {
    for (const auto& [key, attribute] : attributes_) {
      if (!attribute.used) line_.wrong(fmt::format("unexpected attribute '{}'", key));
    }
  }

 private:
  const Attribute* take(std::string_view key, Attribute::Kind kind, bool required) {
    const auto found = attributes_.find(key);
    if (found == attributes_.end() || found->second.kind != kind) {
      if (required) line_.wrong(fmt::format("attribute {} is missing or of the wrong kind", key));
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
    if (next_line() != "low-graph 1") return error("expected 'low-graph 1'");
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
    Attributes out;
    if (kind == "input")
      out = Input{};
    else if (kind == "output")
      out = Output{};
    else if (kind == "reshape")
      out = Reshape{};
    else if (kind == "expand")
      out = Expand{};
    else if (kind == "transpose")
      out = Transpose{reader.shape("permutation")};
    else if (kind == "slice")
      out = Slice{reader.shape("start"), reader.shape("step")};
    else if (kind == "dequantize")
      out = Dequantize{reader.axis()};
    else if (kind == "cast")
      out = Cast{reader.flag("saturate") ? Overflow::saturate : Overflow::propagate};
    else if (kind == "quantize") {
      out = Quantize{reader.axis(), reader.flag("propagate") ? Overflow::propagate : Overflow::saturate};
    } else if (kind == "pointwise") {
      if (std::optional<Expr> expr = reader.expr("expr")) out = Pointwise{std::move(*expr)};
    } else if (kind == "matmul") {
      out = matmul(reader);
    } else if (kind == "constant") {
      LOW_TRY(out, constant(types, reader));
    } else if (kind == "concat") {
      out = Concat{static_cast<int>(reader.integer("axis", max_rank))};
    } else if (kind == "pad") {
      Pad pad;
      pad.mode = reader.choice<Pad::Mode>("mode", pad_modes);
      pad.before = reader.shape("before");
      out = pad;
    } else if (kind == "gather") {
      Gather gather;
      gather.mode = reader.choice<Gather::Mode>("mode", gather_modes);
      int& number = gather.mode == Gather::Mode::nd ? gather.batch_axes : gather.axis;
      number = static_cast<int>(reader.integer(gather.mode == Gather::Mode::nd ? "batch_axes" : "axis", max_rank));
      out = gather;
    } else if (kind == "cumulative") {
      Cumulative cumulative{static_cast<int>(reader.integer("axis", max_rank))};
      cumulative.exclusive = reader.flag("exclusive");
      cumulative.reverse = reader.flag("reverse");
      out = cumulative;
    } else if (kind == "reduce") {
      out = reduce(reader);
    } else if (kind == "rowwise") {
      out = rowwise(reader);
    } else if (kind == "attention") {
      out = attention(reader);
    } else if (kind == "repeat") {
      LOW_TRY(out, repeat(reader, line, depth));
    } else {
      return error(fmt::format("unknown operation '{}'", kind.substr(0, 40)));
    }
    reader.finish();
    if (!line.error().empty()) return error(line.error());
    if (!line.at_end()) return error("unexpected text at the end of the line");
    return out;
  }

  static Attributes reduce(AttributeReader& reader) {
    Reduce reduce;
    reduce.kind = reader.choice<Reduce::Kind>("kind", reduce_kinds);
    reduce.axes = reader.shape("axes");
    reduce.accumulate = reader.dtype("accumulate");
    reduce.last = reader.flag("last");
    if (reader.has("map")) reduce.map = reader.expr("map");
    if (reader.has("epilogue")) reduce.epilogue = reader.expr("epilogue");
    return reduce;
  }

  static Attributes rowwise(AttributeReader& reader) {
    Rowwise rowwise;
    rowwise.kind = reader.choice<Rowwise::Kind>("kind", rowwise_kinds);
    rowwise.axes = reader.shape("axes");
    if (reader.has("epsilon")) rowwise.epsilon = reader.number("epsilon");
    if (reader.has("epilogue")) rowwise.epilogue = reader.expr("epilogue");
    return rowwise;
  }

  // A mask is there when the text says how many heads it has.
  static Attributes attention(AttributeReader& reader) {
    Attention attention;
    attention.q_heads = reader.integer("q_heads", INT64_MAX);
    attention.kv_heads = reader.integer("kv_heads", INT64_MAX);
    attention.masked = reader.has("mask_heads");
    if (attention.masked) attention.mask_heads = reader.integer("mask_heads", INT64_MAX);
    attention.scale = reader.number("scale");
    if (reader.has("softcap")) attention.softcap = reader.number("softcap");
    if (reader.has("diagonal")) attention.diagonal = reader.signed_integer("diagonal");
    attention.empty_is_zero = reader.flag("empty_is_zero");
    if (reader.has("masked_score")) attention.masked_score = reader.number("masked_score");
    if (reader.has("epilogue")) attention.epilogue = reader.expr("epilogue");
    return attention;
  }

  static Attributes matmul(AttributeReader& reader) {
    Matmul matmul;
    matmul.accumulate = reader.dtype("accumulate");
    matmul.transpose_a = reader.flag("transpose_a");
    matmul.transpose_b = reader.flag("transpose_b");
    if (reader.has("epilogue")) matmul.epilogue = reader.expr("epilogue");
    return matmul;
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

  Result<Attributes> repeat(AttributeReader& reader, Line& line, int depth) {
    Repeat repeat;
    repeat.count = reader.integer("count", INT64_MAX);
    repeat.carried = static_cast<uint32_t>(reader.integer("carried", INT32_MAX));
    repeat.invariant = static_cast<uint32_t>(reader.integer("invariant", INT32_MAX));
    repeat.iterated = static_cast<uint32_t>(reader.integer("iterated", INT32_MAX));
    repeat.collected = static_cast<uint32_t>(reader.integer("collected", INT32_MAX));
    if (!line.error().empty()) return error(line.error());
    if (!line.accept('{') || !line.at_end()) return error("expected '{' and a region");
    LOW_TRY(Graph body, region(depth + 1));
    repeat.body = std::make_shared<const Graph>(std::move(body));
    return repeat;
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
