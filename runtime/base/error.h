// Errors of the whole project: what input or hardware can cause is a Result; our own bugs stop in LOW_CHECK.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace low {

// The values are the exit codes of the command line.
enum class ErrorKind : int {
  mismatch = 1,     // a comparison failed
  usage = 2,        // wrong command line, an unbound symbolic dimension
  invalid = 3,      // a malformed or inconsistent file
  unsupported = 4,  // well-formed, but outside of what low handles
  device = 5,       // the device or its driver failed
  internal = 6,     // a bug of ours that was caught before it did harm
};

// One sentence for a person: entity, what was expected, what was found.
struct [[nodiscard]] Error {
  ErrorKind kind;
  std::string message;
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected<Error>(Error{kind, std::move(message)});
}

// The same error with "context: " before its message, for callers that know the file or the node.
[[nodiscard]] inline std::unexpected<Error> in_context(std::string_view context, const Error& error) {
  return std::unexpected<Error>(Error{error.kind, std::string(context) + ": " + error.message});
}

// Prints file, line and text to stderr and aborts. For invariants of ours that no input can break.
[[noreturn]] void check_failed(const char* file, int line, const char* text);

}  // namespace low

#define LOW_CHECK(condition)                                               \
  do {                                                                     \
    if (!(condition)) ::low::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)

#define LOW_CONCAT_(a, b) a##b
#define LOW_CONCAT(a, b) LOW_CONCAT_(a, b)

// LOW_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define LOW_TRY(declaration, ...) LOW_TRY_(LOW_CONCAT(low_try_, __LINE__), declaration, __VA_ARGS__)
#define LOW_TRY_(temporary, declaration, ...)                             \
  auto temporary = (__VA_ARGS__);                                         \
  if (!temporary) return ::std::unexpected(std::move(temporary).error()); \
  declaration = std::move(*temporary)

// The same for Result<void>.
#define LOW_TRY_VOID(...)                                                                                      \
  do {                                                                                                         \
    if (auto low_result = (__VA_ARGS__); !low_result) return ::std::unexpected(std::move(low_result).error()); \
  } while (false)
