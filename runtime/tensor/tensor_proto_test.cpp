#include "runtime/tensor/tensor_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "onnx.pb.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

using onnx::TensorProto;
using testing::HasSubstr;

constexpr int64_t max_int64 = std::numeric_limits<int64_t>::max();

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TensorProto proto_of(int data_type, const std::vector<int64_t>& dims) {
  TensorProto proto;
  proto.set_data_type(data_type);
  for (const int64_t extent : dims) proto.add_dims(extent);
  return proto;
}

void expect_error(const TensorProto& proto, ErrorKind kind, const std::string& part,
                  std::span<const std::byte> external = {}) {
  const Result<Tensor> tensor = tensor_from_proto(proto, "w", {.external = external});
  ASSERT_FALSE(tensor) << part;
  EXPECT_EQ(tensor.error().kind, kind) << tensor.error().message;
  EXPECT_THAT(tensor.error().message, HasSubstr("w: "));
  EXPECT_THAT(tensor.error().message, HasSubstr(part));
}

// A scalar with these int32_data entries as its one field.
Result<Tensor> from_int32(int data_type, const std::vector<int32_t>& values) {
  TensorProto proto = proto_of(data_type, {static_cast<int64_t>(values.size())});
  for (const int32_t value : values) proto.add_int32_data(value);
  return tensor_from_proto(proto, "w", {});
}

TEST(TensorProto, NumbersOfTheTypes) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_onnx(dtype_to_onnx(type)), type);
  }
  // As ONNX numbers them.
  EXPECT_EQ(dtype_to_onnx(DType::f32), 1);
  EXPECT_EQ(dtype_to_onnx(DType::f16), 10);
  EXPECT_EQ(dtype_to_onnx(DType::bf16), 16);
  EXPECT_EQ(dtype_to_onnx(DType::f8e4m3fn), 17);
  EXPECT_EQ(dtype_to_onnx(DType::f8e4m3fnuz), 18);
  EXPECT_EQ(dtype_to_onnx(DType::f8e5m2), 19);
  EXPECT_EQ(dtype_to_onnx(DType::f8e5m2fnuz), 20);
  for (const int number : {-1, 0, 8, 14, 15, 21, 22, 23, 24, 25, 26, 27, 1 << 30})
    EXPECT_FALSE(dtype_from_onnx(number));
  EXPECT_EQ(onnx_data_type_name(22), "INT4");
  EXPECT_EQ(onnx_data_type_name(99), "99 (unknown)");
}

TEST(TensorProto, WireBytes) {
  // 08 03: dims 3 (field 1, varint). 10 06: data_type INT32 (field 2). 2a 03 01 02 03: int32_data, packed (field 5).
  // 42 01 77: name "w" (field 8).
  const std::string file("\x08\x03\x10\x06\x2a\x03\x01\x02\x03\x42\x01w", 12);
  const Result<NamedTensor> read = parse_tensor_proto(bytes_of(file), "x.pb");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "w");
  EXPECT_EQ(read->tensor.dtype(), DType::i32);
  EXPECT_EQ(read->tensor.shape(), Shape{3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read->tensor.integer(i), i + 1);
}

TEST(TensorProto, RoundTripsEveryTypeAndRank) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{7}, Shape{3, 5}, Shape{1, 2, 1, 3, 1, 2, 1, 2}}) {
      NamedTensor named{"some name", Tensor(type, shape)};
      for (int64_t j = 0; j < named.tensor.elements(); ++j) named.tensor.set_bits(j, static_cast<uint64_t>(j % 2));
      const Result<NamedTensor> read = parse_tensor_proto(bytes_of(serialize_tensor_proto(named)), "x.pb");
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->name, named.name);
      EXPECT_EQ(read->tensor, named.tensor);
    }
  }
}

TEST(TensorProto, TypedFields) {
  TensorProto floats = proto_of(TensorProto::FLOAT, {2});
  floats.add_float_data(1.5f);
  floats.add_float_data(-2.0f);
  EXPECT_EQ(tensor_from_proto(floats, "w", {})->value(1), -2);
  TensorProto doubles = proto_of(TensorProto::DOUBLE, {});
  doubles.add_double_data(0.1);
  EXPECT_EQ(tensor_from_proto(doubles, "w", {})->value(0), 0.1);
  TensorProto wide = proto_of(TensorProto::INT64, {1});
  wide.add_int64_data(-max_int64);
  EXPECT_EQ(tensor_from_proto(wide, "w", {})->integer(0), -max_int64);
  for (const int type : {TensorProto::UINT32, TensorProto::UINT64}) {
    TensorProto proto = proto_of(type, {1});
    proto.add_uint64_data(4294967295u);
    EXPECT_EQ(tensor_from_proto(proto, "w", {})->value(0), 4294967295.0);
  }
}

