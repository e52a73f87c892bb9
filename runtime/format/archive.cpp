// The layout follows from the names and the sizes alone, so the reader takes those from the central directory, lays the
// archive out again and compares every header with its bytes. Field names are those of PKWARE's APPNOTE.TXT 6.3.
#include "runtime/format/package.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <deque>

#include "runtime/base/sha256.h"
#include "runtime/format/byte_stream.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

constexpr std::string_view comment_start = "low-package ";
constexpr std::string_view comment_prefix = "low-package 1 sha256:";
constexpr size_t comment_bytes = comment_prefix.size() + 64;

constexpr uint32_t local_signature = 0x04034b50;
constexpr uint32_t central_signature = 0x02014b50;
constexpr uint32_t end64_signature = 0x06064b50;
constexpr uint32_t locator_signature = 0x07064b50;
constexpr uint32_t end_signature = 0x06054b50;
constexpr size_t local_fixed_bytes = 30;
constexpr size_t central_fixed_bytes = 46;
constexpr size_t local_zip64_bytes = 4 + 16;
constexpr size_t central_zip64_bytes = 4 + 24;
constexpr size_t end64_bytes = 56;
constexpr size_t locator_bytes = 20;
constexpr size_t end_bytes = 22;

constexpr uint16_t version_zip64 = 45;
constexpr uint16_t made_by_unix = 3 << 8;
constexpr uint32_t regular_file = 0100644u << 16;  // external attributes of a Unix file
constexpr uint16_t zip64_extra = 0x0001;
constexpr uint16_t alignment_extra = 0xd935;  // the alignment, then zeros; known from Android's packages
constexpr size_t alignment_extra_bytes = 4 + 2;
constexpr uint64_t alignment = 64;
constexpr size_t max_name_bytes = 4096;  // any limit that keeps the extra field below 65536 will do

struct Entry {
  std::string_view name;
  uint64_t bytes = 0;
  uint32_t crc = 0;
  uint64_t header = 0;  // offset of the local header
};

uint64_t data_offset(const Entry& entry) {
  const uint64_t least =
      entry.header + local_fixed_bytes + entry.name.size() + local_zip64_bytes + alignment_extra_bytes;
  return (least + alignment - 1) / alignment * alignment;
}

void write_common(ByteWriter& writer, const Entry& entry, size_t extra_bytes) {
  writer.number(version_zip64);
  writer.number(uint16_t{0});  // flags
  writer.number(uint16_t{0});  // stored
  writer.number(uint32_t{0});  // time and date
  writer.number(entry.crc);
  writer.number(0xffffffffu);  // both sizes are in the ZIP64 field
  writer.number(0xffffffffu);
  writer.number(static_cast<uint16_t>(entry.name.size()));
  writer.number(static_cast<uint16_t>(extra_bytes));
}

uint32_t crc32_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string local_header(const Entry& entry) {
  const auto extra = static_cast<size_t>(data_offset(entry) - entry.header - local_fixed_bytes - entry.name.size());
  const size_t padding = extra - local_zip64_bytes - alignment_extra_bytes;
  ByteWriter writer;
  writer.number(local_signature);
  write_common(writer, entry, extra);
  writer.raw(entry.name);
  writer.number(zip64_extra);
  writer.number(uint16_t{16});
  writer.number(entry.bytes);
  writer.number(entry.bytes);
  writer.number(alignment_extra);
  writer.number(static_cast<uint16_t>(2 + padding));
  writer.number(static_cast<uint16_t>(alignment));
  writer.zeros(padding);
  return writer.take();
}

// The central directory and all that follows it but the comment's text.
std::string tail(const std::vector<Entry>& entries, uint64_t directory) {
  ByteWriter writer;
  for (const Entry& entry : entries) {
    writer.number(central_signature);
    writer.number(static_cast<uint16_t>(made_by_unix | version_zip64));
    write_common(writer, entry, central_zip64_bytes);
    writer.number(uint16_t{0});  // comment length
    writer.number(uint16_t{0});  // disk
    writer.number(uint16_t{0});  // internal attributes
    writer.number(regular_file);
    writer.number(0xffffffffu);  // the header's offset is in the ZIP64 field
    writer.raw(entry.name);
    writer.number(zip64_extra);
    writer.number(uint16_t{24});
    writer.number(entry.bytes);
    writer.number(entry.bytes);
    writer.number(entry.header);
  }
  const uint64_t directory_bytes = writer.size();

  writer.number(end64_signature);
  writer.number(uint64_t{end64_bytes - 12});  // of this record, without its first two fields
  writer.number(static_cast<uint16_t>(made_by_unix | version_zip64));
  writer.number(version_zip64);
  writer.number(uint32_t{0});  // disks
  writer.number(uint32_t{0});
  writer.number(uint64_t{entries.size()});
  writer.number(uint64_t{entries.size()});
  writer.number(directory_bytes);
  writer.number(directory);

  writer.number(locator_signature);
  writer.number(uint32_t{0});
  writer.number(directory + directory_bytes);
  writer.number(uint32_t{1});

  writer.number(end_signature);
  writer.number(uint32_t{0});  // disks
  writer.number(uint16_t{0xffff});
  writer.number(uint16_t{0xffff});
  writer.number(0xffffffffu);
  writer.number(0xffffffffu);
  writer.number(static_cast<uint16_t>(comment_bytes));
  return writer.take();
}

