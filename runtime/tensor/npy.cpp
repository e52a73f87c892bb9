// NumPy's .npy: magic, version, length of the header, a Python dictionary with descr, fortran_order and shape, the
// elements.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <vector>

#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t alignment = 64;  // of the first element in a written file

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Reads the one Python literal that a header may be. No nesting, so no recursion.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse() {
    Header header;
    LOW_TRY_VOID(expect('{'));
    while (!accept('}')) {
      LOW_TRY(const std::string key, string());
      LOW_TRY_VOID(expect(':'));
      LOW_TRY_VOID(entry(key, header));
      if (accept('}')) break;
      LOW_TRY_VOID(expect(','));
    }
    skip_spaces();
    if (position_ != text_.size()) return error("the end of the header");
    for (const auto& [present, key] :
         {std::pair(header.descr.has_value(), "descr"), std::pair(header.fortran_order.has_value(), "fortran_order"),
          std::pair(header.shape.has_value(), "shape")}) {
      if (!present) return fail(ErrorKind::invalid, fmt::format("the header lacks '{}'", key));
    }
    return header;
  }

 private:
  std::unexpected<Error> error(std::string_view expected) const {
    return fail(ErrorKind::invalid, fmt::format("expected {} at byte {} of the header", expected, position_));
  }

  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }

  bool accept(char wanted) {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  bool accept(std::string_view wanted) {
    skip_spaces();
    if (!text_.substr(position_).starts_with(wanted)) return false;
    position_ += wanted.size();
    return true;
  }

  Result<void> expect(char wanted) {
    if (!accept(wanted)) return error(fmt::format("'{}'", wanted));
    return {};
  }

  Result<std::string> string() {
    skip_spaces();
    const char quote = position_ < text_.size() ? text_[position_] : ' ';
    if (quote != '\'' && quote != '"') return error("a string");
    const size_t start = position_ + 1;
    const size_t end = text_.find(quote, start);
    if (end == std::string_view::npos) return error("a string that ends");
    const std::string_view value = text_.substr(start, end - start);
    // What is looked for has no escapes and is printable ASCII.
    if (!std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~' && c != '\\'; })) {
      return error("a string of plain characters");
    }
    position_ = end + 1;
    return std::string(value);
  }

  Result<void> entry(const std::string& key, Header& header) {
    if ((key == "descr" && header.descr) || (key == "fortran_order" && header.fortran_order) ||
        (key == "shape" && header.shape)) {
      return fail(ErrorKind::invalid, fmt::format("the header has '{}' twice", key));
    }
    if (key == "descr") {
      skip_spaces();
      if (position_ < text_.size() && text_[position_] == '[') {
        return fail(ErrorKind::unsupported, "the elements are structures, expected numbers");
      }
      LOW_TRY(header.descr, string());
    } else if (key == "fortran_order") {
      if (accept(std::string_view("True"))) {
        header.fortran_order = true;
      } else if (accept(std::string_view("False"))) {
        header.fortran_order = false;
      } else {
        return error("True or False");
      }
    } else if (key == "shape") {
      LOW_TRY(header.shape, tuple());
    } else {
      return fail(ErrorKind::invalid, fmt::format("the header has an unknown key '{}'", key));
    }
    return {};
  }

  Result<std::vector<int64_t>> tuple() {
    std::vector<int64_t> values;
    LOW_TRY_VOID(expect('('));
    bool comma = true;  // (5) without a comma is a number in Python
    while (!accept(')')) {
      if (!comma) return error("',' or ')'");
      skip_spaces();
      int64_t value = 0;
      const char* const start = text_.data() + position_;
      const auto [end, code] = std::from_chars(start, text_.data() + text_.size(), value);
      if (code == std::errc::result_out_of_range) return error("an extent of at most 2^63-1");
      if (code != std::errc{}) return error("an integer");
      if (value < 0) return error("an extent of at least 0");
      position_ += static_cast<size_t>(end - start);
      if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // a `long` of Python 2
      values.push_back(value);
      if (values.size() > static_cast<size_t>(max_rank)) {
        return fail(ErrorKind::unsupported, fmt::format("the tensor has more than {} dimensions", max_rank));
      }
      comma = accept(',');
    }
    if (values.size() == 1 && !comma) return error("a tuple, not a number in parentheses, just before");
    return values;
  }

  std::string_view text_;
  size_t position_ = 0;
};

struct ElementType {
  DType dtype;
  bool big_endian;
};

