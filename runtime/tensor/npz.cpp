// NumPy's .npz: a ZIP archive of .npy members.
#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <memory>

#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

// What all members of an archive may expand to: deflate packs a zeroed megabyte into a kilobyte, and honest files hold
// zeros, but a small file must not fill the memory.
constexpr uint64_t always_allowed_bytes = uint64_t{256} << 20;
constexpr uint64_t allowed_expansion = 64;
constexpr size_t chunk_bytes = size_t{1} << 20;
constexpr std::string_view suffix = ".npy";

struct ArchiveDiscarder {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, ArchiveDiscarder>;

struct SourceFreer {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Source = std::unique_ptr<zip_source_t, SourceFreer>;

struct MemberCloser {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Member = std::unique_ptr<zip_file_t, MemberCloser>;

class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  zip_error_t* get() { return &error_; }
  std::string text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_{};
};

Result<Archive> open_for_reading(std::span<const std::byte> bytes) {
  // libzip takes an empty file for an archive without members.
  if (bytes.empty()) return fail(ErrorKind::invalid, "the file is empty, expected a ZIP archive");
  ZipError error;
  Source source(zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get()));
  if (!source) return fail(ErrorKind::internal, error.text());
  Archive archive(zip_open_from_source(source.get(), ZIP_RDONLY, error.get()));
  if (!archive) return fail(ErrorKind::invalid, fmt::format("not a ZIP archive that can be read: {}", error.text()));
  static_cast<void>(source.release());  // the archive owns it now
  return archive;
}

// What the directory of the archive says about a member, checked.
struct Entry {
  zip_uint64_t index;
  std::string name;
  uint64_t size;
};

Result<Entry> read_entry(zip_t* archive, zip_uint64_t index) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive, index, ZIP_FL_ENC_RAW, &stat) != 0 || (stat.valid & needed) != needed) {
    return fail(ErrorKind::invalid, fmt::format("the entry of member {} is damaged", index));
  }
  const std::string name = stat.name;
  if (stat.encryption_method != ZIP_EM_NONE) {
    return fail(ErrorKind::unsupported, fmt::format("member '{}' is encrypted", name));
  }
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return fail(ErrorKind::unsupported, fmt::format("member '{}' has compression method {}, expected stored or deflate",
                                                    name, stat.comp_method));
  }
  if (!name.ends_with(suffix)) {
    return fail(ErrorKind::invalid, fmt::format("member '{}' is not an .npy file", name));
  }
  return Entry{index, name.substr(0, name.size() - suffix.size()), stat.size};
}

// Memory grows with the bytes that really come out, not with the size that the entry declares.
Result<AlignedBytes> read_member(zip_t* archive, const Entry& entry) {
  const Member member(zip_fopen_index(archive, entry.index, 0));
  if (!member) {
    return fail(ErrorKind::invalid,
                fmt::format("member '{}{}' cannot be read: {}", entry.name, suffix, zip_strerror(archive)));
  }
  AlignedBytes bytes;
  while (true) {
    const size_t start = bytes.size();
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(chunk_bytes, entry.size - start + 1));
    bytes.resize(start + wanted);
    const zip_int64_t got = zip_fread(member.get(), bytes.data() + start, wanted);
    if (got < 0) {
      return fail(ErrorKind::invalid,
                  fmt::format("member '{}{}' is damaged: {}", entry.name, suffix, zip_file_strerror(member.get())));
    }
    bytes.resize(start + static_cast<size_t>(got));
    if (bytes.size() > entry.size || (got == 0 && bytes.size() != entry.size)) {
      return fail(ErrorKind::invalid, fmt::format("member '{}{}' does not have the {} bytes that its entry declares",
                                                  entry.name, suffix, entry.size));
    }
    if (got == 0) return bytes;
  }
}

