#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/format/package.h"

namespace low {
namespace {

using testing::HasSubstr;

Manifest sample() {
  Manifest manifest;
  manifest.producer = "lowc 0.1.0";
  manifest.source_hash = "abc";
  manifest.lock_hash = "def";
  manifest.model_sha256 = std::string(64, '0');
  manifest.model_name = "gr\xc3\xa4ph";
  manifest.variants.push_back({"host", {{"host-x86-64-v3", "variants/host/kernels/host-x86-64-v3.so", 1u << 20, {}}}});
  KernelInfo kernel{.name = "low_entry_0",
                    .vgprs = 128,
                    .sgprs = 40,
                    .vgpr_spills = 1,
                    .sgpr_spills = 2,
                    .lds_bytes = std::numeric_limits<uint64_t>::max(),
                    .private_bytes = 7};
  manifest.variants.push_back(
      {"mi300x", {{"gfx942", "k", 0, {kernel}}, {"gfx950", "k", 7, {}, "gfx942", "19.1.7 \"quoted\"\n"}}});
  manifest.variants.push_back({"empty", {}});
  return manifest;
}

TEST(Manifest, ReadsWhatItWrote) {
  for (const Manifest& manifest : {sample(), Manifest{}}) {
    const std::string json = serialize(manifest);
    const auto parsed = parse_manifest(json, "test");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, manifest);
    EXPECT_EQ(serialize(*parsed), json);
  }
}

TEST(Manifest, Text) {
  Manifest manifest;
  manifest.producer = "p";
  manifest.variants = {{"host", {}}};
  EXPECT_EQ(serialize(manifest), R"({"lock_hash":"","model_name":"","model_sha256":"","producer":"p","source_hash":"",)"
                                 R"("variants":[{"machine":"host","targets":[]}],"version":1})"
                                 "\n");
}

TEST(Manifest, ForeignBytesInAName) {
  Manifest manifest;
  manifest.model_name =
      "a\xff"
      "b";
  const auto parsed = parse_manifest(serialize(manifest), "test");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->model_name, "a?b");
}

TEST(Manifest, Refusals) {
  struct Case {
    const char* from;
    const char* to;
    const char* message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"\"version\":1", "\"version\":2", "version is 2, expected 1"},
           {",\"version\":1", "", "version is missing"},
           {"\"lock_hash\"", "\"lock_hush\"", "unknown member 'lock_hush'"},
           {"\"sgprs\":40", "\"sgprs\":-40", "not a whole number"},
           {"\"sgprs\":40", "\"sgprs\":4294967296", "expected at most 4294967295"},
           {"\"sgprs\":40", "\"sgprs\":4.5", "'sgprs' of the manifest.variants[1].targets[0].kernels[0]"},
           {"\"sgprs\":40,", "", "has no 'sgprs'"},
           {"\"target\":\"gfx950\"", "\"target\":\"gfx942\"", "repeats 'gfx942'"},
           {"\"base\":\"gfx942\"", "\"base\":\"gfx90a\"", "the base 'gfx90a' of target 'gfx950' is no target"},
           {"\"base\":\"gfx942\"", "\"base\":\"gfx950\"", "the base 'gfx950' of target 'gfx950' is no target"},
           {"\"machine\":\"empty\"", "\"machine\":\"host\"", "repeats 'host'"},
           {"\"machine\":\"empty\"", "\"machine\":\"../x\"", "names no folder"},
           {"\"variants\":[", "\"variants\":[7,", "is not an object"},
           {"\"producer\":\"lowc 0.1.0\"", "\"producer\":[]", "is not a string"},
           {"}\n", "", "is not JSON"},
       }) {
    std::string json = serialize(sample());
    const size_t at = json.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    json.replace(at, std::string(c.from).size(), c.to);
    const auto parsed = parse_manifest(json, "test");
    ASSERT_FALSE(parsed) << c.to;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
    EXPECT_THAT(parsed.error().message, HasSubstr(c.message));
  }
  EXPECT_FALSE(parse_manifest("", "test"));
  EXPECT_FALSE(parse_manifest("[]", "test"));
  EXPECT_FALSE(parse_manifest(std::string(100000, '['), "test"));
}

TEST(Manifest, DamageIsRefusedOrMeansSomething) {
  const std::string json = serialize(sample());
  for (size_t i = 0; i < json.size(); ++i) {
    EXPECT_FALSE(parse_manifest(std::string_view(json).substr(0, i), "test") && i + 1 < json.size()) << i;
    for (const int mask : {1, 2, 4, 0x10, 0x80}) {
      std::string damaged = json;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto parsed = parse_manifest(damaged, "test");
      if (!parsed) continue;
      const auto again = parse_manifest(serialize(*parsed), "test");
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(*again, *parsed);
    }
  }
}

}  // namespace
}  // namespace low