// Relative, of nonempty parts that are neither "." nor "..", in printable ASCII without backslash (a separator to some
// tools).
bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > max_name_bytes) return false;
  for (const char c : name) {
    if (c < 0x20 || c > 0x7e || c == '\\') return false;
  }
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == name.size()) return true;
    begin = end + 1;
  }
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::unexpected<Error> bad(std::string_view what, std::string_view text) {
  return fail(ErrorKind::invalid, fmt::format("{}: {}", what, text));
}

// The bytes of an archive in front of its comment's text.
class Body {
 public:
  Body(const ByteSource& source, std::string_view what) : source_(source), what_(what) {}

  uint64_t bytes() const { return source_.bytes() - comment_bytes; }
  Result<std::string> read(uint64_t offset, uint64_t count) const {
    std::string text(static_cast<size_t>(count), '\0');
    if (auto done = source_.read(offset, std::as_writable_bytes(std::span(text))); !done) {
      return in_context(what_, done.error());
    }
    return text;
  }
  Result<bool> equal_at(uint64_t offset, std::string_view expected) const {
    if (offset > bytes() || expected.size() > bytes() - offset) return false;
    LOW_TRY(const std::string found, read(offset, expected.size()));
    return found == expected;
  }

  // Checks the comment.
  Result<void> check_hash() const {
    if (source_.bytes() < comment_bytes) {
      return bad(what_,
                 fmt::format("is not a low package: {} bytes are fewer than an empty package has", source_.bytes()));
    }
    LOW_TRY(const std::string comment, read(bytes(), comment_bytes));
    if (!comment.starts_with(comment_start)) {
      return bad(what_,
                 "is not a low package: it does not end in a package's comment (damaged, truncated or another format)");
    }
    if (!comment.starts_with(comment_prefix)) {
      return bad(what_,
                 fmt::format("is a package of another version: its comment does not start with '{}'", comment_prefix));
    }
    Sha256 hash;
    for (uint64_t offset = 0; offset < bytes(); offset += part_bytes) {
      LOW_TRY(const std::string part, read(offset, std::min(part_bytes, bytes() - offset)));
      hash.update(as_bytes(part));
    }
    if (comment.substr(comment_prefix.size()) != hash.finish()) {
      return bad(what_, "is damaged: its bytes do not have the SHA-256 that its comment states");
    }
    return {};
  }

 private:
  static constexpr uint64_t part_bytes = 1 << 20;
  const ByteSource& source_;
  std::string_view what_;
};

// Names, sizes, checksums and offsets as the central directory has them, which need not be right yet.
// The names are borrowed.
Result<std::vector<Entry>> read_directory(std::string_view directory, uint64_t count, std::string_view what) {
  std::vector<Entry> entries;
  ByteReader reader(as_bytes(directory));
  for (uint64_t i = 0; i < count && !reader.failed(); ++i) {
    Entry entry;
    reader.raw(16);
    entry.crc = reader.number<uint32_t>();
    reader.raw(8);
    const auto name_bytes = reader.number<uint16_t>();
    reader.raw(central_fixed_bytes - 30);
    entry.name = reader.raw(name_bytes);
    reader.raw(4);
    entry.bytes = reader.number<uint64_t>();
    reader.raw(8);
    entry.header = reader.number<uint64_t>();
    if (reader.failed()) break;
    if (!valid_name(entry.name)) {
      return bad(what, fmt::format("entry {} has a name that is not a plain relative path", i));
    }
    if (!entries.empty() && entries.back().name >= entry.name) {
      return bad(what, fmt::format("entry '{}' is not in order of name, or is there twice", entry.name));
    }
    entries.push_back(entry);
  }
  if (reader.failed() || reader.left() != 0) return bad(what, "the central directory does not have its stated size");
  return entries;
}

