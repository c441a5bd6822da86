// Readers: memory in pages, then index and data, as clients do it; and reads that take their time.
#include <algorithm>
#include <utility>

#include "storage/block_bitmap.h"
#include "storage/segment_format.h"
#include "storage/task_filter.h"
#include "tests/sim/model.h"

namespace dovetail::sim {

using storage::kIndexRecordBytes;

namespace {

constexpr size_t kRecord = static_cast<size_t>(kIndexRecordBytes);

storage::IndexRecord RecordAt(const std::string& records, size_t at) {
  return storage::ReadIndexRecord(reinterpret_cast<const std::byte*>(records.data()) + at);
}

}  // namespace

void Model::ReadStep() {
  const LifeRef life = AnyLife();
  if (!life) return;
  auto at = life->partitions.begin();
  std::advance(at, random_.Below(static_cast<int64_t>(life->partitions.size())));
  static constexpr int64_t kSizes[] = {1, 700, 5000, 14'000};
  ReadOptions options{.interleave = true,
                      .page_bytes = random_.Of(kSizes),
                      .data_bytes = random_.Between(100, 14'000)};
  if (random_.OneIn(3)) {
    options.tasks = {random_.Below(5), random_.Below(5)};
    Met("filtered reads");
  }
  ReadPartition(life, at->first, options);
}

// What was acknowledged before must be found, whatever goes on meanwhile.
Model::Found Model::ReadPartition(const LifeRef& life, int32_t partition,
                                  const ReadOptions& options) {
  Found found;
  std::vector<int64_t> acked;
  for (const auto& [id, copies] : life->partitions.at(partition).acked) {
    const bool wanted = options.tasks.empty() || options.tasks.contains(copies[0].task_attempt_id);
    if (wanted) acked.push_back(id);
  }
  ReadMemory(life, partition, options, found);
  if (wrong_ || found.over) return found;
  Between(life, options);
  ReadFiles(life, partition, options, found);
  if (wrong_ || found.over) return found;
  for (const int64_t id : acked) {
    if (!found.blocks.contains(id)) {
      Wrong("block " + std::to_string(id) + " of partition " + std::to_string(partition) +
            " was acknowledged and is neither in memory nor in a file");
      break;
    }
  }
  if (!acked.empty()) Met("partitions read");
  return found;
}

void Model::Between(const LifeRef& life, const ReadOptions& options) {
  if (!options.interleave || random_.OneIn(3)) return;
  if (world_.store().stats().frozen_bytes.load() > 0) Met("reads during flushes");
  world_.RunSome(random_, random_.Between(1, 10));
  if (random_.OneIn(4)) SendFresh(life);
  // Also what was sent before, and may have been flushed since.
  if (random_.OneIn(4)) SendAgain(life);
}

bool Model::Judge(Life& life, int32_t partition, const ReadOptions& options,
                  const std::optional<Error>& error) {
  PartitionTruth& truth = life.partitions.at(partition);
  if (truth.lost) {
    Expect(error && error->code == ErrorCode::kCorrupt, "a partition that lost data is read");
    return false;
  }
  if (!error) return true;
  if (options.may_lose && error->code == ErrorCode::kCorrupt) {
    truth.lost = true;
    Met("partitions lost");
    return false;
  }
  if (options.may_lose && error->code == ErrorCode::kNoBuffer) return false;
  Wrong(std::string("a read failed: ") + ToString(error->code) + " at " + error->where);
  return false;
}

bool Model::AnyDiskSlow() {
  return std::ranges::any_of(world_.store().disks(), [](const auto& disk) { return disk->slow(); });
}

// Disks answer, and no other answer is on its way.
void Model::MakeReadsPossible() {
  Met(AnyDiskSlow() ? "reads of slow disks refused" : "reads that found no read memory");
  ++reads_made_possible_;
  HealAll();
  world_.RunAll();
  world_.store().CheckDisks();
  FinishReads();
  DropHeld(0);
}

Result<storage::MemoryAnswer> Model::AskPage(const storage::MemoryReadRequest& request) {
  std::optional<Result<storage::MemoryAnswer>> answer;
  const auto ask = [&] {
    world_.store().ReadMemory(
        request, [&](Result<storage::MemoryAnswer> result) { answer = std::move(result); });
    Touch(request.app);
  };
  ask();
  if (answer && !*answer && answer->error().code == ErrorCode::kNoBuffer &&
      world_.store().read_budget().bytes_in_flight() > 0) {
    MakeReadsPossible();
    ask();
  }
  if (!answer) return Fail(ErrorCode::kTimeout, "a page was not answered at once");
  return std::move(*answer);
}

void Model::ReadMemory(const LifeRef& life, int32_t partition, const ReadOptions& options,
                       Found& found) {
  storage::MemoryReadRequest request;
  request.app = life->app;
  request.shuffle = life->shuffle;
  request.partition = partition;
  request.bytes_soft_max = options.page_bytes;
  if (!options.tasks.empty()) {
    storage::BlockBitmap tasks;
    tasks.Add(std::vector<int64_t>(options.tasks.begin(), options.tasks.end()));
    auto filter = storage::TaskFilter::Parse(tasks.Serialize());
    if (!Expect(filter.has_value(), "a filter")) return;
    request.filter = std::make_shared<const storage::TaskFilter>(std::move(*filter));
  }
  constexpr int kPagesMax = 100'000;
  std::set<int64_t> ids;  // since the last time that the reader may have begun anew
  for (int pages = 0;; ++pages) {
    if (!Expect(pages < kPagesMax, "a reader does not come to an end")) return;
    const int64_t made_possible = reads_made_possible_;
    Result<storage::MemoryAnswer> answer = AskPage(request);
    if (made_possible != reads_made_possible_ && !options.interleave) {
      // Flushes have ended meanwhile: who looks at one moment begins anew.
      found = Found();
      ids.clear();
      request.last_block_id = -1;
      continue;
    }
    std::optional<Error> error;
    if (!answer) error = answer.error();
    if (!Judge(*life, partition, options, error)) {
      found.over = true;
      return;
    }
    TakePage(*life, partition, options, answer->page, ids, found);
    if (wrong_) return;
    const bool is_end = answer->page.is_end;
    if (!answer->page.blocks.empty()) {
      request.last_block_id = answer->page.blocks.back().meta.block_id;
    }
    if (answer->grant && random_.OneIn(10)) Hold(answer->page.data, answer->grant);
    const bool is_empty = answer->page.blocks.empty();
    if (is_empty && !Expect(is_end, "an empty page in the middle")) return;
    if (is_end) break;
    if (pages == 1) Met("reads of several pages");
    answer = Result<storage::MemoryAnswer>(storage::MemoryAnswer{});  // its share goes back
    if (pages < 20) Between(life, options);
    if (options.interleave) ids.clear();
  }
}

void Model::TakePage(const Life& life, int32_t partition, const ReadOptions& options,
                     const storage::MemoryPage& page, std::set<int64_t>& ids, Found& found) {
  const PartitionTruth& truth = life.partitions.at(partition);
  const std::string bytes = Flatten(page.data);
  Expect(static_cast<int64_t>(bytes.size()) == page.data_bytes, "the size of a page");
  int64_t offset = 0;
  for (const storage::PageBlock& block : page.blocks) {
    if (!Expect(truth.Acked(block.meta), "memory has a block that nobody sent")) return;
    Expect(ids.insert(block.meta.block_id).second, "a block id twice in memory");
    Expect(options.tasks.empty() || options.tasks.contains(block.meta.task_attempt_id),
           "a block that the filter excludes");
    Expect(offset < options.page_bytes, "a page goes on behind its size");
    Expect(block.offset == offset, "the offset of a block in a page");
    Expect(bytes.compare(static_cast<size_t>(offset), static_cast<size_t>(block.meta.length),
                         BytesOf(block.meta)) == 0,
           "the bytes of a block in memory");
    offset += block.meta.length;
    found.blocks[block.meta.block_id].push_back(block.meta);
    ++found.memory_blocks;
    found.memory_cost += CostOf(block.meta);
  }
  Expect(offset == page.data_bytes, "a page has bytes of no block");
}

Result<FileAnswer> Model::AskFile(const Life& life, int32_t partition,
                                  std::optional<int64_t> offset, int64_t length) {
  for (int attempt = 0;; ++attempt) {
    std::optional<Result<FileAnswer>> answer;
    auto done = [&](Result<FileAnswer> result) { answer = std::move(result); };
    if (offset) {
      world_.store().ReadData(life.app, life.shuffle, partition, *offset, length, done);
    } else {
      world_.store().ReadIndex(life.app, life.shuffle, partition, done);
    }
    Touch(life.app);
    for (int i = 0; !answer && i < 50; ++i) world_.RunSome(random_, 1);
    while (!answer && world_.RunAll()) {
    }
    if (!answer) {  // it hangs
      HealAll();
      world_.RunAll();
    }
    if (!answer) return Fail(ErrorCode::kTimeout, "a read of files was never answered");
    const bool again = !*answer && answer->error().code == ErrorCode::kNoBuffer && attempt == 0 &&
                       (world_.store().read_budget().bytes_in_flight() > 0 || AnyDiskSlow());
    if (!again) return std::move(*answer);
    MakeReadsPossible();
  }
}

// Gap-free from 0, whole records, nothing that was not sent, and a log that only grows.
bool Model::TakeIndex(Life& life, int32_t partition, const std::string& records, Found& found,
                      std::string& data) {
  PartitionTruth& truth = life.partitions.at(partition);
  if (!Expect(records.size() % kRecord == 0, "an index that is not a whole number of records")) {
    return false;
  }
  Expect(records.starts_with(truth.index), "an index that does not go on where it was");
  for (size_t at = 0; at < records.size(); at += kRecord) {
    const storage::IndexRecord record = RecordAt(records, at);
    Expect(record.logical_offset == static_cast<int64_t>(data.size()), "a gap in an index");
    if (!Expect(truth.Acked(record.meta), "a file has a block that nobody sent")) return false;
    data += BytesOf(record.meta);
    found.blocks[record.meta.block_id].push_back(record.meta);
    ++found.file_blocks;
  }
  truth.index = records;
  return !wrong_;
}

void Model::ReadFiles(const LifeRef& life, int32_t partition, const ReadOptions& options,
                      Found& found) {
  Result<FileAnswer> index = AskFile(*life, partition, std::nullopt, 0);
  std::optional<Error> error;
  if (!index) error = index.error();
  if (!Judge(*life, partition, options, error)) {
    found.over = true;
    return;
  }
  std::string data;
  if (!TakeIndex(*life, partition, Flatten(index->bytes), found, data)) return;
  const auto size = static_cast<int64_t>(data.size());
  if (!Expect(index->data_bytes == size, "the data size that an index says")) return;
  if (index->grant && random_.OneIn(10)) Hold(index->bytes, index->grant);
  index = Result<FileAnswer>(FileAnswer{});
  if (size > 0) Met("partitions read from files");
  for (int64_t offset = 0; offset < size; offset += options.data_bytes) {
    Between(life, options);
    const int64_t length = std::min(options.data_bytes, size - offset);
    Result<FileAnswer> part = AskFile(*life, partition, offset, length);
    error.reset();
    if (!part) error = part.error();
    if (!Judge(*life, partition, options, error)) {
      found.over = true;
      return;
    }
    const bool right = Flatten(part->bytes) ==
                       data.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    if (!Expect(right, "the bytes of a range of a file")) return;
    if (length < size) Met("ranges read");
    if (random_.OneIn(10)) Hold(part->bytes, part->grant);
  }
}

std::string Model::DataOf(const std::string& records) const {
  std::string data;
  for (size_t at = 0; at + kRecord <= records.size(); at += kRecord) {
    data += BytesOf(RecordAt(records, at).meta);
  }
  return data;
}

// A read whose answer is looked at in a later step; the shuffle may end meanwhile.
void Model::StartRead() {
  constexpr size_t kPendingMax = 6;
  const LifeRef life = AnyLife();
  if (!life || pending_.size() >= kPendingMax) return;
  auto at = life->partitions.begin();
  std::advance(at, random_.Below(static_cast<int64_t>(life->partitions.size())));
  auto read = std::make_shared<PendingRead>();
  read->life = life;
  read->partition = at->first;
  const std::string& index = at->second.index;
  read->is_index = index.empty() || random_.OneIn(2);
  const auto done = [read](Result<FileAnswer> result) { read->answer = std::move(result); };
  if (read->is_index) {
    read->expected = index;
    world_.store().ReadIndex(life->app, life->shuffle, read->partition, done);
  } else {
    const std::string data = DataOf(index);
    const int64_t offset = random_.Below(static_cast<int64_t>(data.size()));
    const int64_t length =
        random_.Between(1, std::min<int64_t>(20'000, static_cast<int64_t>(data.size()) - offset));
    read->expected = data.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    world_.store().ReadData(life->app, life->shuffle, read->partition, offset, length, done);
  }
  Touch(life->app);
  pending_.push_back(std::move(read));
}

void Model::FinishReads() {
  for (const auto& read : pending_) {
    if (read->answer) CheckPending(*read);
  }
  std::erase_if(pending_, [](const auto& read) { return read->answer.has_value(); });
  if (!pending_.empty()) Met("reads that take long");
  DropHeld(static_cast<size_t>(random_.Below(4)));
}

void Model::CheckPending(PendingRead& read) {
  Result<FileAnswer>& answer = *read.answer;
  if (!answer) {
    const ErrorCode code = answer.error().code;
    const bool fair =
        code == ErrorCode::kNoBuffer || (code == ErrorCode::kNotFound && read.life->ended) ||
        (code == ErrorCode::kCorrupt && read.life->partitions.at(read.partition).lost);
    Expect(fair, "a read that took long failed");
    if (code == ErrorCode::kNotFound) Met("reads that the end of a shuffle overtook");
    return;
  }
  const std::string bytes = Flatten(answer->bytes);
  if (read.is_index) {
    Expect(bytes.starts_with(read.expected), "an index that took long does not go on");
  } else {
    Expect(bytes == read.expected, "the bytes of a range that took long");
  }
  if (answer->grant) Hold(answer->bytes, answer->grant);
}

void Model::Hold(SliceChain bytes, std::shared_ptr<storage::ReadGrant> grant) {
  std::string expected = Flatten(bytes);
  held_.push_back({std::move(bytes), std::move(grant), std::move(expected)});
  Met("answers held");
}

void Model::DropHeld(size_t keep) {
  while (held_.size() > keep) {
    Expect(Flatten(held_.front().bytes) == held_.front().expected,
           "the bytes of an answer changed while it was on its way");
    held_.erase(held_.begin());
  }
}

}  // namespace dovetail::sim