TEST(TensorProto, Int32DataHoldsNumbersOrBits) {
  EXPECT_EQ(from_int32(TensorProto::INT8, {-128, 127})->integer(0), -128);
  EXPECT_EQ(from_int32(TensorProto::UINT8, {255})->integer(0), 255);
  EXPECT_EQ(from_int32(TensorProto::INT16, {-32768})->integer(0), -32768);
  EXPECT_EQ(from_int32(TensorProto::UINT16, {65535})->integer(0), 65535);
  EXPECT_EQ(from_int32(TensorProto::INT32, {std::numeric_limits<int32_t>::min()})->integer(0), -2147483648);
  EXPECT_EQ(from_int32(TensorProto::BOOL, {0, 1})->integer(1), 1);
  EXPECT_EQ(from_int32(TensorProto::FLOAT16, {0x3c00})->value(0), 1);
  EXPECT_EQ(from_int32(TensorProto::BFLOAT16, {0xc000})->value(0), -2);
  EXPECT_EQ(from_int32(TensorProto::FLOAT8E4M3FN, {0x7e, 0xfe})->value(1), -448);
  EXPECT_EQ(from_int32(TensorProto::FLOAT8E4M3FNUZ, {0x7f})->value(0), 240);
  EXPECT_EQ(from_int32(TensorProto::FLOAT8E5M2, {0x7b})->value(0), 57344);
  EXPECT_EQ(from_int32(TensorProto::FLOAT8E5M2FNUZ, {0x7f})->value(0), 57344);
}

TEST(TensorProto, ValuesOutOfRange) {
  const std::vector<std::pair<int, int32_t>> cases = {
      {TensorProto::INT8, 128},         {TensorProto::INT8, -129},     {TensorProto::UINT8, 256},
      {TensorProto::UINT8, -1},         {TensorProto::INT16, 32768},   {TensorProto::UINT16, 65536},
      {TensorProto::BOOL, 2},           {TensorProto::FLOAT16, 65536}, {TensorProto::BFLOAT16, -1},
      {TensorProto::FLOAT8E4M3FN, 256}, {TensorProto::FLOAT8E5M2, -1},
  };
  for (const auto& [type, value] : cases) {
    const Result<Tensor> tensor = from_int32(type, {0, value});
    ASSERT_FALSE(tensor) << onnx_data_type_name(type);
    EXPECT_EQ(tensor.error().kind, ErrorKind::invalid);
    EXPECT_THAT(tensor.error().message, HasSubstr("int32_data[1]"));
  }
  TensorProto wide = proto_of(TensorProto::UINT32, {1});
  wide.add_uint64_data(uint64_t{1} << 32);
  expect_error(wide, ErrorKind::invalid, "uint64_data[0] is 4294967296");
  TensorProto boolean = proto_of(TensorProto::BOOL, {1});
  boolean.set_raw_data("\x02");
  expect_error(boolean, ErrorKind::invalid, "neither 0 nor 1");
}

TEST(TensorProto, Types) {
  expect_error(proto_of(TensorProto::UNDEFINED, {1}), ErrorKind::invalid, "no data type");
  for (const auto& [type, type_name] : std::vector<std::pair<int, std::string>>{{TensorProto::STRING, "STRING"},
                                                                                {TensorProto::COMPLEX64, "COMPLEX64"},
                                                                                {TensorProto::COMPLEX128, "COMPLEX128"},
                                                                                {TensorProto::UINT4, "UINT4"},
                                                                                {TensorProto::INT4, "INT4"},
                                                                                {TensorProto::FLOAT4E2M1, "FLOAT4E2M1"},
                                                                                {TensorProto::FLOAT8E8M0, "FLOAT8E8M0"},
                                                                                {TensorProto::FLOAT6E2M3, "FLOAT6E2M3"},
                                                                                {TensorProto::FLOAT6E3M2, "FLOAT6E3M2"},
                                                                                {99, "99 (unknown)"},
                                                                                {-7, "-7 (unknown)"}}) {
    expect_error(proto_of(type, {1}), ErrorKind::unsupported, "data type " + type_name);
  }
}

