// parse_tile_graph: the text that tile_text.cpp describes, back through TileGraphBuilder.
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "compiler/kernels/contract_fields.h"
#include "compiler/low/builder.h"
#include "compiler/low/tile_graph.h"
#include "compiler/low/tile_text.h"

namespace low {
namespace {

using tile_text::access_letters, tile_text::header, tile_text::role_names;

constexpr int64_t max_parsed_tiles = 1 << 20;
constexpr size_t max_parsed_depth = 64;

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> hexadecimal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Shape> parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  Shape shape;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::optional<int64_t> extent = number<int64_t>(text.substr(0, comma));
    if (!extent || shape.rank() == max_rank || comma + 1 == text.size()) return std::nullopt;
    shape.append(*extent);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return shape;
}

// The words of a line, in order. The first word that is not what was expected sets the problem; all later ones are
// ignored.
class Line {
 public:
  Line(std::string_view text, size_t line_number) : text_(text), line_number_(line_number) { trim(); }

  bool good() const { return problem_.empty(); }
  bool at_end() const { return text_.empty(); }
  std::string_view peek() const { return text_.substr(0, text_.find(' ')); }
  std::string_view word() {
    const std::string_view result = peek();
    text_.remove_prefix(result.size());
    trim();
    return result;
  }
  std::string_view rest() { return std::exchange(text_, std::string_view()); }
  void wrong(std::string_view expected, std::string_view found) {
    if (good()) problem_ = fmt::format("expected {}, found '{}'", expected, found.substr(0, 60));
  }
  void expect(std::string_view literal) {
    if (const std::string_view found = word(); found != literal) wrong(fmt::format("'{}'", literal), found);
  }
  template <typename T>
  T take(std::string_view expected, std::optional<T> (*parse)(std::string_view)) {
    const std::string_view found = word();
    if (const std::optional<T> value = parse(found)) return *value;
    wrong(expected, found);
    return T{};
  }
  template <typename E>
  E one_of(std::string_view expected, std::span<const std::string_view> names) {
    const std::string_view found = word();
    if (const std::optional<E> value = named<E>(found, names)) return *value;
    wrong(expected, found);
    return E{};
  }
  Shape shape(std::string_view label) {
    expect(label);
    return take<Shape>("a list of numbers in brackets", parse_shape);
  }
  DType dtype() { return take<DType>("a dtype", parse_dtype); }
  // Below `limit`.
  uint32_t index(std::string_view what, size_t limit) { return checked_index(what, word(), limit); }
  uint32_t checked_index(std::string_view what, std::string_view text, size_t limit) {
    const std::optional<uint32_t> value = number<uint32_t>(text);
    if (value && *value < limit) return *value;
    wrong(fmt::format("the number of a {} below {}", what, limit), text);
    return 0;
  }
  // What stands in "{…}".
  std::string_view braced() {
    const size_t end = text_.find('}');
    if (!text_.starts_with('{') || end == std::string_view::npos) {
      wrong("a text in braces", peek());
      return "";
    }
    const std::string_view result = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    trim();
    return result;
  }
  std::string string() {
    std::string result;
    if (!text_.starts_with('"')) {
      wrong("a quoted string", peek());
      return result;
    }
    size_t i = 1;
    for (; i < text_.size() && text_[i] != '"'; ++i) {
      if (text_[i] != '\\') {
        result += text_[i];
        continue;
      }
      unsigned byte = 0;
      const char* const digits = text_.data() + i + 1;
      const size_t left = text_.size() - i - 1;
      if (left < 2 || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
        wrong("two hexadecimal digits behind a backslash", text_.substr(i));
        return result;
      }
      result += static_cast<char>(byte);
      i += 2;
    }
    if (i >= text_.size()) {
      wrong("the end of a quoted string", text_);
      return result;
    }
    text_.remove_prefix(i + 1);
    trim();
    return result;
  }
  Result<void> finish() {
    if (good() && !at_end()) wrong("the end of the line", text_);
    if (good()) return {};
    return fail(ErrorKind::invalid, fmt::format("tile graph, line {}: {}", line_number_, problem_));
  }

 private:
  void trim() {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
  }
  std::string_view text_;
  size_t line_number_;
  std::string problem_;
};

// Reads what FieldPrinter of tile_text.cpp writes.
struct FieldParser {
  Line& line;

