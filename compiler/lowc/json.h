// JSON text for reports, written in the order of the calls: deterministic, with shortest round-trip numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace low::lowc {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);  // null when not finite
  JsonWriter& value(int64_t number);
  JsonWriter& value(uint64_t number);
  JsonWriter& value(int number) { return value(int64_t{number}); }
  template <typename T>
  JsonWriter& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  // The text so far, with a final newline.
  std::string text() const { return text_ + "\n"; }

 private:
  void separate();
  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace low::lowc
