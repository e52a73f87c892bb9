#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>
#include <zlib.h>

#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

Tensor counting(DType type, const Shape& shape) {
  Tensor tensor(type, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_bits(i, static_cast<uint64_t>(i % 100));
  return tensor;
}

void append(std::string& text, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
}

struct RawMember {
  std::string name;
  std::string content;
  uint16_t method = 0;
  uint16_t flags = 0;
  std::optional<uint32_t> declared_size = std::nullopt;
};

uint32_t crc32_of(std::string_view text) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

// A ZIP archive from its description (APPNOTE.TXT 4.3), free to be wrong.
std::string archive_of(const std::vector<RawMember>& members) {
  std::string file;
  std::string directory;
  for (const RawMember& member : members) {
    const uint64_t offset = file.size();
    std::string fields;  // from "version needed" to "extra field length"
    append(fields, 20, 2);
    append(fields, member.flags, 2);
    append(fields, member.method, 2);
    append(fields, 0, 2);
    append(fields, 0x21, 2);
    append(fields, crc32_of(member.content), 4);
    append(fields, member.content.size(), 4);
    append(fields, member.declared_size.value_or(static_cast<uint32_t>(member.content.size())), 4);
    append(fields, member.name.size(), 2);
    append(fields, 0, 2);
    file += "PK\3\4" + fields + member.name + member.content;
    directory += "PK\1\2";
    append(directory, 20, 2);
    directory += fields;
    directory.append(2 + 2 + 2 + 4, '\0');
    append(directory, offset, 4);
    directory += member.name;
  }
  const uint64_t start = file.size();
  file += directory + "PK\5\6";
  append(file, 0, 4);
  append(file, members.size(), 2);
  append(file, members.size(), 2);
  append(file, directory.size(), 4);
  append(file, start, 4);
  append(file, 0, 2);
  return file;
}

// Through the library, deflated.
std::string deflated_archive_of(const std::string& name, const std::string& content) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const file = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(file);
  zip_t* const archive = zip_open_from_source(file, ZIP_CREATE | ZIP_TRUNCATE, &error);
  const zip_int64_t index =
      zip_file_add(archive, name.c_str(), zip_source_buffer(archive, content.data(), content.size(), 0), 0);
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_DEFLATE, 9);
  EXPECT_EQ(zip_close(archive), 0);
  zip_stat_t stat;
  zip_source_stat(file, &stat);
  std::string text(stat.size, '\0');
  zip_source_open(file);
  EXPECT_EQ(zip_source_read(file, text.data(), text.size()), static_cast<zip_int64_t>(text.size()));
  zip_source_close(file);
  zip_source_free(file);
  zip_error_fini(&error);
  return text;
}

void expect_error(const std::string& file, ErrorKind kind, const std::string& part) {
  const auto tensors = parse_npz(bytes_of(file), "x.npz");
  ASSERT_FALSE(tensors) << part;
  EXPECT_EQ(tensors.error().kind, kind) << tensors.error().message;
  EXPECT_THAT(tensors.error().message, HasSubstr("x.npz: "));
  EXPECT_THAT(tensors.error().message, HasSubstr(part));
}

TEST(Npz, RoundTrip) {
  const std::map<std::string, Tensor> tensors = {
      {"a", counting(DType::f32, {3, 5})}, {"b/c", counting(DType::i64, {})}, {"", counting(DType::u8, {0})}};
  const Result<std::string> file = serialize_npz(tensors);
  ASSERT_TRUE(file) << file.error().message;
  const auto read = parse_npz(bytes_of(*file), "x.npz");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, tensors);
}

TEST(Npz, EqualTensorsGiveEqualFiles) {
  const std::map<std::string, Tensor> tensors = {{"x", counting(DType::f32, {7})}};
  const Result<std::string> file = serialize_npz(tensors);
  ASSERT_TRUE(file);
  EXPECT_EQ(*file, serialize_npz(tensors));
  // The date of the entry, 12 bytes into the local header, is 1980-01-01, whenever and in whatever time zone this runs.
  EXPECT_EQ(file->substr(10, 4), std::string("\0\0\x21\0", 4));
}

TEST(Npz, NoTensors) {
  const Result<std::string> file = serialize_npz({});
  ASSERT_TRUE(file);
  const auto read = parse_npz(bytes_of(*file), "x.npz");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->empty());
}

