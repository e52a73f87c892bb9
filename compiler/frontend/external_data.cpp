// Constants of the model, in the model's file or beside it.
//
// A model is data from anywhere, so the files that it names must lie inside its own folder: no absolute path, no "..",
// and no symbolic link that leads out.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "compiler/frontend/importer.h"
#include "onnx.pb.h"
#include "runtime/tensor/tensor_file.h"
#include "runtime/tensor/tensor_proto.h"

namespace low {
namespace {

class File {
 public:
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct Location {
  std::string path;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

Result<int64_t> parse_size(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return fail(ErrorKind::invalid,
                fmt::format("external data's {} is {}, a number of bytes is expected", key, in_quotes(text)));
  }
  return value;
}

Result<Location> parse_location(const onnx::TensorProto& proto) {
  Location location;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      location.path = entry.value();
    } else if (entry.key() == "offset") {
      LOW_TRY(location.offset, parse_size("offset", entry.value()));
    } else if (entry.key() == "length") {
      LOW_TRY(location.length, parse_size("length", entry.value()));
    }  // a checksum and other keys say nothing about where the data is
  }
  return location;
}

// The file's canonical path.
Result<std::string> contained_path(const std::string& folder, const std::string& location) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("external data {} {}", in_quotes(location), why));
  };
  const std::filesystem::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos) return refuse("is no file name");
  if (relative.is_absolute()) return refuse("is an absolute path");
  if (std::ranges::find(relative, "..") != relative.end()) return refuse("leads out of the model's folder");
  std::error_code error;
  const std::filesystem::path base = std::filesystem::weakly_canonical(folder.empty() ? "." : folder, error);
  if (error) return refuse("cannot be looked for: " + error.message());
  const std::filesystem::path full = std::filesystem::weakly_canonical(base / relative, error);
  if (error) return refuse("cannot be looked for: " + error.message());
  if (std::ranges::mismatch(base, full).in1 != base.end()) return refuse("leads out of the model's folder");
  return full.string();
}

// Just the tensor's bytes.
Result<AlignedBytes> read_external(const ModelContext& model, const onnx::TensorProto& proto) {
  LOW_TRY(const Location location, parse_location(proto));
  LOW_TRY(const std::string path, contained_path(model.folder, location.path));
  const auto dtype = dtype_from_onnx(proto.data_type());
  if (!dtype) {
    return fail(ErrorKind::unsupported,
                fmt::format("data type {} is not supported", onnx_data_type_name(proto.data_type())));
  }
  const auto elements = checked_elements(std::span(proto.dims().data(), static_cast<size_t>(proto.dims_size())));
  if (!elements || *elements > max_tensor_bytes / static_cast<int64_t>(byte_size(*dtype))) {
    return fail(ErrorKind::invalid, fmt::format("shape [{}] is negative or too large", fmt::join(proto.dims(), ",")));
  }
  const int64_t bytes = *elements * static_cast<int64_t>(byte_size(*dtype));

  const File file(path.c_str());
  struct stat status = {};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid,
                fmt::format("external data {} is no file that can be read", in_quotes(location.path)));
  }
  const int64_t available = std::max<int64_t>(0, int64_t{status.st_size} - location.offset);
  const int64_t length = location.length.value_or(available);
  if (length > available) {
    return fail(ErrorKind::invalid, fmt::format("external data {} has {} bytes, {} from offset {} are needed",
                                                in_quotes(location.path), status.st_size, length, location.offset));
  }
  if (length != bytes) {
    return fail(ErrorKind::invalid, fmt::format("external data {} holds {} bytes for this tensor, its shape needs {}",
                                                in_quotes(location.path), length, bytes));
  }
  AlignedBytes data(static_cast<size_t>(bytes));
  for (size_t done = 0; done < data.size();) {
    const ssize_t n = pread(file.descriptor(), data.data() + done, data.size() - done,
                            static_cast<off_t>(location.offset + static_cast<int64_t>(done)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return fail(ErrorKind::invalid, fmt::format("external data {} cannot be read", in_quotes(location.path)));
    done += static_cast<size_t>(n);
  }
  return data;
}

}  // namespace

Result<Tensor> load_tensor(ModelContext& model, const onnx::TensorProto& proto, std::string_view what,
                           std::span<const std::byte> raw_data) {
  AlignedBytes external;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    auto read = read_external(model, proto);
    if (!read) return in_context(what, read.error());
    external = std::move(*read);
  }
  LOW_TRY(Tensor tensor, tensor_from_proto(proto, what, {.external = external, .raw = raw_data}));
  if (model.calls > 0) {
    model.function_bytes += static_cast<int64_t>(tensor.bytes().size());
    if (model.function_bytes > max_function_bytes) {
      return fail(ErrorKind::unsupported,
                  fmt::format("the constants of all function calls exceed {} bytes", max_function_bytes));
    }
  }
  return tensor;
}

}  // namespace low
