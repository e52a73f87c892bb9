"""Runs kernels for AMD gfx942 where there is no such GPU: on the CDNA emulator in a source checkout of tinygrad.

usage: tinygrad_runner.py CHECKOUT JOB_FOLDER

JOB_FOLDER/job.json says what to run:

    {"target": "gfx942",
     "object": "object.hsaco",                   an ELF code object of version 5, in the folder
     "memories": [{"file": "arena.bin"}, …],     files in the folder: the contents of memories, which start at page boundaries
     "launches": [{"kernel": "low_entry_0", "workgroups": 304, "lanes": 256,
                   "arguments": "00…",           the argument bytes in hexadecimal
                   "pointers": [{"at": 0, "memory": 1, "offset": 64}, …]}, …]}

A pointer puts the address of a byte of a memory into the eight argument bytes from "at" on. The launches run one after the
other. Then each memory is written to FILE.out, and the last line of stdout is {"wave_instructions": N,
"matrix_instructions": N, "launches": N}. Exit status: 0; 1 with one sentence on stderr if the job cannot run to its end; 77
with one sentence if there is no emulator to run it.

The emulator translates each kind of instruction to C and compiles it with clang ($CC, clang, clang-22 or clang-19), which is
most of the time of a small job. If the environment variable LOW_EMULATOR_CACHE names a folder, the results are kept there.

What a kernel has not set is made visible: LDS, scratch memory, registers and argument bytes that the job does not give are
filled with ones, which are NaN as floats, before each workgroup. There are pages around each memory whose access ends the
job; in the rest of a memory's last page, stores are noticed and loads are not.

Done here, since the emulator lacks it or differs from gfx942:
- FP8 numbers have neither infinities nor -0, and their one NaN is 0x80 ("FNUZ"); a float too large for them becomes NaN.
- Denormal numbers are kept. A kernel that asks for another float mode is refused.
- Matrix instructions with results of 16x16 and 32x32 from F32, F16, BF16, FP8, BF8 and I8.
- Loads and stores of global memory, buffers and LDS, at any alignment. Out of range, loads from buffers and LDS give 0 and
  stores are dropped, dword by dword; a dword partly out of range is out of range. A buffer's scalar offset does not count
  for its range, as LLVM has it.
- Operands of 16 bits in v128 and the following registers, which the emulator takes for upper halves of v0 and so on.
- DPP that writes the register it reads, or not all lanes; row_bcast and row_newbcast.
- s_getpc, s_setpc and s_swappc, which tables of constants and calls need; buffer_inv and buffer_wbl2; s_memtime and
  s_memrealtime, which count the instructions that were run.
- v_rndne, v_fract, v_ldexp, v_div_fixup (which gives the correctly rounded quotient), floats to integers (out of range, and
  NaN), 24-bit multiplication, v_pk_min_f16 and v_pk_max_f16 of NaN, v_fma on processors without it.
- v_cvt_sr_fp8_f32 and v_cvt_sr_bf8_f32: the random bits are added below the last bit that stays, and the sum is truncated.

Limits: Waves run one after the other from barrier to barrier, and memory operations complete at once, so missing waits and
most races do not show. All flat addresses are global ones: generic pointers to LDS or scratch memory do not work. Matrix
instructions add in order of k and round each sum, where the hardware may round otherwise. v_exp, v_log, v_rcp, v_rsq, v_sqrt,
v_sin and v_cos are near, not bit for bit, and keep denormals. The sign of a zero from clamp, min or max may differ. DPP reads
inactive lanes like active ones. Atomics need aligned addresses, also in inactive lanes. Instructions that the emulator does
wrongly without a word are refused by name, as far as they are known: see `refuse`.
"""

import base64
import ctypes
import hashlib
import importlib
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PAGE = 4096
LANES = 64  # of a wave
REGISTER_BYTES = 4 * LANES  # of a vector register
REGISTER_FILE_BYTES = 256 * REGISTER_BYTES
LDS_BYTES = 65536
INSTRUCTIONS_PER_WAVE = 100_000_000
PROGRAM_COUNTER = 256  # the first of its two words in the emulator's array of scalar registers
INVERSE_TWO_PI = 248  # an inline constant in that array
END_OF_PROGRAM = 0xFFFFFFFFFFFFFFFF  # the program counter after s_endpgm

# After these, another instruction than the following one comes next, or other waves have to run first.
BLOCK_ENDS = ("S_BRANCH", "S_CBRANCH", "S_ENDPGM", "S_BARRIER", "S_SETPC", "S_SWAPPC")


class JobError(Exception):
    """Why a job cannot run to its end, in one sentence."""


class NoEmulator(Exception):
    """What is missing to run any job, in one sentence."""


# ---- Instructions that are done here, in C++, with the loop that runs all instructions: calls from Python would be slower ----

NATIVE_SOURCE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;

struct Step;
typedef void Instruction(u32 *sgpr, u32 *vgpr, void *memory, char *lds, void *scratch, u32 *accvgpr, const Step *);
struct Step {
  Instruction *run;
  unsigned char buffers[8];  // which of the wave's buffers are its parameters; a function of the emulator takes some of them
  int bytes;                 // what to add to the program counter: 0 for a function of the emulator, which does it itself
  int operands[15];          // for a function below: one of the next structures
};

struct Clock {
  int destination;
};
struct Jump {
  int saves, jumps, destination, source;
};
enum Space { GLOBAL, BUFFER, LDS };
// Each lane moves one or two groups of pieces of 1, 2 or 4 bytes. A group has an offset and data registers of its own.
// `vector` and `scalar` are the registers of the address, or -1.
struct Transfer {
  Space space;
  int stores, bytes, pieces, groups, extends_sign, shift, vector, scalar, scalar_offset, offset[2], data[2], in_accvgpr;
};
enum Format { F32, F16, BF16, FP8, BF8, I8 };
struct Unpack {
  Format format;
  int shift, is_scalar, source, destination;
};
struct Matrix {
  int size, depth;
  Format a_format, b_format;
  int a, b, c, d;  // registers; the vector registers are those from 256 on
  int a_in_accvgpr, b_in_accvgpr, c_in_accvgpr;
};
template <typename T>
static const T &operands(const Step *step) {
  static_assert(sizeof(T) <= sizeof(step->operands));
  return *(const T *)step->operands;
}

static u64 &pair(u32 *words) { return *(u64 *)words; }
static u64 &counter(u32 *sgpr) { return pair(sgpr + 256); }
static bool active(u32 *sgpr, int lane) { return pair(sgpr + 126) >> lane & 1; }  // 126 and 127 are EXEC

static u64 instructions;  // run by all waves so far

