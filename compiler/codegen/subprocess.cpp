#include "compiler/codegen/subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>

namespace low {
namespace {

std::string system_error(int code) { return std::generic_category().message(code); }

}  // namespace

Result<TemporaryFolder> TemporaryFolder::create() {
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  std::string path = (error ? std::filesystem::path("/tmp") : base) / "low-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return fail(ErrorKind::usage, fmt::format("cannot create a temporary folder {}: {}; TMPDIR names where to", path,
                                              system_error(errno)));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;  // nothing can be done about it here
  std::filesystem::remove_all(path_, ignored);
}

Result<std::string> read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  // An empty file sets the failbit of `text`, which is no error.
  if (!file.is_open() || file.bad()) return fail(ErrorKind::internal, fmt::format("cannot read {}", path));
  return std::move(text).str();
}

Result<ProcessResult> run_process(std::span<const std::string> arguments, const std::string& input,
                                  const TemporaryFolder& folder) {
  const std::string in = folder.path() + "/stdin", out = folder.path() + "/output";
  {
    std::ofstream file(in, std::ios::binary);
    file << input;
    if (!file.flush())
      return fail(ErrorKind::usage, fmt::format("cannot write {}; is the disk full? TMPDIR names another", in));
  }
  std::vector<char*> argv;
  // posix_spawn takes char* and changes nothing.
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const char* const path = std::getenv("PATH");  // where the program's own helpers (a wrapper's shell, the linker) are
  std::string path_variable = fmt::format("PATH={}", path != nullptr ? path : "/usr/bin:/bin");
  std::string locale = "LC_ALL=C", temporary = "TMPDIR=" + folder.path();
  char* environment[] = {path_variable.data(), locale.data(), temporary.data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  ProcessResult result;
  if (error == ENOENT || error == EACCES || error == ENOTDIR) return result;
  if (error != 0)
    return fail(ErrorKind::internal, fmt::format("cannot start {}: {}", arguments[0], system_error(error)));
  result.started = true;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail(ErrorKind::internal, fmt::format("lost {}: {}", arguments[0], system_error(errno)));
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  LOW_TRY(result.output, read_whole_file(out));
  return result;
}

}  // namespace low
