#include "runtime/tensor/tensor.h"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "runtime/base/error.h"
#include "runtime/tensor/clamp.h"

namespace low {

static_assert(std::endian::native == std::endian::little, "tensor bytes are little-endian");

namespace {
constexpr size_t huge_page = size_t{2} << 20;
// Rounding up to whole huge pages may waste one of so many.
std::align_val_t alignment_for(size_t bytes) { return std::align_val_t{bytes >= 4 * huge_page ? huge_page : 64}; }
}  // namespace

void* allocate_aligned(size_t bytes) {
  const std::align_val_t boundary = alignment_for(bytes);
  void* const allocated = ::operator new(bytes, boundary);
  // Of whole huge pages only: what lies behind them belongs to others. Advice, so a failure changes nothing.
  if (boundary == std::align_val_t{huge_page}) ::madvise(allocated, bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return allocated;
}

void free_aligned(void* allocated, size_t bytes) { ::operator delete(allocated, alignment_for(bytes)); }

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype), shape_(shape), bytes_(static_cast<size_t>(shape.elements()) * byte_size(dtype)) {
  if (!bytes_.empty()) std::memset(bytes_.data(), 0, bytes_.size());
}

Tensor::Tensor(DType dtype, const Shape& shape, std::span<const std::byte> bytes)
    : dtype_(dtype), shape_(shape), bytes_(bytes.size()) {
  LOW_CHECK(bytes.size() == static_cast<size_t>(shape.elements()) * byte_size(dtype));
  if (!bytes.empty()) std::memcpy(bytes_.data(), bytes.data(), bytes.size());
}

uint64_t Tensor::bits(int64_t index) const {
  const size_t size = byte_size(dtype_);
  LOW_CHECK(index >= 0 && static_cast<size_t>(index) < bytes_.size() / size);
  uint64_t result = 0;
  std::memcpy(&result, bytes_.data() + static_cast<size_t>(index) * size, size);
  return result;
}

void Tensor::set_bits(int64_t index, uint64_t bits) {
  const size_t size = byte_size(dtype_);
  LOW_CHECK(index >= 0 && static_cast<size_t>(index) < bytes_.size() / size);
  std::memcpy(bytes_.data() + static_cast<size_t>(index) * size, &bits, size);
}

double Tensor::value(int64_t index) const {
  if (is_float(dtype_)) return decode(dtype_, bits(index));
  if (dtype_ == DType::u64) return static_cast<double>(bits(index));
  return static_cast<double>(integer(index));
}

void Tensor::set_value(int64_t index, double value) {
  if (is_float(dtype_)) return set_bits(index, encode(dtype_, value, Overflow::saturate));
  switch (dtype_) {
    case DType::i8:
      return set_bits(index, static_cast<uint64_t>(truncate_and_clamp<int8_t>(value)));
    case DType::i16:
      return set_bits(index, static_cast<uint64_t>(truncate_and_clamp<int16_t>(value)));
    case DType::i32:
      return set_bits(index, static_cast<uint64_t>(truncate_and_clamp<int32_t>(value)));
    case DType::i64:
      return set_bits(index, static_cast<uint64_t>(truncate_and_clamp<int64_t>(value)));
    case DType::u8:
      return set_bits(index, truncate_and_clamp<uint8_t>(value));
    case DType::u16:
      return set_bits(index, truncate_and_clamp<uint16_t>(value));
    case DType::u32:
      return set_bits(index, truncate_and_clamp<uint32_t>(value));
    case DType::u64:
      return set_bits(index, truncate_and_clamp<uint64_t>(value));
    default:
      return set_bits(index, value != 0 ? 1 : 0);
  }
}

int64_t Tensor::integer(int64_t index) const {
  LOW_CHECK(!is_float(dtype_));
  const uint64_t raw = bits(index);
  switch (dtype_) {
    case DType::i8:
      return static_cast<int8_t>(raw);
    case DType::i16:
      return static_cast<int16_t>(raw);
    case DType::i32:
      return static_cast<int32_t>(raw);
    default:
      return static_cast<int64_t>(raw);
  }
}

bool Tensor::operator==(const Tensor& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ && bytes_ == other.bytes_;
}

}  // namespace low