extern "C" void run_steps(const Step *step, long count, void *const *buffers) {
  for (const Step *end = step + count; step != end; ++step, ++instructions) {
    const unsigned char *b = step->buffers;
    step->run((u32 *)buffers[b[0]], (u32 *)buffers[b[1]], buffers[b[2]], (char *)buffers[b[3]], buffers[b[4]],
              (u32 *)buffers[b[5]], step);
    counter((u32 *)buffers[0]) += step->bytes;
  }
}

extern "C" void nothing(u32 *, u32 *, void *, char *, void *, u32 *, const Step *) {}

extern "C" void read_clock(u32 *sgpr, u32 *, void *, char *, void *, u32 *, const Step *step) {
  pair(sgpr + operands<Clock>(step).destination) = instructions;
}

extern "C" void jump(u32 *sgpr, u32 *, void *, char *, void *, u32 *, const Step *step) {
  const Jump &o = operands<Jump>(step);
  const u64 next = counter(sgpr) + step->bytes, target = pair(sgpr + o.source);
  if (o.saves) pair(sgpr + o.destination) = next;
  if (o.jumps) counter(sgpr) = target - step->bytes;
}

static void copy(void *to, const void *from, int bytes) {
  if (bytes == 4) __builtin_memcpy(to, from, 4);
  if (bytes == 2) __builtin_memcpy(to, from, 2);
  if (bytes == 1) __builtin_memcpy(to, from, 1);
}

extern "C" void transfer(u32 *sgpr, u32 *vgpr, void *, char *lds, void *, u32 *accvgpr, const Step *step) {
  const Transfer &o = operands<Transfer>(step);
  u32 *const registers = o.in_accvgpr ? accvgpr : vgpr;
  for (int lane = 0; lane < 64; ++lane) {
    if (!active(sgpr, lane)) continue;
    char *base = 0;
    u64 start = o.vector < 0 ? 0 : vgpr[o.vector * 64 + lane], end = ~0ull;
    if (o.space == LDS) {
      base = lds;
      end = 65536;
    } else if (o.space == BUFFER) {
      base = (char *)(pair(sgpr + o.scalar) & 0xffffffffffff) + sgpr[o.scalar_offset];
      end = sgpr[o.scalar + 2];
    } else {
      start += o.scalar < 0 ? (u64)vgpr[(o.vector + 1) * 64 + lane] << 32 : pair(sgpr + o.scalar);
    }
    for (int group = 0; group < o.groups; ++group) {
      for (int i = 0; i < o.pieces; ++i) {
        u64 at = start + o.offset[group] + i * o.bytes;
        if (o.space == LDS) at = (u32)at;
        const bool inside = o.space == GLOBAL || at + o.bytes <= end;
        u32 &data = registers[(o.data[group] + i) * 64 + lane];
        if (o.stores) {
          const u32 value = data >> o.shift;
          if (inside) copy(base + at, &value, o.bytes);
        } else {
          const int unused = 32 - 8 * o.bytes;
          u32 value = 0;
          if (inside) copy(&value, base + at, o.bytes);
          data = o.extends_sign ? (int)(value << unused) >> unused : value;
        }
      }
    }
  }
}

static float fp8(Format format, u32 code) {
  if (code == 0x80) return __builtin_nanf("");
  // Moved to where a float has them, exponent and mantissa mean the same number but for the difference of the biases.
  const u32 bits = (code & 0x80) << 24 | (code & 0x7f) << (format == FP8 ? 20 : 21);
  return __builtin_bit_cast(float, bits) * (format == FP8 ? 0x1p119f : 0x1p111f);
}

extern "C" void unpack(u32 *sgpr, u32 *vgpr, void *, char *, void *, u32 *, const Step *step) {
  const Unpack &o = operands<Unpack>(step);
  for (int lane = 0; lane < 64; ++lane) {
    if (!active(sgpr, lane)) continue;
    const u32 codes = (o.is_scalar ? sgpr[o.source] : vgpr[o.source * 64 + lane]) >> o.shift;
    for (int i = 0; i < 2; ++i)
      vgpr[(o.destination + i) * 64 + lane] = __builtin_bit_cast(u32, fp8(o.format, codes >> 8 * i & 0xff));
  }
}

template <Format FORMAT>
static auto element(u32 bits) {
  if constexpr (FORMAT == F32) return __builtin_bit_cast(float, bits);
  if constexpr (FORMAT == F16) return (float)__builtin_bit_cast(_Float16, (unsigned short)bits);
  if constexpr (FORMAT == BF16) return __builtin_bit_cast(float, bits << 16);
  if constexpr (FORMAT == FP8 || FORMAT == BF8) return fp8(FORMAT, bits & 0xff);
  if constexpr (FORMAT == I8) return (u32)(signed char)bits;
}

// The elements of A or B that a lane has are of row or column lane % SIZE, and of one of PARTS parts of k.
template <Format FORMAT, typename T, int SIZE>
static void read(T (*elements)[SIZE], const u32 *registers, int depth) {
  constexpr int PARTS = 64 / SIZE, PER_WORD = FORMAT == F32 ? 1 : FORMAT == F16 || FORMAT == BF16 ? 2 : 4;
  for (int k = 0; k < depth; ++k) {
    const int part = k / (depth / PARTS), i = k % (depth / PARTS);
    const u32 *const words = registers + i / PER_WORD * 64 + part * SIZE;
    for (int m = 0; m < SIZE; ++m) elements[k][m] = element<FORMAT>(words[m] >> i % PER_WORD * (32 / PER_WORD));
  }
}

template <int SIZE>
static void read(u32 (*elements)[SIZE], Format, const u32 *registers, int depth) {
  read<I8>(elements, registers, depth);
}
template <int SIZE>
static void read(float (*elements)[SIZE], Format format, const u32 *registers, int depth) {
  if (format == F32) read<F32>(elements, registers, depth);
  if (format == F16) read<F16>(elements, registers, depth);
  if (format == BF16) read<BF16>(elements, registers, depth);
  if (format == FP8) read<FP8>(elements, registers, depth);
  if (format == BF8) read<BF8>(elements, registers, depth);
}

