#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// A file of version `major` with this header text and these element bytes.
std::string file_of(const std::string& header, const std::string& elements, int major = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (size_t i = 0; i < (major == 1 ? 2u : 4u); ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + elements;
}

std::string header_of(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Tensor counting(DType type, const Shape& shape) {
  Tensor tensor(type, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_bits(i, static_cast<uint64_t>(i) * 37 % 128);
  if (type == DType::boolean) {
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_bits(i, i % 3 == 0 ? 1 : 0);
  }
  return tensor;
}

void expect_error(const std::string& file, ErrorKind kind, const std::string& part) {
  const Result<Tensor> tensor = parse_npy(bytes_of(file), "x.npy");
  ASSERT_FALSE(tensor) << part;
  EXPECT_EQ(tensor.error().kind, kind) << tensor.error().message;
  EXPECT_THAT(tensor.error().message, HasSubstr("x.npy: "));
  EXPECT_THAT(tensor.error().message, HasSubstr(part));
}

TEST(Npy, WrittenBytes) {
  Tensor tensor(DType::i16, {3});
  for (int64_t i = 0; i < 3; ++i) tensor.set_value(i, static_cast<double>(i) - 1);
  // 10 bytes before the header; 128 - 10 = 118 bytes of header, so that the elements start at 128.
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }";
  header.append(117 - header.size(), ' ');
  header += '\n';
  const std::string expected =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + std::string("\xff\xff\0\0\1\0", 6);
  EXPECT_EQ(serialize_npy(tensor), expected);
}

TEST(Npy, RoundTripsEveryTypeAndRank) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 0, 3}, Shape{1, 2, 1, 3, 1, 2, 1, 2}}) {
      const Tensor tensor = counting(type, shape);
      const std::string file = serialize_npy(tensor);
      EXPECT_EQ((file.size() - tensor.bytes().size()) % 64, 0u);
      const Result<Tensor> read = parse_npy(bytes_of(file), "x.npy");
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->shape(), shape);
      EXPECT_TRUE(std::ranges::equal(read->bytes(), tensor.bytes()));
      // NumPy has no type of these names.
      const DType expected = is_fp8(type) ? DType::u8 : type == DType::bf16 ? DType::u16 : type;
      EXPECT_EQ(read->dtype(), expected);
    }
  }
}

TEST(Npy, VersionsTwoAndThree) {
  for (const int major : {1, 2, 3}) {
    const Result<Tensor> read = parse_npy(bytes_of(file_of(header_of("|u1", "(2,)"), "\x05\x06", major)), "x.npy");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->value(0), 5);
    EXPECT_EQ(read->value(1), 6);
  }
}

TEST(Npy, FortranOrder) {
  // Shape (2, 3), stored column by column: [[1, 3, 5], [2, 4, 6]].
  const Result<Tensor> matrix =
      parse_npy(bytes_of(file_of(header_of("|i1", "(2, 3)", "True"), "\1\2\3\4\5\6")), "x.npy");
  ASSERT_TRUE(matrix) << matrix.error().message;
  const int expected[] = {1, 3, 5, 2, 4, 6};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(matrix->value(i), expected[i]);
  // Element (a, b, c) of shape (2, 3, 5) lies at a + 2 b + 6 c.
  std::string elements(30, '\0');
  std::iota(elements.begin(), elements.end(), '\0');
  const Result<Tensor> cube = parse_npy(bytes_of(file_of(header_of("|i1", "(2, 3, 5)", "True"), elements)), "x.npy");
  ASSERT_TRUE(cube);
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 3; ++b) {
      for (int c = 0; c < 5; ++c) EXPECT_EQ(cube->value((a * 3 + b) * 5 + c), a + 2 * b + 6 * c);
    }
  }
  EXPECT_TRUE(parse_npy(bytes_of(file_of(header_of("|i1", "(2, 0)", "True"), "")), "x.npy"));
  EXPECT_TRUE(parse_npy(bytes_of(file_of(header_of("|i1", "()", "True"), "\1")), "x.npy"));
}

TEST(Npy, BigEndian) {
  const std::string elements("\x01\x02\xff\xfe", 4);
  const Result<Tensor> read = parse_npy(bytes_of(file_of(header_of(">i2", "(2,)"), elements)), "x.npy");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->integer(0), 0x0102);
  EXPECT_EQ(read->integer(1), -2);
}

TEST(Npy, OtherSpellings) {
  const Result<Tensor> read =
      parse_npy(bytes_of(file_of("{\"shape\":(1L,2L),\"fortran_order\":False,\"descr\":\"=u1\"}", "\1\2")), "x.npy");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->shape(), (Shape{1, 2}));
  for (const char* descr : {"|V2", "<V2"}) {
    const Result<Tensor> bfloats = parse_npy(bytes_of(file_of(header_of(descr, "(1,)"), "\x80\x3f")), "x.npy");
    ASSERT_TRUE(bfloats) << bfloats.error().message;
    EXPECT_EQ(bfloats->dtype(), DType::u16);
    EXPECT_EQ(bfloats->bits(0), 0x3f80u);
  }
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string file = serialize_npy(counting(DType::f32, {3, 5}));
  for (size_t size = 0; size < file.size(); ++size) {
    // A copy of just this size, so that the sanitizer sees a read beyond it.
    const std::vector<std::byte> part(bytes_of(file).begin(), bytes_of(file).begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(parse_npy(part, "x.npy")) << size;
  }
  EXPECT_FALSE(parse_npy(bytes_of(file + "x"), "x.npy"));
}

