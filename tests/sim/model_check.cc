// The full check, and the end: what the store says it holds is what is there.
#include <algorithm>

#include "storage/memory_budget.h"
#include "tests/sim/model.h"

namespace dovetail::sim {
namespace {

std::optional<Error> ErrorOf(const auto& result) {
  return result ? std::nullopt : std::optional<Error>(result.error());
}

}  // namespace

void Model::FullCheck() {
  // Where disks hang, ended lives have let go of their memory all the same.
  world_.RunAll();
  FinishReads();
  DropHeld(0);
  CheckAccounts();
  CheckPartitions();
  if (!wrong_) CheckFiles();
  DropHeld(0);
  if (random_.OneIn(4)) FlushEverything();
  Met("full checks");
}

// REQUIRES: nothing is under way but what hangs.
void Model::CheckAccounts() {
  const storage::StoreStats& stats = world_.store().stats();
  const auto figures = world_.store().budget().figures();
  int64_t promised = 0;
  int64_t tickets = 0;
  int64_t made = 0;
  for (const auto& [id, app] : apps_) {
    for (const auto& [number, life] : app.shuffles) {
      for (const auto& [ticket, promise] : life->tickets) promised += promise.bytes;
      tickets += static_cast<int64_t>(life->tickets.size());
      made += std::ranges::count_if(life->partitions,
                                    [](const auto& entry) { return entry.second.made; });
    }
  }
  Expect(stats.tickets.load() == tickets, "the number of tickets");
  for (const Admitted& admitted : admitted_) promised += admitted.admission.ticket_bytes();
  Expect(figures.promised_bytes == promised, "what is promised");
  Expect(figures.metadata_bytes == made * storage::kPartitionOverheadBytes +
                                       stats.extents.load() * storage::kExtentOverheadBytes,
         "what partitions and extents take");
  Expect(stats.partitions.load() == made, "the number of partitions");
  Expect(stats.apps.load() == static_cast<int64_t>(apps_.size()), "the number of apps");
  const int64_t frozen = stats.frozen_bytes.load();
  Expect(frozen >= 0 && frozen <= figures.used_bytes, "what is frozen");
  for (const auto& disk : world_.store().disks()) {
    const storage::DiskStats& counts = disk->stats();
    for (const auto* gauge : {&counts.segments, &counts.reserved_bytes, &counts.removals_pending,
                              &counts.flush_bytes_in_flight}) {
      Expect(gauge->load() >= 0, "a gauge of a disk is negative");
    }
  }
}

// Every partition is read whole. Nothing is lost and nothing is there twice: what memory and files
// hold together is what was stored, and what memory holds is what is accounted for.
void Model::CheckPartitions() {
  const storage::StoreStats& stats = world_.store().stats();
  const int64_t flushed_before = stats.flushed_blocks_total.load();
  const int64_t used = world_.store().budget().figures().used_bytes;
  int64_t memory_cost = 0;
  bool lost = false;
  for (const auto& [id, app] : apps_) {
    for (const auto& [number, life] : app.shuffles) {
      int64_t blocks = 0;
      bool life_lost = false;
      for (auto& [partition, truth] : life->partitions) {
        if (truth.lost) {
          life_lost = true;
          CheckLost(*life, partition);
          continue;
        }
        const Found found = ReadPartition(life, partition, {.page_bytes = 20'000});
        if (wrong_) return;
        blocks += found.memory_blocks + found.file_blocks;
        memory_cost += found.memory_cost;
      }
      lost = lost || life_lost;
      const bool still = stats.flushed_blocks_total.load() == flushed_before;
      if (still && !life_lost) {
        Expect(blocks == life->stored_blocks, "blocks in memory and files are not those stored");
        Met("lives counted");
      }
    }
  }
  if (lost || stats.flushed_blocks_total.load() != flushed_before) return;
  Expect(memory_cost == used, "memory in use is not what is there");
  Met("accounts balanced");
}

void Model::CheckLost(Life& life, int32_t partition) {
  Judge(life, partition, {}, ErrorOf(AskFile(life, partition, std::nullopt, 0)));
  Judge(life, partition, {}, ErrorOf(AskFile(life, partition, 0, 1)));
  storage::MemoryReadRequest page;
  page.app = life.app;
  page.shuffle = life.shuffle;
  page.partition = partition;
  page.bytes_soft_max = 1;
  Judge(life, partition, {}, ErrorOf(AskPage(page)));
}

void Model::End() {
  HealAll();
  for (const auto& disk : world_.store().disks()) {
    const storage::DiskStats& counts = disk->stats();
    Met("groups appended", counts.appended_groups_total.load());
    Met("batches appended", counts.appended_batches_total.load());
    Met("appends failed", counts.append_failures_total.load());
    Met("groups abandoned", counts.groups_abandoned_total.load());
    Met("reservations tried again", counts.reserve_retries_total.load());
    Met("segments begun", counts.segments_created_total.load());
  }
  const auto cache = world_.store().index_cache().figures();
  Met("index heads evicted", cache.evictions_total);
  Met("index heads from memory", cache.hits_total);
  Met("index heads from files", cache.misses_total);
  admitted_.clear();
  world_.RunAll();
  FinishReads();
  DropHeld(0);
  pending_.clear();
  for (const auto& entry : apps_) world_.store().UnregisterApp(entry.first);
  apps_.clear();
  world_.store().Clear();
  // A disk that was broken is trusted again after a probe, which also takes its file away.
  LookAtDisks();
  CheckIdle();
}

void Model::CheckIdle() {
  const storage::StoreStats& stats = world_.store().stats();
  const auto figures = world_.store().budget().figures();
  Expect(figures.total_bytes() == 0 && figures.promised_bytes == 0 && figures.used_bytes == 0,
         "memory is in use at the end");
  for (const auto* gauge :
       {&stats.apps, &stats.shuffles, &stats.partitions, &stats.tickets, &stats.report_bytes,
        &stats.frozen_bytes, &stats.extents, &stats.removals_pending, &stats.ranges}) {
    Expect(gauge->load() == 0, "a gauge of the store is not 0 at the end");
  }
  Expect(world_.store().index_cache().figures().bytes == 0, "the index cache at the end");
  Expect(world_.store().read_budget().bytes_in_flight() == 0, "read memory at the end");
  Expect(world_.store().arena().used_bytes() == 0, "the arena at the end");
  for (const auto& disk : world_.store().disks()) {
    const storage::DiskStats& counts = disk->stats();
    for (const auto* gauge : {&counts.segments, &counts.reserved_bytes, &counts.removals_pending,
                              &counts.flush_bytes_in_flight}) {
      Expect(gauge->load() == 0, "a gauge of a disk is not 0 at the end");
    }
    Expect(disk->usable(), "a disk is not usable at the end");
    Expect(disk->engine().in_flight() == 0, "an engine has work at the end");
  }
  for (int i = 0; i < World::kDisks; ++i) {
    for (const std::string& path : world_.disk(i).Files()) Wrong("left behind: " + path);
    for (const std::string& path : world_.disk(i).Folders()) {
      if (path != "apps") Wrong("left behind: " + path);
    }
  }
}

}  // namespace dovetail::sim
