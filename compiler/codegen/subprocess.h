// Runs a program and waits for it.
#pragma once

#include <span>
#include <string>

#include "runtime/base/error.h"

namespace low {

// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct ProcessResult {
  bool started = false;  // false: there is no such program
  int status = 0;        // exit code, or 128 + signal
  std::string output;    // what it wrote to stdout and stderr
};

// arguments[0] is the program, looked up in PATH if it has no slash. The child gets `input` on stdin and an environment
// of PATH, LC_ALL and TMPDIR (`folder`, which also takes our own files) alone, so that no variable changes what a
// compiler does. ErrorKind::usage when the folder cannot be
// written, ErrorKind::internal when the system refuses processes.
Result<ProcessResult> run_process(std::span<const std::string> arguments, const std::string& input,
                                  const TemporaryFolder& folder);

// The whole file.
Result<std::string> read_whole_file(const std::string& path);

}  // namespace low
