#include "storage/shuffle_store.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

// Separate partition ranges of all shuffles: some 64 bytes each.
constexpr int64_t kRangesMax = 4 << 20;
// Reported ids taken in between two looks at the limit on them.
constexpr size_t kReportStep = 4096;

}  // namespace

SendAdmission::SendAdmission(SendAdmission&& other) noexcept
    : shuffle_(std::move(other.shuffle_)),
      budget_(other.budget_),
      ticket_bytes_(std::exchange(other.ticket_bytes_, 0)) {}

SendAdmission::~SendAdmission() {
  if (ticket_bytes_ > 0) budget_->ReturnPromise(ticket_bytes_);
}

ShuffleStore::ShuffleStore(const StoreOptions& options, Arena& arena, Executor& executor,
                           Ticker& ticker, Clock clock,
                           std::vector<std::unique_ptr<engine::Engine>> engines)
    : options_(options),
      executor_(executor),
      clock_(std::move(clock)),
      arena_(arena),
      budget_(options.memory.capacity_bytes),
      require_queue_(
          {.wait = Milliseconds(options.memory.require_wait_ms),
           .queue_max = options.memory.require_queue_max},
          [this](int64_t bytes) { return budget_.TryPromise(bytes); }, executor, ticker),
      read_budget_(options.memory.read_bytes_max,
                   {.wait = Milliseconds(options.memory.read_wait_ms),
                    .queue_max = options.memory.read_queue_max},
                   executor, ticker),
      index_cache_(options.local_file.index_cache_bytes_max) {
  for (size_t i = 0; i < engines.size(); ++i) {
    disks_.push_back(std::make_unique<Disk>(static_cast<int>(i), options.local_file.data_paths[i],
                                            std::move(engines[i]), options_.local_file, clock_,
                                            [this] { scheduler_->Evaluate(); }));
  }
  scheduler_ = std::make_unique<FlushScheduler>(
      FlushScheduler::Inputs{
          .budget = budget_,
          .disks = DiskPointers(),
          .frozen_bytes = [this] { return stats_.frozen_bytes.load(); },
          .waiting_bytes = [this] { return require_queue_.first_waiting_bytes(); },
          .shuffles = [this] { return registry_->AllShuffles(); }},
      options_);
  registry_ = std::make_unique<AppRegistry>(
      Shuffle::Shared{.arena = arena_,
                      .budget = budget_,
                      .stats = stats_,
                      .index_cache = index_cache_,
                      .ticket_ids = ticket_ids_,
                      .options = options_,
                      .slots = scheduler_->slots(),
                      .on_flush_ended = [this] { scheduler_->Evaluate(); }},
      clock_);
  budget_.SetOnRoom([this] { require_queue_.OnRoom(); });
}

ShuffleStore::~ShuffleStore() {
  // Clear() ended every life, and its owner waited until the removals were over.
  DOVETAIL_CHECK(registry_->TakeAll().empty());
}

std::vector<Disk*> ShuffleStore::DiskPointers() const {
  std::vector<Disk*> disks;
  for (const std::unique_ptr<Disk>& disk : disks_) disks.push_back(disk.get());
  return disks;
}

bool ShuffleStore::EnoughDisks() const {
  const auto usable =
      std::ranges::count_if(disks_, [](const auto& disk) { return disk->usable(); });
  const auto all = static_cast<int64_t>(disks_.size());
  const int64_t wanted = options_.local_file.min_number_of_available_disks;
  return usable >= (wanted > 0 ? std::min(wanted, all) : all);
}

void ShuffleStore::CheckDisks() {
  for (const std::unique_ptr<Disk>& disk : disks_) disk->Check();
  scheduler_->Evaluate();
}

Status ShuffleStore::Register(std::string_view app, int32_t shuffle,
                              std::span<const PartitionRange> ranges, Properties properties) {
  PartitionRanges checked;  // before any life begins: a bad range must change nothing
  if (Status status = checked.Add(ranges); !status) return status;
  if (stats_.ranges.load() + checked.size() > kRangesMax) {
    return Fail(ErrorCode::kBusy, "partition ranges of all shuffles");
  }
  Result<std::shared_ptr<Shuffle>> life = registry_->Register(app, shuffle, std::move(properties));
  if (!life) return std::unexpected(life.error());
  return (*life)->AddRanges(ranges);
}

