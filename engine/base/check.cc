#include "engine/base/check.h"

#include <spdlog/spdlog.h>

#include <cstdlib>

namespace dovetail::internal {

void CheckFailed(const char* expression, const char* file, int line) {
  spdlog::critical("CHECK failed: {} at {}:{}; this is a bug, please report it with this line",
                   expression, file, line);
  spdlog::default_logger()->flush();
  std::abort();
}

}  // namespace dovetail::internal
