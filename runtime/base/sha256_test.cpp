#include "runtime/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace low {
namespace {

std::string hex_of(const std::string& text) { return sha256_hex(std::as_bytes(std::span(text))); }

// The example values that NIST publishes for FIPS 180.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, NulBytesCount) { EXPECT_NE(hex_of(std::string(1, '\0')), hex_of(std::string(2, '\0'))); }

}  // namespace
}  // namespace low
