#include "compiler/lowc/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/lowc/text.h"

namespace low::lowc {

void JsonWriter::separate() {
  if (needs_comma_) text_ += ",";
  needs_comma_ = false;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += "{";
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  text_ += "}";
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  text_ += "[";
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  text_ += "]";
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  text_ += ":";
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"';
  while (!text.empty()) {
    const size_t length = utf8_character(text);
    const char c = text[0];
    if (length == 0) {
      text_ += "\\ufffd";  // JSON holds UTF-8 only
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  text_ += '"';
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  separate();
  text_ += std::isfinite(number) ? fmt::format("{}", number) : "null";
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(int64_t number) {
  separate();
  text_ += fmt::format("{}", number);
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(uint64_t number) {
  separate();
  text_ += fmt::format("{}", number);
  needs_comma_ = true;
  return *this;
}

}  // namespace low::lowc
