// What a chip gives the kernels: one name and one meaning for all of them, in a file for each instruction set, and in
// one that runs on the CPU under the checks of a shim (isa_simt.h). A target defines the macro of its own.
//
//   LOW_ENTRY(name)            the head of an entry point, whose argument is `const abi::Launch& launch`
//   LOW_KERNEL                 before a kernel's function: all is one piece of code on a GPU, which has no stack
//   LOW_LDS(name, bytes)       declares the workgroup's LDS, of type Lds
//   workgroup(), lane()        this workgroup's number; this lane's within it, below workgroup_lanes
//   ticks()                    of the device's constant-rate counter
//   barrier()                  every lane of the workgroup arrives before any goes on; what lanes wrote to memory and to
//                              LDS before it, all of them may read behind it
//   load_global(p)             an element of memory, or a vector of them; p is aligned to its size
//   store_global(p, value)     the other way round
//   load_lds<T>(p), store_lds(p, value)   the same of LDS
//   from_lane_xor<mask>(value) what the lane gives whose number is this one's xor mask, which is below 16; all lanes of
//                              the wave come to it
//   anew(value)                the same, of a value that all lanes share; clang cannot tell that it is, and so computes
//                              what follows from it where it is needed, instead of keeping that in registers
//   reads_together             so many reads of memory a lane starts before it waits for the first
//   multiply<row>(a, b, c)     a wave's matrix instruction (data/matrix.h): a lane gives the bits of its items of a and of
//                              b, and gets its items of c plus the product
//
// Kernels reach memory through these alone.
#pragma once

#include "compiler/kernels/device/amd/isa_gfx11.h"
#include "compiler/kernels/device/amd/isa_gfx12.h"
#include "compiler/kernels/device/amd/isa_gfx9.h"
#include "compiler/kernels/device/amd/isa_simt.h"
