#include <algorithm>
#include <array>

#include "reference/expr.h"
#include "reference/operations.h"
#include "reference/walk.h"

namespace low::reference {
namespace {

// The two matrix axes of a batched operand, as stored.
struct Matrix {
  int64_t rows;
  int64_t columns;
};
Matrix matrix_of(const Shape& shape) { return {shape[shape.rank() - 2], shape[shape.rank() - 1]}; }
Shape batch_of(const Shape& shape) { return Shape(shape.extents().first(static_cast<size_t>(shape.rank() - 2))); }

// Converts an element's bits to T: a double, or an integer modulo 2^64.
template <typename T>
T decode_to(DType type, uint64_t bits) {
  const Scalar scalar = decode_scalar(type, bits);
  if constexpr (std::is_same_v<T, double>) {
    return convert(scalar, type, DType::f64, Overflow::propagate).real;
  } else {
    return scalar.integer;
  }
}

// All elements, each matrix transposed if asked.
template <typename T>
std::vector<T> decode_matrices(const Tensor& tensor, bool transposed, ThreadPool* pool) {
  std::array<T, 256> table{};
  const bool small = byte_size(tensor.dtype()) == 1;
  for (uint64_t bits = 0; small && bits < table.size(); ++bits) table[bits] = decode_to<T>(tensor.dtype(), bits);

  std::vector<T> result(static_cast<size_t>(tensor.elements()));
  Shape shape = tensor.shape();
  Strides strides = shape.row_major_strides();
  if (transposed) {
    const int last = shape.rank() - 1;
    std::swap(shape[last], shape[last - 1]);
    std::swap(strides[last], strides[last - 1]);
  }
  for_parts(pool, tensor.elements(), [&](int64_t begin, int64_t end) {
    Walk walk(shape, {strides}, begin);
    for (int64_t i = begin; i < end; ++i, walk.next()) {
      const uint64_t bits = tensor.bits(walk.offset(0));
      result[static_cast<size_t>(i)] = small ? table[bits] : decode_to<T>(tensor.dtype(), bits);
    }
  });
  return result;
}

constexpr int64_t row_block = 32;
constexpr int64_t column_block = 512;  // with depth_block, 256 KiB of b: stays in the second cache
constexpr int64_t depth_block = 64;

// c[rows, n] += a[rows, k] * b[k, n], all row-major; for each element of c the products are added in the order of k.
// Two rows and four steps of k at a time only save loads and stores of c.
template <typename T>
[[gnu::always_inline]] inline void multiply_generic(const T* a, const T* b, T* c, int64_t rows, int64_t k, int64_t n) {
  const auto add_product = [](const T* a_row, const T* b_row, T* c_row, int64_t width) {
    const T a0 = *a_row;
    for (int64_t j = 0; j < width; ++j) c_row[j] += a0 * b_row[j];
  };
  for (int64_t j0 = 0; j0 < n; j0 += column_block) {
    const int64_t width = std::min(column_block, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += depth_block) {
      const int64_t p1 = std::min(k, p0 + depth_block);
      for (int64_t i = 0; i < rows; i += 2) {
        int64_t p = p0;
        for (; i + 1 < rows && p + 4 <= p1; p += 4) {
          const T* const a0 = a + i * k + p;
          const T* const a1 = a0 + k;
          const T* const b0 = b + p * n + j0;
          const T* const b1 = b0 + n;
          const T* const b2 = b1 + n;
          const T* const b3 = b2 + n;
          T* const __restrict c0 = c + i * n + j0;
          T* const __restrict c1 = c0 + n;
          const T a00 = a0[0], a01 = a0[1], a02 = a0[2], a03 = a0[3];
          const T a10 = a1[0], a11 = a1[1], a12 = a1[2], a13 = a1[3];
          for (int64_t j = 0; j < width; ++j) {
            c0[j] = (((c0[j] + a00 * b0[j]) + a01 * b1[j]) + a02 * b2[j]) + a03 * b3[j];
            c1[j] = (((c1[j] + a10 * b0[j]) + a11 * b1[j]) + a12 * b2[j]) + a13 * b3[j];
          }
        }
        for (; p < p1; ++p) {
          for (int64_t row = i; row < std::min(rows, i + 2); ++row) {
            add_product(a + row * k + p, b + p * n + j0, c + row * n + j0, width);
          }
        }
      }
    }
  }
}

template <typename T>
void multiply_baseline(const T* a, const T* b, T* c, int64_t rows, int64_t k, int64_t n) {
  multiply_generic(a, b, c, rows, k, n);
}
#if defined(__x86_64__)
// The same arithmetic in wider registers (nothing is contracted, so the same bits).
template <typename T>
[[gnu::target("avx2")]] void multiply_avx2(const T* a, const T* b, T* c, int64_t rows, int64_t k, int64_t n) {
  multiply_generic(a, b, c, rows, k, n);
}
#endif

template <typename T>
void multiply(const T* a, const T* b, T* c, int64_t rows, int64_t k, int64_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return multiply_avx2(a, b, c, rows, k, n);
#endif
  multiply_baseline(a, b, c, rows, k, n);
}

// The accumulators of the whole result, [batch…, m, n].
template <typename T>
std::vector<T> accumulate(const Matmul& attributes, const Tensor& a, const Tensor& b, const Shape& result,
                          ThreadPool* pool) {
  const auto [m, n] = matrix_of(result);
  const Matrix stored = matrix_of(a.shape());
  const int64_t k = attributes.transpose_a ? stored.rows : stored.columns;
  std::vector<T> c(static_cast<size_t>(result.elements()));
  if (c.empty() || k == 0) return c;
  const std::vector<T> a_values = decode_matrices<T>(a, attributes.transpose_a, pool);
  const std::vector<T> b_values = decode_matrices<T>(b, attributes.transpose_b, pool);

  const Shape batch = batch_of(result);
  const std::vector<Strides> strides = {broadcast_strides(batch_of(a.shape()), batch),
                                        broadcast_strides(batch_of(b.shape()), batch)};
  const int64_t blocks = (m + row_block - 1) / row_block;
  const auto run_block = [&](int64_t task) {
    const int64_t index = task / blocks;
    const int64_t row = task % blocks * row_block;
    const Walk walk(batch, strides, index);
    multiply(a_values.data() + walk.offset(0) * m * k + row * k, b_values.data() + walk.offset(1) * k * n,
             c.data() + index * m * n + row * n, std::min(row_block, m - row), k, n);
  };
  const int64_t tasks = batch.elements() * blocks;
  if (pool != nullptr && tasks > 1) {
    pool->parallel_for(tasks, run_block);
  } else {
    for (int64_t task = 0; task < tasks; ++task) run_block(task);
  }
  return c;
}

}  // namespace

Tensor compute(const Matmul& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  const bool real = is_float(attributes.accumulate);
  std::vector<double> reals;
  std::vector<uint64_t> integers;
  if (real) {
    reals = accumulate<double>(attributes, *operands[0], *operands[1], result.shape, pool);
  } else {
    integers = accumulate<uint64_t>(attributes, *operands[0], *operands[1], result.shape, pool);
  }

  const Operands extras = operands.subspan(2);
  std::vector<Strides> strides;
  for (const auto& extra : extras) strides.push_back(broadcast_strides(extra->shape(), result.shape));
  Tensor output(result.dtype, result.shape);
  for_parts(pool, output.elements(), [&](int64_t begin, int64_t end) {
    std::optional<Evaluator> epilogue;
    if (attributes.epilogue) epilogue.emplace(*attributes.epilogue);
    Walk walk(result.shape, strides, begin);
    std::vector<Scalar> inputs(1 + extras.size());
    for (int64_t i = begin; i < end; ++i, walk.next()) {
      const auto at = static_cast<size_t>(i);
      inputs[0] = real ? Scalar{.real = reals[at]} : Scalar{.integer = wrap(attributes.accumulate, integers[at])};
      for (size_t j = 0; j < extras.size(); ++j) inputs[j + 1] = load(*extras[j], walk.offset(j));
      store(output, i,
            epilogue ? (*epilogue)(inputs)
                     : convert(inputs[0], attributes.accumulate, result.dtype, Overflow::propagate));
    }
  });
  return output;
}

}  // namespace low::reference
