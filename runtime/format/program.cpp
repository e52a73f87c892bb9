#include "runtime/format/program.h"

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <type_traits>

#include "runtime/format/byte_stream.h"

namespace low {
namespace {

constexpr std::string_view magic = "low-program\n";
constexpr uint32_t version = 2;

// One description of each struct for both directions.
template <typename T, typename... Candidates>
concept is_one_of = (std::same_as<std::remove_const_t<T>, Candidates> || ...);

template <typename Stream, is_one_of<ProgramSuperstep> T>
void fields(Stream& stream, T& superstep) {
  stream(superstep.entry, superstep.tile_begin);
}
template <typename Stream, is_one_of<ControlStep> T>
void fields(Stream& stream, T& step) {
  stream(step.kind, step.superstep, step.level, step.count);
}
template <typename Stream, is_one_of<ParameterSegment> T>
void fields(Stream& stream, T& segment) {
  stream(segment.sha256, segment.offset, segment.bytes);
}
template <typename Stream, is_one_of<Binding> T>
void fields(Stream& stream, T& binding) {
  stream(binding.name, binding.dtype, binding.shape, binding.offset);
}
template <typename Stream, is_one_of<Program> T>
void fields(Stream& stream, T& program) {
  stream(program.machine, program.tiles, program.entries, program.arena_bytes, program.parameter_bytes, program.flop);
  stream(program.inputs, program.outputs, program.parameters, program.control, program.supersteps, program.tile_begin);
  stream(program.commands);
}

class Writer {
 public:
  template <typename... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  void raw(std::string_view text) { writer_.raw(text); }
  std::string take() { return writer_.take(); }

 private:
  void put(uint32_t value) { writer_.number(value); }
  void put(uint64_t value) { writer_.number(value); }
  void put(int64_t value) { writer_.number(static_cast<uint64_t>(value)); }
  void put(double value) { writer_.number(std::bit_cast<uint64_t>(value)); }
  void put(DType value) { writer_.number(static_cast<uint32_t>(value)); }
  void put(ControlStep::Kind value) { writer_.number(static_cast<uint32_t>(value)); }
  void put(const std::string& text) {
    put(uint64_t{text.size()});
    writer_.raw(text);
  }
  void put(const Shape& shape) {
    put(static_cast<uint32_t>(shape.rank()));
    for (const int64_t extent : shape) put(extent);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(uint64_t{values.size()});
    for (const T& value : values) put(value);
  }
  template <typename T>
    requires std::is_class_v<T>
  void put(const T& value) {
    fields(*this, value);
  }

  ByteWriter writer_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : reader_(bytes) {}
  template <typename... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  std::string_view raw(uint64_t count) { return reader_.raw(count); }
  size_t position() const { return reader_.position(); }
  uint64_t left() const { return reader_.left(); }
  bool failed() const { return reader_.failed() || !error_.empty(); }
  std::string error() const { return error_.empty() ? "the file ends too early" : error_; }

 private:
  void get(uint32_t& value) { value = reader_.number<uint32_t>(); }
  void get(uint64_t& value) { value = reader_.number<uint64_t>(); }
  void get(int64_t& value) { value = static_cast<int64_t>(reader_.number<uint64_t>()); }
  void get(double& value) { value = std::bit_cast<double>(reader_.number<uint64_t>()); }
  void get(DType& value) { value = static_cast<DType>(below(static_cast<uint32_t>(dtype_count), "an element type")); }
  void get(ControlStep::Kind& value) { value = static_cast<ControlStep::Kind>(below(3, "a kind of control step")); }
  void get(std::string& text) { text = reader_.raw(reader_.number<uint64_t>()); }
  void get(Shape& shape) {
    const uint32_t rank = below(max_rank + 1, "a rank");
    for (uint32_t axis = 0; axis < rank; ++axis) shape.append(static_cast<int64_t>(reader_.number<uint64_t>()));
  }
  template <typename T>
  void get(std::vector<T>& values) {
    const auto count = reader_.number<uint64_t>();
    // Every element has at least 4 bytes. Memory grows with what was read, not with what a count states.
    if (!failed() && count > reader_.left() / 4)
      error_ = fmt::format("a table of {} elements does not fit in the file", count);
    for (uint64_t i = 0; i < count && !failed(); ++i) get(values.emplace_back());
  }
  template <typename T>
    requires std::is_class_v<T>
  void get(T& value) {
    fields(*this, value);
  }
  uint32_t below(uint32_t limit, std::string_view name) {
    const auto value = reader_.number<uint32_t>();
    if (value < limit) return value;
    if (error_.empty()) error_ = fmt::format("{} is not {}, expected less than {}", value, name, limit);
    return 0;
  }

  ByteReader reader_;
  std::string error_;
};

}  // namespace

std::string serialize(const Program& program) {
  Writer writer;
  writer.raw(magic);
  writer(version, program);
  return writer.take();
}

Result<Program> parse_program(std::span<const std::byte> bytes, std::string_view what) {
  Reader reader(bytes);
  if (reader.raw(magic.size()) != magic) return fail(ErrorKind::invalid, fmt::format("{}: is not a low program", what));
  uint32_t found = 0;
  reader(found);
  if (reader.failed() || found != version) {
    return fail(ErrorKind::invalid, fmt::format("{}: the program's version is {}, expected {}", what, found, version));
  }
  Program program;
  reader(program);
  if (reader.failed()) {
    return fail(ErrorKind::invalid, fmt::format("{}: near byte {}: {}", what, reader.position(), reader.error()));
  }
  if (reader.left() != 0) {
    return fail(ErrorKind::invalid, fmt::format("{}: {} bytes follow the program's end", what, reader.left()));
  }
  LOW_TRY_VOID(verify(program, what));
  return program;
}

}  // namespace low
