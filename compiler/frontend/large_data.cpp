#include "compiler/frontend/large_data.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>

#include "onnx.pb.h"

namespace low {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// The fields, each of the message that the one before holds, that lead to the data.
constexpr int path[] = {onnx::ModelProto::kGraphFieldNumber, onnx::GraphProto::kInitializerFieldNumber,
                        onnx::TensorProto::kRawDataFieldNumber};
constexpr size_t tensor_level = 1, data_level = 2;

void append(std::string& out, std::span<const std::byte> bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}
void append_number(std::string& out, uint32_t number) {
  uint8_t bytes[5];
  const uint8_t* const end = CodedOutputStream::WriteVarint32ToArray(number, bytes);
  append(out, std::as_bytes(std::span(static_cast<const uint8_t*>(bytes), end)));
}

class Cutter {
 public:
  explicit Cutter(size_t least_bytes) : least_bytes_(least_bytes) {}

  // Appends the message, whose field path[level] is the one to look at, to `out`.
  bool cut(std::span<const std::byte> message, size_t level, std::string& out) {
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
    while (true) {
      const auto begin = static_cast<size_t>(stream.CurrentPosition());
      if (begin == message.size()) return true;
      const uint32_t tag = stream.ReadTag();
      if (tag == 0) return false;
      if (WireFormatLite::GetTagFieldNumber(tag) == path[level] &&
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        uint32_t length = 0;
        if (!stream.ReadVarint32(&length)) return false;
        const auto at = static_cast<size_t>(stream.CurrentPosition());
        if (length > message.size() - at || !stream.Skip(static_cast<int>(length))) return false;
        append_number(out, tag);
        if (!cut_field(message.subspan(at, length), level, out)) return false;
      } else {
        if (!WireFormatLite::SkipField(&stream, tag)) return false;
        append(out, message.subspan(begin, static_cast<size_t>(stream.CurrentPosition()) - begin));
      }
    }
  }

  std::vector<std::span<const std::byte>> take() { return std::move(raw_data_); }

 private:
  // Length and content of path[level].
  bool cut_field(std::span<const std::byte> content, size_t level, std::string& out) {
    if (level == data_level) {
      // The last one counts, where there are several.
      const bool large = content.size() >= least_bytes_;
      raw_data_.back() = large ? content : std::span<const std::byte>();
      append_number(out, large ? 0 : static_cast<uint32_t>(content.size()));
      if (!large) append(out, content);
      return true;
    }
    if (level == tensor_level) raw_data_.emplace_back();
    std::string rest;
    if (!cut(content, level + 1, rest)) return false;
    append_number(out, static_cast<uint32_t>(rest.size()));
    out += rest;
    return true;
  }

  size_t least_bytes_;
  std::vector<std::span<const std::byte>> raw_data_;
};

}  // namespace

std::optional<CutModel> cut_large_data(std::span<const std::byte> bytes, size_t least_bytes) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return std::nullopt;
  Cutter cutter(least_bytes);
  CutModel model;
  if (!cutter.cut(bytes, 0, model.message)) return std::nullopt;
  model.raw_data = cutter.take();
  return model;
}

}  // namespace low