// Of the results, a lane has column lane % SIZE, in groups of four rows.
template <typename T, int SIZE>
static void multiply(const Matrix &o, const u32 *sgpr, u32 *vgpr, u32 *accvgpr) {
  constexpr int PARTS = 64 / SIZE, RESULTS = SIZE / PARTS;
  T a[32][SIZE], b[32][SIZE], c[SIZE][SIZE];
  read(a, o.a_format, (o.a_in_accvgpr ? accvgpr : vgpr) + (o.a - 256) * 64, o.depth);
  read(b, o.b_format, (o.b_in_accvgpr ? accvgpr : vgpr) + (o.b - 256) * 64, o.depth);
  u32 *const results = o.c_in_accvgpr ? accvgpr : vgpr;
  const auto row = [](int lane, int i) { return i / 4 * 4 * PARTS + lane / SIZE * 4 + i % 4; };
  for (int lane = 0; lane < 64; ++lane)
    for (int i = 0; i < RESULTS; ++i)
      c[row(lane, i)][lane % SIZE] = __builtin_bit_cast(T, o.c < 256 ? sgpr[o.c] : results[(o.c - 256 + i) * 64 + lane]);
  for (int m = 0; m < SIZE; ++m)
    for (int k = 0; k < o.depth; ++k)
      for (int n = 0; n < SIZE; ++n) c[m][n] += a[k][m] * b[k][n];
  for (int lane = 0; lane < 64; ++lane)
    for (int i = 0; i < RESULTS; ++i)
      results[(o.d - 256 + i) * 64 + lane] = __builtin_bit_cast(u32, c[row(lane, i)][lane % SIZE]);
}