TEST(Npz, HandMadeArchiveIsRead) {
  const Tensor tensor = counting(DType::i16, {2, 3});
  const auto read = parse_npz(bytes_of(archive_of({{"t.npy", serialize_npy(tensor)}})), "x.npz");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at("t"), tensor);
}

TEST(Npz, Deflated) {
  const Tensor tensor = counting(DType::f32, {1009});
  const std::string file = deflated_archive_of("t.npy", serialize_npy(tensor));
  EXPECT_LT(file.size(), tensor.bytes().size());
  const auto read = parse_npz(bytes_of(file), "x.npz");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at("t"), tensor);
}

TEST(Npz, ZeroesThatDeflateWellAreRead) {
  const Tensor tensor(DType::f32, {1'000'003});
  const auto read = parse_npz(bytes_of(deflated_archive_of("t.npy", serialize_npy(tensor))), "x.npz");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at("t"), tensor);
}

TEST(Npz, BadMembers) {
  const std::string npy = serialize_npy(counting(DType::u8, {5}));
  expect_error(archive_of({{"t.txt", npy}}), ErrorKind::invalid, "'t.txt' is not an .npy file");
  expect_error(archive_of({{"t.npy", npy}, {"t.npy", npy}}), ErrorKind::invalid, "'t.npy' appears twice");
  expect_error(archive_of({{"t.npy", npy.substr(0, 50)}}), ErrorKind::invalid, "t.npy: ");
  expect_error(archive_of({{"t.npy", npy, 12}}), ErrorKind::unsupported, "compression method 12");
  expect_error(archive_of({{"t.npy", npy, 0, 1}}), ErrorKind::unsupported, "encrypted");
  expect_error(archive_of({{"t.npy", npy, 8}}), ErrorKind::invalid, "'t.npy' is damaged");  // not deflated
}

TEST(Npz, ChecksumIsChecked) {
  const std::string npy = serialize_npy(counting(DType::u8, {5}));
  std::string file = archive_of({{"t.npy", npy}});
  file[30 + 5 + npy.size() - 1] ^= 1;  // the last element: after the local header and the name
  expect_error(file, ErrorKind::invalid, "'t.npy' is damaged");
}

TEST(Npz, DeclaredSizes) {
  const std::string npy = serialize_npy(counting(DType::u8, {5}));
  // Nothing of a declared size is allocated before the bytes are there.
  expect_error(archive_of({{"t.npy", npy, 0, 0, 0xfffffffeu}}), ErrorKind::invalid, "t.npy");
  expect_error(archive_of({{"t.npy", npy, 0, 0, 0x0fffffffu}}), ErrorKind::invalid, "t.npy");
  expect_error(archive_of({{"t.npy", npy, 0, 0, 10}}), ErrorKind::invalid, "t.npy");
}

// 300 MB of zeros in 300 kB.
TEST(Npz, Bomb) {
  const std::string file = deflated_archive_of("t.npy", serialize_npy(Tensor(DType::u8, {270'000'000})));
  EXPECT_LT(file.size(), 400'000u);
  expect_error(file, ErrorKind::invalid, "would expand to 270000128 bytes");
}

TEST(Npz, EveryTruncationIsAnError) {
  const Result<std::string> file = serialize_npz({{"x", counting(DType::u8, {5})}, {"y", counting(DType::u8, {3})}});
  ASSERT_TRUE(file);
  for (size_t size = 0; size < file->size(); ++size) {
    const std::vector<std::byte> part(bytes_of(*file).begin(), bytes_of(*file).begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(parse_npz(part, "x.npz")) << size;
  }
}

TEST(Npz, FlippedBitsDoNoHarm) {
  const Result<std::string> file = serialize_npz({{"x", counting(DType::u8, {5})}});
  ASSERT_TRUE(file);
  for (size_t i = 0; i < file->size(); ++i) {
    std::string changed = *file;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    const auto read = parse_npz(bytes_of(changed), "x.npz");
    if (!read || read->empty()) continue;
    EXPECT_EQ(read->begin()->second, counting(DType::u8, {5})) << i;
  }
}

TEST(Npz, NamesThatCannotBeWritten) {
  EXPECT_FALSE(serialize_npz({{std::string("a\0b", 3), Tensor(DType::u8, {1})}}));
  EXPECT_FALSE(serialize_npz({{"\xff\xfe", Tensor(DType::u8, {1})}}));
}

}  // namespace
}  // namespace low
