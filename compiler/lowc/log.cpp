#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "compiler/lowc/support.h"

namespace low::lowc {

void set_verbosity(int verbose) {
  auto logger = std::make_shared<spdlog::logger>("lowc", std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_pattern("lowc: %v");
  logger->set_level(verbose == 0 ? spdlog::level::warn : verbose == 1 ? spdlog::level::info : spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void log_stage(std::string_view stage, double milliseconds) { spdlog::info("{}: {:.3f} ms", stage, milliseconds); }

}  // namespace low::lowc
