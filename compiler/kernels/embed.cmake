# Writes the headers in HEADERS (relative to ROOT) as string constants to OUTPUT.
set(text "// Generated from the device library.\n#include \"compiler/kernels/device_library.h\"\n\nnamespace low {\n")
string(APPEND text "std::span<const DeviceHeader> device_library() {\n  static constexpr DeviceHeader headers[] = {\n")
foreach(header IN LISTS HEADERS)
  file(READ "${ROOT}/${header}" content)
  string(APPEND text "      {\"${header}\", R\"low_header(${content})low_header\"},\n")
endforeach()
string(APPEND text "  };\n  return headers;\n}\n}  // namespace low\n")
file(WRITE "${OUTPUT}" "${text}")
