// The files themselves, read past the store: what is committed lies in its segments, group behind
// group without a hole, each batch as the format says. And memory: all of it can go to files.
#include <algorithm>

#include "storage/memory_budget.h"
#include "storage/segment_format.h"
#include "tests/sim/model.h"

namespace dovetail::sim {

using storage::BatchHeader;
using storage::kBatchHeaderBytes;
using storage::kIndexRecordBytes;

namespace {

constexpr size_t kGroupAlignment = 4096;

// The batch at the front, if one is there whole.
Result<BatchHeader> BatchAt(ConstBytes bytes) {
  constexpr auto kHeader = static_cast<size_t>(kBatchHeaderBytes);
  constexpr size_t kBlockCountAt = 20;  // docs/storage.md
  if (bytes.size() < kHeader) return Fail(ErrorCode::kCorrupt, "batch");
  uint32_t blocks = 0;
  for (size_t i = 4; i-- > 0;)
    blocks = blocks << 8 | std::to_integer<uint32_t>(bytes[kBlockCountAt + i]);
  const size_t head = kHeader + size_t{blocks} * static_cast<size_t>(kIndexRecordBytes);
  if (head > bytes.size()) return Fail(ErrorCode::kCorrupt, "batch");
  Result<BatchHeader> header = storage::CheckBatch(bytes.first(head));
  if (header && header->total_bytes() > static_cast<int64_t>(bytes.size())) {
    return Fail(ErrorCode::kCorrupt, "batch");
  }
  return header;
}

}  // namespace

// A segment from its front, until something is no batch: behind the end that its log knows there
// may be what a failed or abandoned append left.
void Model::WalkSegment(const std::string& path, ConstBytes bytes, Batches& batches) {
  for (size_t at = 0; at < bytes.size();) {
    const Result<BatchHeader> header = BatchAt(bytes.subspan(at));
    if (!header) {
      if (at % kGroupAlignment == 0) return;
      at = (at + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
      continue;
    }
    const std::string folder = "." + std::to_string(header->generation) + "/";
    Expect(path.find(folder) != std::string::npos, "a segment has a batch of another life");
    const auto head = static_cast<size_t>(kBatchHeaderBytes);
    const auto index = static_cast<size_t>(header->index_bytes());
    const auto* records = reinterpret_cast<const char*>(bytes.data() + at + head);
    std::string data(records + index, static_cast<size_t>(header->data_bytes));
    batches[{header->generation, header->partition}].push_back(
        {header->logical_offset, std::string(records, index), std::move(data)});
    at += static_cast<size_t>(header->total_bytes());
  }
}

void Model::CheckFiles() {
  Batches batches;
  for (int i = 0; i < World::kDisks; ++i) {
    for (const std::string& path : world_.disk(i).Files()) {
      if (!path.ends_with(".seg")) continue;
      if (!path.ends_with(".0.seg")) Met("segments rolled");
      WalkSegment(path, world_.disk(i).Contents(path), batches);
    }
  }
  for (const auto& [id, app] : apps_) {
    for (const auto& [number, life] : app.shuffles) {
      for (const auto& [partition, truth] : life->partitions) {
        if (truth.lost || truth.index.empty()) continue;
        const bool whole = Covers(batches[{life->generation, partition}], truth.index);
        if (!Expect(whole, "committed data is not where a walk of the segments comes by")) return;
        Met("files walked");
      }
    }
  }
}

// Whether the index is a row of these batches. Abandoned ones may be among them, also such that
// begin as a committed one does: every place that some row reaches is followed.
bool Model::Covers(std::vector<Batch>& batches, const std::string& index) const {
  std::ranges::stable_sort(batches, {}, &Batch::logical_offset);
  std::map<size_t, int64_t> reached = {{0, 0}};  // place in the index, logical offset
  for (auto at = reached.begin(); at != reached.end(); ++at) {
    for (const Batch& batch : batches) {
      if (batch.logical_offset != at->second) continue;
      if (index.compare(at->first, batch.records.size(), batch.records) != 0) continue;
      if (batch.data != DataOf(batch.records)) continue;
      reached.emplace(at->first + batch.records.size(),
                      at->second + static_cast<int64_t>(batch.data.size()));
    }
  }
  return reached.contains(index.size());
}

// Every refusal lifts when its cause is gone: with disks that work, all that is in memory can be
// flushed for one large request. One disk that works is enough, also while the other one hangs.
void Model::FlushEverything() {
  HealAll();
  LookAtDisks();
  const bool one_hangs = random_.OneIn(2);
  const auto hanging = static_cast<int>(random_.Below(World::kDisks));
  if (one_hangs) world_.faults(hanging).HangAll(fakes::Call::kAppend);
  const LifeRef life = AnyLife();
  std::optional<int64_t> ticket;
  if (life && BytesIfAllWereFlushed() > 0) {
    ticket = Require(*life, BytesIfAllWereFlushed());
    world_.RunAll();
    if (one_hangs) {
      world_.Advance(
          std::chrono::seconds(world_.options().local_file.io_duration_threshold_sec + 1));
      LookAtDisks();
    }
    // What went to files takes a little of what it gave back.
    if (!ticket) ticket = Require(*life, BytesIfAllWereFlushed());
    Expect(ticket.has_value(), "memory that cannot be flushed though a disk works");
  }
  HealAll();
  LookAtDisks();
  if (!ticket) return;
  Met(one_hangs ? "everything flushed past a disk that hangs" : "everything flushed");
  // Let go of, as by a client that went away.
  const auto admission = world_.store().AdmitSend(life->app, life->shuffle, *ticket);
  Touch(life->app);
  Expect(admission.has_value(), "a good ticket was refused");
  life->tickets.erase(*ticket);
}

int64_t Model::BytesIfAllWereFlushed() {
  const auto figures = world_.store().budget().figures();
  return world_.options().memory.capacity_bytes - figures.promised_bytes - figures.metadata_bytes;
}

void Model::LookAtDisks() {
  for (int i = 0; i < 3; ++i) {
    world_.RunAll();
    world_.store().CheckDisks();
  }
  world_.RunAll();
}

}  // namespace dovetail::sim
