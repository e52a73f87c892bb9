// Compiles the routines for all targets and writes them, as C++ that defines built_routines(), to the file that is named.
#include <fmt/format.h>

#include <cstdio>

#include "compiler/codegen/codegen.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

// A string literal of any bytes, in lines.
std::string literal(std::string_view bytes) {
  constexpr size_t line_bytes = 64;
  std::string text = "\"";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0 && i % line_bytes == 0) text += "\"\n    \"";
    text += fmt::format("\\{:03o}", static_cast<unsigned char>(bytes[i]));
  }
  return text + "\"";
}

Result<std::string> source_of_routines() {
  std::string text =
      "#include \"compiler/routines/routines.h\"\n\n"
      "namespace low {\n"
      "std::span<const CodeObject> built_routines() {\n"
      "  static const std::vector<CodeObject> objects = {\n";
  for (const std::string_view target : codegen_targets()) {
    if (!has_routines(target)) continue;
    const Result<CodeObject> object = compile_routines(target, {});
    if (!object && object.error().kind == ErrorKind::unsupported) {
      std::fprintf(stderr, "warning: lowc will compile its routines with each model: %s\n",
                   object.error().message.c_str());
      continue;
    }
    if (!object) return std::unexpected(object.error());
    text += fmt::format("  {{.target = \"{}\", .bytes = {{{},\n {}}}, .clang_version = \"{}\"}},\n", target,
                        literal(object->bytes), object->bytes.size(), object->clang_version);
  }
  return text + "  };\n  return objects;\n}\n}  // namespace low\n";
}

Result<void> make_routines(const std::string& path) {
  LOW_TRY(const std::string text, source_of_routines());
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace
}  // namespace low

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_routines FILE\n");
    return 2;
  }
  const low::Result<void> made = low::make_routines(arguments[1]);
  if (!made) std::fprintf(stderr, "make_routines: %s\n", made.error().message.c_str());
  return made ? 0 : 1;
}
