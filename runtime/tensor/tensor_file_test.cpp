#include "runtime/tensor/tensor_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace low {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class TensorFile : public testing::Test {
 protected:
  TensorFile() {
    std::string pattern = (fs::path(testing::TempDir()) / "tensor_file_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TensorFile() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

void expect_error(const Result<Tensor>& result, ErrorKind kind, const std::string& part) {
  ASSERT_FALSE(result) << part;
  EXPECT_EQ(result.error().kind, kind) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(part));
}

TEST_F(TensorFile, EveryFormatAndTypeComesBack) {
  for (const char* name_of_file : {"t.npy", "t.npz", "t.pb", "t.bin"}) {
    for (int i = 0; i < dtype_count; ++i) {
      const auto type = static_cast<DType>(i);
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 5}}) {
        Tensor tensor(type, shape);
        for (int64_t j = 0; j < tensor.elements(); ++j) {
          tensor.set_bits(j, type == DType::boolean ? static_cast<uint64_t>(j % 2) : static_cast<uint64_t>(j * 11));
        }
        const Result<void> written = write_tensor(path(name_of_file), "t", tensor);
        ASSERT_TRUE(written) << written.error().message;
        const auto stated = shape_in_file(path(name_of_file));
        ASSERT_TRUE(stated) << stated.error().message;
        EXPECT_EQ(stated->value_or(shape), shape);
        EXPECT_EQ(stated->has_value(), std::string_view(name_of_file) != "t.bin");
        const Result<Tensor> read = read_tensor(path(name_of_file), type, shape);
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_EQ(*read, tensor) << name_of_file << " " << name(type);
      }
    }
  }
  EXPECT_EQ(files(), 4u);  // nothing temporary is left
}

TEST_F(TensorFile, UnsignedIntegersOfTheSizeAreTakenAsBits) {
  Tensor bits(DType::u8, {2});
  bits.set_bits(0, 0x38);
  bits.set_bits(1, 0x02);
  ASSERT_TRUE(write_tensor(path("t.npy"), "t", bits));
  const Result<Tensor> read = read_tensor(path("t.npy"), DType::f8e4m3fn, {2});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->value(0), 1);
  expect_error(read_tensor(path("t.npy"), DType::f16, {2}), ErrorKind::invalid, "type u8, expected f16");
  expect_error(read_tensor(path("t.npy"), DType::boolean, {2}), ErrorKind::invalid, "neither 0 nor 1");
}

TEST_F(TensorFile, OtherMismatches) {
  ASSERT_TRUE(write_tensor(path("t.npy"), "t", Tensor(DType::i32, {2, 3})));
  expect_error(read_tensor(path("t.npy"), DType::f32, {2, 3}), ErrorKind::invalid, "type i32, expected f32");
  expect_error(read_tensor(path("t.npy"), DType::i32, {3, 2}), ErrorKind::invalid, "shape [2,3], expected [3,2]");
  expect_error(read_tensor(path("t.npy"), DType::i32, {6}), ErrorKind::invalid, "shape [2,3], expected [6]");
  ASSERT_TRUE(write_tensor(path("t.bin"), "t", Tensor(DType::i32, {2, 3})));
  EXPECT_TRUE(read_tensor(path("t.bin"), DType::f64, {3}));  // raw bytes have no type
  expect_error(read_tensor(path("t.bin"), DType::i32, {7}), ErrorKind::invalid, "24 bytes");
  expect_error(read_tensor(path("t.bin"), DType::i32, {-6}), ErrorKind::invalid, "24 bytes");
  expect_error(read_tensor(write("b.bin", "\x07"), DType::boolean, {1}), ErrorKind::invalid, "neither 0 nor 1");
}

TEST_F(TensorFile, ArchivesHaveOneMember) {
  const Result<std::string> two = serialize_npz({{"a", Tensor(DType::u8, {1})}, {"b", Tensor(DType::u8, {1})}});
  ASSERT_TRUE(two);
  expect_error(read_tensor(write("t.npz", *two), DType::u8, {1}), ErrorKind::invalid, "2 tensors, expected one");
}

TEST_F(TensorFile, Names) {
  expect_error(read_tensor(write("t.txt", ""), DType::u8, {1}), ErrorKind::usage, ".npy, .npz, .pb or .bin");
  expect_error(read_tensor(path("absent.npy"), DType::u8, {1}), ErrorKind::invalid, "absent.npy: cannot open");
  fs::create_directory(path("folder.npy"));
  expect_error(read_tensor(path("folder.npy"), DType::u8, {1}), ErrorKind::invalid, "not a regular file");
  EXPECT_FALSE(write_tensor(path("t"), "t", Tensor(DType::u8, {1})));
  EXPECT_FALSE(write_tensor(path("absent/t.npy"), "t", Tensor(DType::u8, {1})));
  EXPECT_FALSE(write_tensor(path("folder.npy"), "t", Tensor(DType::u8, {1})));
}

TEST_F(TensorFile, APipeIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path("pipe.npy").c_str(), 0600), 0);
  expect_error(read_tensor(path("pipe.npy"), DType::u8, {1}), ErrorKind::invalid, "not a regular file");
}

TEST_F(TensorFile, WritingReplacesWholeFiles) {
  const std::string file = write("x", "a longer old content");
  ASSERT_TRUE(write_file(file, bytes_of("new")));
  const Result<AlignedBytes> read = read_file(file);
  ASSERT_TRUE(read);
  EXPECT_TRUE(std::ranges::equal(*read, bytes_of("new")));
  EXPECT_EQ(files(), 1u);
}

TEST_F(TensorFile, WritingKeepsLinksAndDevices) {
  write("target", "old");
  fs::create_symlink("target", path("link"));
  ASSERT_TRUE(write_file(path("link"), bytes_of("new")));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(fs::file_size(path("target")), 3u);
  EXPECT_TRUE(std::ranges::equal(*read_file(path("target")), bytes_of("new")));
  ASSERT_TRUE(write_file("/dev/null", bytes_of("new")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(TensorFile, AFailedWriteKeepsTheOldFile) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Result<void> full = write_file("/dev/full", bytes_of("new"));
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, HasSubstr("/dev/full: cannot write"));
  // A limit on the size of files makes the write of the temporary file fail halfway.
  const std::string file = write("x", "old");
  const auto child = [&] {
    struct rlimit limit{10, 10};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Result<void> result = write_file(file, bytes_of(std::string(100, 'x')));
    ::_exit(result ? 0 : 3);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(3), "");
  EXPECT_TRUE(std::ranges::equal(*read_file(file), bytes_of("old")));
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace low
