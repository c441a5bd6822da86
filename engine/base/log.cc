#include "engine/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "engine/base/check.h"

namespace dovetail {

void InitLog(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("dovetail",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  if (level == "DEBUG") {
    logger->set_level(spdlog::level::debug);
  } else if (level == "INFO") {
    logger->set_level(spdlog::level::info);
  } else if (level == "WARN") {
    logger->set_level(spdlog::level::warn);
  } else {
    DOVETAIL_CHECK(level == "ERROR");
    logger->set_level(spdlog::level::err);
  }
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace dovetail
