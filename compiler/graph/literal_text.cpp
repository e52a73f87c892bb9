#include "compiler/graph/literal_text.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace low {
namespace {

template <typename T>
std::optional<T> read(std::string_view text, std::chars_format format) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::optional<T> read_integer(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::string shortest(T value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return error == std::errc() ? std::string(buffer, end) : std::string();
}

std::string hexadecimal(double value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::hex);
  return (std::signbit(value) ? "-0x" : "0x") + (error == std::errc() ? std::string(buffer, end) : std::string());
}

std::optional<uint64_t> parse_float(DType dtype, std::string_view text) {
  if (text == "inf" || text == "-inf") {
    const double infinity =
        text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    const uint64_t bits = encode(dtype, infinity, Overflow::propagate);
    return std::isinf(decode(dtype, bits)) ? std::optional(bits) : std::nullopt;
  }
  if (text.starts_with("nan:0x")) {
    const std::optional<uint64_t> bits = read_integer<uint64_t>(text.substr(6), 16);
    if (!bits || (byte_size(dtype) < 8 && *bits >> (8 * byte_size(dtype)) != 0)) return std::nullopt;
    return std::isnan(decode(dtype, *bits)) ? bits : std::nullopt;
  }
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative ? 1 : 0);
  // from_chars would take another sign, "inf" and "nan(…)".
  if (digits.empty() || !((digits[0] >= '0' && digits[0] <= '9'))) return std::nullopt;
  const auto finish = [&](double value) -> std::optional<uint64_t> {
    const uint64_t bits = encode(dtype, negative ? -value : value, Overflow::propagate);
    return std::isfinite(decode(dtype, bits)) ? std::optional(bits) : std::nullopt;
  };
  if (digits.starts_with("0x")) {
    if (digits.size() < 3 || digits[2] == '-') return std::nullopt;
    const std::optional<double> value = read<double>(digits.substr(2), std::chars_format::hex);
    if (!value || !std::isfinite(*value)) return std::nullopt;
    const std::optional<uint64_t> bits = finish(*value);
    return bits && std::abs(decode(dtype, *bits)) == *value ? bits : std::nullopt;
  }
  if (dtype == DType::f64) {
    const std::optional<double> value = read<double>(digits, std::chars_format::general);
    return value ? finish(*value) : std::nullopt;
  }
  const std::optional<float> value = read<float>(digits, std::chars_format::general);
  return value ? finish(double{*value}) : std::nullopt;
}

}  // namespace

std::string literal_to_string(DType dtype, uint64_t bits, LiteralStyle style) {
  if (is_float(dtype)) {
    const double value = decode(dtype, bits);
    if (std::isnan(value)) return fmt::format("nan:0x{:x}", bits);
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (style == LiteralStyle::hexadecimal) return hexadecimal(value);
    return dtype == DType::f64 ? shortest(value) : shortest(static_cast<float>(value));
  }
  if (!is_signed_integer(dtype)) return fmt::format("{}", bits);
  const int shift = 64 - 8 * static_cast<int>(byte_size(dtype));
  return fmt::format("{}", static_cast<int64_t>(bits << shift) >> shift);
}

std::optional<uint64_t> parse_literal(DType dtype, std::string_view text) {
  if (is_float(dtype)) return parse_float(dtype, text);
  const int width = 8 * static_cast<int>(byte_size(dtype));
  if (is_signed_integer(dtype)) {
    const std::optional<int64_t> value = parse_integer(text);
    const int64_t maximum = static_cast<int64_t>(~uint64_t{0} >> (65 - width));
    if (!value || *value > maximum || *value < -maximum - 1) return std::nullopt;
    return static_cast<uint64_t>(*value) & (~uint64_t{0} >> (64 - width));
  }
  const std::optional<uint64_t> value = read_integer<uint64_t>(text);
  const uint64_t maximum = dtype == DType::boolean ? 1 : ~uint64_t{0} >> (64 - width);
  return value && *value <= maximum ? value : std::nullopt;
}

std::optional<int64_t> parse_integer(std::string_view text) { return read_integer<int64_t>(text); }

}  // namespace low
