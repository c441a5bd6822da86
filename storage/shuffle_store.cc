#include "storage/shuffle_store.h"

#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {

SendAdmission::SendAdmission(SendAdmission&& other) noexcept
    : shuffle_(std::move(other.shuffle_)),
      budget_(other.budget_),
      ticket_bytes_(std::exchange(other.ticket_bytes_, 0)) {}

SendAdmission::~SendAdmission() {
  if (ticket_bytes_ > 0) budget_->ReturnPromise(ticket_bytes_);
}

ShuffleStore::ShuffleStore(const StoreOptions& options, Executor& executor, Ticker& ticker,
                           Clock clock)
    : options_(options),
      executor_(executor),
      clock_(std::move(clock)),
      budget_(options.memory.capacity_bytes),
      require_queue_(
          {.wait = Milliseconds(options.memory.require_wait_ms),
           .queue_max = options.memory.require_queue_max},
          [this](int64_t bytes) { return budget_.TryPromise(bytes); }, executor, ticker),
      read_budget_(options.memory.read_bytes_max,
                   {.wait = Milliseconds(options.memory.read_wait_ms),
                    .queue_max = options.memory.read_queue_max},
                   executor, ticker),
      registry_({arena_, budget_, stats_, ticket_ids_}, clock_) {
  budget_.SetOnRoom([this] { require_queue_.OnRoom(); });
}

ShuffleStore::~ShuffleStore() {
  // Lives that nobody ended yet: their memory goes back before the budget and the arena check that
  // it did.
  for (const std::shared_ptr<Shuffle>& shuffle : registry_.TakeAll()) {
    DOVETAIL_CHECK(shuffle->gate().Close() == Gate::Closing::kEmpty);
    shuffle->Purge();
  }
}

Status ShuffleStore::Register(std::string_view app, int32_t shuffle,
                              std::span<const PartitionRange> ranges, Properties properties) {
  PartitionRanges checked;  // before any life begins: a bad range must change nothing
  if (Status status = checked.Add(ranges); !status) return status;
  Result<std::shared_ptr<Shuffle>> life = registry_.Register(app, shuffle, std::move(properties));
  if (!life) return std::unexpected(life.error());
  return (*life)->AddRanges(ranges);
}

Status ShuffleStore::Heartbeat(std::string_view app) {
  Result<std::shared_ptr<App>> found = registry_.FindApp(app);
  if (!found) return std::unexpected(found.error());
  return {};
}

bool ShuffleStore::HasProperties(std::string_view app) {
  Result<std::shared_ptr<App>> found = registry_.FindApp(app);
  return found && (*found)->has_properties();
}

void ShuffleStore::Require(std::string_view app, int32_t shuffle,
                           std::span<const int32_t> partitions, int64_t bytes, TicketDone done) {
  Result<AppRegistry::Found> found = registry_.Find(app, shuffle);
  if (!found) return done(std::unexpected(found.error()));
  if (!found->shuffle->Registered(partitions)) return done(Fail(ErrorCode::kNotFound, "partition"));
  if (bytes > budget_.capacity_bytes()) {
    stats_.require_too_large_total.fetch_add(1);
    return done(Fail(ErrorCode::kInvalid, "capacity"));
  }
  require_queue_.Ask(bytes, [this, bytes, life = std::move(found->shuffle),
                             done = std::move(done)](Status status) mutable {
    if (status) return IssueTicket(life, bytes, done);
    if (status.error().code == ErrorCode::kNoBuffer) stats_.require_no_buffer_total.fetch_add(1);
    done(std::unexpected(status.error()));
  });
}

// The bytes are promised; they become a ticket, or go back when the shuffle ended while the call
// waited.
void ShuffleStore::IssueTicket(const std::shared_ptr<Shuffle>& shuffle, int64_t bytes,
                               TicketDone& done) {
  if (!shuffle->gate().Enter()) {
    budget_.ReturnPromise(bytes);
    return done(Fail(ErrorCode::kNotFound, "shuffle"));
  }
  const auto age_max = std::chrono::seconds(options_.memory.buffer_ticket_timeout_sec);
  const int64_t id = shuffle->tickets().Issue(bytes, clock_() + age_max);
  LeaveGate(shuffle);
  done(id);
}

Result<SendAdmission> ShuffleStore::AdmitSend(std::string_view app, int32_t shuffle,
                                              int64_t ticket_id) {
  Result<AppRegistry::Found> found = registry_.Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  Result<int64_t> bytes = found->shuffle->tickets().Take(ticket_id);
  if (!bytes) return Fail(ErrorCode::kInvalid, "ticket");
  return SendAdmission(std::move(found->shuffle), budget_, *bytes);
}

Status ShuffleStore::CheckBatch(const Shuffle& shuffle, const IncomingBatch& batch,
                                int64_t ticket_bytes) const {
  int64_t bytes = 0;
  for (const IncomingBlock& block : batch.blocks) {
    bytes += block.meta.length + kTicketOverheadBytes;
  }
  if (bytes > ticket_bytes) return Fail(ErrorCode::kInvalid, "ticket");
  for (const IncomingGroup& group : batch.groups) {
    if (!shuffle.Registered(group.partition)) return Fail(ErrorCode::kNotFound, "partition");
  }
  return {};
}

