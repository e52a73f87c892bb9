// What codegen, toolchain and package writer know of each target: rows of a table, which they ask.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/codegen/codegen.h"
#include "compiler/kernels/data/tiling.h"

namespace low {

// What targets share that compile the same source: an emitted source is of one kind.
struct CodeKind {
  std::string_view object_suffix;        // of a code object's file in a package: ".so"
  std::span<const char* const> options;  // of clang: the language, and what it may assume
  std::span<const char* const> link_options;
  std::string_view target_header;  // of the device library, for kernels/device/target.h
  std::string_view kernels;        // the folder of the kernels, a header a family
  // The head of an entry point, up to where its body begins; an fmt string with the entry's number.
  std::string_view entry_head;
};

struct CodegenTarget {
  std::string_view name;
  const CodeKind* kind;
  std::string_view macro;                // defined for the emitted source
  std::span<const char* const> options;  // of clang: the instruction set
  device::Tiling tiling;
  // The target that has entry points without dot products (see kernels/device/products.h) for this one; "": it has its
  // own.
  std::string_view base = "";
};

// Defined for the emitted source where entry points without dot products are left out.
inline constexpr std::string_view without_other_entries = "LOW_DOTS_ALONE";
// Whether the entry point has a kernel that uses dot products where a target has them.
bool gains_by_dots(const KernelSet& kernels, size_t entry);
// Whether what uses dot products are routines alone (compile_routines), so that all other code is the base's.
bool dots_are_routines(const KernelSet& kernels);

const CodegenTarget* find_target(std::string_view name);  // null when there is none
std::string known_targets();                              // for messages: "a, b"

}  // namespace low
