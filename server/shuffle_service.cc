#include "server/shuffle_service.h"

#include <algorithm>
#include <utility>

namespace dovetail::server {
namespace {

constexpr size_t kAppIdBytesMax = 255;
constexpr size_t kPropertiesBytesMax = 1 << 20;
constexpr int kLayoutBits = 63;
constexpr int kLayoutFieldBitsMax = 31;

Outcome CheckApp(std::string_view app) {
  if (app.empty()) return Invalid("the application id is empty");
  if (app.size() > kAppIdBytesMax) return Invalid("the application id is longer than 255 bytes");
  if (app.find('\0') != std::string_view::npos) return Invalid("the application id has a NUL byte");
  return {};
}

Outcome CheckKey(const ShuffleKey& key) {
  if (Outcome outcome = CheckApp(key.app); !outcome.ok()) return outcome;
  if (key.shuffle < 0) return Invalid("the shuffle id is negative");
  return {};
}

Outcome CheckPartition(int32_t partition) {
  if (partition < 0) return Invalid("a partition id is negative");
  return {};
}

Outcome CheckPartitions(const std::vector<int32_t>& partitions) {
  if (std::ranges::any_of(partitions, [](int32_t partition) { return partition < 0; })) {
    return Invalid("a partition id is negative");
  }
  return {};
}

bool ValidField(int32_t bits) { return bits >= 1 && bits <= kLayoutFieldBitsMax; }

Outcome CheckLayout(const BlockIdLayout& layout) {
  if (!ValidField(layout.sequence_bits) || !ValidField(layout.partition_bits) ||
      !ValidField(layout.task_bits) ||
      layout.sequence_bits + layout.partition_bits + layout.task_bits != kLayoutBits) {
    return Invalid("the block id layout is missing or its fields are not 1..31 bits, 63 in all");
  }
  return {};
}

storage::ShuffleStore::FileDone ToReply(ShuffleService::FileDone done) {
  return [done = std::move(done)](Result<storage::FileAnswer> answer) mutable {
    if (answer) return done({{}, std::move(*answer)});
    if (answer.error().code == ErrorCode::kInvalid) {
      return done({Invalid("offset and length lie outside the partition's data on disk"), {}});
    }
    done({ToOutcome(answer.error()), {}});
  };
}

// Of data in one answer: with what is around it, it has to fit a message of less than 2 GiB.
constexpr int32_t kAnswerBytesMax = 1 << 30;

Outcome Of(const Status& status) { return status ? Outcome() : ToOutcome(status.error()); }

// Drops what is none of our business; too much of the rest is refused.
Outcome KeepOwnProperties(std::map<std::string, std::string>& properties) {
  size_t bytes = 0;
  std::erase_if(properties,
                [](const auto& entry) { return !entry.first.starts_with(kPropertyPrefix); });
  for (const auto& [key, value] : properties) bytes += key.size() + value.size();
  if (bytes > kPropertiesBytesMax) return Invalid("the spark.rss. properties pass 1 MiB");
  return {};
}

}  // namespace

Outcome ShuffleService::CheckWritable() const {
  if (!stopping_.load()) return {};
  return {StatusCode::kInternalError, "the server is stopping and takes no new data"};
}

Outcome ShuffleService::Register(RegisterCall call) {
  if (Outcome outcome = CheckKey(call.key); !outcome.ok()) return outcome;
  if (call.has_merge_context) return Invalid("remote merge is not offered by this server");
  if (Outcome outcome = KeepOwnProperties(call.properties); !outcome.ok()) return outcome;
  if (Outcome outcome = CheckWritable(); !outcome.ok()) return outcome;
  return Of(
      store_.Register(call.key.app, call.key.shuffle, call.ranges, std::move(call.properties)));
}

Outcome ShuffleService::Heartbeat(std::string_view app) {
  if (Outcome outcome = CheckApp(app); !outcome.ok()) return outcome;
  return Of(store_.Heartbeat(app));
}

void ShuffleService::RequireBuffer(const RequireCall& call, RequireDone done) {
  Outcome outcome = CheckKey(call.key);
  if (outcome.ok()) outcome = CheckPartitions(call.partitions);
  if (outcome.ok() && call.bytes <= 0) outcome = Invalid("requireSize is not positive");
  if (outcome.ok()) outcome = CheckWritable();
  if (!outcome.ok()) return done({std::move(outcome), -1});
  const bool knows_new_codes = store_.HasProperties(call.key.app);
  store_.Require(call.key.app, call.key.shuffle, call.partitions, call.bytes,
                 [done = std::move(done), knows_new_codes](Result<int64_t> ticket) mutable {
                   if (ticket) return done({{}, *ticket});
                   Outcome refusal = ToOutcome(ticket.error());
                   if (ticket.error().code == ErrorCode::kInvalid) {
                     // It would never fit: a client that knows the code must not even retry.
                     refusal = {knows_new_codes ? StatusCode::kInternalNotRetryError
                                                : StatusCode::kInvalidRequest,
                                "the request is larger than the whole memory_store.capacity"};
                   }
                   done({std::move(refusal), -1});
                 });
}

Reply<std::optional<storage::SendAdmission>> ShuffleService::AdmitSend(const SendHead& head) {
  if (Outcome outcome = CheckKey(head.key); !outcome.ok()) return {std::move(outcome), {}};
  if (Outcome outcome = CheckWritable(); !outcome.ok()) return {std::move(outcome), {}};
  Result<storage::SendAdmission> admission =
      store_.AdmitSend(head.key.app, head.key.shuffle, head.ticket_id);
  if (admission) return {{}, std::move(*admission)};
  if (admission.error().code == ErrorCode::kInvalid) {
    return {{StatusCode::kInternalError,
             "the requireBufferId is unknown, used, expired or of another shuffle"},
            {}};
  }
  return {ToOutcome(admission.error()), {}};
}

Outcome ShuffleService::Store(storage::SendAdmission admission,
                              const storage::IncomingBatch& batch) {
  if (batch.groups.empty()) return Invalid("the send has no partition groups");
  for (const storage::IncomingGroup& group : batch.groups) {
    if (Outcome outcome = CheckPartition(group.partition); !outcome.ok()) return outcome;
  }
  for (const storage::IncomingBlock& block : batch.blocks) {
    if (block.meta.length <= 0) return Invalid("a block's length is not positive");
    // Readers page by block id and start at -1: a negative id could never be paged past.
    if (block.meta.block_id < 0) return Invalid("a block id is negative");
  }
  const Status stored = store_.Store(std::move(admission), batch);
  if (!stored && stored.error().code == ErrorCode::kInvalid) {
    return Invalid("the blocks of this send need more than its ticket was issued for");
  }
  return Of(stored);
}

Outcome ShuffleService::Report(const ShuffleKey& key,
                               std::vector<storage::PartitionReport> reports) {
  if (Outcome outcome = CheckKey(key); !outcome.ok()) return outcome;
  for (const storage::PartitionReport& report : reports) {
    if (Outcome outcome = CheckPartition(report.partition); !outcome.ok()) return outcome;
  }
  return Of(store_.Report(key.app, key.shuffle, reports));
}

void ShuffleService::GetResult(ResultCall call, ResultDone done) {
  Outcome outcome = CheckKey(call.key);
  if (outcome.ok()) outcome = CheckPartitions(call.partitions);
  if (outcome.ok()) outcome = CheckLayout(call.layout);
  if (!outcome.ok()) return done({std::move(outcome), {}});
  store_.ReadReports(call.key.app, call.key.shuffle, std::move(call.partitions),
                     [done = std::move(done)](Result<storage::ReportsAnswer> answer) mutable {
                       if (!answer) return done({ToOutcome(answer.error()), {}});
                       done({{}, std::move(*answer)});
                     });
}

void ShuffleService::ReadMemory(MemoryReadCall call, MemoryDone done) {
  Outcome outcome = CheckKey(call.key);
  if (outcome.ok()) outcome = CheckPartition(call.partition);
  if (outcome.ok() && call.read_bytes <= 0) outcome = Invalid("readBufferSize is not positive");
  if (!outcome.ok()) return done({std::move(outcome), {}});
  storage::MemoryReadRequest request{.app = std::string(call.key.app),
                                     .shuffle = call.key.shuffle,
                                     .partition = call.partition,
                                     .last_block_id = call.last_block_id,
                                     .bytes_soft_max = std::min(call.read_bytes, kAnswerBytesMax),
                                     .filter = nullptr};
  if (!call.task_bitmap.empty()) {
    Result<storage::TaskFilter> filter = storage::TaskFilter::Parse(std::move(call.task_bitmap));
    if (!filter) return done({Invalid("the bitmap of task ids does not decode"), {}});
    request.filter = std::make_shared<storage::TaskFilter>(std::move(*filter));
  }
  store_.ReadMemory(std::move(request),
                    [done = std::move(done)](Result<storage::MemoryAnswer> answer) mutable {
                      if (!answer) return done({ToOutcome(answer.error()), {}});
                      done({{}, std::move(*answer)});
                    });
}

void ShuffleService::ReadLocalIndex(const ShuffleKey& key, int32_t partition, FileDone done) {
  Outcome outcome = CheckKey(key);
  if (outcome.ok()) outcome = CheckPartition(partition);
  if (!outcome.ok()) return done({std::move(outcome), {}});
  store_.ReadIndex(key.app, key.shuffle, partition, ToReply(std::move(done)));
}

void ShuffleService::ReadLocalData(const LocalReadCall& call, FileDone done) {
  Outcome outcome = CheckKey(call.key);
  if (outcome.ok()) outcome = CheckPartition(call.partition);
  if (outcome.ok() && (call.offset < 0 || call.length < 0)) {
    outcome = Invalid("offset or length is negative");
  }
  if (outcome.ok() && call.length > kAnswerBytesMax) {
    outcome = Invalid("length passes 1 GiB, more than one answer can carry");
  }
  if (!outcome.ok()) return done({std::move(outcome), {}});
  store_.ReadData(call.key.app, call.key.shuffle, call.partition, call.offset, call.length,
                  ToReply(std::move(done)));
}

Outcome ShuffleService::Unregister(const ShuffleKey& key) {
  if (Outcome outcome = CheckKey(key); !outcome.ok()) return outcome;
  store_.Unregister(key.app, key.shuffle);
  return {};
}

Outcome ShuffleService::UnregisterApp(std::string_view app) {
  if (Outcome outcome = CheckApp(app); !outcome.ok()) return outcome;
  store_.UnregisterApp(app);
  return {};
}

}  // namespace dovetail::server