Status ShuffleStore::Heartbeat(std::string_view app) {
  Result<std::shared_ptr<App>> found = registry_->FindApp(app);
  if (!found) return std::unexpected(found.error());
  return {};
}

bool ShuffleStore::HasProperties(std::string_view app) {
  Result<std::shared_ptr<App>> found = registry_->FindApp(app);
  return found && (*found)->has_properties();
}

void ShuffleStore::Require(std::string_view app, int32_t shuffle,
                           std::span<const int32_t> partitions, int64_t bytes, TicketDone done) {
  Result<AppRegistry::Found> found = registry_->Find(app, shuffle);
  if (!found) return done(std::unexpected(found.error()));
  if (!found->shuffle->Registered(partitions)) return done(Fail(ErrorCode::kNotFound, "partition"));
  if (bytes > budget_.capacity_bytes()) {
    stats_.require_too_large_total.fetch_add(1);
    return done(Fail(ErrorCode::kInvalid, "capacity"));
  }
  require_queue_.Ask(bytes, [this, bytes, life = std::move(found->shuffle),
                             done = std::move(done)](Status status) mutable {
    if (status) return IssueTicket(life, bytes, done);
    if (status.error().code == ErrorCode::kNoBuffer) {
      stats_.require_no_buffer_total.fetch_add(1);
      scheduler_->OnRefused(bytes);
    }
    done(std::unexpected(status.error()));
  });
  if (require_queue_.waiting() > 0) scheduler_->Evaluate();
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
  Result<AppRegistry::Found> found = registry_->Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  Result<int64_t> bytes = found->shuffle->tickets().Take(ticket_id);
  if (!bytes) return Fail(ErrorCode::kInvalid, "ticket");
  return SendAdmission(std::move(found->shuffle), budget_, *bytes);
}

Status ShuffleStore::CheckIncoming(const Shuffle& shuffle, const IncomingBatch& batch,
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
  if (Status status = CheckIncoming(shuffle, batch, admission.ticket_bytes_); !status)
    return status;
  if (!shuffle.gate().Enter()) return Fail(ErrorCode::kNotFound, "shuffle");
  int64_t bytes = 0;
  for (const IncomingBlock& block : batch.blocks) bytes += block.meta.length + kBlockOverheadBytes;
  // Counted before it is visible; from here on the blocks are paid for, not the ticket.
  budget_.Redeem(std::exchange(admission.ticket_bytes_, 0), bytes);
  StoreBatch(admission.shuffle_, batch);
  const bool ended = shuffle.gate().closed();
  LeaveGate(admission.shuffle_);
  scheduler_->Evaluate();
  // Ended meanwhile: the purge takes the blocks with it, so they must not be acknowledged.
  if (ended) return Fail(ErrorCode::kNotFound, "shuffle");
  return {};
}

