#include "config/key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/host_address.h"
#include "config/size.h"
#include "config/toml_text.h"

namespace dovetail::config {
namespace {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSizeMax = int64_t{1} << 50;  // no machine is near; sums stay far from overflow
constexpr int64_t kGrpcMessageMax = (int64_t{1} << 31) - 1;  // gRPC counts a message in an int
constexpr int64_t kHourSec = 3600;
constexpr int64_t kHourMs = kHourSec * 1000;
constexpr int64_t kCountMax = 1'000'000;

std::optional<std::string> CheckStoreType(const std::string& text) {
  if (text == "MEMORY_LOCALFILE") return std::nullopt;
  return "only MEMORY_LOCALFILE is served, of which this version has the memory tier";
}

std::optional<std::string> CheckBindAddress(const std::string& text) {
  if (IsAddress(text)) return std::nullopt;
  return "not an IPv4 or IPv6 address; host names and ports do not belong here";
}

std::optional<std::string> CheckAdvertiseHost(const std::string& text) {
  if (IsWildcardAddress(text)) return "clients cannot connect to a wildcard address";
  if (IsAddress(text) || IsHostName(text)) return std::nullopt;
  return "neither a host name nor an address; leave out scheme and port";
}

std::optional<std::string> CheckTag(const std::string& text) {
  if (text.empty()) return "a tag is empty";
  if (text.find(',') != std::string::npos) {
    return "a tag holds a comma, which separates tags at the client; write two elements";
  }
  return std::nullopt;
}

std::optional<std::string> CheckDataPath(const std::string& text) {
  if (text.starts_with('/')) return std::nullopt;
  return "not an absolute path; it must start with /";
}

std::optional<std::string> CheckLogLevel(const std::string& text) {
  for (const std::string_view level : {"DEBUG", "INFO", "WARN", "ERROR"}) {
    if (text == level) return std::nullopt;
  }
  return "not a log level";
}

constexpr auto kKeys = std::to_array<Key>({
    {.section = "",
     .name = "store_type",
     .meaning = "Tiers that hold shuffle data. This version has the first of them only, memory.",
     .field = [](Config& c) -> auto& { return c.server.store_type; },
     .expected = "MEMORY_LOCALFILE",
     .check = CheckStoreType},
    {.section = "",
     .name = "bind_address",
     .meaning = "Address that all ports listen on; 0.0.0.0 is every address of the machine. An "
                "IPv6 address "
                "needs an HTTP library built with IPv6, which Debian 12's is not.",
     .field = [](Config& c) -> auto& { return c.server.bind_address; },
     .expected = "an IPv4 or IPv6 address",
     .check = CheckBindAddress},
    {.section = "",
     .name = "advertise_host",
     .meaning = "Host name or address that clients are told to connect to.",
     .field = [](Config& c) -> auto& { return c.server.advertise_host; },
     .expected = "a host name or an address",
     .check = CheckAdvertiseHost,
     .derived =
         "bind_address when that is a single address, else the address of the interface with "
         "the default route, else 127.0.0.1"},
    {.section = "",
     .name = "grpc_port",
     .meaning = "Port of gRPC: shuffle server and coordinator. 0 takes a free one.",
     .field = [](Config& c) -> auto& { return c.server.grpc_port; },
     .min = 0,
     .max = 65535},
    {.section = "",
     .name = "http_port",
     .meaning =
         "Port of HTTP: metrics and health. 0 takes a free one, else it differs from grpc_port.",
     .field = [](Config& c) -> auto& { return c.server.http_port; },
     .min = 0,
     .max = 65535},
    {.section = "",
     .name = "grpc_message_bytes_max",
     .meaning = "Largest gRPC message that is taken in.",
     .field = [](Config& c) -> auto& { return c.server.grpc_message_bytes_max; },
     .min = 64 * kKiB,
     .max = kGrpcMessageMax,
     .is_size = true},
    {.section = "",
     .name = "grpc_memory_bytes_max",
     .meaning = "Memory that gRPC may hold for messages that have not reached the store yet; at "
                "least grpc_message_bytes_max.",
     .field = [](Config& c) -> auto& { return c.server.grpc_memory_bytes_max; },
     .min = 64 * kKiB,
     .max = kSizeMax,
     .is_size = true},
    {.section = "",
     .name = "grpc_streams_max",
     .meaning = "Calls in flight on one gRPC connection.",
     .field = [](Config& c) -> auto& { return c.server.grpc_streams_max; },
     .min = 1,
     .max = kCountMax},
    {.section = "",
     .name = "grpc_answer_timeout_ms",
     .meaning = "How long a client may take for an answer before the call is cut: an answer holds "
                "memory and its share of memory_store.read_bytes_max. Raise it for clients that "
                "take large answers over slow links.",
     .field = [](Config& c) -> auto& { return c.server.grpc_answer_timeout_ms; },
     .min = 100,
     .max = kHourMs},
    {.section = "",
     .name = "tags",
     .meaning =
         "Tags that an application can ask its servers to have, beside the built-in ss_v5 and "
         "GRPC.",
     .field = [](Config& c) -> auto& { return c.server.tags; },
     .expected = "an array of tags, each not empty and without a comma",
     .check = CheckTag},
    {.section = "",
     .name = "heartbeat_interval_seconds",
     .meaning = "Pause between two heartbeats to the coordinator; shorter than "
                "coordinator.server_heartbeat_timeout_sec.",
     .field = [](Config& c) -> auto& { return c.server.heartbeat_interval_seconds; },
     .min = 1,
     .max = kHourSec},
    {.section = "",
     .name = "stop_deadline_ms",
     .meaning = "How long SIGTERM lets calls in flight finish.",
     .field = [](Config& c) -> auto& { return c.server.stop_deadline_ms; },
     .min = 0,
     .max = kHourMs},

    {.section = "memory_store",
     .name = "capacity",
     .meaning = "Memory for shuffle data, promised and stored: the blocks and 64 bytes for each.",
     .field = [](Config& c) -> auto& { return c.store.memory.capacity_bytes; },
     .min = kMiB,
     .max = kSizeMax,
     .is_size = true,
     .derived = "a quarter of what the machine or its cgroup allows"},
    {.section = "memory_store",
     .name = "buffer_ticket_timeout_sec",
     .meaning = "Age at which a promise of memory that no send has used is taken back.",
     .field = [](Config& c) -> auto& { return c.store.memory.buffer_ticket_timeout_sec; },
     .min = 1,
     .max = 24 * kHourSec},
    {.section = "memory_store",
     .name = "buffer_ticket_check_interval_sec",
     .meaning = "Pause between two sweeps for such promises.",
     .field = [](Config& c) -> auto& { return c.store.memory.buffer_ticket_check_interval_sec; },
     .min = 1,
     .max = kHourSec},
    {.section = "memory_store",
     .name = "require_wait_ms",
     .meaning = "How long a request for memory may wait for room before it is answered NO_BUFFER.",
     .field = [](Config& c) -> auto& { return c.store.memory.require_wait_ms; },
     .min = 0,
     .max = kHourMs},
    {.section = "memory_store",
     .name = "require_queue_max",
     .meaning = "How many such requests may wait at once; 0 lets none wait.",
     .field = [](Config& c) -> auto& { return c.store.memory.require_queue_max; },
     .min = 0,
     .max = kCountMax},
    {.section = "memory_store",
     .name = "read_bytes_max",
     .meaning =
         "Bytes of answers to reads that may be on their way at once; a single larger answer "
         "goes alone.",
     .field = [](Config& c) -> auto& { return c.store.memory.read_bytes_max; },
     .min = kKiB,
     .max = kSizeMax,
     .is_size = true},
    {.section = "memory_store",
     .name = "read_wait_ms",
     .meaning = "How long a read may wait for its share of read_bytes_max before NO_BUFFER.",
     .field = [](Config& c) -> auto& { return c.store.memory.read_wait_ms; },
     .min = 0,
     .max = kHourMs},
    {.section = "memory_store",
     .name = "read_queue_max",
     .meaning = "How many reads may wait so at once; 0 lets none wait.",
     .field = [](Config& c) -> auto& { return c.store.memory.read_queue_max; },
     .min = 0,
     .max = kCountMax},
    {.section = "memory_store",
     .name = "report_bytes_max",
     .meaning =
         "Memory for the block ids that finished tasks report; a report beyond it is refused.",
     .field = [](Config& c) -> auto& { return c.store.memory.report_bytes_max; },
     .min = kKiB,
     .max = kSizeMax,
     .is_size = true},

    {.section = "localfile_store",
     .name = "data_paths",
     .meaning = "Directories for shuffle data, one for each disk. No effect in this version.",
     .field = [](Config& c) -> auto& { return c.store.local_file.data_paths; },
     .expected = "an array of absolute paths",
     .check = CheckDataPath},

    {.section = "app_config",
     .name = "app_heartbeat_timeout_min",
     .meaning =
         "Minutes without any call after which an application is forgotten with all its data.",
     .field = [](Config& c) -> auto& { return c.store.app.app_heartbeat_timeout_min; },
     .min = 1,
     .max = 7 * 24 * 60},

    {.section = "coordinator",
     .name = "server_heartbeat_timeout_sec",
     .meaning = "Age of the last heartbeat at which a server gets no more assignments.",
     .field = [](Config& c) -> auto& { return c.server.coordinator.server_heartbeat_timeout_sec; },
     .min = 2,
     .max = 24 * kHourSec},
    {.section = "coordinator",
     .name = "shuffle_nodes_max",
     .meaning = "Most servers for one shuffle when the client does not say how many.",
     .field = [](Config& c) -> auto& { return c.server.coordinator.shuffle_nodes_max; },
     .min = 1,
     .max = 10'000},

    {.section = "log",
     .name = "log_level",
     .meaning = "Least important messages that are logged.",
     .field = [](Config& c) -> auto& { return c.server.log.log_level; },
     .expected = "DEBUG, INFO, WARN or ERROR",
     .check = CheckLogLevel},
});

std::string ListText(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ", ";
    list += QuoteToml(text);
  }
  return list + "]";
}

}  // namespace

std::span<const Key> Keys() { return kKeys; }

const Key* FindKey(std::string_view section, std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

bool IsSection(std::string_view name) {
  return !name.empty() &&
         std::ranges::any_of(kKeys, [name](const Key& key) { return key.section == name; });
}

std::string PathOf(const Key& key) {
  return key.section.empty() ? std::string(key.name) : fmt::format("{}.{}", key.section, key.name);
}

std::string ExpectedOf(const Key& key) {
  if (!std::holds_alternative<IntegerField>(key.field)) return std::string(key.expected);
  if (!key.is_size) return fmt::format("a whole number from {} to {}", key.min, key.max);
  return fmt::format("a size from {} to {}", FormatSize(key.min), FormatSize(key.max));
}

std::string ValueText(const Key& key, const Config& config) {
  Config copy = config;  // the fields of the table are for writing too
  if (const auto* integer = std::get_if<IntegerField>(&key.field)) {
    const std::string text = key.is_size ? FormatSize((*integer)(copy)) : "";
    const bool has_unit = !text.empty() && text.find_first_not_of("0123456789") != text.npos;
    return has_unit ? QuoteToml(text) : std::to_string((*integer)(copy));
  }
  if (const auto* text = std::get_if<TextField>(&key.field)) return QuoteToml((*text)(copy));
  return ListText(std::get<TextListField>(key.field)(copy));
}

}  // namespace dovetail::config