TEST(TensorProto, Extents) {
  const auto bad = [](const std::vector<int64_t>& dims, ErrorKind kind, const std::string& part) {
    TensorProto proto = proto_of(TensorProto::FLOAT, dims);
    proto.set_raw_data("1234");
    expect_error(proto, kind, part);
  };
  bad({-1}, ErrorKind::invalid, "[-1]");
  bad({max_int64, max_int64}, ErrorKind::invalid, "too large");
  bad({int64_t{1} << 32, int64_t{1} << 32}, ErrorKind::invalid, "too large");
  bad({max_tensor_bytes}, ErrorKind::invalid, "too large");
  bad({std::numeric_limits<int64_t>::min(), 2}, ErrorKind::invalid, "negative");
  bad({1, 1, 1, 1, 1, 1, 1, 1, 1}, ErrorKind::unsupported, "9 dimensions");
  bad({1 << 20}, ErrorKind::invalid, "raw_data has 4 bytes, but shape [1048576] of f32 needs 4194304");
  bad({0}, ErrorKind::invalid, "raw_data has 4 bytes, but shape [0] of f32 needs 0");
}

TEST(TensorProto, ContradictingData) {
  TensorProto proto = proto_of(TensorProto::FLOAT, {3});
  expect_error(proto, ErrorKind::invalid, "float_data has 0 entries");
  proto.add_float_data(1);
  expect_error(proto, ErrorKind::invalid, "float_data has 1 entries");
  proto.set_raw_data(std::string(12, '\0'));
  expect_error(proto, ErrorKind::invalid, "both in raw_data and in a typed field");
  proto.clear_float_data();
  EXPECT_TRUE(tensor_from_proto(proto, "w", {}));
  proto.set_raw_data(std::string(11, '\0'));
  expect_error(proto, ErrorKind::invalid, "raw_data has 11 bytes");
  proto.clear_raw_data();
  for (int i = 0; i < 3; ++i) proto.add_int32_data(i);
  expect_error(proto, ErrorKind::invalid, "another field than float_data");
  proto.clear_int32_data();
  proto.add_string_data("a");
  expect_error(proto, ErrorKind::invalid, "string_data");
  TensorProto segment = proto_of(TensorProto::FLOAT, {0});
  segment.mutable_segment()->set_begin(0);
  expect_error(segment, ErrorKind::unsupported, "segments");
}

TEST(TensorProto, ExternalData) {
  TensorProto proto = proto_of(TensorProto::INT16, {2});
  proto.set_data_location(TensorProto::EXTERNAL);
  auto* const location = proto.add_external_data();
  location->set_key("location");
  location->set_value("weights.bin");
  const std::string bytes("\1\0\xff\xff", 4);
  const Result<Tensor> tensor = tensor_from_proto(proto, "w", {.external = bytes_of(bytes)});
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(tensor->integer(1), -1);
  expect_error(proto, ErrorKind::invalid, "the external data has 3 bytes", bytes_of(bytes).first(3));
  expect_error(proto, ErrorKind::invalid, "the external data has 0 bytes");
  const Result<NamedTensor> file = parse_tensor_proto(bytes_of(proto.SerializeAsString()), "x.pb");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(file.error().message, HasSubstr("another file"));
  proto.set_raw_data("1234");
  expect_error(proto, ErrorKind::invalid, "both external and inside", bytes_of(bytes));
}

TEST(TensorProto, TruncatedAndDamagedFilesDoNoHarm) {
  const uint64_t seed = 11;
  std::mt19937_64 random(seed);
  TensorProto proto = proto_of(TensorProto::FLOAT8E4M3FN, {3, 5});
  for (int i = 0; i < 15; ++i) proto.add_int32_data(i * 16);
  proto.set_name("w");
  const std::string file = proto.SerializeAsString();
  for (size_t size = 0; size < file.size(); ++size) {
    const Result<NamedTensor> read = parse_tensor_proto(bytes_of(file.substr(0, size)), "x.pb");
    // Without the name at its end it is still a tensor.
    if (!read) continue;
    EXPECT_EQ(size, file.size() - 3);
  }
  for (int round = 0; round < 5000; ++round) {
    std::string changed = file;
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    const Result<NamedTensor> read = parse_tensor_proto(bytes_of(changed), "x.pb");
    if (read) {
      EXPECT_LE(read->tensor.bytes().size(), 8 * file.size()) << "seed " << seed;
    } else {
      EXPECT_FALSE(read.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace low
