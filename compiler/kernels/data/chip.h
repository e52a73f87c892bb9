// What GPUs are, for kernels and for the compiler: a row a chip.
#pragma once

namespace low::device {

enum class Fp8 { none, fnuz, ocp };

// Generations of matrix instructions: a chip has one's, and so have all later ones of a kind.
enum class Generation { cdna2, cdna3, cdna4, rdna3, rdna4 };

struct Chip {
  const char* target;
  Generation generation;
  int wave_lanes;
  int lds_bytes;  // of a workgroup
  Fp8 fp8;        // formats that matrix instructions multiply
};

// LDS and formats from the chips' instruction set architecture documents: "AMD Instinct MI200", section 2.2.2; "AMD
// Instinct MI300", sections 2.2.2 and 7.2; "AMD Instinct CDNA4", sections 2.2.2 and 7.2; "RDNA3", section 2.2 and "RDNA4",
// section 2.2 (128 KiB for two units: 64 KiB for a workgroup of one, as CU mode has it).
inline constexpr Chip gfx90a{
    .target = "gfx90a", .generation = Generation::cdna2, .wave_lanes = 64, .lds_bytes = 65536, .fp8 = Fp8::none};
inline constexpr Chip gfx942{
    .target = "gfx942", .generation = Generation::cdna3, .wave_lanes = 64, .lds_bytes = 65536, .fp8 = Fp8::fnuz};
inline constexpr Chip gfx950{
    .target = "gfx950", .generation = Generation::cdna4, .wave_lanes = 64, .lds_bytes = 163840, .fp8 = Fp8::ocp};
inline constexpr Chip gfx1100{
    .target = "gfx1100", .generation = Generation::rdna3, .wave_lanes = 32, .lds_bytes = 65536, .fp8 = Fp8::none};
inline constexpr Chip gfx1201{
    .target = "gfx1201", .generation = Generation::rdna4, .wave_lanes = 32, .lds_bytes = 65536, .fp8 = Fp8::ocp};

inline constexpr const Chip* chips[] = {&gfx90a, &gfx942, &gfx950, &gfx1100, &gfx1201};

inline constexpr int workgroup_lanes = 256;

}  // namespace low::device
