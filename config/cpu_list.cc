#include "config/cpu_list.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace dovetail::config {
namespace {

std::optional<int> ParseCpu(std::string_view text) {
  int cpu = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc() || stop != text.data() + text.size() || cpu < 0) return std::nullopt;
  if (cpu >= CPU_SETSIZE) return std::nullopt;
  return cpu;
}

}  // namespace

std::expected<std::vector<int>, std::string> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const size_t dash = std::min(part.find('-'), part.size());
    const std::optional<int> first = ParseCpu(part.substr(0, dash));
    const std::optional<int> last = dash == part.size() ? first : ParseCpu(part.substr(dash + 1));
    const bool ends_open = comma + 1 == text.size();
    if (!first || !last || *last < *first || ends_open) {
      return std::unexpected(
          fmt::format("\"{}\" is neither a processor from 0 to {} nor a range of them",
                      ends_open ? text : part, CPU_SETSIZE - 1));
    }
    for (int cpu = *first; cpu <= *last; ++cpu) {
      if (std::ranges::find(cpus, cpu) != cpus.end()) {
        return std::unexpected(fmt::format("it names processor {} twice", cpu));
      }
      cpus.push_back(cpu);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return cpus;
}

}  // namespace dovetail::config