extern "C" void matrix(u32 *sgpr, u32 *vgpr, void *, char *, void *, u32 *accvgpr, const Step *step) {
  const Matrix &o = operands<Matrix>(step);
  auto *const function = o.a_format == I8 ? (o.size == 16 ? multiply<u32, 16> : multiply<u32, 32>)
                                          : (o.size == 16 ? multiply<float, 16> : multiply<float, 32>);
  function(o, sgpr, vgpr, accvgpr);
}
"""

FORMATS = {"F32": 0, "F16": 1, "BF16": 2, "FP8": 3, "BF8": 4, "I8": 5}
MATRIX = re.compile(r"V_MFMA_[FI]32_(16|32)X\1X(\d+)_(F32|F16|BF16|I8|(?:FP8|BF8)_(?:FP8|BF8))")
TRANSFER = re.compile(
    r"(GLOBAL|FLAT|BUFFER|DS)_(LOAD|READ|STORE|WRITE)(2|2ST64)?_"
    r"(?:([US])?(BYTE|SHORT|DWORD)(?:X([234]))?|([BUI])(8|16|32|64|96|128))(_D16_HI)?"
)


def vector(register: Any) -> int:
    """The number of a vector register."""
    return register.offset - 256


def transfer_operands(inst: Any, match: re.Match) -> list[int] | None:
    """The `Transfer` of a load or store; None for one that is not done here."""
    space, verb, two, sign, unit, count, letter, bits, high = match.groups()
    stores = verb in ("STORE", "WRITE")
    if high and not stores:
        return None
    size = int(bits) // 8 if bits else {"BYTE": 1, "SHORT": 2, "DWORD": 4}[unit] * int(count or 1)
    piece = min(size, 4)
    pieces = size // piece
    scalar, scalar_offset = -1, 0
    if space == "DS":
        if inst.gds:
            return None
        stride = size * (64 if two == "2ST64" else 1)
        offsets = [inst.offset0 * stride, inst.offset1 * stride] if two else [inst.offset0 | inst.offset1 << 8, 0]
        data = [vector(inst.data0), vector(inst.data1)] if stores else [vector(inst.vdst), vector(inst.vdst) + pieces]
        address = vector(inst.addr)
    elif space == "BUFFER":
        if inst.idxen or inst.lds:
            return None
        scalar, scalar_offset = inst.srsrc.offset, inst.soffset.offset
        offsets, data = [inst.offset, 0], [vector(inst.vdata), 0]
        address = vector(inst.vaddr) if inst.offen else -1
    else:
        is_global = space == "GLOBAL"
        scalar = inst.saddr.offset if is_global and inst.saddr.offset < 124 else -1
        offsets = [(inst.offset ^ 0x1000) - 0x1000 if is_global else inst.offset, 0]  # 13 bits with sign, or 12 without
        data = [vector(inst.data if stores else inst.vdst), 0]
        address = vector(inst.addr)
    kind = {"GLOBAL": 0, "FLAT": 0, "BUFFER": 1, "DS": 2}[space]
    extends_sign, shift = sign == "S" or letter == "I", 16 if high else 0
    how = [kind, stores, piece, pieces, 2 if two else 1, extends_sign, shift]
    return [*how, address, scalar, scalar_offset, *offsets, *data, inst.acc]


def native_instruction(inst: Any, name: str) -> tuple[str, list[int]] | None:
    """The function above for an instruction, and its operands; None if the emulator is to do it."""
    if name in ("S_MEMTIME", "S_MEMREALTIME"):
        return "read_clock", [inst.sdata.offset]
    if name in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64"):
        return "jump", [name != "S_SETPC_B64", name != "S_GETPC_B64", inst.sdst.offset, inst.ssrc0.offset]
    if name in ("BUFFER_INV", "BUFFER_WBL2"):  # about caches
        return "nothing", []
    if (match := TRANSFER.fullmatch(name)) and (operands := transfer_operands(inst, match)):
        return "transfer", operands
    if match := re.fullmatch("V_CVT_PK_F32_(FP8|BF8)_E32", name):
        sdwa = hasattr(inst, "src0_sel")
        source = inst.vsrc0.offset if sdwa else inst.src0.offset
        is_scalar = inst.s0 if sdwa else source < 256
        high_word = sdwa and inst.src0_sel == 5
        return "unpack", [FORMATS[match[1]], 16 if high_word else 0, is_scalar, source % 256, vector(inst.vdst)]
    if (match := MATRIX.fullmatch(name)) and not (inst.cbsz or inst.abid or inst.blgp):
        formats = [FORMATS[kind] for kind in match[3].split("_")]
        registers = [inst.src0.offset, inst.src1.offset, inst.src2.offset, inst.vdst.offset]
        in_accvgpr = [inst.acc & 1, inst.acc >> 1, inst.acc_cd]
        return "matrix", [int(match[1]), int(match[2]), formats[0], formats[-1], *registers, *in_accvgpr]
    return None


def refuse(inst: Any, name: str) -> None:
    """Refuses an instruction that is left to the emulator if that does it wrongly without a word."""
    kind = type(inst).__name__
    clamps, scales = getattr(inst, "clmp", 0), getattr(inst, "omod", 0)
    if re.match("S_(GETREG|SETREG|CALL|TRAP)|V_(CMPX|FREXP|CVT_PKRTZ|CVT_PKNORM|CVT_PK_[IU]16|S?MFMA)|BUFFER_", name):
        raise JobError(f"{name} is not emulated (or not with these modifiers): {inst!r}")
    if "SDWA" in kind and (clamps or scales or any(getattr(inst, f"src{i}_{f}", 0) for i in (0, 1) for f in ("neg", "abs"))):
        raise JobError(f"modifiers of SDWA instructions are not emulated: {inst!r}")
    signed = re.search("_I16|(ADD|SUB)_I32|MAD_U32_U16", name)
    if kind.startswith("VOP3") and (scales or clamps and (signed or kind.startswith("VOP3P"))):
        raise JobError(f"clamp or output scale is not emulated here: {inst!r}")
    if "DPP" in kind and "64" in name:
        raise JobError(f"DPP of 64 bits is not emulated: {inst!r}")


# ---- What is replaced in the emulator ----

# The emulator reads what most instructions do from the pseudocode of AMD's manuals. These are functions in C for it, with the
# type of their result, and the pseudocode that replaces that of the manuals.
C_FUNCTIONS = {
    "round_f16": ("half", "(__fp16)__builtin_rintf((float){0})"),
    "round_f32": ("float32", "__builtin_rintf({0})"),
    "round_f64": ("float64", "__builtin_rint({0})"),
    "fraction_f32": ("float32", "({{ float f = {0} - __builtin_floorf({0}); f >= 1 ? 0x1.fffffep-1f : f; }})"),
    "fraction_f64": ("float64", "({{ double f = {0} - __builtin_floor({0}); f >= 1 ? 0x1.fffffffffffffp-1 : f; }})"),
    "scale_f16": ("half", "(__fp16)__builtin_ldexpf((float){0}, (short){1})"),
    "scale_f32": ("float32", "__builtin_ldexpf({0}, {1})"),
    "scale_f64": ("float64", "__builtin_ldexp({0}, {1})"),
    "quotient_f16": ("half", "(__fp16)((float){0} / (float){1})"),
    "quotient_f32": ("float32", "({0} / {1})"),
    "quotient_f64": ("float64", "({0} / {1})"),
}
PSEUDOCODE = {
    "V_RNDNE_F16": "D0.f16 = round_f16(S0.f16)",
    "V_RNDNE_F32": "D0.f32 = round_f32(S0.f32)",
    "V_RNDNE_F64": "D0.f64 = round_f64(S0.f64)",
    "V_FRACT_F32": "D0.f32 = fraction_f32(S0.f32)",
    "V_FRACT_F64": "D0.f64 = fraction_f64(S0.f64)",
    "V_LDEXP_F16": "D0.f16 = scale_f16(S0.f16, S1.i16)",
    "V_LDEXP_F32": "D0.f32 = scale_f32(S0.f32, S1.i32)",
    "V_LDEXP_F64": "D0.f64 = scale_f64(S0.f64, S1.i32)",
    "V_DIV_FIXUP_F16": "D0.f16 = quotient_f16(S2.f16, S1.f16)",
    "V_DIV_FIXUP_F32": "D0.f32 = quotient_f32(S2.f32, S1.f32)",
    "V_DIV_FIXUP_F64": "D0.f64 = quotient_f64(S2.f64, S1.f64)",
}
FUSED_MULTIPLY_ADD = {
    "half": "(__fp16)__builtin_fmaf((float){0}, (float){1}, (float){2})",
    "float32": "__builtin_fmaf({0}, {1}, {2})",
    "float64": "__builtin_fma({0}, {1}, {2})",
}
# A number out of the range of an integer type becomes the type's limit, and NaN 0.
TO_INTEGER = "({{ double x = {0}; (long long)(x != x ? 0 : x < %(low)d.0 ? %(low)d.0 : x > %(high)d.0 ? %(high)d.0 : x); }})"
# A normal number is rounded to FP8 as an integer, below the mantissa bits that stay, and a smaller one as a multiple of the
# smallest FP8 number.
TO_FP8 = """({{
  const float x = {0}, multiple = __builtin_fabsf(x) * 0x1p%(unit)df;
  const unsigned bits = __builtin_bit_cast(unsigned, x), magnitude = bits & 0x7fffffff;
  unsigned code = 0x80;
  if (magnitude < 0x7f800000) {{
    code = magnitude < %(normal)d ? %(small)s : (magnitude - %(rebias)d + %(carry)s) >> %(dropped)d;
    code = code > 0x7f ? 0x80 : code ? code | (bits >> 24 & 0x80) : 0;
  }}
  code; }})"""
FROM_FP8 = """({{
  const unsigned code = {0} & 0xff, bits = (code & 0x80) << 24 | (code & 0x7f) << %(dropped)d;
  code == 0x80 ? __builtin_nanf("") : __builtin_bit_cast(float, bits) * 0x1p%(scale)df; }})"""


def fp8_functions(kind: str, mantissa_bits: int, bias: int) -> dict[str, tuple[str, str]]:
    dropped = 23 - mantissa_bits
    numbers = {
        "dropped": dropped,
        "unit": bias - 1 + mantissa_bits,
        "normal": (128 - bias) << 23,
        "rebias": (127 - bias) << 23,
        "scale": 127 - bias,
    }
    random = f"({{1}} >> {32 - dropped})"
    nearest = {"small": "__builtin_rintf(multiple)", "carry": f"{(1 << dropped - 1) - 1} + (magnitude >> {dropped} & 1)"}
    stochastic = {"small": f"((unsigned)(multiple * 0x1p{dropped}f) + {random}) >> {dropped}", "carry": random}
    return {
        f"f32_to_{kind}": ("uint8", TO_FP8 % (numbers | nearest)),
        f"f32_to_{kind}_stochastic": ("uint8", TO_FP8 % (numbers | stochastic)),
        f"{kind}_to_f32": ("float32", FROM_FP8 % numbers),
    }


def dpp_source(control: int, lane: int) -> int | None:
    """The lane from which a lane gets the first operand of a DPP instruction; None if there is none."""
    row, in_row, amount = lane & ~15, lane & 15, control & 15
    if control < 0x100:  # quad_perm
        return lane & ~3 | control >> 2 * (lane & 3) & 3
    if 0x101 <= control <= 0x10F:  # row_shl
        return lane + amount if in_row + amount < 16 else None
    if 0x111 <= control <= 0x11F:  # row_shr
        return lane - amount if in_row >= amount else None
    if 0x121 <= control <= 0x12F:  # row_ror
        return row | in_row - amount & 15
    if 0x150 <= control <= 0x15F:  # row_newbcast
        return row | amount
    others = {
        0x130: lane + 1 if lane < 63 else None,  # wave_shl
        0x134: lane + 1 & 63,  # wave_rol
        0x138: lane - 1 if lane > 0 else None,  # wave_shr
        0x13C: lane - 1 & 63,  # wave_ror
        0x140: lane ^ 15,  # row_mirror
        0x141: lane ^ 7,  # row_half_mirror
        0x142: row - 1 if row > 0 else None,  # row_bcast15
        0x143: 31 if lane >= 32 else None,  # row_bcast31
    }
    if control not in others:
        raise JobError(f"the DPP control {control:#x} is not known")
    return others[control]


def substitute_functions(emulator: ModuleType) -> None:
    dtypes, functions, pseudocode = emulator.dtypes, emulator._FUNCS, emulator.PCODE_CDNA

    def in_c(dtype: Any, text: str) -> Any:
        return lambda *arguments: emulator.UOp(emulator.Ops.CUSTOM, dtype, arguments, text)

    table = C_FUNCTIONS | fp8_functions("fp8", 3, 8) | fp8_functions("bf8", 2, 16)
    functions.update({name: in_c(getattr(dtypes, dtype), text) for name, (dtype, text) in table.items()})
    for source, target in (("f16", "i16"), ("f16", "u16"), ("f32", "i32"), ("f32", "u32"), ("f64", "i32"), ("f64", "u32")):
        dtype = {"i16": dtypes.int16, "u16": dtypes.uint16, "i32": dtypes.int32, "u32": dtypes.uint32}[target]
        functions[f"{source}_to_{target}"] = in_c(dtype, TO_INTEGER % {"low": dtype.min, "high": dtype.max})
    fused = {getattr(dtypes, dtype): in_c(getattr(dtypes, dtype), text) for dtype, text in FUSED_MULTIPLY_ADD.items()}
    functions["fma"] = lambda a, b, c: fused[a.dtype](a, b, c)
    for name in ("v_min_f16", "v_max_f16", "v_min3_f16", "v_max3_f16"):
        of_floats = functions[name.replace("f16", "f32")]
        functions[name] = lambda *a, f=of_floats: f(*(x.cast(dtypes.float32) for x in a)).cast(dtypes.half)

    for op in list(pseudocode):
        name = op.name.removesuffix("_E32").removesuffix("_E64")
        pseudocode[op] = PSEUDOCODE.get(name, pseudocode[op])
        if match := re.fullmatch("V_CVT_SR_(FP8|BF8)_F32", name):
            kind = match[1].lower()
            lines = [line for line in pseudocode[op].splitlines() if not re.match("(s|e|m|tmp) =", line)]
            stochastic = f"f32_to_{kind}_stochastic(S0.f32, S1.u32)"
            pseudocode[op] = "\n".join(lines).replace(f"f32_to_{kind}(tmp.f32)", stochastic)

    # Operands of 24 bits, of which the emulator takes all 32.
    parser = sys.modules[emulator.parse_pcode.__module__].Parser
    handle_dot = parser._handle_dot

    def handle_24_bits(self: Any, base: Any, field: str) -> Any:
        if field == "u24":
            return in_c(dtypes.uint32, "({0} & 0xffffff)")(base)
        if field == "i24":
            return in_c(dtypes.int32, "((int)({0} << 8) >> 8)")(base)
        return handle_dot(self, base, field)

    parser._handle_dot = handle_24_bits


def substitute_dpp(emulator: ModuleType) -> None:
    """Reads the operand of all lanes before any lane is written, and writes only the lanes that DPP has written."""
    uop, dtypes = emulator.UOp, emulator.dtypes

    def load_operand(context: Any, inst: Any, lane: Any, _: Any) -> Any:
        register, copied_lane = context.inst_field(type(inst).vsrc0), context.range()
        row = uop.placeholder((LANES,), dtypes.uint32, slot=0, addrspace=emulator.AddrSpace.LOCAL)
        copied = row.index(copied_lane).store(context.rvgpr_dyn(register, copied_lane)).end(copied_lane)
        sources = [dpp_source(inst.dpp, to) for to in range(LANES)]
        table = ",".join(str(LANES if source is None else source) for source in sources)
        source = uop(emulator.Ops.CUSTOM, dtypes.int32, (lane,), f"((const unsigned char[]){{{{{table}}}}})[{{0}}]")
        return row.after(copied).index(source.valid(source < LANES)).load()

    def written_lanes(inst: Any) -> int:
        def is_written(lane: int) -> bool:
            enabled = inst.row_mask >> lane // 16 & 1 and inst.bank_mask >> lane // 4 % 4 & 1
            return bool(enabled and (inst.bc or dpp_source(inst.dpp, lane) is not None))

        return sum(1 << lane for lane in range(LANES) if is_written(lane))

    def masked(handler: Any) -> Any:
        def compile_masked(inst: Any, context: Any) -> Any:
            class Masked(emulator._Ctx):
                def rexec(self) -> Any:
                    return super().rexec() & uop.const(written_lanes(inst), dtypes.uint64)

            replacement = Masked(context.inst_size, context.wave_size)
            replacement.dyn_fields = context.dyn_fields
            return handler(inst, replacement)

        return compile_masked

    emulator._load_dpp16_src0 = load_operand
    for kind in (emulator.irc.VOP1_DPP16, emulator.irc.VOP2_DPP16):
        emulator._INST_HANDLERS[kind] = masked(emulator._INST_HANDLERS[kind])


def substitute_register_numbers(emulator: ModuleType) -> None:
    """Takes v128 and the following ones in operands of 16 bits for these registers, and not for upper halves of others."""
    false, kinds = emulator.UOp.const(False), emulator.irc

    def whole(handler: Any, fields: tuple[str, ...]) -> Any:
        def compile_whole(inst: Any, context: Any) -> Any:
            program = handler(inst, context)
            for field in fields:
                if inst.canonical_op_bits["d" if field == "vdst" else "s0"] != 16:
                    continue
                register = context.inst_field(getattr(type(inst), field))
                is_upper = register >= emulator._c(384 if field == "src0" else 128)
                parts = program.toposort()
                if register in parts and is_upper not in parts:
                    raise JobError(f"how it finds the register of {field} is not known")
                program = program.substitute({is_upper: false})
            return program

        return compile_whole

    for kind, fields in (
        (kinds.VOP1, ("vdst", "src0")),
        (kinds.VOP1_DPP16, ("vdst",)),
        (kinds.VOP2, ("vdst", "src0", "vsrc1")),
        (kinds.VOP2_DPP16, ("vdst", "vsrc1")),
        (kinds.VOPC, ("vsrc1",)),
    ):
        emulator._INST_HANDLERS[kind] = whole(emulator._INST_HANDLERS[kind], fields)


# ---- Compiling ----


def find_clang() -> str:
    for name in (os.environ.get("CC"), "clang", "clang-22", "clang-19"):
        path = name and shutil.which(name)
        if path and "clang" in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    raise NoEmulator("the emulator compiles instructions with clang, and neither $CC nor clang, clang-22 or clang-19 is one")


def cache_folder(checkout: Path, clang: str) -> Path | None:
    """The folder where compiled instructions are kept, one for each emulator, compiler and processor; None for nowhere."""
    root = os.environ.get("LOW_EMULATOR_CACHE")
    if not root:
        return None
    sources = [Path(__file__), *checkout.glob("tinygrad/**/*.py"), *checkout.glob("test/**/amd/*.py")]
    processor = Path("/proc/cpuinfo").read_text()
    facts = (
        [(str(source), source.stat().st_size, source.stat().st_mtime_ns) for source in sorted(sources)],
        subprocess.run([clang, "--version"], capture_output=True, text=True).stdout,
        sorted({line for line in processor.splitlines() if line.startswith(("model name", "flags", "CPU", "Features"))}),
    )
    folder = Path(root) / hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def import_emulator(checkout: Path, clang: str, cache: Path | None) -> ModuleType:
    if not (checkout / "test/mockgpu/amd/emu.py").is_file():
        raise NoEmulator(f"{checkout} is no checkout of tinygrad with an emulator: there is no test/mockgpu/amd/emu.py")
    os.environ.update(CC=clang, DEV="CPU")
    os.environ.update({"CACHEDB": str(cache / "tinygrad.db")} if cache else {"CACHELEVEL": "0"})
    sys.path.insert(0, str(checkout.resolve()))
    try:
        emulator = importlib.import_module("test.mockgpu.amd.emu")
        substitute_functions(emulator)
        substitute_dpp(emulator)
        substitute_register_numbers(emulator)
        emulator.Device["CPU"]  # compiles something, and so shows whether clang works
    except Exception as error:
        raise NoEmulator(f"the emulator in {checkout} cannot be used: {type(error).__name__}: {error}") from error
    return emulator


def replace_file(path: Path, contents: bytes) -> None:
    """Writes a file that other processes may read or write at the same time."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(contents)
    part.replace(path)


