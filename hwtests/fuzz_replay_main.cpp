// Stands in for libFuzzer's main in ordinary builds: runs a fuzzer once over every file of its corpus.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) files.push_back(entry.path());
    if (error) std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
  }
  if (files.empty()) {
    std::fputs("no corpus was found\n", stderr);
    return 1;
  }
  for (const std::filesystem::path& file : files) {
    // The last one named is the one that failed.
    std::printf("%s\n", file.filename().c_str());
    std::fflush(stdout);
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    // A copy of just its size, so that reading beyond it shows.
    const std::vector<uint8_t> data(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%zu inputs\n", files.size());
  return 0;
}