Result<std::map<std::string, Tensor>> read_members(std::span<const std::byte> bytes) {
  LOW_TRY(const Archive archive, open_for_reading(bytes));
  uint64_t budget = std::max<uint64_t>(always_allowed_bytes, bytes.size() * allowed_expansion);
  std::map<std::string, Tensor> tensors;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    LOW_TRY(const Entry entry, read_entry(archive.get(), static_cast<zip_uint64_t>(i)));
    if (tensors.contains(entry.name)) {
      return fail(ErrorKind::invalid, fmt::format("member '{}{}' appears twice", entry.name, suffix));
    }
    if (entry.size > budget) {
      return fail(ErrorKind::invalid,
                  fmt::format("member '{}{}' would expand to {} bytes, and the archive of {} bytes may have {} more",
                              entry.name, suffix, entry.size, bytes.size(), budget));
    }
    budget -= entry.size;
    LOW_TRY(const AlignedBytes content, read_member(archive.get(), entry));
    LOW_TRY(Tensor tensor, parse_npy(content, entry.name + std::string(suffix)));
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

Result<void> add_member(zip_t* archive, const std::string& name, std::string_view content) {
  Source source(zip_source_buffer(archive, content.data(), content.size(), 0));
  if (!source) return fail(ErrorKind::internal, zip_strerror(archive));
  const std::string member = name + std::string(suffix);
  if (member.find('\0') != std::string::npos) return fail(ErrorKind::invalid, "a tensor's name has a NUL byte");
  const zip_int64_t index = zip_file_add(archive, member.c_str(), source.get(), ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    return fail(ErrorKind::invalid, fmt::format("member '{}' cannot be added: {}", member, zip_strerror(archive)));
  }
  static_cast<void>(source.release());  // the archive owns it now
  const auto position = static_cast<zip_uint64_t>(index);
  // 1980-01-01 00:00, the first time that ZIP knows: equal tensors give equal archives.
  constexpr zip_uint16_t first_date = (1 << 5) | 1;
  if (zip_set_file_compression(archive, position, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, position, 0, first_date, 0) != 0) {
    return fail(ErrorKind::internal, zip_strerror(archive));
  }
  return {};
}

Result<std::string> read_all(zip_source_t* source) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_source_stat(source, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0 || zip_source_open(source) != 0) {
    return fail(ErrorKind::internal, "the archive in memory cannot be opened");
  }
  std::string text(stat.size, '\0');
  const zip_int64_t got = zip_source_read(source, text.data(), text.size());
  zip_source_close(source);
  if (got < 0 || static_cast<size_t>(got) != text.size()) {
    return fail(ErrorKind::internal, "the archive in memory cannot be read");
  }
  return text;
}

}  // namespace

Result<std::map<std::string, Tensor>> parse_npz(std::span<const std::byte> bytes, std::string_view what) {
  Result<std::map<std::string, Tensor>> tensors = read_members(bytes);
  if (!tensors) return in_context(what, tensors.error());
  return tensors;
}

Result<std::string> serialize_npz(const std::map<std::string, Tensor>& tensors) {
  // libzip writes no archive without members; this is the end record that such a file consists of.
  if (tensors.empty()) return std::string("PK\5\6") + std::string(18, '\0');
  std::map<std::string, std::string> members;  // libzip reads them in zip_close
  for (const auto& [name, tensor] : tensors) members.emplace(name, serialize_npy(tensor));

  ZipError error;
  const Source file(zip_source_buffer_create(nullptr, 0, 0, error.get()));
  if (!file) return fail(ErrorKind::internal, error.text());
  zip_source_keep(file.get());  // one reference for the archive, one for us
  Archive archive(zip_open_from_source(file.get(), ZIP_CREATE | ZIP_TRUNCATE, error.get()));
  if (!archive) {
    zip_source_free(file.get());
    return fail(ErrorKind::internal, error.text());
  }
  for (const auto& [name, content] : members) LOW_TRY_VOID(add_member(archive.get(), name, content));
  if (zip_close(archive.get()) != 0) return fail(ErrorKind::internal, zip_strerror(archive.get()));
  static_cast<void>(archive.release());
  return read_all(file.get());
}

}  // namespace low
