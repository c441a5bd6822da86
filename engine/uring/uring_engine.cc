#include "engine/uring/uring_engine.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/memory_pieces.h"
#include "engine/uring/uring_operations.h"
#include "engine/uring/uring_shard.h"

namespace dovetail::engine {
namespace {

// After the deadline of Stop: what the kernel can cancel comes back within this.
constexpr Milliseconds kCancelGrace{100};

// Carries a refusal to the timer thread.
class RefusedOperation : public Operation {
 public:
  explicit RefusedOperation(RingOperationRef operation)
      : Operation(Plan{}), operation_(std::move(operation)) {}
  Status RunStep(int64_t) override { return {}; }
  void Finish(Status status) override { std::exchange(operation_, nullptr)->Finish(status); }
  std::string Describe() const override { return "refusal"; }

 private:
  RingOperationRef operation_;
};

UringFileRef OwnUringFile(const FileRef& file) {
  return std::dynamic_pointer_cast<UringFile>(file);
}

int ShardOfPath(const std::string& path, size_t shards) {
  const uint64_t hash = MixBits(std::hash<std::string_view>()(path));
  return static_cast<int>(hash % shards);
}

}  // namespace

Result<std::unique_ptr<UringEngine>> UringEngine::Start(UringOptions options, Arena& arena,
                                                        UringSystems systems) {
  DOVETAIL_CHECK(options.threads > 0 && options.io_depth > 0 && options.read_pieces_max > 0);
  DOVETAIL_CHECK(options.slabs > 0 && options.fixed_files_max >= 0 && options.queue_max > 0);
  auto folder = DataFolder::Open(options.data_path, systems.calls);
  if (!folder) return std::unexpected(folder.error());
  std::shared_ptr<DiskCore> core(
      new DiskCore{.data_path = options.data_path,
                   .arena = arena,
                   .calls = systems.calls,
                   .folder = std::move(*folder),
                   .threads = DiskThreads::Start({.io_threads = 0,
                                                  .control_threads = options.control_threads,
                                                  .queue_max = options.queue_max}),
                   .open_files = OpenFiles(options.descriptors_max),
                   .counters = {}});
  auto shards = std::make_shared<ShardList>();
  Status status;
  for (int i = 0; i < options.threads && status; ++i) {
    auto shard = UringShard::Start(i, options, core, systems.ring(i));
    if (shard) {
      shards->push_back(std::move(*shard));
    } else {
      status = std::unexpected(shard.error());
    }
  }
  std::unique_ptr<UringEngine> engine(
      new UringEngine(std::move(options), std::move(core), std::move(shards)));
  if (!status) return std::unexpected(status.error());  // and those that did start end here
  return engine;
}

UringEngine::UringEngine(UringOptions options, std::shared_ptr<DiskCore> core,
                         std::shared_ptr<const ShardList> shards)
    : DiskEngine(std::move(core)), options_(std::move(options)), shards_(std::move(shards)) {}

UringEngine::~UringEngine() {
  DOVETAIL_CHECK(Stop(TimePoint::max()));
  core_->threads->EndTimer();
}

int UringEngine::OwnShard() const {
  const UringShard* current = UringShard::Current();
  const auto same = [current](const auto& shard) { return shard.get() == current; };
  return std::any_of(shards_->begin(), shards_->end(), same) ? current->index() : -1;
}

FileMaker UringEngine::MakerOfFiles() {
  // Asked on the thread that opens: if that is a shard, its appends will come from there.
  const int opener = OwnShard();
  return [opener, core = core_, shards = shards_](std::string path, const OpenedFile& opened) {
    const int shard = opener >= 0 ? opener : ShardOfPath(path, shards->size());
    return std::make_shared<UringFile>(core, std::move(path), opened, shards, shard);
  };
}

UringShard& UringEngine::ReadingShard() {
  if (const int own = OwnShard(); own >= 0) return *(*shards_)[static_cast<size_t>(own)];
  const size_t next = next_shard_.fetch_add(1, std::memory_order_relaxed);
  return *(*shards_)[next % shards_->size()];
}

void UringEngine::RefuseOperation(RingOperationRef operation, Error error) {
  core_->threads->Refuse(std::make_shared<RefusedOperation>(std::move(operation)), error);
}

void UringEngine::Submit(UringShard& shard, RingOperationRef operation) {
  if (const auto error = shard.Submit(operation)) RefuseOperation(std::move(operation), *error);
}

void UringEngine::Append(AppendRequest request, Done done) {
  UringFileRef file = OwnUringFile(request.file);
  const int64_t bytes = SumOf(request.data);
  if (const Status status = AppendFault(request, file.get(), bytes); !status) {
    return Refuse(std::move(done), status.error());
  }
  UringShard& shard = *(*shards_)[static_cast<size_t>(file->shard())];
  Submit(shard, std::make_shared<UringAppend>(core_, std::move(file), std::move(request), bytes,
                                              std::move(done)));
}

void UringEngine::Read(ReadRequest request, ReadDone done) {
  UringFileRef file = OwnUringFile(request.file);
  if (const Status status = ReadFault(request, file.get()); !status) {
    return Refuse(std::move(done), status.error());
  }
  Submit(ReadingShard(), std::make_shared<UringRead>(core_, std::move(file), request,
                                                     options_.read_pieces_max, std::move(done)));
}

void UringEngine::ToPipe(PipeRequest request, Done done) {
  UringFileRef file = OwnUringFile(request.file);
  if (const Status status = PipeFault(request, file.get()); !status) {
    return Refuse(std::move(done), status.error());
  }
  Submit(ReadingShard(),
         std::make_shared<UringPipe>(core_, std::move(file), request, std::move(done)));
}

bool UringEngine::Post(int shard, std::move_only_function<void()> task) {
  DOVETAIL_CHECK(shard >= 0 && shard < shards());
  return (*shards_)[static_cast<size_t>(shard)]->Post(std::move(task));
}

int64_t UringEngine::in_flight() const {
  int64_t count = core_->threads->in_flight();
  for (const auto& shard : *shards_) count += shard->counters().in_flight.load();
  return count;
}

int64_t UringEngine::waiting(Lane lane) const {
  int64_t count = core_->threads->waiting(lane);
  for (const auto& shard : *shards_) count += shard->not_begun(lane);
  return count;
}

const RingCounters* UringEngine::ring_counters(int shard) const {
  return &(*shards_)[static_cast<size_t>(shard)]->counters();
}

EngineInfo UringEngine::info() const {
  return {.name = "io_uring", .features = (*shards_)[0]->features()};
}

bool UringEngine::Stop(TimePoint deadline) {
  std::lock_guard lock(stop_mutex_);
  if (stopped_) return stopped_clean_;
  stopped_ = true;
  // Together, one step after the other: a task of one shard must not post to another that is gone.
  for (const auto& shard : *shards_) shard->CloseTasks();
  bool tasks_done = true;
  for (const auto& shard : *shards_) tasks_done = shard->WaitForTasks(deadline) && tasks_done;
  for (const auto& shard : *shards_) shard->Close();
  bool ended = true;
  for (const auto& shard : *shards_) ended = shard->WaitForEnd(deadline) && ended;

  std::vector<std::string> names;
  int64_t held = 0;
  if (!ended) {
    for (const auto& shard : *shards_) shard->GiveUpAll();
    const TimePoint grace = std::chrono::steady_clock::now() + kCancelGrace;
    for (const auto& shard : *shards_) {
      if (shard->WaitForEnd(grace)) continue;
      UringShard::Left left = shard->LeaveBehind();
      held += left.held;
      std::move(left.names.begin(), left.names.end(), std::back_inserter(names));
      for (RingOperationRef& operation : left.untouched) {
        RefuseOperation(std::move(operation), {ErrorCode::kShutdown, 0, "engine stopped"});
      }
    }
  }
  held += core_->threads->Stop(deadline);
  stopped_clean_ = tasks_done && held == 0;
  if (!stopped_clean_) {
    for (std::string& name : core_->threads->DescribeHeld()) names.push_back(std::move(name));
    LogHeld(*core_, held, !tasks_done, std::move(names));
  }
  return stopped_clean_;
}

}  // namespace dovetail::engine
