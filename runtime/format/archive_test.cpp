#include <gtest/gtest.h>
#include <sys/wait.h>
#include <zip.h>

#include <cstdlib>
#include <fstream>

#include "runtime/base/sha256.h"
#include "runtime/format/package.h"

namespace low {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Sizes around the alignment, names of all lengths modulo 64 with it.
std::map<std::string, std::string> sample_contents() {
  std::map<std::string, std::string> contents;
  for (const size_t size : {0, 1, 2, 63, 64, 65, 1000}) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * 37 + size);
    contents["sizes/" + std::to_string(size)] = text;
  }
  for (size_t length = 1; length <= 70; ++length)
    contents["names/" + std::string(length, 'n')] = std::to_string(length);
  return contents;
}

ArchiveEntries entries_of(const std::map<std::string, std::string>& contents) {
  ArchiveEntries entries;
  for (const auto& [name, text] : contents) entries[name] = bytes_of(text);
  return entries;
}

std::string small_archive() {
  static const std::map<std::string, std::string> contents = {{"a", "x"}, {"b/c", ""}, {"d", std::string(70, 'd')}};
  return write_archive(entries_of(contents));
}

class Text final : public ByteSource {
 public:
  explicit Text(std::string_view text) : text_(text) {}
  uint64_t bytes() const override { return text_.size(); }
  Result<void> read(uint64_t offset, std::span<std::byte> into) const override {
    const std::string_view part = text_.substr(offset);
    LOW_CHECK(into.size() <= part.size());
    std::ranges::copy(bytes_of(part).first(into.size()), into.begin());
    return {};
  }

 private:
  std::string_view text_;
};

Result<ArchiveIndex> index_of(std::string_view archive) { return read_archive_index(Text(archive), "test"); }

std::string in_file(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Puts the right hash at the end of bytes whose hash is not the matter of the test.
std::string with_hash(std::string archive) {
  const std::string body = archive.substr(0, archive.size() - 85);
  return body + "low-package 1 sha256:" + sha256_hex(bytes_of(body));
}

TEST(Archive, ReadsWhatItWrote) {
  const auto contents = sample_contents();
  const std::string archive = write_archive(entries_of(contents));
  EXPECT_EQ(archive, write_archive(entries_of(contents)));
  const auto parsed = index_of(archive);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), contents.size());
  for (const auto& [name, extent] : *parsed) {
    EXPECT_EQ(archive.substr(extent.offset, extent.bytes), contents.at(name));
    EXPECT_EQ(extent.offset % 64, 0u) << name;
  }
  EXPECT_TRUE(index_of(write_archive({}))->empty());
}

TEST(Archive, LibzipReadsIt) {
  const auto contents = sample_contents();
  const std::string path = in_file("archive_test_libzip.low", write_archive(entries_of(contents)));
  int code = 0;
  zip_t* const zip = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  ASSERT_NE(zip, nullptr) << code;
  EXPECT_EQ(zip_get_num_entries(zip, 0), static_cast<zip_int64_t>(contents.size()));
  zip_uint64_t index = 0;
  for (const auto& [name, text] : contents) {  // in the same order
    zip_stat_t stat;
    ASSERT_EQ(zip_stat_index(zip, index, 0, &stat), 0);
    EXPECT_EQ(stat.name, name);
    EXPECT_EQ(stat.comp_method, ZIP_CM_STORE);
    EXPECT_EQ(stat.size, text.size());
    zip_file_t* const file = zip_fopen_index(zip, index, 0);
    ASSERT_NE(file, nullptr) << zip_strerror(zip);
    std::string seen(text.size() + 1, '\0');
    EXPECT_EQ(zip_fread(file, seen.data(), seen.size()), static_cast<zip_int64_t>(text.size()));
    EXPECT_EQ(zip_fclose(file), 0);  // compares the checksum
    seen.resize(text.size());
    EXPECT_EQ(seen, text);
    ++index;
  }
  zip_discard(zip);
}