TEST(Npy, EveryFlippedHeaderByteIsHarmless) {
  const std::string file = serialize_npy(counting(DType::f32, {3, 5}));
  for (size_t i = 0; i < 128; ++i) {
    for (const int flip : {1, 2, 4, 8, 16, 32, 64, 128}) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      const Result<Tensor> read = parse_npy(bytes_of(changed), "x.npy");
      if (!read) continue;
      EXPECT_EQ(read->bytes().size(), 60u);  // such as '<i4', or (5, 3)
    }
  }
}

TEST(Npy, BadFiles) {
  expect_error("", ErrorKind::invalid, "first bytes");
  expect_error("PK\3\4 and so on", ErrorKind::invalid, "first bytes");
  expect_error(std::string("\x93NUMPY\x04\x00\x00\x00", 10), ErrorKind::unsupported, "version 4.0");
  expect_error(std::string("\x93NUMPY\x01\x01\x00\x00", 10), ErrorKind::unsupported, "version 1.1");
  expect_error(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14), ErrorKind::invalid, "4294967295 bytes");
  expect_error(file_of(header_of("<f4", "(2,)"), "1234567"), ErrorKind::invalid, "needs 8 bytes, the file has 7");
  expect_error(file_of(header_of("<f4", "(2,)"), "123456789"), ErrorKind::invalid, "needs 8 bytes, the file has 9");
  expect_error(file_of(header_of("|b1", "(2,)"), "\1\2"), ErrorKind::invalid, "neither 0 nor 1");
}

TEST(Npy, BadShapes) {
  const auto bad = [](const std::string& shape, ErrorKind kind, const std::string& part) {
    expect_error(file_of(header_of("<f4", shape), ""), kind, part);
  };
  bad("(-1,)", ErrorKind::invalid, "at least 0");
  bad("(9223372036854775807,)", ErrorKind::invalid, "too large");
  bad("(9223372036854775808,)", ErrorKind::invalid, "at most 2^63-1");
  bad("(4294967296, 4294967296)", ErrorKind::invalid, "too large");  // 2^64 wraps to 0
  bad("(0, 9223372036854775807, 2)", ErrorKind::invalid, "too large");
  bad("(17179869185,)", ErrorKind::invalid, "too large");  // 2^34 + 1 floats are more than 2^36 bytes
  bad("(1, 1, 1, 1, 1, 1, 1, 1, 1)", ErrorKind::unsupported, "more than 8 dimensions");
  bad("(1)", ErrorKind::invalid, "a tuple");
  bad("(1 2)", ErrorKind::invalid, "',' or ')'");
  bad("(,)", ErrorKind::invalid, "an integer");
  bad("(1,", ErrorKind::invalid, "an integer");
  bad("[1, 2]", ErrorKind::invalid, "'('");
  bad("(0x2,)", ErrorKind::invalid, "',' or ')'");
  bad("(1.5,)", ErrorKind::invalid, "',' or ')'");
  bad("((1,),)", ErrorKind::invalid, "an integer");
  bad("None", ErrorKind::invalid, "'('");
}

TEST(Npy, BadHeaders) {
  const auto bad = [](const std::string& header, ErrorKind kind, const std::string& part) {
    expect_error(file_of(header, ""), kind, part);
  };
  bad("", ErrorKind::invalid, "'{'");
  bad("{}", ErrorKind::invalid, "lacks 'descr'");
  bad("{'descr': '<f4', 'shape': ()}", ErrorKind::invalid, "lacks 'fortran_order'");
  bad("{'descr': '<f4', 'fortran_order': False}", ErrorKind::invalid, "lacks 'shape'");
  bad("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", ErrorKind::invalid, "'descr' twice");
  bad("{'shape': (0,), 'shape': (0,), 'descr': '<f4', 'fortran_order': False}", ErrorKind::invalid, "'shape' twice");
  bad("{'fortran_order': True, 'fortran_order': False}", ErrorKind::invalid, "'fortran_order' twice");
  bad("{'descr': '<f4', 'extra': 1}", ErrorKind::invalid, "unknown key 'extra'");
  bad("{'descr': '<f4'", ErrorKind::invalid, "','");
  bad("{'descr", ErrorKind::invalid, "a string that ends");
  bad("{'descr' '<f4'}", ErrorKind::invalid, "':'");
  bad("{descr: '<f4'}", ErrorKind::invalid, "a string");
  bad("{'fortran_order': 0}", ErrorKind::invalid, "True or False");
  bad(std::string("{'de\0scr': '<f4'}", 16), ErrorKind::invalid, "plain characters");
  bad(header_of("<f4", "(0,)") + std::string(1, '\0'), ErrorKind::invalid, "the end of the header");
  bad(header_of("<f4", "(0,)") + "{}", ErrorKind::invalid, "the end of the header");
  bad("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", ErrorKind::unsupported, "structures");
}

TEST(Npy, UnsupportedTypes) {
  for (const char* descr : {"<c8", "<U5", "|S3", "|O", "<M8[s]", "<f16", "<V4", "|V0", "f4", "", "<", "<f"}) {
    expect_error(file_of(header_of(descr, "()"), ""), ErrorKind::unsupported, std::string("'") + descr + "'");
  }
  expect_error(file_of(header_of("|f4", "()"), ""), ErrorKind::invalid, "lacks a byte order");
}

}  // namespace
}  // namespace low
