// The only door into storage: what a shuffle server remembers, with no notion of any wire.
// Arguments are expected to be well-formed (the service above checks fields); here is what depends
// on state: who is registered, what fits, what is there.
//
// Errors: kNotFound unknown or ended app, shuffle or partition outside the registered ranges;
// kNoBuffer no room now; kBusy a limit on metadata is reached; kShutdown the store is stopping;
// kInvalid as each call says.
//
// Threads: any. done functions run once, on the calling thread when the answer is known at once,
// else on the executor. Lifetime: arena, executor and ticker outlive the store; Close() is called
// before either of them stops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/executor.h"
#include "engine/base/result.h"
#include "engine/base/ticker.h"
#include "storage/admission_queue.h"
#include "storage/app_registry.h"
#include "storage/block.h"
#include "storage/disk.h"
#include "storage/flush_scheduler.h"
#include "storage/index_cache.h"
#include "storage/memory_budget.h"
#include "storage/options.h"
#include "storage/read_budget.h"
#include "storage/stats.h"

namespace dovetail::storage {

// A send whose ticket was taken. Given to Store, or let go: either way the ticket's bytes are
// accounted for once.
class SendAdmission {
 public:
  SendAdmission(std::shared_ptr<Shuffle> shuffle, MemoryBudget& budget, int64_t ticket_bytes)
      : shuffle_(std::move(shuffle)), budget_(&budget), ticket_bytes_(ticket_bytes) {}
  ~SendAdmission();
  SendAdmission(SendAdmission&& other) noexcept;
  SendAdmission& operator=(SendAdmission&&) = delete;

  int64_t ticket_bytes() const { return ticket_bytes_; }

 private:
  friend class ShuffleStore;
  std::shared_ptr<Shuffle> shuffle_;
  MemoryBudget* budget_;
  int64_t ticket_bytes_;  // 0 once redeemed
};

struct PartitionReport {
  int32_t partition = 0;
  std::span<const int64_t> block_ids;
};

struct MemoryReadRequest {
  std::string app;
  int32_t shuffle = 0;
  int32_t partition = 0;
  int64_t last_block_id = -1;
  int64_t bytes_soft_max = 0;
  std::shared_ptr<const TaskFilter> filter;  // null: all tasks
};

struct MemoryAnswer {
  MemoryPage page;
  std::shared_ptr<ReadGrant>
      grant;  // null for an empty page; hold it until the page's data has gone out
};

// Bytes of an answer from files, in order; hold the grant until they have gone out.
struct FileAnswer {
  SliceChain bytes;
  int64_t data_bytes = 0;  // of an index: the data that its records describe
  std::shared_ptr<ReadGrant> grant;
};

struct ReportsAnswer {
  std::string bitmap;
  std::shared_ptr<ReadGrant> grant;  // null when empty; hold it until the answer has gone out
};

class ShuffleStore {
 public:
  using TicketDone = std::move_only_function<void(Result<int64_t>)>;
  using ReportsDone = std::move_only_function<void(Result<ReportsAnswer>)>;
  using MemoryDone = std::move_only_function<void(Result<MemoryAnswer>)>;
  using FileDone = std::move_only_function<void(Result<FileAnswer>)>;

  // engines: one for each of options.local_file.data_paths; none means memory only.
  ShuffleStore(const StoreOptions& options, Arena& arena, Executor& executor, Ticker& ticker,
               Clock clock, std::vector<std::unique_ptr<engine::Engine>> engines);
  // REQUIRES: Close() was called and no call is in progress.
  ~ShuffleStore();

  Status Register(std::string_view app, int32_t shuffle, std::span<const PartitionRange> ranges,
                  Properties properties);
  Status Heartbeat(std::string_view app);

  // A ticket for `bytes`; waits for room up to require_wait_ms. kInvalid: larger than the whole
  // capacity.
  void Require(std::string_view app, int32_t shuffle, std::span<const int32_t> partitions,
               int64_t bytes, TicketDone done);
  // Whether the app registered properties (a client of 0.10 or later); false when unknown.
  bool HasProperties(std::string_view app);

  // kInvalid: the ticket is unknown, used, expired or of another shuffle (whose ticket stays as it
  // is).
  Result<SendAdmission> AdmitSend(std::string_view app, int32_t shuffle, int64_t ticket_id);
  // Stores the whole batch or nothing of it. kInvalid: it needs more than its ticket.
  Status Store(SendAdmission admission, const IncomingBatch& batch);