TEST(Archive, UnzipTestsIt) {
  if (std::system("command -v unzip > /dev/null 2>&1") != 0) GTEST_SKIP() << "unzip is not installed";
  const std::string path = in_file("archive_test_unzip.low", write_archive(entries_of(sample_contents())));
  EXPECT_EQ(std::system(("unzip -tq '" + path + "' > /dev/null").c_str()), 0);
  // unzip would say so: the first entry's byte is what changed.
  std::string damaged = small_archive();
  damaged[damaged.find('x')] = 'y';
  EXPECT_NE(std::system(("unzip -tq '" + in_file("archive_test_damaged.low", damaged) + "' > /dev/null 2>&1").c_str()),
            0);
}

TEST(Archive, EveryFlippedByteIsRefused) {
  const std::string archive = small_archive();
  ASSERT_TRUE(index_of(archive));
  for (size_t i = 0; i < archive.size(); ++i) {
    for (const int mask : {0x01, 0x20, 0xff}) {
      std::string damaged = archive;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto parsed = index_of(damaged);
      ASSERT_FALSE(parsed) << "byte " << i << " ^ " << mask;
      ASSERT_EQ(parsed.error().kind, ErrorKind::invalid);
    }
  }
}

TEST(Archive, EveryTruncationAndExtensionIsRefused) {
  const std::string archive = small_archive();
  for (size_t size = 0; size < archive.size(); ++size) {
    ASSERT_FALSE(index_of(std::string_view(archive).substr(0, size))) << size;
    ASSERT_FALSE(index_of(std::string_view(archive).substr(archive.size() - size))) << size;
  }
  EXPECT_FALSE(index_of(archive + "x"));
  EXPECT_FALSE(index_of("x" + archive));
}

// The headers hold up by themselves: with the hash put right, only an entry's data and checksum can differ.
TEST(Archive, EveryFlippedHeaderByteIsRefusedUnderTheRightHash) {
  const std::string archive = small_archive();
  const auto original = index_of(archive);
  ASSERT_TRUE(original);
  size_t accepted = 0;
  for (size_t i = 0; i < archive.size() - 85; ++i) {
    for (const int mask : {0x01, 0x20, 0xff}) {
      std::string damaged = archive;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      damaged = with_hash(damaged);
      const auto parsed = index_of(damaged);
      if (!parsed) continue;
      ++accepted;
      const bool in_data = std::any_of(original->begin(), original->end(), [&](const auto& entry) {
        return i >= entry.second.offset && i < entry.second.offset + entry.second.bytes;
      });
      ASSERT_TRUE(in_data) << "byte " << i << " ^ " << mask;
    }
  }
  EXPECT_EQ(accepted, 3u * (1 + 0 + 70));
}

TEST(Archive, HostileNamesAreRefused) {
  const std::string archive = write_archive({{"abcd", {}}});
  for (const std::string_view name : {"/bcd", "../d", "a/..", "a//d", "abc/", "./cd", "a\\cd", "ab\td", "ab\0d"}) {
    std::string hostile = archive;
    for (size_t at = hostile.find("abcd"); at != std::string::npos; at = hostile.find("abcd", at)) {
      hostile.replace(at, 4, std::string(name).append(4, '\0').substr(0, 4));
    }
    EXPECT_FALSE(index_of(with_hash(hostile))) << name;
  }
  // Not in order, and twice.
  const std::string two = write_archive({{"file1", {}}, {"file2", {}}});
  for (const auto& [from, to] : {std::pair{"file1", "file3"}, std::pair{"file1", "file2"}}) {
    std::string hostile = two;
    for (size_t at = hostile.find(from); at != std::string::npos; at = hostile.find(from, at))
      hostile.replace(at, 5, to);
    EXPECT_FALSE(index_of(with_hash(hostile))) << to;
  }
}

}  // namespace
}  // namespace low