  void operator()(std::string_view field, DType& dtype) {
    line.expect(field);
    dtype = line.dtype();
  }
  void operator()(std::string_view field, int64_t& value) {
    line.expect(field);
    value = line.take<int64_t>("a number", number<int64_t>);
  }
  void operator()(std::string_view field, int& axes) {
    line.expect(field);
    axes = static_cast<int>(line.index("axis", max_rank + 1));
  }
  void operator()(std::string_view field, std::optional<int>& value) {
    if (line.peek() == field) (*this)(field, value.emplace());
  }
  void operator()(std::string_view field, double& value) {
    line.expect(field);
    value = line.take<double>("a hexadecimal number", hexadecimal);
  }
  void operator()(std::string_view field, bool& flag) {
    flag = line.peek() == field;
    if (flag) line.word();
  }
  template <typename Kind, typename Names>
  void operator()(std::string_view field, Kind& kind, const Names& names) {
    line.expect(field);
    kind = line.one_of<Kind>("a kind", names);
  }
  void operator()(std::string_view field, std::vector<OperandContract>& operands) {
    line.expect(field);
    while (line.good() && !line.at_end() && line.peek().find(':') != std::string_view::npos) {
      const std::string_view word = line.word();
      const size_t colon = word.find(':');
      const std::optional<DType> dtype = parse_dtype(word.substr(0, colon));
      if (!dtype) line.wrong("dtype:access", word);
      OperandContract operand{dtype.value_or(DType::f32), {}};
      for (const char letter : word.substr(colon + 1)) {
        const auto* const found = std::find(std::begin(access_letters), std::end(access_letters), letter);
        if (found == std::end(access_letters)) line.wrong("letters b, u or s", word);
        operand.access.push_back(static_cast<Access>(found - std::begin(access_letters)));
      }
      operands.push_back(std::move(operand));
    }
  }
  void operator()(std::string_view field, Expr& expr) {
    if (line.peek() != field) return;
    line.word();
    const std::string_view text = line.braced();
    if (!line.good()) return;
    Result<Expr> parsed = parse_expr(text);
    if (parsed) {
      expr = std::move(*parsed);
    } else {
      line.wrong("an expression", parsed.error().message);
    }
  }
  void operator()(std::string_view field, std::optional<Expr>& expr) {
    if (line.peek() == field) (*this)(field, expr.emplace());
  }
};

class Parser {
 public:
  Parser(std::string_view text, const ConstantsByHash& constants) : text_(text), constants_(constants) {}

  Result<TileGraph> parse() {
    Line first = next();
    if (first.rest() != header)
      return fail(ErrorKind::invalid, fmt::format("tile graph: expected '{}' in line 1", header));
    Line line = next();
    line.expect("machine");
    std::string machine = line.string();
    line.expect("tiles");
    const auto tiles = line.index("tile count", max_parsed_tiles + 1);
    LOW_TRY_VOID(line.finish());
    builder_.emplace(std::move(machine), tiles);
    while (!text_.empty()) {
      Line statement = next();
      if (!statement.at_end()) LOW_TRY_VOID(parse_statement(statement));
    }
    if (!open_.empty()) return fail(ErrorKind::invalid, "tile graph: it ends within a region");
    if (!root_) return fail(ErrorKind::invalid, "tile graph: it has no region");
    Result<TileGraph> graph = std::move(*builder_).finish();
    if (!graph) return fail(ErrorKind::invalid, graph.error().message);
    return graph;
  }

 private:
  enum class Block : uint8_t { region, repeat, superstep };
  struct Open {
    Block block;
    uint32_t level = 0;
    uint64_t count = 0;
  };

  Line next() {
    const size_t end = text_.find('\n');
    const std::string_view line = text_.substr(0, end);
    text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
    return Line(line, ++line_number_);
  }