  Status Report(std::string_view app, int32_t shuffle, std::span<const PartitionReport> reports);
  // Java form of the union of the reported ids; 0 bytes when there are none.
  void ReadReports(std::string_view app, int32_t shuffle, std::vector<int32_t> partitions,
                   ReportsDone done);
  void ReadMemory(MemoryReadRequest request, MemoryDone done);
  // The index records of all committed blocks. kCorrupt: the partition lost data.
  void ReadIndex(std::string_view app, int32_t shuffle, int32_t partition, FileDone done);
  // Exactly these bytes of the partition's committed data. kInvalid: outside of it.
  void ReadData(std::string_view app, int32_t shuffle, int32_t partition, int64_t offset,
                int64_t length, FileDone done);

  // Unknown ones are no error. The memory is given back in the background.
  void Unregister(std::string_view app, int32_t shuffle);
  void UnregisterApp(std::string_view app);

  // Called by the ticker: takes back tickets and applications that are too old.
  void ExpireTickets();
  void ExpireApps();
  // Looks at the disks, and at whether something can be flushed now.
  void CheckDisks();

  // Answers everyone who waits for a ticket and gives out no more.
  void CloseAdmission() { require_queue_.Close(); }
  // The same for reads: those that need a share of the read budget are refused from now on.
  void Close();
  // Ends every app's life; after it (and when all answers are out) all gauges of use are 0.
  void Clear();

  // Whether any shuffle is registered, as opposed to ended and still being removed.
  bool AnyShuffle() const { return registry_->AnyShuffle(); }
  const StoreStats& stats() const { return stats_; }
  const MemoryBudget& budget() const { return budget_; }
  const ReadBudget& read_budget() const { return read_budget_; }
  const Arena& arena() const { return arena_; }
  const IndexCache& index_cache() const { return index_cache_; }
  const std::vector<std::unique_ptr<Disk>>& disks() const { return disks_; }
  // Enough disks take data, or there are none to begin with.
  bool EnoughDisks() const;
  int64_t require_waiting() const { return require_queue_.waiting(); }

 private:
  struct FoundPartition {
    std::shared_ptr<Shuffle> shuffle;
    Partition* partition = nullptr;  // nullptr when nothing came for it yet
  };

  // kCorrupt when the partition lost data.
  Result<FoundPartition> FindPartition(std::string_view app, int32_t shuffle, int32_t partition);
  struct FileRead;
  using PiecesDone = std::move_only_function<void(std::vector<SliceChain>)>;
  Result<std::shared_ptr<FileRead>> BeginFileRead(std::string_view app, int32_t shuffle,
                                                  int32_t partition);
  // A share of the read budget, then the plan; finish gets one chain for each planned read, or
  // read->done the error.
  void RunFileRead(std::shared_ptr<FileRead> read, int64_t bytes, engine::IoMode mode,
                   PiecesDone finish);
  Result<FileAnswer> JoinIndex(FileRead& read, std::vector<SliceChain> pieces);
  std::vector<Disk*> DiskPointers() const;
  void IssueTicket(const std::shared_ptr<Shuffle>& shuffle, int64_t bytes, TicketDone& done);
  void ReadPage(std::shared_ptr<Shuffle> shuffle, MemoryReadRequest request, MemoryDone done);
  void AnswerRead(const std::shared_ptr<Shuffle>& shuffle, MemoryReadRequest request,
                  std::shared_ptr<ReadGrant> grant, MemoryDone done);
  Status TakeReport(Shuffle& life, const PartitionReport& report);
  Status CheckIncoming(const Shuffle& shuffle, const IncomingBatch& batch,
                       int64_t ticket_bytes) const;
  void StoreBatch(const std::shared_ptr<Shuffle>& shuffle, const IncomingBatch& batch);
  void End(std::shared_ptr<Shuffle> shuffle);
  void LeaveGate(const std::shared_ptr<Shuffle>& shuffle);
  void PurgeLater(std::shared_ptr<Shuffle> shuffle);

  const StoreOptions options_;
  Executor& executor_;
  const Clock clock_;
  StoreStats stats_;
  std::atomic<int64_t> ticket_ids_{0};
  Arena& arena_;
  MemoryBudget budget_;
  AdmissionQueue require_queue_;
  ReadBudget read_budget_;
  IndexCache index_cache_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::unique_ptr<FlushScheduler> scheduler_;
  std::unique_ptr<AppRegistry> registry_;
};

}  // namespace dovetail::storage
