// The seeded model test: a long row of random steps against a store over failing disks, compared
// with plain maps (truth.h) after every step where that is possible, and from end to end every
// thousand.
//
// A run follows from its seed alone. The first thing that is wrong ends it; the failure names the
// seed and the step.
//
// Threads: none; everything runs on the caller.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/truth.h"
#include "tests/sim/world.h"

namespace dovetail::sim {

using storage::FileAnswer;
using LifeRef = std::shared_ptr<Life>;

class Model {
 public:
  explicit Model(uint64_t seed);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // False when something was wrong.
  bool Run(int64_t steps);

  // How often what happened, by name.
  const std::map<std::string, int64_t>& met() const { return met_; }

 private:
  // A send that is made up: what the client puts into one request.
  struct Outgoing {
    std::vector<SentBlock> blocks;
    storage::IncomingBatch batch;
    std::vector<std::string> data;
    int64_t ticket_bytes = 0;  // the least that its ticket must have
  };
  // A send between its ticket and its data.
  struct Admitted {
    LifeRef life;
    storage::SendAdmission admission;
  };
  // A read of files that has not been answered, or whose answer is still looked at.
  struct PendingRead {
    LifeRef life;
    int32_t partition = 0;
    bool is_index = false;
    std::string expected;  // of an index: what it begins with
    std::optional<Result<FileAnswer>> answer;
  };
  // An answer that is still on its way to a client: its bytes must stay what they are.
  struct Held {
    SliceChain bytes;
    std::shared_ptr<storage::ReadGrant> grant;
    std::string expected;
  };
  struct ReadOptions {
    bool interleave = false;  // engines and writers go on between the calls
    bool may_lose = false;    // a read was made to fail
    int64_t page_bytes = 1 << 20;
    int64_t data_bytes = 1 << 20;  // of one data request
    std::set<int64_t> tasks = {};  // only blocks of these, when not empty
  };
  // Copies found in memory and in the committed log.
  struct Found {
    std::map<int64_t, std::vector<BlockMeta>> blocks;
    int64_t memory_blocks = 0;
    int64_t memory_cost = 0;
    int64_t file_blocks = 0;
    bool over = false;  // lost, or wrong: nothing more to compare
  };

  // model.cc
  void Step();
  // A failure of the test; the run ends.
  void Wrong(const std::string& what);
  // Says so when it does not hold; returns whether it does.
  bool Expect(bool holds, std::string_view what);
  void Met(const char* what, int64_t times = 1) { met_[what] += times; }
  void Touch(const std::string& app);
  LifeRef AnyLife();
  LifeRef FindLife(const std::string& app, int32_t shuffle);
  void Register();
  void Unregister();
  void UnregisterApp();
  void EndLife(const LifeRef& life);
  void NoteUsed(const LifeRef& life, int64_t ticket);
  void Age();
  void Report();
  void ReadReports();
  void CheckReports(const Life& life, const std::vector<int32_t>& partitions,
                    const std::string& bitmap);

  // model_writes.cc
  void Send();
  void SendFresh(const LifeRef& life);
  void SendAgain(const LifeRef& life);
  std::vector<SentBlock> MakeBlocks(Life& life);
  SentBlock MakeBlock(Life& life);
  void Pack(std::vector<SentBlock> blocks, Outgoing& out);
  std::optional<int64_t> Require(Life& life, int64_t bytes);
  void RequireForeign();
  void LeaveTicket();
  void TryWrongTickets(const LifeRef& life, int64_t good);
  void SendWith(const LifeRef& life, Outgoing& out, int64_t ticket);
  void Store(const LifeRef& life, storage::SendAdmission admission, Outgoing& out);
  void CheckStored(Life& life, const Outgoing& out, int64_t duplicates, int64_t used_before);
  void StoreAdmitted();

  // model_reads.cc
  void ReadStep();
  Found ReadPartition(const LifeRef& life, int32_t partition, const ReadOptions& options);
  void ReadMemory(const LifeRef& life, int32_t partition, const ReadOptions& options, Found& found);
  void TakePage(const Life& life, int32_t partition, const ReadOptions& options,
                const storage::MemoryPage& page, std::set<int64_t>& ids, Found& found);
  Result<storage::MemoryAnswer> AskPage(const storage::MemoryReadRequest& request);
  void ReadFiles(const LifeRef& life, int32_t partition, const ReadOptions& options, Found& found);
  bool TakeIndex(Life& life, int32_t partition, const std::string& records, Found& found,
                 std::string& data);
  bool AnyDiskSlow();
  void MakeReadsPossible();
  // Waits, whatever has to be healed for that.
  Result<FileAnswer> AskFile(const Life& life, int32_t partition, std::optional<int64_t> offset,
                             int64_t length);
  // Whether the answer may be read; judges the error otherwise.
  bool Judge(Life& life, int32_t partition, const ReadOptions& options,
             const std::optional<Error>& error);
  void Between(const LifeRef& life, const ReadOptions& options);
  void StartRead();
  void FinishReads();
  void CheckPending(PendingRead& read);
  void Hold(SliceChain bytes, std::shared_ptr<storage::ReadGrant> grant);
  void DropHeld(size_t keep);
  // What a file of these records holds as data.
  std::string DataOf(const std::string& records) const;

  // model_faults.cc
  void ChangeFaults();
  void BreakDisk(int disk);
  void BreakAppends(int disk);
  void BreakOthers(int disk);
  void HangDisk(int disk);
  void HealSome();
  void HealAll();
  void LoseSomething();
  void CountStates();

  // model_files.cc
  // A batch found in a segment.
  struct Batch {
    int64_t logical_offset = 0;
    std::string records;
    std::string data;
  };
  using Batches = std::map<std::pair<int64_t, int32_t>, std::vector<Batch>>;  // of life, partition
  void WalkSegment(const std::string& path, ConstBytes bytes, Batches& batches);
  void CheckFiles();
  bool Covers(std::vector<Batch>& batches, const std::string& index) const;
  void FlushEverything();
  int64_t BytesIfAllWereFlushed();
  // What the ticker does, until the disks are what they will be.
  void LookAtDisks();

  // model_check.cc
  void FullCheck();
  void CheckAccounts();
  void CheckPartitions();
  void CheckLost(Life& life, int32_t partition);
  void End();
  void CheckIdle();

  const uint64_t seed_;
  int64_t step_ = 0;
  bool wrong_ = false;
  int64_t reads_made_possible_ = 0;  // times that disks were healed so that a read could go on
  std::map<std::string, int64_t> met_;
  Random random_;
  World world_;

  std::map<std::string, AppTruth> apps_;
  int64_t lives_ = 0;
  int64_t next_block_ = 1;
  uint64_t next_token_ = 0;
  std::list<Admitted> admitted_;
  std::vector<std::pair<LifeRef, int64_t>> used_tickets_;
  std::vector<std::shared_ptr<PendingRead>> pending_;
  std::vector<Held> held_;
  int64_t healed_at_[World::kDisks] =
      {};  // the step at which the disk's faults end; 0: it has none
};

}  // namespace dovetail::sim
