#include "tests/bench/store_load.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/pool/pool_engine.h"
#include "engine/uring/uring_engine.h"

namespace dovetail::bench {
namespace {

using storage::IncomingBatch;

constexpr std::chrono::milliseconds kPoll{1};

std::unique_ptr<engine::Engine> MakeEngine(const std::string& data_path, Arena& arena,
                                           EngineKind kind) {
  if (kind == EngineKind::kUring) {
    auto engine = engine::UringEngine::Start({.data_path = data_path}, arena);
    DOVETAIL_CHECK(engine.has_value());
    return std::move(*engine);
  }
  auto engine = engine::PoolEngine::Start({.data_path = data_path}, arena);
  DOVETAIL_CHECK(engine.has_value());
  return std::move(*engine);
}

}  // namespace

StoreLoad::StoreLoad(Arena& arena, const std::string& data_path,
                     const storage::StoreOptions& options, EngineKind engine) {
  storage::StoreOptions with_path = options;
  with_path.local_file.data_paths = {data_path};
  with_path.memory.require_wait_ms = 0;
  std::vector<std::unique_ptr<engine::Engine>> engines;
  engines.push_back(MakeEngine(data_path, arena, engine));
  store_ = std::make_unique<storage::ShuffleStore>(with_path, arena, executor_, ticker_,
                                                   SteadyClock(), std::move(engines));
}

StoreLoad::~StoreLoad() {
  store_->Close();
  store_->Clear();
  while (store_->stats().removals_pending.load() > 0) std::this_thread::sleep_for(kPoll);
  for (const auto& disk : store_->disks()) {
    DOVETAIL_CHECK(disk->engine().Stop(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  }
  executor_.Stop();
  ticker_.Stop();
}

void StoreLoad::Fill(const LoadShape& shape) {
  const storage::PartitionRange range{0, shape.partitions - 1};
  DOVETAIL_CHECK(store_->Register(app(), shape.shuffle, std::span(&range, 1), {}).has_value());
  block_.assign(static_cast<size_t>(shape.block_bytes), 'd');
  const ConstBytes piece(reinterpret_cast<const std::byte*>(block_.data()), block_.size());
  for (int32_t first = 0; first < shape.partitions; first += shape.partitions_per_send) {
    IncomingBatch batch;
    batch.pieces = {piece};
    const int32_t last = std::min(first + shape.partitions_per_send, shape.partitions);
    int64_t ticket_bytes = 0;
    for (int32_t partition = first; partition < last; ++partition) {
      batch.groups.push_back({partition, static_cast<uint32_t>(batch.blocks.size()),
                              static_cast<uint32_t>(shape.blocks_per_batch)});
      for (int i = 0; i < shape.blocks_per_batch; ++i) {
        storage::IncomingBlock block;
        block.meta = {.block_id = next_block_++,
                      .crc = 1,
                      .task_attempt_id = 1,
                      .length = shape.block_bytes,
                      .uncompress_length = shape.block_bytes};
        block.first_piece = 0;
        block.piece_count = 1;
        batch.blocks.push_back(block);
        ticket_bytes += shape.block_bytes + storage::kTicketOverheadBytes;
      }
    }
    int64_t ticket = 0;
    store_->Require(app(), shape.shuffle, {}, ticket_bytes, [&ticket](Result<int64_t> issued) {
      DOVETAIL_CHECK(issued.has_value());
      ticket = *issued;
    });
    Result<storage::SendAdmission> admission = store_->AdmitSend(app(), shape.shuffle, ticket);
    DOVETAIL_CHECK(admission.has_value());
    DOVETAIL_CHECK(store_->Store(std::move(*admission), batch).has_value());
  }
}

double StoreLoad::AskForAll() {
  const Stopwatch watch;
  store_->Require(app(), 0, {}, store_->budget().capacity_bytes(),
                  [](Result<int64_t> issued) { DOVETAIL_CHECK(!issued.has_value()); });
  return watch.Elapsed().seconds;
}

void StoreLoad::WaitFlushed(int64_t bytes) {
  const int64_t until = flushed_before_ + bytes;
  while (store_->stats().flushed_bytes_total.load() < until) std::this_thread::sleep_for(kPoll);
  flushed_before_ = until;
}

Usage StoreLoad::Remove() {
  const Stopwatch watch;
  store_->Unregister(app(), 0);
  while (store_->stats().removals_pending.load() > 0) std::this_thread::sleep_for(kPoll);
  return watch.Elapsed();
}

}  // namespace dovetail::bench
