#include "config/key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/value_check.h"

namespace dovetail::config {
namespace {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSizeMax = int64_t{1} << 50;  // no machine is near; sums stay far from overflow
constexpr int64_t kGrpcMessageMax = (int64_t{1} << 31) - 1;  // gRPC counts a message in an int
constexpr int64_t kHourSec = 3600;
constexpr int64_t kHourMs = kHourSec * 1000;
constexpr int64_t kCountMax = 1'000'000;
constexpr std::string_view kUring = "localfile_store.io_uring_options";

constexpr auto kKeys = std::to_array<Key>({
    {.section = "",
     .name = "store_type",
     .meaning =
         "Tiers that hold shuffle data: memory first, then files of localfile_store.data_paths.",
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
     .meaning =
         "Directories for shuffle data, one for each disk. Empty: all stays in memory, and what "
         "does not fit is refused.",
     .field = [](Config& c) -> auto& { return c.store.local_file.data_paths; },
     .expected = "an array of absolute paths",
     .check = CheckDataPath},

    {.section = "localfile_store",
     .name = "engine",
     .meaning =
         "How files are read and written: by io_uring, or by blocking calls on a pool of threads. "
         "auto takes io_uring on each path where the kernel and the file system grant it.",
     .field = [](Config& c) -> auto& { return c.engine.engine; },
     .expected = "auto, io_uring or pool",
     .check = CheckEngine},
    {.section = "localfile_store",
     .name = "min_number_of_available_disks",
     .meaning =
         "Fewer usable disks than this and the server takes no new shuffles; at most as many as "
         "data_paths.",
     .field = [](Config& c) -> auto& { return c.store.local_file.min_number_of_available_disks; },
     .min = 1,
     .max = 1024,
     .derived = "all of them"},
    {.section = "localfile_store",
     .name = "disk_high_watermark",
     .meaning = "Used share of the file system above which a disk takes no new data.",
     .field = [](Config& c) -> auto& { return c.store.local_file.disk_high_watermark; }},
    {.section = "localfile_store",
     .name = "disk_low_watermark",
     .meaning = "Used share of the file system below which a full disk takes data again.",
     .field = [](Config& c) -> auto& { return c.store.local_file.disk_low_watermark; }},
    {.section = "localfile_store",
     .name = "disk_healthy_check_interval_sec",
     .meaning = "Pause between two looks at the space and the state of each disk.",
     .field = [](Config& c) -> auto& { return c.store.local_file.disk_healthy_check_interval_sec; },
     .min = 1,
     .max = kHourSec},
    {.section = "localfile_store",
     .name = "direct_io_append_enable",
     .meaning = "Write past the page cache (O_DIRECT); a path that cannot do it falls back alone.",
     .field = [](Config& c) -> auto& { return c.store.local_file.direct_io_append_enable; }},
    {.section = "localfile_store",
     .name = "read_mode",
     .meaning = "How data is read back: buffered, through the page cache; direct, past it, which "
                "takes much "
                "less CPU for what is not in the cache; or auto, the way that it is appended.",
     .field = [](Config& c) -> auto& { return c.store.local_file.read_mode; },
     .expected = "auto, buffered or direct",
     .check = CheckReadMode},
    {.section = "localfile_store",
     .name = "io_duration_threshold_sec",
     .meaning = "Age of an unanswered write at which a disk counts as slow and takes no new data.",
     .field = [](Config& c) -> auto& { return c.store.local_file.io_duration_threshold_sec; },
     .min = 1,
     .max = kHourSec},
    {.section = "localfile_store",
     .name = "flush_group_bytes_max",
     .meaning =
         "What one write to a segment gathers at most; a single partition is never divided. At "
         "most flush_bytes_in_flight_max and segment_bytes_max.",
     .field = [](Config& c) -> auto& { return c.store.local_file.flush_group_bytes_max; },
     .min = 64 << 10,
     .max = 1 << 30,
     .is_size = true},
    {.section = "localfile_store",
     .name = "flush_bytes_in_flight_max",
     .meaning = "What may be on its way to one disk at once.",
     .field = [](Config& c) -> auto& { return c.store.local_file.flush_bytes_in_flight_max; },
     .min = 1 << 20,
     .max = kSizeMax,
     .is_size = true},
    {.section = "localfile_store",
     .name = "segment_bytes_max",
     .meaning = "Size at which a segment file is closed and a new one begun.",
     .field = [](Config& c) -> auto& { return c.store.local_file.segment_bytes_max; },
     .min = 1 << 20,
     .max = kSizeMax,
     .is_size = true},

    {.section = "localfile_store",
     .name = "index_cache_bytes_max",
     .meaning = "Index records kept in memory; the rest is read from the segments when asked for.",
     .field = [](Config& c) -> auto& { return c.store.local_file.index_cache_bytes_max; },
     .min = 0,
     .max = kSizeMax,
     .is_size = true},

    {.section = kUring,
     .name = "threads",
     .meaning = "Threads with a ring each, for every data path.",
     .field = [](Config& c) -> auto& { return c.engine.io_uring.threads; },
     .min = 1,
     .max = 64},
    {.section = kUring,
     .name = "io_depth",
     .meaning = "Requests of one ring that the kernel may hold at once.",
     .field = [](Config& c) -> auto& { return c.engine.io_uring.io_depth; },
     .min = 1,
     .max = 4096},
    {.section = kUring,
     .name = "sqpoll",
     .meaning =
         "Let a kernel thread for each ring poll for requests. It takes a core each: only for "
         "machines with many more cores than rings.",
     .field = [](Config& c) -> auto& { return c.engine.io_uring.sqpoll; }},
    {.section = kUring,
     .name = "sqpoll_idle_ms",
     .meaning = "How long such a thread polls without finding a request before it sleeps.",
     .field = [](Config& c) -> auto& { return c.engine.io_uring.sqpoll_idle_ms; },
     .min = 1,
     .max = kHourMs},
    {.section = kUring,
     .name = "cpus",
     .meaning =
         "Processors that the threads of the rings are bound to, in turn; the first ring of every "
         "data path to the first one.",
     .field = [](Config& c) -> auto& { return c.engine.cpus; },
     .expected = "a list of processors such as \"0-3,8\"",
     .check = CheckCpus,
     .derived = "wherever the system puts them"},
    {.section = kUring,
     .name = "file_workers_max",
     .meaning =
         "Threads that the kernel may add to each ring for what it cannot do on files without "
         "blocking; 0 leaves it to the kernel.",
     .field = [](Config& c) -> auto& { return c.engine.io_uring.file_workers_max; },
     .min = 0,
     .max = 1024},
    {.section = kUring,
     .name = "pipe_workers_max",
     .meaning = "The same on pipes.",
     .field = [](Config& c) -> auto& { return c.engine.io_uring.pipe_workers_max; },
     .min = 0,
     .max = 1024},

    {.section = "hybrid_store",
     .name = "memory_spill_high_watermark",
     .meaning = "Share of memory_store.capacity in use that starts a flush to disk.",
     .field = [](Config& c) -> auto& { return c.store.hybrid.memory_spill_high_watermark; }},
    {.section = "hybrid_store",
     .name = "memory_spill_low_watermark",
     .meaning = "Share of memory_store.capacity that a flush goes down to.",
     .field = [](Config& c) -> auto& { return c.store.hybrid.memory_spill_low_watermark; }},
    {.section = "hybrid_store",
     .name = "memory_single_buffer_max_spill_size",
     .meaning = "Bytes in memory at which a partition is flushed alone.",
     .field = [](Config& c) -> auto& { return c.store.hybrid.memory_single_buffer_max_spill_size; },
     .min = 64 << 10,
     .max = kSizeMax,
     .is_size = true,
     .derived = "never"},

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

}  // namespace

std::span<const Key> Keys() { return kKeys; }

const Key* FindKey(std::string_view section, std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

const Key* FindKey(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == path.npos) return FindKey("", path);
  return FindKey(path.substr(0, dot), path.substr(dot + 1));
}

bool IsSection(std::string_view name) {
  return !name.empty() &&
         std::ranges::any_of(kKeys, [name](const Key& key) { return key.section == name; });
}

std::string PathOf(const Key& key) {
  return key.section.empty() ? std::string(key.name) : fmt::format("{}.{}", key.section, key.name);
}

}  // namespace dovetail::config
