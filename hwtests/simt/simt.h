// Runs kernels of a SIMT target: the GPU's own kernels, compiled for the CPU, lane by lane, and checks what they do.
//
// A lane is a fiber. Lanes meet at barriers, and those of a wave in its instructions across lanes; all of them have to
// come to the same place. Each access to memory and to LDS is checked: it lies inside, what it reads was written, and no
// other lane reads or writes the same bytes without a barrier between them (between tiles: without a new launch).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernels/data/chip.h"
#include "hwtests/simt/shadow.h"
#include "runtime/base/error.h"
#include "runtime/format/abi.h"

namespace low::simt {

// Of "simt-gfx942" and the like, which there is.
const device::Chip& chip_of(std::string_view target);

// A code object of a SIMT target, loaded.
class Code {
 public:
  // ErrorKind::invalid for what is none.
  static Result<Code> load(std::span<const std::byte> object, uint32_t entries, std::string_view what);
  Code(Code&&) noexcept;
  Code& operator=(Code&&) = delete;
  ~Code();

  using Entry = void (*)(const abi::Launch& launch);
  Entry entry(uint32_t index) const { return entries_[index]; }

 private:
  Code();
  struct Library;
  std::unique_ptr<Library> library_;
  std::vector<Entry> entries_;
};

// What runs them, on memories of the caller's.
class Gpu {
 public:
  explicit Gpu(const device::Chip& chip);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  // Kernels may read it, and write it if it is not `read_only`. `written`: whether it holds something from the start.
  void add_memory(std::span<unsigned char> memory, bool written, bool read_only = false);
  void set_written(const unsigned char* begin, uint64_t bytes);

  // Runs workgroups of these numbers to their ends, or until something is found that lets one of them not go on.
  void launch(Code::Entry entry, const abi::Launch& launch, std::span<const uint32_t> workgroups);

  // What is wrong, in sentences; the first few.
  const std::vector<std::string>& findings() const;
  // Reads and writes of lanes, and meetings of waves, so far.
  uint64_t accesses() const;
  uint64_t meetings() const;

 private:
  friend class Code;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace low::simt