// An archive up to its comment's text.
struct Layout {
  std::deque<std::string> headers;  // which some of the pieces are
  std::vector<std::span<const std::byte>> pieces;
  uint64_t bytes = 0;

  void add(std::span<const std::byte> piece) {
    pieces.push_back(piece);
    bytes += piece.size();
  }
  void add(std::string header) { add(as_bytes(headers.emplace_back(std::move(header)))); }
};

Layout lay_out(const ArchiveEntries& contents, ThreadPool& pool) {
  std::vector<Entry> entries;
  std::vector<std::span<const std::byte>> bytes_of;
  for (const auto& [name, bytes] : contents) {
    LOW_CHECK(valid_name(name));
    entries.push_back({.name = name, .bytes = bytes.size()});
    bytes_of.push_back(bytes);
  }
  pool.parallel_for(static_cast<int64_t>(entries.size()), [&](int64_t i) {
    entries[static_cast<size_t>(i)].crc = crc32_of(bytes_of[static_cast<size_t>(i)]);
  });
  Layout layout;
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].header = layout.bytes;
    layout.add(local_header(entries[i]));
    layout.add(bytes_of[i]);
  }
  layout.add(tail(entries, layout.bytes));
  return layout;
}

std::string comment_of(const Layout& layout) {
  Sha256 hash;
  for (const auto& piece : layout.pieces) hash.update(piece);
  return std::string(comment_prefix) + hash.finish();
}

}  // namespace

std::string write_archive(const ArchiveEntries& contents) {
  ThreadPool alone(1);
  const Layout layout = lay_out(contents, alone);
  std::string archive;
  archive.reserve(layout.bytes + comment_bytes);
  for (const auto& piece : layout.pieces) archive.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return archive + comment_of(layout);
}

Result<uint64_t> write_archive(const ArchiveEntries& contents, const std::string& path, ThreadPool& pool) {
  const Layout layout = lay_out(contents, pool);
  LOW_TRY(NewFile file, NewFile::create(path));
  Result<void> written;
  std::string comment;
  pool.parallel_for(2, [&](int64_t half) {
    if (half == 0) {
      comment = comment_of(layout);
      return;
    }
    for (const auto& piece : layout.pieces)
      if (written) written = file.write(piece);
  });
  LOW_TRY_VOID(written);
  LOW_TRY_VOID(file.write(as_bytes(comment)));
  LOW_TRY_VOID(file.finish());
  return layout.bytes + comment_bytes;
}

Result<ArchiveIndex> read_archive_index(const ByteSource& source, std::string_view what) {
  const Body body(source, what);
  LOW_TRY_VOID(body.check_hash());
  constexpr size_t ends = end64_bytes + locator_bytes + end_bytes;
  if (body.bytes() < ends) return bad(what, "there is no room for the records at a package's end");
  const uint64_t end64 = body.bytes() - ends;
  LOW_TRY(const std::string end64_record, body.read(end64, end64_bytes));
  ByteReader end64_reader(as_bytes(end64_record));
  end64_reader.raw(32);
  const auto count = end64_reader.number<uint64_t>();
  const auto directory_bytes = end64_reader.number<uint64_t>();
  const auto directory = end64_reader.number<uint64_t>();
  if (directory > end64 || directory_bytes != end64 - directory) {
    return bad(what, fmt::format("a central directory of {} bytes at {} does not end at {}", directory_bytes, directory,
                                 end64));
  }
  LOW_TRY(const std::string names, body.read(directory, directory_bytes));
  LOW_TRY(const auto entries, read_directory(names, count, what));

  ArchiveIndex result;
  uint64_t position = 0;
  for (const Entry& entry : entries) {
    LOW_TRY(const bool is_expected, entry.header == position ? body.equal_at(position, local_header(entry)) : false);
    if (!is_expected) return bad(what, fmt::format("the header of entry '{}' is not as expected", entry.name));
    const uint64_t data = data_offset(entry);  // at most `directory` + 64, as the header was there
    if (data > directory || entry.bytes > directory - data) {
      return bad(what,
                 fmt::format("entry '{}' of {} bytes reaches into the central directory", entry.name, entry.bytes));
    }
    result.emplace(entry.name, ArchiveExtent{data, entry.bytes});
    position = data + entry.bytes;
  }
  if (position != directory) return bad(what, "there are bytes between the last entry and the central directory");
  LOW_TRY(const bool is_expected, body.equal_at(directory, tail(entries, directory)));
  if (!is_expected) return bad(what, "the central directory is not as expected");
  return result;
}

}  // namespace low