void ShuffleStore::StoreBatch(const std::shared_ptr<Shuffle>& shuffle, const IncomingBatch& batch) {
  Partition::Appended sum;
  for (const IncomingGroup& group : batch.groups) {
    if (group.block_count == 0) continue;
    const Partition::Appended appended = shuffle->Append(
        group.partition, std::span(batch.blocks).subspan(group.first_block, group.block_count),
        batch.pieces);
    sum.stored_blocks += appended.stored_blocks;
    sum.stored_bytes += appended.stored_bytes;
    sum.duplicate_blocks += appended.duplicate_blocks;
    sum.duplicate_bytes += appended.duplicate_bytes;
    if (appended.became_large) {
      scheduler_->FlushSlot(shuffle, shuffle->SlotOf(group.partition), appended.staged_bytes);
    }
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
  Result<AppRegistry::Found> found = registry_->Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  Shuffle& life = *found->shuffle;
  for (const PartitionReport& report : reports) {
    if (!life.Registered(report.partition)) return Fail(ErrorCode::kNotFound, "partition");
  }
  if (!life.gate().Enter()) return Fail(ErrorCode::kNotFound, "shuffle");
  Status taken;
  for (const PartitionReport& report : reports) {
    taken = TakeReport(life, report);
    if (!taken) break;
  }
  const bool ended = life.gate().closed();
  LeaveGate(found->shuffle);
  if (ended) return Fail(ErrorCode::kNotFound, "shuffle");
  return taken;
}

// In steps, because only afterwards it is known what ids cost. A report that the limit cuts short
// has added some of its ids: a result may have more than was acknowledged, never less.
Status ShuffleStore::TakeReport(Shuffle& life, const PartitionReport& report) {
  std::span<const int64_t> left = report.block_ids;
  while (!left.empty()) {
    if (stats_.report_bytes.load() >= options_.memory.report_bytes_max) {
      return Fail(ErrorCode::kBusy, "reported block ids");
    }
    const size_t step = std::min(left.size(), kReportStep);
    stats_.report_bytes.fetch_add(life.At(report.partition).Report(left.first(step)));
    left = left.subspan(step);
  }
  return {};
}

void ShuffleStore::ReadReports(std::string_view app, int32_t shuffle,
                               std::vector<int32_t> partitions, ReportsDone done) {
  Result<AppRegistry::Found> found = registry_->Find(app, shuffle);
  if (!found) return done(std::unexpected(found.error()));
  if (!found->shuffle->Registered(partitions)) return done(Fail(ErrorCode::kNotFound, "partition"));
  // One look at each, however often it is named.
  std::ranges::sort(partitions);
  partitions.erase(std::ranges::unique(partitions).begin(), partitions.end());
  int64_t bytes = 0;
  for (int32_t partition : partitions) {
    const Partition* there = found->shuffle->Find(partition);
    if (!there) continue;
    if (there->lost()) return done(Fail(ErrorCode::kCorrupt, "partition data"));
    bytes += there->report_bytes();
  }
  if (found->shuffle->gate().closed()) return done(Fail(ErrorCode::kNotFound, "shuffle"));
  if (bytes == 0) return done(ReportsAnswer{});
  // What ids take in memory is more than what they take in an answer.
  read_budget_.Acquire(bytes,
                       [this, life = std::move(found->shuffle), partitions = std::move(partitions),
                        done = std::move(done)](Result<std::shared_ptr<ReadGrant>> grant) mutable {
                         if (!grant) {
                           if (grant.error().code == ErrorCode::kNoBuffer)
                             stats_.read_no_buffer_total.fetch_add(1);
                           return done(std::unexpected(grant.error()));
                         }
                         BlockBitmap all;
                         for (int32_t partition : partitions) {
                           if (const Partition* there = life->Find(partition))
                             there->CollectReports(all);
                         }
                         // A purge that began meanwhile may have emptied some of them.
                         if (life->gate().closed())
                           return done(Fail(ErrorCode::kNotFound, "shuffle"));
                         done(ReportsAnswer{all.Serialize(), std::move(*grant)});
                       });
}

void ShuffleStore::Unregister(std::string_view app, int32_t shuffle) {
  if (std::shared_ptr<Shuffle> life = registry_->TakeShuffle(app, shuffle)) End(std::move(life));
}

void ShuffleStore::UnregisterApp(std::string_view app) {
  for (std::shared_ptr<Shuffle>& life : registry_->TakeApp(app)) End(std::move(life));
}

void ShuffleStore::ExpireApps() {
  const auto age_max = std::chrono::minutes(options_.app.app_heartbeat_timeout_min);
  for (std::shared_ptr<Shuffle>& life : registry_->TakeExpired(clock_() - age_max)) {
    End(std::move(life));
  }
}

void ShuffleStore::ExpireTickets() {
  const TimePoint now = clock_();
  for (const std::shared_ptr<Shuffle>& life : registry_->AllShuffles()) {
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
  for (std::shared_ptr<Shuffle>& life : registry_->TakeAll()) End(std::move(life));
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
  stats_.removals_pending.fetch_add(1);
  executor_.Post([this, shuffle = std::move(shuffle)] {
    shuffle->Purge([this] { stats_.removals_pending.fetch_sub(1); });
  });
}

}  // namespace dovetail::storage