def load_native(clang: str, folder: Path) -> ctypes.CDLL:
    library = folder / "native.so"
    if not library.exists():
        part = folder / f"native.so.{os.getpid()}"
        flags = ["-O3", "-march=native", "-std=c++20", "-fno-strict-aliasing", "-fwrapv", "-shared", "-fPIC"]
        subprocess.run([clang, *flags, "-x", "c++", "-", "-o", str(part)], input=NATIVE_SOURCE.encode(), check=True)
        part.replace(library)
    return ctypes.CDLL(str(library))


class Step(ctypes.Structure):
    """As in the native code."""

    _fields_ = [
        ("run", ctypes.c_void_p),
        ("buffers", ctypes.c_ubyte * 8),
        ("bytes", ctypes.c_int),
        ("operands", ctypes.c_int * 15),
    ]


class Block(NamedTuple):
    """Instructions that run one after the other, up to one of BLOCK_ENDS."""

    steps: ctypes.Array
    matrix_instructions: int
    ends_at_barrier: bool


class Function(NamedTuple):
    """A function of the emulator, for the instructions of a kind whose bits under `mask` are `base`."""

    base: int
    mask: int
    buffers: list[int]
    address: int


class Compiler:
    """Turns machine code into blocks, and keeps them."""

    def __init__(self, emulator: ModuleType, native: ctypes.CDLL, cache: Path | None) -> None:
        self.emulator, self.native, self.cache = emulator, native, cache
        self.blocks: dict[int, Block] = {}  # by the address of the first instruction
        self.functions: dict[str, list[Function]] = {}  # by kind and size of the instruction
        self.programs: list[Any] = []  # owns the code of the functions
        for file in cache.glob("*.json") if cache else ():
            kept = json.loads(file.read_text())
            device, elf = emulator.Device["CPU"], importlib.import_module("tinygrad.device").TinyELF
            program = device.runtime(elf(base64.b64decode(kept["object"]), kept["name"], device.renderer.target, ()))
            self.add(kept["kind"], kept["base"], kept["mask"], kept["buffers"], program)

    def add(self, kind: str, base: int, mask: int, buffers: list[int], program: Any) -> Function:
        self.programs.append(program)
        self.functions.setdefault(kind, []).append(Function(base, mask, buffers, program.addr))
        return self.functions[kind][-1]

    def function(self, at: int, inst: Any, code: bytes) -> Function:
        """The emulator's function for the instruction at an address."""
        kind, value = f"{type(inst).__name__} {inst.size()}", int.from_bytes(code[: inst.size()], "little")
        for function in self.functions.get(kind, ()):
            if value & function.mask == function.base:
                return function
        (program, runtime), _ = self.emulator._decode_at(at, "cdna")
        _, base, mask, _, _ = self.emulator._canonical_runner_cache[-1]
        buffers, elf = list(program.arg.globals), program.to_elf()
        if self.cache:
            kept = {"kind": kind, "base": base, "mask": mask, "buffers": buffers, "name": elf.name}
            kept["object"] = base64.b64encode(elf.lib).decode()
            name = hashlib.sha256(f"{kind} {base} {mask}".encode()).hexdigest()[:16]
            replace_file(self.cache / f"{name}.json", json.dumps(kept).encode())
        return self.add(kind, base, mask, buffers, runtime)

    def step(self, at: int, inst: Any, code: bytes) -> Step:
        name = inst.op.name
        if native := native_instruction(inst, name):
            run = ctypes.cast(getattr(self.native, native[0]), ctypes.c_void_p).value
            return Step(run, tuple(range(6)), inst.size(), tuple(native[1]))
        refuse(inst, name)
        try:
            function = self.function(at, inst, code)
        except Exception as error:
            raise JobError(f"the emulator cannot do {inst!r}: {error}") from error
        return Step(function.address, tuple(function.buffers))

    def block(self, start: int) -> Block:
        if start in self.blocks:
            return self.blocks[start]
        steps, names, at = [], [""], start
        while not names[-1].startswith(BLOCK_ENDS):
            code = ctypes.string_at(at, 16)
            try:
                inst = self.emulator.decode_inst(code, "cdna")
            except ValueError as error:
                raise JobError(f"the emulator does not know an instruction: {error}") from error
            steps.append(self.step(at, inst, code))
            names.append(inst.op.name)
            at += inst.size()
        matrix_instructions = sum(name.startswith("V_MFMA") for name in names)
        self.blocks[start] = Block((Step * len(steps))(*steps), matrix_instructions, names[-1] == "S_BARRIER")
        return self.blocks[start]