  Result<void> parse_statement(Line& line) {
    const std::string_view word = line.word();
    if (open_.empty()) {
      if (word == "region" && !root_) {
        root_ = true;
        open_.push_back({Block::region});
        builder_->begin_region();
      } else if (root_ || !table(word, line)) {
        line.wrong(root_ ? "nothing after the region" : "an entry of a table or 'region'", word);
      }
      return line.finish();
    }
    const Open top = open_.back();
    if (word == "end") {
      open_.pop_back();
      if (top.block == Block::superstep) {
        builder_->end_superstep();
      } else {
        const RegionId region = builder_->end_region();
        if (top.block == Block::repeat) builder_->repeat(top.level, top.count, region);
      }
    } else if (top.block == Block::superstep) {
      if (!command(word, line)) line.wrong("'exchange', 'run', 'copy' or 'end'", word);
    } else if (word == "superstep") {
      open_.push_back({Block::superstep});
      builder_->begin_superstep();
    } else if (word == "repeat") {
      Open repeat{Block::repeat};
      repeat.level = line.index("level", UINT32_MAX);
      line.expect("count");
      repeat.count = line.take<uint64_t>("a count", number<uint64_t>);
      if (open_.size() > max_parsed_depth) {
        return fail(ErrorKind::invalid, fmt::format("tile graph: Repeats nest deeper than {}", max_parsed_depth));
      }
      open_.push_back(repeat);
      builder_->begin_region();
    } else {
      line.wrong("'superstep', 'repeat' or 'end'", word);
    }
    return line.finish();
  }

  template <typename IdType>
  static void numbered(Line& line, const std::vector<IdType>& table) {
    const std::string_view found = line.word();
    if (number<size_t>(found) != table.size()) line.wrong(fmt::format("number {}", table.size()), found);
  }

  bool table(std::string_view word, Line& line) {
    if (word == "type") {
      numbered(line, types_);
      TensorType type;
      type.dtype = line.dtype();
      type.extents = line.shape("extents");
      types_.push_back(builder_->type(type));
    } else if (word == "geometry") {
      numbered(line, geometries_);
      Geometry geometry;
      geometry.extents = line.shape("extents");
      geometry.strides = line.shape("strides");
      geometries_.push_back(builder_->geometry(geometry));
    } else if (word == "contract") {
      contract(line);
    } else if (word == "descriptor") {
      numbered(line, descriptors_);
      CopyDescriptor copy;
      copy.source = line.dtype();
      line.expect("to");
      copy.destination = line.dtype();
      copy.overflow = line.one_of<Overflow>("'saturate' or 'propagate'", overflow_names);
      copy.counts = line.shape("counts");
      copy.source_strides = line.shape("source");
      copy.destination_strides = line.shape("destination");
      line.expect("chunk");
      copy.chunk = line.take<int64_t>("a number", number<int64_t>);
      descriptors_.push_back(builder_->descriptor(copy));
    } else if (word == "constant") {
      numbered(line, constant_ids_);
      const std::string_view hash = line.word();
      for (const auto& [known, tensor] : constants_) {
        if (known != hash || tensor == nullptr) continue;
        constant_ids_.push_back(builder_->constant(tensor));
        return true;
      }
      line.wrong("the hash of a known constant", hash);
    } else if (word == "allocation") {
      allocation(line);
    } else if (word == "input" || word == "output") {
      interface(word == "input", line);
    } else {
      return false;
    }
    return true;
  }

  void contract(Line& line) {
    numbered(line, contracts_);
    KernelContract contract;
    contract.family = alternative_at<KernelFamily>(line.one_of<size_t>("a family", family_names));
    if (!line.good()) return;
    visit_fields(contract, FieldParser{line});
    if (line.good()) contracts_.push_back(builder_->contract(contract));
  }

  void allocation(Line& line) {
    numbered(line, allocations_);
    Allocation allocation;
    line.expect("type");
    const uint32_t type = line.index("type", types_.size());
    line.expect("home");
    if (line.peek() == "global") {
      line.word();
    } else {
      allocation.home = TileId(line.index("tile", max_parsed_tiles));
    }
    allocation.role = line.one_of<Role>("a role", role_names);
    line.expect("binding");
    allocation.binding = line.index("binding", UINT32_MAX);
    if (!line.good()) return;
    allocation.type = types_[type];
    if (allocation.role == Role::parameter) {
      if (allocation.binding >= constant_ids_.size()) {
        line.wrong(fmt::format("a binding below {}", constant_ids_.size()), fmt::format("{}", allocation.binding));
        return;
      }
      allocation.binding = constant_ids_[allocation.binding];
    }
    allocations_.push_back(builder_->allocation(allocation));
  }

