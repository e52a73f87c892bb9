#include "runtime/tensor/tensor_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

namespace low {
namespace {

constexpr int64_t max_file_bytes = max_tensor_bytes + (int64_t{1} << 20);  // and a header
constexpr size_t max_proto_bytes = (size_t{1} << 31) - (size_t{1} << 16);  // and a name

std::string error_text(int code) { return std::generic_category().message(code); }

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// All of `bytes`; 0 or the error.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

std::unexpected<Error> cannot(std::string_view verb, const std::string& path, int code) {
  return fail(ErrorKind::invalid, fmt::format("{}: cannot {} the file: {}", path, verb, error_text(code)));
}

// A new file beside `target`; the name says whose it is and no existing file is touched.
Result<std::pair<int, std::string>> create_beside(const std::string& target) {
  constexpr int attempts = 100;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    std::string path = fmt::format("{}.{}-{}.tmp", target, ::getpid(), attempt);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return std::pair(descriptor, std::move(path));
    if (errno != EEXIST) return cannot("create", target, errno);
  }
  return cannot("create", target, EEXIST);
}

std::string extension_of(const std::string& path) { return std::filesystem::path(path).extension().string(); }

std::unexpected<Error> unknown_extension(const std::string& path) {
  return fail(ErrorKind::usage, fmt::format("{}: expected a name that ends in .npy, .npz, .pb or .bin", path));
}

Result<void> check_booleans(std::span<const std::byte> bytes, const std::string& path) {
  if (std::ranges::any_of(bytes, [](std::byte value) { return std::to_integer<int>(value) > 1; })) {
    return fail(ErrorKind::invalid, fmt::format("{}: a boolean is neither 0 nor 1", path));
  }
  return {};
}

Result<Tensor> tensor_of_bytes(std::span<const std::byte> bytes, const std::string& path, DType dtype,
                               const Shape& shape) {
  if (dtype == DType::boolean) LOW_TRY_VOID(check_booleans(bytes, path));
  return Tensor(dtype, shape, bytes);
}

// `tensor` as what the receiver needs.
Result<Tensor> conform(Tensor tensor, const std::string& path, DType dtype, const Shape& shape) {
  if (tensor.shape() != shape) {
    return fail(ErrorKind::invalid, fmt::format("{}: the tensor has shape {}, expected {}", path,
                                                to_string(tensor.shape()), to_string(shape)));
  }
  if (tensor.dtype() == dtype) return tensor;
  if (!is_unsigned_integer(tensor.dtype()) || byte_size(tensor.dtype()) != byte_size(dtype)) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: the tensor has type {}, expected {}", path, name(tensor.dtype()), name(dtype)));
  }
  return tensor_of_bytes(tensor.bytes(), path, dtype, shape);
}

Result<Tensor> only_member(const AlignedBytes& bytes, const std::string& path) {
  LOW_TRY(auto tensors, parse_npz(bytes, path));
  if (tensors.size() != 1) {
    return fail(ErrorKind::invalid, fmt::format("{}: the archive has {} tensors, expected one", path, tensors.size()));
  }
  return std::move(tensors.begin()->second);
}

bool is_tensor_file(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".npy" || extension == ".npz" || extension == ".pb" || extension == ".bin";
}

// Of a file that is no .bin.
Result<Tensor> parse_tensor(const AlignedBytes& bytes, const std::string& path) {
  const std::string extension = extension_of(path);
  if (extension == ".npz") return only_member(bytes, path);
  if (extension == ".npy") return parse_npy(bytes, path);
  LOW_TRY(NamedTensor named, parse_tensor_proto(bytes, path));
  return std::move(named.tensor);
}

}  // namespace

Result<AlignedBytes> read_file(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer before it is refused.
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return cannot("open", path, errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return cannot("examine", path, errno);
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, fmt::format("{}: not a regular file", path));
  if (status.st_size > max_file_bytes) {
    return fail(ErrorKind::unsupported,
                fmt::format("{}: the file has {} bytes, at most {} are read", path, status.st_size, max_file_bytes));
  }
  try {
    AlignedBytes bytes(static_cast<size_t>(status.st_size));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return cannot("read", path, errno);
      if (got == 0) return fail(ErrorKind::invalid, fmt::format("{}: the file became shorter while it was read", path));
      done += static_cast<size_t>(got);
    }
    return bytes;
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::unsupported, fmt::format("{}: no memory for {} bytes", path, status.st_size));
  }
}

NewFile::NewFile(std::string path, std::string target, std::string temporary, int descriptor)
    : path_(std::move(path)), target_(std::move(target)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<NewFile> NewFile::create(const std::string& path) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return cannot("write", path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {  // a device or a pipe must not be replaced by a file
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return cannot("open", path, errno);
    return NewFile(path, path, "", descriptor);
  }
  std::string target = path;
  if (exists) {  // through symbolic links, which stay
    std::error_code code;
    target = std::filesystem::canonical(path, code).string();
    if (code) return cannot("find", path, code.value());
  }
  LOW_TRY(auto created, create_beside(target));
  return NewFile(path, std::move(target), std::move(created.second), created.first);
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  if (const int code = write_all(descriptor_, bytes)) return cannot("write", path_, code);
  return {};
}

Result<void> NewFile::finish() {
  // A full disk may show only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) return cannot("write", path_, errno);
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return cannot("write", path_, errno);
  temporary_.clear();
  return {};
}

Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) {
  LOW_TRY(NewFile file, NewFile::create(path));
  LOW_TRY_VOID(file.write(bytes));
  return file.finish();
}

Result<std::optional<Shape>> shape_in_file(const std::string& path) {
  if (!is_tensor_file(path)) return unknown_extension(path);
  if (extension_of(path) == ".bin") return std::nullopt;
  LOW_TRY(const AlignedBytes bytes, read_file(path));
  LOW_TRY(const Tensor tensor, parse_tensor(bytes, path));
  return tensor.shape();
}

Result<Tensor> read_tensor(const std::string& path, DType dtype, const Shape& shape) {
  const std::string extension = extension_of(path);
  if (!is_tensor_file(path)) return unknown_extension(path);
  LOW_TRY(const AlignedBytes bytes, read_file(path));
  if (extension == ".bin") {
    const std::optional<int64_t> elements = checked_elements(shape.extents());
    if (!elements || bytes.size() != static_cast<size_t>(*elements) * byte_size(dtype)) {
      return fail(ErrorKind::invalid, fmt::format("{}: the file has {} bytes, which is not what shape {} of {} needs",
                                                  path, bytes.size(), to_string(shape), name(dtype)));
    }
    return tensor_of_bytes(bytes, path, dtype, shape);
  }
  LOW_TRY(Tensor tensor, parse_tensor(bytes, path));
  return conform(std::move(tensor), path, dtype, shape);
}

Result<void> write_tensor(const std::string& path, const std::string& name, const Tensor& tensor) {
  const std::string extension = extension_of(path);
  if (extension == ".bin") return write_file(path, tensor.bytes());
  std::string text;
  if (extension == ".npy") {
    text = serialize_npy(tensor);
  } else if (extension == ".npz") {
    LOW_TRY(text, serialize_npz({{name, tensor}}));
  } else if (extension == ".pb") {
    if (tensor.bytes().size() + name.size() > max_proto_bytes) {
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: a tensor of {} bytes does not fit a protobuf message, write .npy instead", path,
                              tensor.bytes().size()));
    }
    text = serialize_tensor_proto({name, tensor});
  } else {
    return unknown_extension(path);
  }
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace low
