#include "runtime/host/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace low {
namespace {

#if defined(__x86_64__)
// Zen 4 has AVX-512 on vector units of 256 bits: AMD, Software Optimization Guide for the AMD Zen4 Microarchitecture
// (57647). Its successors in servers have them in full (Zen5, 58455), and so have Intel's.
bool has_halved_vectors() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return false;
  const bool is_amd = b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
  if (!is_amd || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  // CPUID function 1: the extended family adds to a base family of 15.
  const unsigned int family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
  return family == 0x19;
}
#endif

}  // namespace

double host_f32_flop_per_cycle() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && !has_halved_vectors()) return 64;
#endif
  return 32;
}

double host_bf16_flop_per_cycle() { return host_f32_flop_per_cycle() * (host_has_dots() ? 2 : 1); }

double host_int8_flop_per_cycle() { return host_f32_flop_per_cycle() * (host_has_dots() ? 4 : 1); }

bool host_has_dots() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace low
