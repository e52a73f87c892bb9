#include "compiler/workload/linear.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "onnx.pb.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/random_tensor.h"

namespace low {
namespace {

// Everything is integer arithmetic, +, *, / and sqrt, which IEEE 754 defines to the last bit: no libm.

// The i-th number of a stream depends on nothing but (stream, block, i).
class Random {
 public:
  Random(uint64_t stream, int block) : seed_(splitmix64(stream << 32 | static_cast<uint32_t>(block))) {}
  // The sum of eight random bytes: 0 to 2040, nearly normal.
  uint32_t byte_sum(int64_t i) const {
    uint64_t bits = splitmix64(seed_ + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15);
    bits = (bits & 0x00ff00ff00ff00ff) + ((bits >> 8) & 0x00ff00ff00ff00ff);
    bits = (bits & 0x0000ffff0000ffff) + ((bits >> 16) & 0x0000ffff0000ffff);
    return static_cast<uint32_t>(bits) + static_cast<uint32_t>(bits >> 32);
  }

 private:
  uint64_t seed_;
};

constexpr uint32_t byte_sums = 8 * 255 + 1;

// A byte sum as a number of mean 0 and variance 1: the variance of one byte is (256^2 - 1) / 12.
double normal(uint32_t byte_sum) { return (static_cast<double>(byte_sum) - 8 * 127.5) / std::sqrt(8 * 65535.0 / 12); }

// Quantized weights hold the normal number times this: in FP8 at most 4.9 * 16 = 78 of 448, which leaves room for one
// wrong weight to stand out, in i8 at most 4.9 * 20 = 98 of 127.
double weight_unit(Numbers numbers) { return numbers == Numbers::i8 ? 20 : 16; }

// Such a weight.
char weight_code(Numbers numbers, double value) {
  if (numbers == Numbers::fp8) return static_cast<char>(encode(DType::f8e4m3fn, value, Overflow::saturate));
  return static_cast<char>(static_cast<int>(value < 0 ? value - 0.5 : value + 0.5));
}

// What weights of output channel `n` are multiplied with: channels differ by up to 25 percent.
double channel_deviation(const Linear& linear, int block, int64_t n) {
  const double factor = 1 + 0.0625 * normal(Random(linear.channel, block).byte_sum(n));
  return factor * linear.gain / std::sqrt(static_cast<double>(linear.inputs));
}

}  // namespace

bool is_quantized(Numbers numbers) { return numbers == Numbers::fp8 || numbers == Numbers::i8; }

int data_type(Numbers numbers) {
  return numbers == Numbers::f16 ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::FLOAT;
}
int weight_type(Numbers numbers) {
  return numbers == Numbers::fp8  ? onnx::TensorProto::FLOAT8E4M3FN
         : numbers == Numbers::i8 ? onnx::TensorProto::INT8
                                  : data_type(numbers);
}

// Of an element, f16 or f32, in its low bytes.
uint32_t bits_of(double value, Numbers numbers) {
  if (numbers == Numbers::f16) return static_cast<uint32_t>(encode(DType::f16, value, Overflow::propagate));
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

void append_number(std::string& raw, double value, Numbers numbers) {
  const uint32_t bits = bits_of(value, numbers);
  raw.append(reinterpret_cast<const char*>(&bits), numbers == Numbers::f16 ? sizeof(uint16_t) : sizeof bits);
}

// [inputs, outputs], row-major.
void append_weight(std::string& raw, const Linear& linear, int block, Numbers numbers) {
  const Random random(linear.weight, block);
  const int64_t count = linear.inputs * linear.outputs;
  if (is_quantized(numbers)) {
    std::array<char, byte_sums> codes{};
    for (uint32_t i = 0; i < byte_sums; ++i) codes[i] = weight_code(numbers, weight_unit(numbers) * normal(i));
    const size_t begin = raw.size();
    raw.resize(begin + static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) raw[begin + static_cast<size_t>(i)] = codes[random.byte_sum(i)];
    return;
  }
  std::vector<double> deviation;
  for (int64_t n = 0; n < linear.outputs; ++n) deviation.push_back(channel_deviation(linear, block, n));
  std::array<double, byte_sums> normals{};
  for (uint32_t i = 0; i < byte_sums; ++i) normals[i] = normal(i);
  const size_t size = numbers == Numbers::f16 ? sizeof(uint16_t) : sizeof(float);
  size_t at = raw.size();
  raw.resize(at + static_cast<size_t>(count) * size);
  for (int64_t k = 0; k < linear.inputs; ++k) {
    for (int64_t n = 0; n < linear.outputs; ++n, at += size) {
      const double value = normals[random.byte_sum(k * linear.outputs + n)] * deviation[static_cast<size_t>(n)];
      const uint32_t bits = bits_of(value, numbers);
      std::memcpy(&raw[at], &bits, size);
    }
  }
}

void append_scale(std::string& raw, const Linear& linear, int block, Numbers numbers) {
  for (int64_t n = 0; n < linear.outputs; ++n) {
    append_number(raw, channel_deviation(linear, block, n) / weight_unit(numbers));
  }
}

void append_bias(std::string& raw, const Linear& linear, int block, Numbers numbers) {
  const Random random(linear.bias, block);
  for (int64_t n = 0; n < linear.outputs; ++n) {
    const double number = normal(random.byte_sum(n));
    const double magnitude = linear.bias_size.floor + (1 - linear.bias_size.floor) * std::abs(number);
    append_number(raw, linear.bias_size.scale * (number < 0 ? -magnitude : magnitude), numbers);
  }
}

}  // namespace low
