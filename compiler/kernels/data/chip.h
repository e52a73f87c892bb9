// What GPUs are, for kernels and for the compiler: a row a chip.
#pragma once

namespace low::device {

enum class Fp8 { none, fnuz, ocp };

struct Chip {
  const char* target;
  int wave_lanes;
  int lds_bytes;  // of a workgroup
  Fp8 fp8;        // formats that matrix instructions multiply
};

// "AMD Instinct MI300 Instruction Set Architecture": 64 KiB of LDS (section 11), FNUZ formats (section 7.2).
inline constexpr Chip gfx942{.target = "gfx942", .wave_lanes = 64, .lds_bytes = 65536, .fp8 = Fp8::fnuz};

inline constexpr int workgroup_lanes = 256;

}  // namespace low::device