Status ShuffleStore::Store(SendAdmission admission, const IncomingBatch& batch) {
  Shuffle& shuffle = *admission.shuffle_;
  if (Status status = CheckBatch(shuffle, batch, admission.ticket_bytes_); !status) return status;
  if (!shuffle.gate().Enter()) return Fail(ErrorCode::kNotFound, "shuffle");
  int64_t bytes = 0;
  for (const IncomingBlock& block : batch.blocks) bytes += block.meta.length + kBlockOverheadBytes;
  // Counted before it is visible; from here on the blocks are paid for, not the ticket.
  budget_.Redeem(std::exchange(admission.ticket_bytes_, 0), bytes);
  StoreBatch(shuffle, batch);
  const bool ended = shuffle.gate().closed();
  LeaveGate(admission.shuffle_);
  // Ended meanwhile: the purge takes the blocks with it, so they must not be acknowledged.
  if (ended) return Fail(ErrorCode::kNotFound, "shuffle");
  return {};
}

void ShuffleStore::StoreBatch(Shuffle& shuffle, const IncomingBatch& batch) {
  Partition::Appended sum;
  for (const IncomingGroup& group : batch.groups) {
    if (group.block_count == 0) continue;
    const Partition::Appended appended =
        shuffle.At(group.partition)
            .Append(std::span(batch.blocks).subspan(group.first_block, group.block_count),
                    batch.pieces);
    sum.stored_blocks += appended.stored_blocks;
    sum.stored_bytes += appended.stored_bytes;
    sum.duplicate_blocks += appended.duplicate_blocks;
    sum.duplicate_bytes += appended.duplicate_bytes;
  }
  if (sum.duplicate_blocks > 0) {
    budget_.Free(sum.duplicate_bytes + sum.duplicate_blocks * kBlockOverheadBytes);
    stats_.duplicate_blocks_total.fetch_add(sum.duplicate_blocks);
  }
  stats_.received_blocks_total.fetch_add(sum.stored_blocks + sum.duplicate_blocks);
  stats_.received_bytes_total.fetch_add(sum.stored_bytes + sum.duplicate_bytes);
}

Status ShuffleStore::Report(std::string_view app, int32_t shuffle,
                            std::span<const PartitionReport> reports) {
  Result<AppRegistry::Found> found = registry_.Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  Shuffle& life = *found->shuffle;
  for (const PartitionReport& report : reports) {
    if (!life.Registered(report.partition)) return Fail(ErrorCode::kNotFound, "partition");
  }
  if (stats_.report_bytes.load() >= options_.memory.report_bytes_max) {
    return Fail(ErrorCode::kBusy, "reported block ids");
  }
  if (!life.gate().Enter()) return Fail(ErrorCode::kNotFound, "shuffle");
  for (const PartitionReport& report : reports) {
    if (report.block_ids.empty()) continue;
    stats_.report_bytes.fetch_add(life.At(report.partition).Report(report.block_ids));
  }
  const bool ended = life.gate().closed();
  LeaveGate(found->shuffle);
  if (ended) return Fail(ErrorCode::kNotFound, "shuffle");
  return {};
}

Result<std::string> ShuffleStore::ReportedBlocks(std::string_view app, int32_t shuffle,
                                                 std::span<const int32_t> partitions) {
  Result<AppRegistry::Found> found = registry_.Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  Shuffle& life = *found->shuffle;
  if (!life.Registered(partitions)) return Fail(ErrorCode::kNotFound, "partition");
  BlockBitmap all;
  for (int32_t partition : partitions) {
    if (const Partition* there = life.Find(partition)) there->CollectReports(all);
  }
  // A purge that began meanwhile may have emptied some of them.
  if (life.gate().closed()) return Fail(ErrorCode::kNotFound, "shuffle");
  return all.Serialize();
}

Status ShuffleStore::CheckPartition(std::string_view app, int32_t shuffle, int32_t partition) {
  Result<AppRegistry::Found> found = registry_.Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  if (!found->shuffle->Registered(partition)) return Fail(ErrorCode::kNotFound, "partition");
  return {};
}

void ShuffleStore::Unregister(std::string_view app, int32_t shuffle) {
  if (std::shared_ptr<Shuffle> life = registry_.TakeShuffle(app, shuffle)) End(std::move(life));
}

void ShuffleStore::UnregisterApp(std::string_view app) {
  for (std::shared_ptr<Shuffle>& life : registry_.TakeApp(app)) End(std::move(life));
}

void ShuffleStore::ExpireApps() {
  const auto age_max = std::chrono::minutes(options_.app.app_heartbeat_timeout_min);
  for (std::shared_ptr<Shuffle>& life : registry_.TakeExpired(clock_() - age_max)) {
    End(std::move(life));
  }
}

void ShuffleStore::ExpireTickets() {
  const TimePoint now = clock_();
  for (const std::shared_ptr<Shuffle>& life : registry_.AllShuffles()) {
    const TicketTable::Dropped dropped = life->tickets().TakeExpired(now);
    if (dropped.tickets == 0) continue;
    stats_.expired_tickets_total.fetch_add(dropped.tickets);
    budget_.ReturnPromise(dropped.bytes);
  }
}

void ShuffleStore::Close() {
  require_queue_.Close();
  read_budget_.Close();
}

void ShuffleStore::Clear() {
  for (std::shared_ptr<Shuffle>& life : registry_.TakeAll()) End(std::move(life));
}

// Nobody can find the shuffle any more. Who is inside finishes; the last one out purges.
void ShuffleStore::End(std::shared_ptr<Shuffle> shuffle) {
  if (shuffle->gate().Close() == Gate::Closing::kEmpty) PurgeLater(std::move(shuffle));
}

void ShuffleStore::LeaveGate(const std::shared_ptr<Shuffle>& shuffle) {
  if (shuffle->gate().Leave()) PurgeLater(shuffle);
}

// Giving back a hundred thousand partitions takes a while: not on the thread of the call that ended
// the shuffle.
void ShuffleStore::PurgeLater(std::shared_ptr<Shuffle> shuffle) {
  executor_.Post([shuffle = std::move(shuffle)] { shuffle->Purge(); });
}

}  // namespace dovetail::storage
