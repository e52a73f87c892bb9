#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "compiler/frontend/test_model.h"

namespace low {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// folder/m.onnx with weights in folder/w.bin; folder/../secret.bin must stay out of reach.
class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    top_ = std::filesystem::path(testing::TempDir()) / (std::string("low_external_") + info->name());
    std::filesystem::remove_all(top_);
    std::filesystem::create_directories(top_ / "model" / "sub");
    write("model/w.bin", {0, 1, 2, 3});
    write("model/sub/v.bin", {7, 8});
    write("secret.bin", {40, 41});
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  void write(const std::string& name, const std::vector<float>& numbers) {
    std::ofstream(top_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(4 * numbers.size()));
  }
  using Entries = std::vector<std::pair<std::string, std::string>>;
  Result<Graph> import_with(const Entries& entries, const Dims& dims = {2}) {
    onnx::ModelProto model = make_model();
    onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    add_output(*model.mutable_graph(), "w");
    return import_test(model, {}, (top_ / "model" / "m.onnx").string());
  }
  std::vector<double> read(const Entries& entries, const Dims& dims = {2}) {
    const auto graph = import_with(entries, dims);
    if (!graph) {
      ADD_FAILURE() << graph.error().message;
      return {};
    }
    const auto outputs = reference::run(*graph, {});
    return outputs ? values((*outputs)[0]) : std::vector<double>();
  }
  std::string refused(const Entries& entries, const Dims& dims = {2}) {
    const auto graph = import_with(entries, dims);
    if (graph) {
      ADD_FAILURE() << "imported";
      return "";
    }
    EXPECT_EQ(graph.error().kind, ErrorKind::invalid) << graph.error().message;
    return graph.error().message;
  }

  std::filesystem::path top_;
};

TEST_F(ExternalData, OffsetsAndFolders) {
  EXPECT_THAT(read({{"location", "w.bin"}}, {4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read({{"location", "w.bin"}, {"offset", "8"}}), ElementsAre(2, 3));
  EXPECT_THAT(read({{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}, {"checksum", "none"}}), ElementsAre(1, 2));
  EXPECT_THAT(read({{"location", "sub/v.bin"}}), ElementsAre(7, 8));
  EXPECT_THAT(read({{"location", "./sub/./v.bin"}}), ElementsAre(7, 8));
  EXPECT_THAT(read({{"location", "w.bin"}, {"offset", "16"}}, {0}), ElementsAre());
}

TEST_F(ExternalData, StaysInTheFolder) {
  EXPECT_THAT(refused({{"location", "../secret.bin"}}), HasSubstr("leads out"));
  EXPECT_THAT(refused({{"location", "sub/../w.bin"}}), HasSubstr("leads out"));
  EXPECT_THAT(refused({{"location", (top_ / "secret.bin").string()}}), HasSubstr("absolute"));
  EXPECT_THAT(refused({{"location", ""}}), HasSubstr("no file name"));
  EXPECT_THAT(refused({}), HasSubstr("no file name"));
  EXPECT_THAT(refused({{"location", std::string("w.bin\0x", 7)}}), HasSubstr("no file name"));
  std::filesystem::create_symlink("../secret.bin", top_ / "model" / "link.bin");
  std::filesystem::create_directory_symlink("..", top_ / "model" / "up");
  EXPECT_THAT(refused({{"location", "link.bin"}}), HasSubstr("leads out"));
  EXPECT_THAT(refused({{"location", "up/secret.bin"}}), HasSubstr("leads out"));
  // A link that stays inside is fine, and so is a folder whose name merely begins like the model's.
  std::filesystem::create_symlink("sub/v.bin", top_ / "model" / "inner.bin");
  EXPECT_THAT(read({{"location", "inner.bin"}}), ElementsAre(7, 8));
  std::filesystem::create_directory(top_ / "model2");
  write("model2/w.bin", {1, 2});
  std::filesystem::create_symlink("../model2/w.bin", top_ / "model" / "neighbour.bin");
  EXPECT_THAT(refused({{"location", "neighbour.bin"}}), HasSubstr("leads out"));
}

TEST_F(ExternalData, SizesAreChecked) {
  EXPECT_THAT(refused({{"location", "w.bin"}}), HasSubstr("holds 16 bytes for this tensor, its shape needs 8"));
  EXPECT_THAT(refused({{"location", "w.bin"}, {"length", "4"}}), HasSubstr("holds 4 bytes"));
  EXPECT_THAT(refused({{"location", "w.bin"}, {"offset", "12"}, {"length", "8"}}),
              HasSubstr("has 16 bytes, 8 from offset 12"));
  EXPECT_THAT(refused({{"location", "w.bin"}, {"offset", "9223372036854775807"}, {"length", "8"}}),
              HasSubstr("16 bytes"));
  for (const char* bad : {"-4", "4x", "", " 4", "99999999999999999999", "0x4"}) {
    EXPECT_THAT(refused({{"location", "w.bin"}, {"offset", bad}}), HasSubstr("a number of bytes is expected")) << bad;
  }
  EXPECT_THAT(refused({{"location", "w.bin"}}, {-1}), HasSubstr("negative"));
  EXPECT_THAT(refused({{"location", "w.bin"}}, {INT64_MAX, 4}), HasSubstr("too large"));
  EXPECT_THAT(refused({{"location", "missing.bin"}}), HasSubstr("no file that can be read"));
  EXPECT_THAT(refused({{"location", "sub"}}), HasSubstr("no file that can be read"));
  ASSERT_EQ(mkfifo((top_ / "model" / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused({{"location", "pipe"}}), HasSubstr("no file that can be read"));
}

}  // namespace
}  // namespace low
