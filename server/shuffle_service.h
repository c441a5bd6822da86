// One meaning for both wires: every call of a shuffle server as plain structs in and a Reply out.
// It checks fields, asks the store, and decides the status codes of docs/protocol.md, "Answers";
// the edges (server/grpc, server/tcp) only translate.
//
// Threads: any; never blocks. done functions run once, on the calling thread or on the store's
// executor. Lifetime: the store outlives the service, the service outlives the edges.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/reply.h"
#include "storage/shuffle_store.h"

namespace dovetail::server {

struct ShuffleKey {
  std::string_view app;
  int32_t shuffle = 0;
};

struct RegisterCall {
  ShuffleKey key;
  std::vector<storage::PartitionRange> ranges = {};
  std::map<std::string, std::string> properties =
      {};  // as they came; the service keeps what it may
  bool has_merge_context = false;
};

struct RequireCall {
  ShuffleKey key;
  std::vector<int32_t> partitions;
  int64_t bytes = 0;
};

struct SendHead {
  ShuffleKey key;
  int64_t ticket_id = 0;
};

struct BlockIdLayout {
  int32_t sequence_bits = 0;
  int32_t partition_bits = 0;
  int32_t task_bits = 0;
};

struct ResultCall {
  ShuffleKey key;
  std::vector<int32_t> partitions;
  BlockIdLayout layout;  // all 0 when the request had none
};

struct MemoryReadCall {
  ShuffleKey key;
  int32_t partition = 0;
  int64_t last_block_id = -1;
  int32_t read_bytes = 0;
  std::string task_bitmap = {};  // serialized; empty: all tasks
};

struct LocalReadCall {
  ShuffleKey key;
  int32_t partition = 0;
  int64_t offset = 0;
  int32_t length = 0;
};

class ShuffleService {
 public:
  using RequireDone = std::move_only_function<void(Reply<int64_t>)>;
  using ResultDone = std::move_only_function<void(Reply<storage::ReportsAnswer>)>;
  using MemoryDone = std::move_only_function<void(Reply<storage::MemoryAnswer>)>;
  using FileDone = std::move_only_function<void(Reply<storage::FileAnswer>)>;

  explicit ShuffleService(storage::ShuffleStore& store) : store_(store) {}

  Outcome Register(RegisterCall call);
  Outcome Heartbeat(std::string_view app);
  // The reply's value is the ticket, -1 when refused.
  void RequireBuffer(const RequireCall& call, RequireDone done);

  // A send in two steps, so that a head can be refused before its payload is taken in. The ticket
  // is used up by the first step that finds it, whatever comes after.
  Reply<std::optional<storage::SendAdmission>> AdmitSend(const SendHead& head);
  Outcome Store(storage::SendAdmission admission, const storage::IncomingBatch& batch);

  Outcome Report(const ShuffleKey& key, std::vector<storage::PartitionReport> reports);
  void GetResult(ResultCall call, ResultDone done);

  void ReadMemory(MemoryReadCall call, MemoryDone done);
  void ReadLocalIndex(const ShuffleKey& key, int32_t partition, FileDone done);
  void ReadLocalData(const LocalReadCall& call, FileDone done);

  Outcome Unregister(const ShuffleKey& key);
  Outcome UnregisterApp(std::string_view app);

  // From here on registrations, tickets and sends are refused; reads and reports go on.
  void BeginStop() { stopping_.store(true); }

 private:
  Outcome CheckWritable() const;

  storage::ShuffleStore& store_;
  std::atomic<bool> stopping_{false};
};

// Only properties with this prefix are kept: the client sends its whole configuration, secrets
// included.
inline constexpr std::string_view kPropertyPrefix = "spark.rss.";

}  // namespace dovetail::server
