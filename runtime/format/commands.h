// Commands of a program as records of abi.h: made one after the other, and read again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/format/abi.h"

namespace low {

// An operand as one writes it down.
struct CommandOperand {
  uint32_t memory = abi::memory_arena;
  uint64_t offset = 0;           // bytes
  std::vector<int64_t> strides;  // elements
  std::vector<abi::Term> terms;
};

// Appends a record to `commands`. Operands may have different numbers of strides; there are at most 65,535 of each.
void append_command(std::vector<uint64_t>& commands, uint32_t kernel, std::span<const int64_t> data,
                    std::span<const CommandOperand> operands);

// A copy: its counts, at most max_copy_rank, the elements of a chunk, and two operands with a stride for each count.
void append_copy(std::vector<uint64_t>& commands, uint32_t kernel, std::span<const int64_t> counts, int64_t chunk,
                 std::span<const CommandOperand> operands);

// Kernel i becomes numbers[i] in all of the records.
void renumber_commands(std::vector<uint64_t>& commands, std::span<const uint32_t> numbers);

// The record that begins at a block of `commands`, which holds all of it.
class CommandView {
 public:
  CommandView(std::span<const uint64_t> commands, uint32_t block);

  const abi::Command& header() const { return header_; }
  abi::Operand operand(uint32_t index) const;
  abi::Term term(uint32_t index) const;

 private:
  std::span<const uint64_t> words_;
  abi::Command header_;
};

}  // namespace low
