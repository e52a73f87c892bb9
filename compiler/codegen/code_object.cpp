#include "compiler/codegen/code_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace low {
namespace {

constexpr uint32_t amdgpu_metadata = 32;  // NT_AMDGPU_METADATA
constexpr uint16_t amdgpu_machine = 224;  // EM_AMDGPU

template <typename T>
std::optional<T> read_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The description of the first note of this type; names and descriptions end at multiples of 4 bytes.
std::optional<std::span<const std::byte>> find_note(std::span<const std::byte> notes, uint32_t type) {
  uint64_t at = 0;
  while (const auto header = read_at<Elf64_Nhdr>(notes, at)) {
    const uint64_t name = at + sizeof(Elf64_Nhdr), text = name + (uint64_t{header->n_namesz} + 3) / 4 * 4;
    if (text > notes.size() || header->n_descsz > notes.size() - text) return std::nullopt;
    if (header->n_type == type) return notes.subspan(text, header->n_descsz);
    at = text + (uint64_t{header->n_descsz} + 3) / 4 * 4;
  }
  return std::nullopt;
}

std::optional<std::span<const std::byte>> find_metadata(std::span<const std::byte> object) {
  const auto header = read_at<Elf64_Ehdr>(object, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_machine != amdgpu_machine)
    return std::nullopt;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(object, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    if (segment->p_type != PT_NOTE) continue;
    if (segment->p_offset > object.size() || segment->p_filesz > object.size() - segment->p_offset) return std::nullopt;
    if (const auto note = find_note(object.subspan(segment->p_offset, segment->p_filesz), amdgpu_metadata)) return note;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<KernelInfo>> entry_infos(std::span<const std::byte> object, std::string_view what) {
  const auto bad = [&] {
    return fail(ErrorKind::invalid, fmt::format("{}: has no metadata of AMD GPUs' kernels", what));
  };
  const auto note = find_metadata(object);
  if (!note) return bad();
  const auto* const begin = reinterpret_cast<const uint8_t*>(note->data());
  try {
    const nlohmann::json metadata = nlohmann::json::from_msgpack(begin, begin + note->size());
    std::vector<KernelInfo> infos;
    for (const nlohmann::json& kernel : metadata.at("amdhsa.kernels")) {
      infos.push_back({.name = kernel.at(".name").get<std::string>(),
                       .vgprs = kernel.at(".vgpr_count").get<uint32_t>(),
                       .sgprs = kernel.at(".sgpr_count").get<uint32_t>(),
                       .vgpr_spills = kernel.at(".vgpr_spill_count").get<uint32_t>(),
                       .sgpr_spills = kernel.at(".sgpr_spill_count").get<uint32_t>(),
                       .lds_bytes = kernel.at(".group_segment_fixed_size").get<uint64_t>(),
                       .private_bytes = kernel.at(".private_segment_fixed_size").get<uint64_t>()});
    }
    return infos;
  } catch (const nlohmann::json::exception&) {
    return bad();
  }
}

}  // namespace low