  // "a3@128" and the like: the part behind `prefix`, up to `separator`.
  std::string_view part(Line& line, std::string_view& word, std::string_view prefix, std::string_view separators) {
    if (!word.starts_with(prefix)) {
      line.wrong(fmt::format("'{}'", prefix), word);
      return {};
    }
    word.remove_prefix(prefix.size());
    const size_t end = std::min(word.find_first_of(separators), word.size());
    const std::string_view result = word.substr(0, end);
    word.remove_prefix(end);
    return result;
  }
  int64_t offset(Line& line, std::string_view& word) {
    const std::string_view digits = part(line, word, "@", "+");
    const std::optional<int64_t> value = number<int64_t>(digits);
    if (!value) line.wrong("an offset", digits);
    return value.value_or(0);
  }

  void interface(bool input, Line& line) {
    const std::string_view type_text = line.word();
    const size_t bracket = std::min(type_text.find('['), type_text.size());
    const std::optional<DType> dtype = parse_dtype(type_text.substr(0, bracket));
    const std::optional<Shape> shape = parse_shape(type_text.substr(bracket));
    if (!dtype || !shape) line.wrong("a type", type_text);
    std::string_view place = line.word();
    const uint32_t allocation = line.checked_index("allocation", part(line, place, "a", "@"), allocations_.size());
    const int64_t at = offset(line, place);
    if (!place.empty()) line.wrong("a place", place);
    std::string name = line.string();
    if (!line.good()) return;
    if (input) {
      builder_->input(std::move(name), {*dtype, *shape}, allocations_[allocation], at);
    } else {
      builder_->output(std::move(name), {*dtype, *shape}, allocations_[allocation], at);
    }
  }

  View view(Line& line) {
    std::string_view word = line.word();
    const uint32_t allocation = line.checked_index("allocation", part(line, word, "a", ":"), allocations_.size());
    const uint32_t geometry = line.checked_index("geometry", part(line, word, ":g", "@"), geometries_.size());
    View view;
    view.offset = offset(line, word);
    std::vector<Term> terms;
    while (line.good() && !word.empty()) {
      Term term;
      term.level = line.checked_index("level", part(line, word, "+", "%"), UINT32_MAX);
      const std::string_view period = part(line, word, "%", "*");
      const std::string_view stride = part(line, word, "*", "+");
      const std::optional<uint32_t> steps = number<uint32_t>(period);
      const std::optional<int64_t> distance = number<int64_t>(stride);
      if (!steps || !distance) line.wrong("a period and a stride", fmt::format("{}*{}", period, stride));
      term.period = steps.value_or(1);
      term.stride = distance.value_or(0);
      terms.push_back(term);
    }
    if (!line.good()) return view;
    view.allocation = allocations_[allocation];
    view.geometry = geometries_[geometry];
    view.terms = builder_->terms(terms);
    return view;
  }

  bool command(std::string_view word, Line& line) {
    if (word == "exchange") {
      const View source = view(line);
      line.expect("to");
      std::vector<View> destinations;
      while (line.good() && !line.at_end()) destinations.push_back(view(line));
      if (line.good()) builder_->exchange(source, destinations);
    } else if (word == "run") {
      const TileId tile(line.index("tile", max_parsed_tiles));
      line.expect("contract");
      const uint32_t contract = line.index("contract", contracts_.size());
      std::vector<View> operands;
      while (line.good() && !line.at_end()) operands.push_back(view(line));
      if (line.good()) builder_->run(contracts_[contract], tile, operands);
    } else if (word == "copy") {
      const TileId tile(line.index("tile", max_parsed_tiles));
      line.expect("descriptor");
      const uint32_t descriptor = line.index("descriptor", descriptors_.size());
      const View source = view(line);
      line.expect("to");
      const View destination = view(line);
      if (line.good()) builder_->copy(descriptors_[descriptor], source, destination, tile);
    } else {
      return false;
    }
    return true;
  }

  std::string_view text_;
  const ConstantsByHash& constants_;
  size_t line_number_ = 0;
  std::optional<TileGraphBuilder> builder_;
  std::vector<TypeId> types_;
  std::vector<GeometryId> geometries_;
  std::vector<ContractId> contracts_;
  std::vector<DescriptorId> descriptors_;
  std::vector<AllocationId> allocations_;
  std::vector<uint32_t> constant_ids_;
  std::vector<Open> open_;
  bool root_ = false;
};

}  // namespace

Result<TileGraph> parse_tile_graph(std::string_view text, const ConstantsByHash& constants) {
  return Parser(text, constants).parse();
}

}  // namespace low
