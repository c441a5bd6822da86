// Logging is spdlog's default logger; this sets it up once, before any other thread starts.
#pragma once

#include <string>

namespace dovetail {

// level: DEBUG, INFO, WARN or ERROR (checked by config/). Lines go to standard error.
void InitLog(const std::string& level);

}  // namespace dovetail
