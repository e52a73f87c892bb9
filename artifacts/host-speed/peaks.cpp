// What the processor at hand reaches: multiply-adds of f32, dot products of bf16 and of i8 in registers, and plain reads
// of memory, by so many threads at once.
//   peaks THREADS BYTES...
// Prints JSON: GFLOP/s (a multiply-add counts two; 0 where there are no such instructions), and GB/s of reading buffers
// of so many bytes over and over, each thread its share.
#include <immintrin.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

volatile float sink;

// As many sums as hide the latency of an instruction.
constexpr int sums = 12;
constexpr int64_t rounds = 20'000'000;

// `step` on many sums at once, over and over. A macro: a function for one instruction set is inlined into no other.
#define LOW_KEEP_BUSY(count, zero, step, constraint)             \
  decltype(zero) total[count];                                   \
  _Pragma("GCC unroll 16") for (auto& t : total) t = zero;       \
  for (int64_t i = 0; i < rounds; ++i) {                         \
    _Pragma("GCC unroll 16") for (int j = 0; j < (count); ++j) { \
      total[j] = step;                                           \
      asm volatile("" : "+" constraint(total[j]));               \
    }                                                            \
  }                                                              \
  _Pragma("GCC unroll 16") for (const auto& t : total) sink = sink + static_cast<float>(t[0])

__attribute__((target("avx512f"))) void multiply_adds_512() {
  const __m512 a = _mm512_set1_ps(sink), b = _mm512_set1_ps(0.5F);
  LOW_KEEP_BUSY(sums, _mm512_setzero_ps(), _mm512_fmadd_ps(a, b, total[j]), "v");
}

__attribute__((target("avx2,fma"))) void multiply_adds_256() {
  const __m256 a = _mm256_set1_ps(sink), b = _mm256_set1_ps(0.5F);
  LOW_KEEP_BUSY(sums, _mm256_setzero_ps(), _mm256_fmadd_ps(a, b, total[j]), "x");
}

__attribute__((target("avx512f,avx512bf16"))) void bf16_dots() {
  const __m512bh a = (__m512bh)_mm512_set1_ps(sink), b = (__m512bh)_mm512_set1_ps(0.5F);
  LOW_KEEP_BUSY(sums, _mm512_setzero_ps(), _mm512_dpbf16_ps(total[j], a, b), "v");
}

__attribute__((target("avx512f,avx512vnni"))) void i8_dots() {
  const __m512i a = _mm512_set1_epi32(static_cast<int>(sink)), b = _mm512_set1_epi32(0x01010101);
  LOW_KEEP_BUSY(sums, _mm512_setzero_si512(), _mm512_dpbusd_epi32(total[j], a, b), "v");
}

__attribute__((target("avx2"))) void read_all(const char* data, size_t bytes) {
  __m256i total[8] = {};
  for (size_t at = 0; at + 256 <= bytes; at += 256) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j)
      total[j] = _mm256_xor_si256(total[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at + 32 * j)));
  }
  for (const __m256i& t : total) sink = sink + static_cast<float>(_mm256_extract_epi32(t, 0));
}

// Seconds from when all threads are ready until the last one is done.
double seconds(int threads, const std::function<void(int)>& work) {
  std::barrier ready(threads + 1), done(threads + 1);
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      ready.arrive_and_wait();
      work(i);
      done.arrive_and_wait();
    });
  }
  ready.arrive_and_wait();
  const auto begin = Clock::now();
  done.arrive_and_wait();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double gflops(int threads, void (*work)(), double flop) {
  return flop * static_cast<double>(rounds) * threads / seconds(threads, [&](int) { work(); }) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  if (threads < 1) {
    std::fprintf(stderr, "peaks: expected THREADS BYTES...\n");
    return 2;
  }
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  const double f32 = wide                                 ? gflops(threads, multiply_adds_512, 2.0 * 16 * sums)
                     : __builtin_cpu_supports("fma") != 0 ? gflops(threads, multiply_adds_256, 2.0 * 8 * sums)
                                                          : 0;
  const double bf16 = __builtin_cpu_supports("avx512bf16") != 0 ? gflops(threads, bf16_dots, 4.0 * 16 * sums) : 0;
  const double i8 = __builtin_cpu_supports("avx512vnni") != 0 ? gflops(threads, i8_dots, 8.0 * 16 * sums) : 0;
  std::printf("{\"f32_gflops\": %.1f, \"bf16_gflops\": %.1f, \"i8_gflops\": %.1f, \"read_gbytes\": {", f32, bf16, i8);
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = std::strtoull(argv[i], nullptr, 10), share = bytes / static_cast<size_t>(threads);
    std::vector<std::vector<char>> buffers(static_cast<size_t>(threads), std::vector<char>(share, 1));
    const size_t times = 1 + (size_t{2} << 30) / (bytes + 1);
    const auto read = [&](int thread) {
      for (size_t round = 0; round < times; ++round) read_all(buffers[static_cast<size_t>(thread)].data(), share);
    };
    seconds(threads, read);  // warms up
    const double rate =
        static_cast<double>(share) * threads * static_cast<double>(times) / seconds(threads, read) * 1e-9;
    std::printf("%s\"%zu\": %.1f", i > 2 ? ", " : "", bytes, rate);
  }
  std::printf("}}\n");
}
