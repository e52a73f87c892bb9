#include "compiler/lowc/text.h"

#include <gtest/gtest.h>

#include "compiler/lowc/json.h"

namespace low::lowc {
namespace {

TEST(Text, Utf8Characters) {
  const struct {
    std::string_view text;
    size_t length;
  } cases[] = {
      {"a", 1},
      {"\x7f", 1},
      {"\xc3\xa9", 2},  // U+00E9
      {"\xc3\xa9z", 2},
      {"\xe2\x82\xac", 3},      // U+20AC
      {"\xf0\x9f\x99\x82", 4},  // U+1F642
      {"\xf4\x8f\xbf\xbf", 4},  // U+10FFFF, the last
      {"\xf4\x90\x80\x80", 0},  // one more
      {"\x80", 0},              // a continuation byte alone
      {"\xc3", 0},              // cut off
      {"\xe2\x82", 0},
      {"\xc3z", 0},
      {"\xc0\xaf", 0},  // overlong
      {"\xe0\x9f\xbf", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      {"\xed\xa0\x80", 0},  // a surrogate
      {"\xff", 0},
  };
  for (const auto& [text, length] : cases) EXPECT_EQ(utf8_character(text), length) << one_line(text);
}

TEST(Text, OneLine) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("a b\"\\"), "a b\"\\");
  EXPECT_EQ(one_line("a\nb\t\x1b[1m\x7f"), "a\\x0ab\\x09\\x1b[1m\\x7f");
  EXPECT_EQ(one_line("\xc3\xa9\xc3 \xff"), "\xc3\xa9\\xc3 \\xff");
  EXPECT_EQ(one_line(std::string_view("\0z", 2)), "\\x00z");
}

TEST(Json, TextIsUtf8) {
  JsonWriter json;
  json.begin_array().value("a\n\"\\\x01").value("\xc3\xa9\xff").value("").end_array();
  EXPECT_EQ(json.text(), "[\"a\\u000a\\\"\\\\\\u0001\",\"\xc3\xa9\\ufffd\",\"\"]\n");
}

}  // namespace
}  // namespace low::lowc
