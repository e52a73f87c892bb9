#include "runtime/format/commands.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/error.h"

namespace low {
namespace {

template <typename T>
T read(const uint64_t* words) {
  T value;
  std::memcpy(&value, words, sizeof value);
  return value;
}

template <typename T>
void write(uint64_t* words, const T& value) {
  std::memcpy(words, &value, sizeof value);
}

uint16_t counted(size_t count) {
  LOW_CHECK(count <= UINT16_MAX);
  return static_cast<uint16_t>(count);
}

}  // namespace

void append_command(std::vector<uint64_t>& commands, uint32_t kernel, std::span<const int64_t> data,
                    std::span<const CommandOperand> operands) {
  size_t strides = 0, terms = 0;
  for (const CommandOperand& operand : operands) {
    strides = std::max(strides, operand.strides.size());
    terms += operand.terms.size();
  }
  abi::Command header{.kernel = kernel,
                      .blocks = 0,
                      .data_count = counted(data.size()),
                      .operand_count = counted(operands.size()),
                      .stride_count = counted(strides),
                      .term_count = counted(terms)};
  header.blocks = static_cast<uint32_t>((abi::record_words(header) + abi::block_words - 1) / abi::block_words);
  const size_t begin = commands.size();
  commands.resize(begin + size_t{header.blocks} * abi::block_words);
  uint64_t* const record = commands.data() + begin;
  write(record, header);
  std::ranges::copy(data, record + abi::data_word);
  uint32_t term = 0;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    const CommandOperand& operand = operands[i];
    uint64_t* const place = record + abi::operand_word(header.data_count, header.stride_count, i);
    write(place, abi::Operand{.offset = operand.offset,
                              .memory = operand.memory,
                              .term_begin = static_cast<uint16_t>(term),
                              .term_count = static_cast<uint16_t>(operand.terms.size())});
    std::ranges::copy(operand.strides, place + 2);
    for (const abi::Term& one : operand.terms) write(record + abi::term_word(header) + size_t{2} * term++, one);
  }
}

void append_copy(std::vector<uint64_t>& commands, uint32_t kernel, std::span<const int64_t> counts, int64_t chunk,
                 std::span<const CommandOperand> operands) {
  LOW_CHECK(counts.size() <= abi::max_copy_rank);
  std::vector<CommandOperand> padded(operands.begin(), operands.end());
  for (CommandOperand& operand : padded) operand.strides.resize(abi::max_copy_rank);
  std::array<int64_t, abi::max_copy_rank + 2> data{};
  data.front() = static_cast<int64_t>(counts.size());
  std::ranges::copy(counts, data.begin() + 1);
  data.back() = chunk;
  append_command(commands, kernel, data, padded);
}

void renumber_commands(std::vector<uint64_t>& commands, std::span<const uint32_t> numbers) {
  for (size_t word = 0; word < commands.size();) {
    auto header = read<abi::Command>(&commands[word]);
    header.kernel = numbers[header.kernel];
    write(&commands[word], header);
    word += size_t{header.blocks} * abi::block_words;
  }
}

CommandView::CommandView(std::span<const uint64_t> commands, uint32_t block)
    : words_(commands.subspan(size_t{block} * abi::block_words)), header_(read<abi::Command>(words_.data())) {}

abi::Operand CommandView::operand(uint32_t index) const {
  return read<abi::Operand>(&words_[abi::operand_word(header_.data_count, header_.stride_count, index)]);
}

abi::Term CommandView::term(uint32_t index) const {
  return read<abi::Term>(&words_[abi::term_word(header_) + size_t{2} * index]);
}

}  // namespace low
