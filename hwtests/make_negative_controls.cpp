// make_negative_controls MODEL FOLDER: writes FOLDER/<name>.onnx for each negative control and prints the names.
#include <cstdio>
#include <filesystem>

#include "hwtests/negative_controls.h"
#include "runtime/tensor/tensor_file.h"

namespace {

low::Result<void> run(const std::string& model, const std::string& folder) {
  LOW_TRY(const low::AlignedBytes bytes, low::read_file(model));
  LOW_TRY(const std::vector<low::NegativeControl> controls, low::make_negative_controls(bytes));
  std::filesystem::create_directories(folder);
  for (const low::NegativeControl& control : controls) {
    LOW_TRY_VOID(low::write_file(folder + "/" + control.name + ".onnx", std::as_bytes(std::span(control.model))));
    std::puts(control.name.c_str());
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: make_negative_controls MODEL FOLDER\n", stderr);
    return static_cast<int>(low::ErrorKind::usage);
  }
  if (const auto result = run(argv[1], argv[2]); !result) {
    std::fprintf(stderr, "make_negative_controls: %s\n", result.error().message.c_str());
    return static_cast<int>(result.error().kind);
  }
  return 0;
}
