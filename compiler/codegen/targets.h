// What codegen, toolchain and package writer know of each target: rows of a table, which they ask.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/codegen/codegen.h"
#include "compiler/kernels/data/chip.h"
#include "compiler/kernels/data/tiling.h"

namespace low {

// What targets share that compile the same source.
struct SourceKind {
  std::string_view kernels;       // the folder of the kernels, a header a family
  std::string_view entry_header;  // of the device library: what entry points use besides kernels
  std::string_view begin, end;    // of the library and the kernels, lines for clang
  // The head of an entry point, up to where its body begins; an fmt string: the entry's number, the machine's tiles and
  // clusters, bytes of LDS.
  std::string_view entry_head;
  bool routines = false;  // whether there are any (compile_routines)
};

// What targets share that are compiled in the same way.
struct CodeKind {
  const SourceKind* source;
  std::string_view object_suffix;               // of a code object's file in a package: ".so"
  std::string_view built_with;                  // the clang that the build names; "": none
  std::span<const std::string_view> compilers;  // programs to try then, in order
  std::string_view packages;                    // that have the first of them, for people to install
  std::span<const char* const> options;         // of clang: the language, and what it may assume
  std::span<const char* const> link_options;    // of the linker, of its own; empty: clang makes the code object
};

struct CodegenTarget {
  std::string_view name;
  const CodeKind* kind;
  std::string_view macro;                // defined for the emitted source
  std::span<const char* const> options;  // of clang: the instruction set
  device::Tiling tiling = {};            // of the host's
  // The target that has entry points without dot products (see kernels/device/host/products.h) for this one; "": it has its
  // own.
  std::string_view base = "";
  const device::Chip* chip = nullptr;  // of a GPU
};

// Defined for the emitted source where entry points without dot products are left out.
inline constexpr std::string_view without_other_entries = "LOW_DOTS_ALONE";
// Whether the entry point has a kernel that uses dot products where a target has them.
bool gains_by_dots(const KernelSet& kernels, size_t entry);
// Whether what uses dot products are routines alone (compile_routines), so that all other code is the base's.
bool dots_are_routines(const KernelSet& kernels);

const CodegenTarget* find_target(std::string_view name);  // null when there is none
// The machine whose target it is.
Machine machine_of(const CodegenTarget& target);
std::string known_targets();  // for messages: "a, b"

}  // namespace low