# ---- Memory and code objects ----


class Memory:
    """Bytes at a page boundary, between two pages that cannot be accessed. What has no contents is filled with ones."""

    def __init__(self, size: int, contents: bytes = b"") -> None:
        self.size = size
        self.whole = -(-size // PAGE) * PAGE
        self.map = mmap.mmap(-1, self.whole + 2 * PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map)) + PAGE
        self.fill()
        self.write(0, contents)
        for guard in (self.address - PAGE, self.address + self.whole):
            if ctypes.CDLL(None).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0) != 0:
                raise OSError("mprotect failed")

    def fill(self) -> None:
        ctypes.memset(self.address, 0xFF, self.whole)

    def write(self, at: int, contents: bytes) -> None:
        self.map[PAGE + at : PAGE + at + len(contents)] = contents

    def bytes(self) -> bytes:
        return self.map[PAGE : PAGE + self.size]

    def is_filled_from(self, at: int) -> bool:
        return self.map[PAGE + at : PAGE + self.whole] == b"\xff" * (self.whole - at)


class Kernel(NamedTuple):
    entry: int  # the address of its first instruction
    lds_bytes: int
    scratch_bytes: int  # of a lane
    argument_bytes: int
    settings: int  # COMPUTE_PGM_RSRC2


class CodeObject:
    """A code object, loaded. What is in it: LLVM's "User Guide for AMDGPU Backend"."""

    def __init__(self, elf: bytes) -> None:
        if len(elf) < 64 or elf[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", elf, 18)[0] != 224:
            raise JobError("the object is no 64-bit ELF file for AMD GPUs")
        if (elf[8], elf[48]) != (3, 0x4C):
            raise JobError(f"the object is of ABI {elf[8]} for processor {elf[48]:#x}, not 3 (version 5) for 0x4c (gfx942)")
        segments_at, sections_at = struct.unpack_from("<QQ", elf, 32)
        segment_count, _, section_count = struct.unpack_from("<HHH", elf, 56)
        # type, flags, offset, virtual address, physical address, bytes in the file, bytes in memory, alignment
        segments = [struct.unpack_from("<IIQQQQQQ", elf, segments_at + 56 * i) for i in range(segment_count)]
        loaded = [segment for segment in segments if segment[0] == 1]
        self.memory = Memory(max(s[3] + s[6] for s in loaded))
        for _, _, offset, address, _, in_file, in_memory, _ in loaded:
            self.memory.write(address, elf[offset : offset + in_file] + bytes(in_memory - in_file))
        # name, type, flags, address, offset, size, link
        sections = [struct.unpack_from("<IIQQQQI", elf, sections_at + 64 * i) for i in range(section_count)]
        self.symbols: dict[str, int] = {}
        for _, kind, _, _, offset, size, link in sections:
            for at in range(offset, offset + size, 24) if kind == 11 else ():  # dynamic symbols
                name, value = sections[link][4] + struct.unpack_from("<I", elf, at)[0], struct.unpack_from("<Q", elf, at + 8)[0]
                self.symbols[elf[name : elf.index(b"\0", name)].decode()] = value
            for at in range(offset, offset + size, 24) if kind == 4 else ():  # relocations
                place, what, addend = struct.unpack_from("<QQq", elf, at)
                if what != 13:
                    raise JobError(f"the object has a relocation of type {what & 0xFFFFFFFF}, and only 13 (RELATIVE64) is known")
                self.memory.write(place, struct.pack("<Q", self.memory.address + addend))

    def kernel(self, name: str) -> Kernel:
        if name + ".kd" not in self.symbols:
            raise JobError("the object has no such kernel")
        at = self.symbols[name + ".kd"]
        descriptor = self.memory.bytes()[at : at + 64]
        lds_bytes, scratch_bytes, argument_bytes = struct.unpack_from("<III", descriptor)
        entry = struct.unpack_from("<q", descriptor, 16)[0]
        modes, settings, properties, preloaded = struct.unpack_from("<IIHH", descriptor, 48)
        for bit, what in enumerate(("private segment buffer", "dispatch pointer", "queue pointer", "", "dispatch id",
                                    "flat scratch address", "private segment size")):  # fmt: skip
            if what and properties >> bit & 1:
                raise JobError(f"the kernel wants its {what} in registers, where only its arguments' address is put")
        if preloaded or settings >> 10 & 1 or properties >> 10 & 1:
            raise JobError("the kernel wants arguments or workgroup information in registers, or waves of 32 lanes")
        if modes >> 12 & 0xFF != 0xF0:
            raise JobError("the kernel wants a float mode other than rounding to nearest with denormals")
        if lds_bytes > LDS_BYTES:
            raise JobError(f"the kernel wants {lds_bytes} bytes of LDS, and there are {LDS_BYTES}")
        return Kernel(self.memory.address + at + entry, lds_bytes, scratch_bytes, argument_bytes, settings)


# ---- Running ----


class Wave:
    """The registers of a wave, and what they are when a workgroup starts."""

    def __init__(self, emulator: ModuleType, kernel: Kernel, first: int, lanes: int, arguments: Memory, lds: Memory) -> None:
        scratch, settings = kernel.scratch_bytes, kernel.settings
        state = emulator._init_wave(
            kernel.entry, first, lanes, lanes, 1, 1, arguments.address, settings, scratch, "cdna", 0, 0, 0, None, LANES
        )
        # The emulator has put the value of a hardware register here.
        state._write_sgpr(INVERSE_TWO_PI, emulator.F32_INLINE[INVERSE_TWO_PI])
        self.workgroup_register = settings >> 1 & 31
        self.has_workgroup_id = settings >> 7 & 1
        ids = sum(settings >> bit & 1 for bit in (7, 8, 9))
        for register in range(self.workgroup_register + ids, 125):
            state._write_sgpr(register, 0xFFFFFFFF)
        self.state, self.scratch = state, Memory(scratch * LANES)
        files = [buffer._buf.va_addr for buffer in (state.sgpr_buf, state.vgpr_buf, state.accvgpr_buf)]
        self.scalars, self.vectors, self.accumulators = files
        self.first_scalars = ctypes.string_at(self.scalars, 4 * emulator.SGPR_COUNT)
        self.lane_ids = ctypes.string_at(self.vectors, REGISTER_BYTES)
        self.counter = ctypes.c_uint64.from_address(self.scalars + 4 * PROGRAM_COUNTER)
        self.buffers = (ctypes.c_void_p * 6)(
            self.scalars, self.vectors, 0, lds.address, self.scratch.address, self.accumulators
        )
        self.instructions = 0

    def start(self, workgroup: int) -> None:
        ctypes.memmove(self.scalars, self.first_scalars, len(self.first_scalars))
        if self.has_workgroup_id:
            self.state._write_sgpr(self.workgroup_register, workgroup)
        ctypes.memset(self.vectors, 0xFF, REGISTER_FILE_BYTES)
        ctypes.memset(self.accumulators, 0xFF, REGISTER_FILE_BYTES)
        ctypes.memmove(self.vectors, self.lane_ids, REGISTER_BYTES)
        self.scratch.fill()
        self.instructions = 0


class Runner:
    """Runs launches and counts what they run. `progress` shows the launch and the workgroup, also to another process."""

    def __init__(self, compiler: Compiler, code: CodeObject, memories: list[Memory], progress: mmap.mmap) -> None:
        self.compiler, self.code, self.memories, self.progress = compiler, code, memories, progress
        self.counts = {"wave_instructions": 0, "matrix_instructions": 0, "launches": 0}

    def run_to_barrier(self, wave: Wave) -> bool:
        """Runs a wave until it has come to a barrier; False if it has ended."""
        while wave.counter.value != END_OF_PROGRAM:
            block = self.compiler.block(wave.counter.value)
            self.compiler.native.run_steps(block.steps, ctypes.c_long(len(block.steps)), wave.buffers)
            wave.instructions += len(block.steps)
            self.counts["wave_instructions"] += len(block.steps)
            self.counts["matrix_instructions"] += block.matrix_instructions
            if wave.instructions > INSTRUCTIONS_PER_WAVE:
                raise JobError(f"a wave does not end in {INSTRUCTIONS_PER_WAVE} instructions")
            if block.ends_at_barrier:
                return True
        return False

    def run(self, launch: dict) -> None:
        arguments = bytearray.fromhex(launch["arguments"])
        for pointer in launch["pointers"]:
            address = self.memories[pointer["memory"]].address + pointer["offset"]
            struct.pack_into("<Q", arguments, pointer["at"], address)
        kernel = self.code.kernel(launch["kernel"])
        argument_memory = Memory(max(len(arguments), kernel.argument_bytes), bytes(arguments))
        lds, lanes = Memory(LDS_BYTES), launch["lanes"]
        emulator = self.compiler.emulator
        waves = [Wave(emulator, kernel, first, lanes, argument_memory, lds) for first in range(0, lanes, LANES)]
        for workgroup in range(launch["workgroups"]):
            struct.pack_into("<II", self.progress, 0, self.counts["launches"], workgroup)
            lds.fill()
            for wave in waves:
                wave.start(workgroup)
            running = waves
            while running:
                running = [wave for wave in running if self.run_to_barrier(wave)]
            if not lds.is_filled_from(kernel.lds_bytes):
                raise JobError(f"workgroup {workgroup} writes LDS after the {kernel.lds_bytes} bytes of the kernel")
        for index, memory in enumerate(self.memories):
            if not memory.is_filled_from(memory.size):
                raise JobError(f"memory {index} was written after its end")
        self.counts["launches"] += 1


# ---- Jobs ----


def check_fields(value: Any, where: str, **kinds: type) -> None:
    for name, kind in kinds.items():
        if not isinstance(value, dict) or not isinstance(value.get(name), kind):
            raise JobError(f"{where} has no {name} of type {kind.__name__}")


def read_file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise JobError(f"{name} cannot be read: {error.strerror}") from error


def read_job(folder: Path) -> dict:
    try:
        job = json.loads(read_file(folder, "job.json"))
    except ValueError as error:
        raise JobError(f"job.json is no JSON: {error}") from error
    check_fields(job, "the job", target=str, object=str, memories=list, launches=list)
    if job["target"] != "gfx942":
        raise JobError(f"the job is for {job['target']}, and the emulator is for gfx942")
    for index, memory in enumerate(job["memories"]):
        check_fields(memory, f"memory {index}", file=str)
    for index, launch in enumerate(job["launches"]):
        where = f"launch {index}"
        check_fields(launch, where, kernel=str, workgroups=int, lanes=int, arguments=str, pointers=list)
        if launch["workgroups"] < 0 or not 1 <= launch["lanes"] <= 1024:
            raise JobError(f"{where} has {launch['workgroups']} workgroups of {launch['lanes']} lanes, not of 1 to 1024")
        if not re.fullmatch("([0-9a-fA-F]{2})*", launch["arguments"]):
            raise JobError(f"{where} has arguments that are not hexadecimal bytes")
        for pointer in launch["pointers"]:
            check_fields(pointer, f"a pointer of {where}", at=int, memory=int, offset=int)
            if not 0 <= pointer["at"] <= len(launch["arguments"]) // 2 - 8 or not 0 <= pointer["memory"] < len(job["memories"]):
                raise JobError(f"{where} has a pointer outside of its arguments, or to a memory that is not there")
    return job


def run_job(checkout: Path, folder: Path, progress: mmap.mmap) -> int:
    where = ""
    try:
        job = read_job(folder)
        memories = [Memory(len(contents), contents) for m in job["memories"] for contents in [read_file(folder, m["file"])]]
        code = CodeObject(read_file(folder, job["object"]))
        clang = find_clang()
        cache = cache_folder(checkout, clang)
        emulator = import_emulator(checkout, clang, cache)
        runner = Runner(Compiler(emulator, load_native(clang, cache or folder), cache), code, memories, progress)
        for index, launch in enumerate(job["launches"]):
            where = f"launch {index} ({launch['kernel']}): "
            runner.run(launch)
    except JobError as error:
        print(f"{where}{error}", file=sys.stderr)
        return 1
    except NoEmulator as error:
        print(error, file=sys.stderr)
        return 77
    for memory, described in zip(memories, job["memories"], strict=True):
        (folder / f"{described['file']}.out").write_bytes(memory.bytes())
    print(json.dumps(runner.counts))
    return 0


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: tinygrad_runner.py CHECKOUT JOB_FOLDER", file=sys.stderr)
        return 1
    # A kernel that accesses memory which is not there ends the process that runs it.
    progress = mmap.mmap(-1, 8)
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it is not to outlive this process
        return run_job(Path(sys.argv[1]), Path(sys.argv[2]), progress)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status >= 0:
        return status
    launch, workgroup = struct.unpack("<II", progress[:8])
    bad_access = -status in (signal.SIGSEGV, signal.SIGBUS)
    reason = "accesses memory that is not there" if bad_access else f"was ended by signal {-status}"
    print(f"launch {launch}: workgroup {workgroup} {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
