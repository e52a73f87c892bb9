#include "runtime/format/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace low {
namespace {

using testing::HasSubstr;

struct Parts {
  Manifest manifest;
  Program program;
  std::map<std::string, std::string> files;  // besides these two

  std::string archive() const {
    std::map<std::string, std::string> all = files;
    all.emplace("manifest.json", serialize(manifest));
    all.emplace("variants/host/program.bin", serialize(program));
    ArchiveEntries entries;
    for (const auto& [name, text] : all) {
      if (text != "absent") entries[name] = std::as_bytes(std::span(text));
    }
    return write_archive(entries);
  }
};

Parts sample() {
  Parts parts;
  parts.manifest.variants = {{"host", {{"host-x86-64-v3", "variants/host/kernels/host-x86-64-v3.so", 0, {}}}}};
  parts.program.machine = "host";
  parts.program.tiles = 3;
  parts.files["variants/host/kernels/host-x86-64-v3.so"] = "code";
  return parts;
}

std::string in_file(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

void check(const Package& package) {
  EXPECT_EQ(package.manifest(), sample().manifest);
  EXPECT_EQ(package.entries().size(), 3u);
  const auto code = package.entry("variants/host/kernels/host-x86-64-v3.so");
  ASSERT_TRUE(code);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(code->data()), code->size()), "code");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(code->data()) % 64, 0u);
  const auto program = package.program(package.manifest().variants[0]);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->tiles, 3u);
  const auto missing = package.entry("parameters/x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::invalid);
  EXPECT_THAT(missing.error().message, HasSubstr("no entry 'parameters/x'"));
}

TEST(Package, FromBytesAndFromFile) {
  const auto from_bytes = Package::from_bytes(sample().archive(), "test");
  ASSERT_TRUE(from_bytes) << from_bytes.error().message;
  check(**from_bytes);
  const std::string path = in_file("package_test.low", sample().archive());
  auto from_file = Package::open(path);
  ASSERT_TRUE(from_file) << from_file.error().message;
  std::filesystem::remove(path);  // it stays open
  check(**from_file);
}

// At any byte, while it is open: what is behind it cannot be read, and what is in front of it can.
TEST(Package, AFileThatIsCutOffWhileItIsOpen) {
  Parts parts = sample();
  parts.files["parameters/p"] = std::string(100000, 'p');
  const std::string path = in_file("package_test_cut.low", parts.archive());
  const auto package = Package::open(path);
  ASSERT_TRUE(package) << package.error().message;
  const ArchiveExtent extent = *(*package)->extent("parameters/p");
  std::filesystem::resize_file(path, extent.offset + 50000);
  AlignedBytes half(50000);
  EXPECT_TRUE((*package)->read("parameters/p", 0, half));
  const auto all = (*package)->entry("parameters/p");
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().kind, ErrorKind::invalid);
  EXPECT_THAT(all.error().message, testing::StartsWith(path + ": was cut off while it was read"));
  EXPECT_FALSE((*package)->program((*package)->manifest().variants[0]));  // it comes behind the parameters
}

TEST(Package, FilesThatAreNone) {
  const std::string damaged_path = in_file("package_test_damaged.low", sample().archive().replace(100, 1, "?"));
  for (const auto& [path, message] : std::map<std::string, std::string>{
           {testing::TempDir() + "package_test_absent.low", "No such file"},
           {testing::TempDir(), "not a regular file"},
           {"/dev/null", "not a regular file"},
           {in_file("package_test_empty.low", ""), "is empty"},
           {in_file("package_test_text.low", std::string(1000, 't')), "is not a low package"},
           {in_file("package_test_short.low", "PK"), "is not a low package"},
           {damaged_path, "is damaged"},
           {in_file("package_test_cut_before.low", sample().archive().substr(0, 700)), "is not a low package"},
       }) {
    const auto package = Package::open(path);
    ASSERT_FALSE(package) << path;
    EXPECT_EQ(package.error().kind, ErrorKind::invalid);
    EXPECT_THAT(package.error().message, HasSubstr(path));
    EXPECT_THAT(package.error().message, HasSubstr(message));
  }
}

TEST(Package, AnotherVersion) {
  std::string archive = sample().archive();
  archive[archive.size() - 85 + std::string_view("low-package ").size()] = '2';
  const auto package = Package::from_bytes(archive, "test");
  ASSERT_FALSE(package);
  EXPECT_THAT(package.error().message, HasSubstr("another version"));
}

TEST(Package, PartsThatDoNotFit) {
  Parts no_manifest = sample();
  no_manifest.files["manifest.json"] = "absent";
  EXPECT_THAT(Package::from_bytes(no_manifest.archive(), "test").error().message,
              HasSubstr("no entry 'manifest.json'"));
  Parts no_program = sample();
  no_program.files["variants/host/program.bin"] = "absent";
  EXPECT_THAT(Package::from_bytes(no_program.archive(), "test").error().message, HasSubstr("program.bin"));
  Parts no_code = sample();
  no_code.files.clear();
  EXPECT_THAT(Package::from_bytes(no_code.archive(), "test").error().message, HasSubstr("host-x86-64-v3.so"));

  Parts other_machine = sample();
  other_machine.program.machine = "mi300x";
  const auto package = Package::from_bytes(other_machine.archive(), "test");
  ASSERT_TRUE(package);
  const auto program = (*package)->program((*package)->manifest().variants[0]);
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("is for machine 'mi300x'"));
}

}  // namespace
}  // namespace low
