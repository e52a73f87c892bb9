#include "compiler/frontend/large_data.h"

#include <gtest/gtest.h>

#include "compiler/workload/workload.h"
#include "onnx.pb.h"

namespace low {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The model with its data back in.
std::optional<std::string> restored(const std::optional<CutModel>& cut) {
  onnx::ModelProto model;
  if (!cut || !model.ParseFromString(cut->message)) return std::nullopt;
  EXPECT_EQ(cut->raw_data.size(), static_cast<size_t>(model.graph().initializer_size()));
  for (size_t i = 0; i < cut->raw_data.size(); ++i) {
    onnx::TensorProto& tensor = *model.mutable_graph()->mutable_initializer(static_cast<int>(i));
    if (cut->raw_data[i].empty()) continue;
    EXPECT_TRUE(tensor.raw_data().empty());
    tensor.set_raw_data(text_of(cut->raw_data[i]));
  }
  return model.SerializeAsString();
}
std::optional<std::string> parsed(const std::string& text) {
  onnx::ModelProto model;
  return model.ParseFromString(text) ? std::optional(model.SerializeAsString()) : std::nullopt;
}

std::string tiny_model() { return *make_workload("tiny-mlp-b2-repeat3", {}); }

TEST(LargeData, IsCutOutOfInitializersAlone) {
  const std::string model = tiny_model();
  const std::optional<CutModel> none = cut_large_data(bytes_of(model));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->message, model);
  const std::optional<CutModel> all = cut_large_data(bytes_of(model), 1);
  ASSERT_TRUE(all);
  EXPECT_LT(all->message.size(), model.size() - 3 * 2 * 24 * 40);
  EXPECT_EQ(restored(all), model);
}

// Any beginning of a model, and any model with a byte changed, is a message after the cut if it was one before, and the
// same one.
TEST(LargeData, DamagedModelsStayDamaged) {
  const std::string model = tiny_model();
  size_t damaged = 0;
  for (size_t i = 0; i < model.size(); i += 7) {
    for (const bool changed : {false, true}) {
      std::string text = model.substr(0, changed ? model.size() : i);
      if (changed) text[i] = static_cast<char>(text[i] ^ (1 << i % 8));
      const std::optional<std::string> expected = parsed(text), got = restored(cut_large_data(bytes_of(text), 1));
      EXPECT_EQ(got, expected) << i << changed;
      damaged += expected ? 0 : 1;
    }
  }
  EXPECT_GT(damaged, 100u);
}

// Messages that protobuf merges: two graphs, and a tensor whose data is said several times, the last of which counts.
TEST(LargeData, OfMergedMessages) {
  const auto field = [](int number, const std::string& content) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} + content;
  };
  const std::string first = field(5, field(9, "0123456789") + field(9, "ab")), second = field(5, field(9, "c")),
                    third = field(5, field(9, "d") + field(9, "9876543210"));
  const std::string model = field(7, first + second) + field(7, third);
  const std::optional<CutModel> cut = cut_large_data(bytes_of(model), 4);
  ASSERT_TRUE(cut);
  ASSERT_EQ(cut->raw_data.size(), 3u);
  EXPECT_TRUE(cut->raw_data[0].empty() && cut->raw_data[1].empty());
  EXPECT_EQ(text_of(cut->raw_data[2]), "9876543210");
  EXPECT_EQ(restored(cut), parsed(model));
}

}  // namespace
}  // namespace low
