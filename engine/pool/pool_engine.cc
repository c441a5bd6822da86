#include "engine/pool/pool_engine.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/check.h"
#include "engine/memory_pieces.h"
#include "engine/pool/pool_operations.h"

namespace dovetail::engine {

Result<std::unique_ptr<PoolEngine>> PoolEngine::Start(PoolOptions options, Arena& arena,
                                                      std::shared_ptr<SystemCalls> calls) {
  DOVETAIL_CHECK(options.shards > 0 && options.read_pieces_max > 0);
  auto folder = DataFolder::Open(options.data_path, calls);
  if (!folder) return std::unexpected(folder.error());
  auto threads = DiskThreads::Start({.io_threads = options.io_threads,
                                     .control_threads = options.control_threads,
                                     .queue_max = options.queue_max});
  const int64_t descriptors_max = options.descriptors_max;
  std::shared_ptr<DiskCore> core(new DiskCore{.data_path = options.data_path,
                                              .arena = arena,
                                              .calls = std::move(calls),
                                              .folder = std::move(*folder),
                                              .threads = std::move(threads),
                                              .open_files = OpenFiles(descriptors_max),
                                              .counters = {}});
  return std::unique_ptr<PoolEngine>(new PoolEngine(std::move(options), std::move(core)));
}

PoolEngine::PoolEngine(PoolOptions options, std::shared_ptr<DiskCore> core)
    : DiskEngine(std::move(core)), options_(std::move(options)) {
  for (int i = 0; i < options_.shards; ++i) {
    shards_.push_back(std::make_unique<Strand>(fmt::format("shard-{}", i)));
  }
}

PoolEngine::~PoolEngine() {
  DOVETAIL_CHECK(Stop(TimePoint::max()));
  core_->threads->EndTimer();
}

FileMaker PoolEngine::MakerOfFiles() {
  return [core = core_](std::string path, const OpenedFile& opened) {
    return std::make_shared<DiskFile>(core, std::move(path), opened);
  };
}

void PoolEngine::Append(AppendRequest request, Done done) {
  DiskFileRef file = OwnFile(request.file);
  const int64_t bytes = SumOf(request.data);
  if (const Status status = AppendFault(request, file.get(), bytes); !status) {
    return Refuse(std::move(done), status.error());
  }
  core_->threads->Submit(std::make_shared<AppendOperation>(
      core_, std::move(file), std::move(request), bytes, std::move(done)));
}

void PoolEngine::Read(ReadRequest request, ReadDone done) {
  DiskFileRef file = OwnFile(request.file);
  if (const Status status = ReadFault(request, file.get()); !status) {
    return Refuse(std::move(done), status.error());
  }
  core_->threads->Submit(std::make_shared<ReadOperation>(
      core_, std::move(file), request, options_.read_pieces_max, std::move(done)));
}

void PoolEngine::ToPipe(PipeRequest request, Done done) {
  DiskFileRef file = OwnFile(request.file);
  if (const Status status = PipeFault(request, file.get()); !status) {
    return Refuse(std::move(done), status.error());
  }
  core_->threads->Submit(
      std::make_shared<PipeOperation>(core_, std::move(file), request, std::move(done)));
}

bool PoolEngine::Post(int shard, std::move_only_function<void()> task) {
  DOVETAIL_CHECK(shard >= 0 && shard < shards());
  return shards_[static_cast<size_t>(shard)]->Post(std::move(task));
}

bool PoolEngine::Stop(TimePoint deadline) {
  std::lock_guard lock(stop_mutex_);
  if (stopped_) return stopped_clean_;
  stopped_ = true;
  // Closed together first: a task of one shard must not post to another that is gone already.
  for (const auto& shard : shards_) shard->Close();
  bool drained = true;
  for (const auto& shard : shards_) drained = shard->Drain(deadline) && drained;
  const int64_t held = core_->threads->Stop(deadline);
  stopped_clean_ = drained && held == 0;
  if (!stopped_clean_) {
    LogHeld(*core_, held, !drained, core_->threads->DescribeHeld());
  }
  return stopped_clean_;
}

}  // namespace dovetail::engine
