// Reading and writing tensors: .npy (NumPy format 1.0 to 3.0), .npz (ZIP of .npy), .pb (ONNX TensorProto), .bin (raw
// bytes). All integers are little-endian. Readers check every length against the bytes at hand and refuse with
// ErrorKind::invalid (malformed) or ErrorKind::unsupported (a dtype or order we do not have); no file can make them
// allocate more than max_tensor_bytes nor more than a small multiple of the file's size.
// NumPy has no FP8 and no bf16, and files of the ml_dtypes package do not tell them apart ('V1', 'V2' or 'f1'): we
// write the unsigned integer of the same size, '|u1' or '<u2', read theirs as such too, and read_tensor takes it for
// the expected dtype.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/tensor/tensor.h"

namespace low {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Whole file; ErrorKind::invalid naming the path when it cannot be opened or read.
Result<AlignedBytes> read_file(const std::string& path);
// Writes beside the path and renames, so that a failed write loses nothing.
Result<void> write_file(const std::string& path, std::span<const std::byte> bytes);

// The same in parts. What is not finished leaves nothing behind; a device or a pipe is written at once.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  Result<void> write(std::span<const std::byte> bytes);
  Result<void> finish();  // once, as the last call

 private:
  NewFile(std::string path, std::string target, std::string temporary, int descriptor);
  std::string path_, target_;  // as it was named, and where that is
  std::string temporary_;      // "" where nothing is renamed
  int descriptor_;
};

// `what` names the source in messages.
Result<Tensor> parse_npy(std::span<const std::byte> bytes, std::string_view what);
std::string serialize_npy(const Tensor& tensor);
Result<std::map<std::string, Tensor>> parse_npz(std::span<const std::byte> bytes, std::string_view what);
Result<std::string> serialize_npz(const std::map<std::string, Tensor>& tensors);
Result<NamedTensor> parse_tensor_proto(std::span<const std::byte> bytes, std::string_view what);
std::string serialize_tensor_proto(const NamedTensor& tensor);

// By extension (.npy, .npz with one member, .pb, .bin). `dtype` and `shape` are what the receiver needs: a .bin must
// have just these bytes; for the others a tensor of the same size unsigned integers is taken as `dtype`, anything else
// must match.
Result<Tensor> read_tensor(const std::string& path, DType dtype, const Shape& shape);
// The shape of the tensor in such a file; nothing for a .bin, which does not say.
Result<std::optional<Shape>> shape_in_file(const std::string& path);
Result<void> write_tensor(const std::string& path, const std::string& name, const Tensor& tensor);

}  // namespace low