// The types of the ml_dtypes package appear as V1, V2 or f1 without their name, and are read as unsigned integers.
std::optional<DType> dtype_of_code(std::string_view code) {
  static constexpr std::pair<std::string_view, DType> codes[] = {
      {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i1", DType::i8},  {"i2", DType::i16},
      {"i4", DType::i32}, {"i8", DType::i64}, {"u1", DType::u8},  {"u2", DType::u16}, {"u4", DType::u32},
      {"u8", DType::u64}, {"V1", DType::u8},  {"V2", DType::u16}, {"f1", DType::u8},  {"b1", DType::boolean},
  };
  for (const auto& [text, dtype] : codes) {
    if (text == code) return dtype;
  }
  return std::nullopt;
}

Result<ElementType> parse_descr(std::string_view descr) {
  const char order = descr.empty() ? ' ' : descr.front();
  if (std::string_view("<>=|").find(order) != std::string_view::npos) {
    if (const std::optional<DType> dtype = dtype_of_code(descr.substr(1))) {
      if (order == '|' && byte_size(*dtype) > 1 && descr[1] != 'V') {
        return fail(ErrorKind::invalid, fmt::format("the type '{}' lacks a byte order", descr));
      }
      return ElementType{*dtype, order == '>'};
    }
  }
  return fail(ErrorKind::unsupported, fmt::format("the type '{}' is none of bool, float16 to float64, int8 to int64, "
                                                  "uint8 to uint64",
                                                  descr));
}

std::string_view descr_of(DType type) {
  switch (type) {
    case DType::f64:
      return "<f8";
    case DType::f32:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::bf16:
      return "<u2";
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      return "|u1";
    case DType::i8:
      return "|i1";
    case DType::i16:
      return "<i2";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    case DType::u16:
      return "<u2";
    case DType::u32:
      return "<u4";
    case DType::u64:
      return "<u8";
    case DType::boolean:
      return "|b1";
  }
  check_failed(__FILE__, __LINE__, "a known type");
}

void swap_bytes(std::span<std::byte> bytes, size_t element_size) {
  for (size_t i = 0; i < bytes.size(); i += element_size) std::ranges::reverse(bytes.subspan(i, element_size));
}

// `bytes` are the elements with the first axis fastest.
void copy_from_fortran_order(std::span<const std::byte> bytes, Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const size_t size = byte_size(tensor.dtype());
  Shape strides = shape;  // of the source, in elements
  int64_t stride = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  Shape index = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) index[axis] = 0;
  int64_t source = 0;
  std::byte* target = tensor.bytes().data();
  for (int64_t i = 0; i < tensor.elements(); ++i, target += size) {
    std::memcpy(target, bytes.data() + static_cast<size_t>(source) * size, size);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      source += strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

struct Parts {
  std::string_view header;
  std::span<const std::byte> elements;
};

Result<Parts> split(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic)) return fail(ErrorKind::invalid, "not an .npy file: its first bytes are not \\x93NUMPY");
  constexpr size_t version_end = magic.size() + 2;
  if (text.size() < version_end) return fail(ErrorKind::invalid, "the file ends within its version");
  const int major = std::to_integer<int>(bytes[magic.size()]);
  const int minor = std::to_integer<int>(bytes[magic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return fail(ErrorKind::unsupported, fmt::format("version {}.{}, expected 1.0, 2.0 or 3.0", major, minor));
  }
  const size_t length_size = major == 1 ? 2 : 4;
  if (text.size() < version_end + length_size) {
    return fail(ErrorKind::invalid, "the file ends within the length of its header");
  }
  const uint64_t header_size = little_endian(bytes.subspan(version_end, length_size));
  const size_t header_start = version_end + length_size;
  if (header_size > text.size() - header_start) {
    return fail(ErrorKind::invalid, fmt::format("the header should have {} bytes, but the file ends after {}",
                                                header_size, text.size() - header_start));
  }
  return Parts{text.substr(header_start, header_size), bytes.subspan(header_start + header_size)};
}

Result<Tensor> parse(std::span<const std::byte> bytes) {
  LOW_TRY(const Parts parts, split(bytes));
  LOW_TRY(const Header header, HeaderParser(parts.header).parse());
  LOW_TRY(const ElementType type, parse_descr(*header.descr));
  const size_t size = byte_size(type.dtype);
  const Shape shape(*header.shape);
  const std::optional<int64_t> elements = checked_elements(shape.extents());
  if (!elements || *elements > max_tensor_bytes / static_cast<int64_t>(size)) {
    return fail(ErrorKind::invalid, fmt::format("shape {} is too large", to_string(shape)));
  }
  if (parts.elements.size() != static_cast<size_t>(*elements) * size) {
    return fail(ErrorKind::invalid,
                fmt::format("shape {} of '{}' needs {} bytes, the file has {} after its header", to_string(shape),
                            *header.descr, static_cast<size_t>(*elements) * size, parts.elements.size()));
  }
  if (type.dtype == DType::boolean &&
      std::ranges::any_of(parts.elements, [](std::byte value) { return std::to_integer<int>(value) > 1; })) {
    return fail(ErrorKind::invalid, "a boolean is neither 0 nor 1");
  }
  Tensor tensor(type.dtype, shape);
  if (*header.fortran_order && *elements > 0) {
    copy_from_fortran_order(parts.elements, tensor);
  } else {
    std::ranges::copy(parts.elements, tensor.bytes().begin());
  }
  if (type.big_endian) swap_bytes(tensor.bytes(), size);
  return tensor;
}

}  // namespace

Result<Tensor> parse_npy(std::span<const std::byte> bytes, std::string_view what) {
  Result<Tensor> tensor = parse(bytes);
  if (!tensor) return in_context(what, tensor.error());
  return tensor;
}

std::string serialize_npy(const Tensor& tensor) {
  std::string shape;
  for (const int64_t extent : tensor.shape()) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
  if (tensor.shape().rank() == 1) shape += ',';
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(tensor.dtype()), shape);
  constexpr size_t header_start = magic.size() + 4;
  header.append((2 * alignment - 1 - (header_start + header.size()) % alignment) % alignment, ' ');
  header += '\n';

  std::string file(magic);
  file += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file += header;
  const std::span<const std::byte> bytes = tensor.bytes();
  file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return file;
}

}  // namespace low
