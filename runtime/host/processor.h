// The processor at hand, as far as predictions need it.
#pragma once

namespace low {

// FLOP a cycle of one thread in fused multiply-adds of f32, each counting two: 64 with two vector units of 512 bits, 32
// with two of 256 bits, also where they take 512-bit instructions in halves.
double host_f32_flop_per_cycle();
// Of bf16: twice that where there are dot products of pairs, else that.
double host_bf16_flop_per_cycle();
// Of integers of 8 bits: four times that where there are dot products of bytes, else that.
double host_int8_flop_per_cycle();

// Whether the processor runs code of host-x86-64-v4-bf16: AVX512-BF16 and AVX512-VNNI for dot products, AVX512-VBMI to
// decode FP8.
bool host_has_dots();

// Hz under such a load. Assumed: neither the processor nor the system says what it sustains.
inline constexpr double host_clock_hz = 3.6e9;

}  // namespace low
