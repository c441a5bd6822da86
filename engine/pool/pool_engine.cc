#include "engine/pool/pool_engine.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <limits>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::engine {
namespace {

constexpr int64_t kOffsetMax = std::numeric_limits<int64_t>::max();
constexpr size_t kHeldNamedMax = 5;

std::shared_ptr<PoolFile> OwnFile(const FileRef& file) {
  return std::dynamic_pointer_cast<PoolFile>(file);
}

// Negative when there are more bytes than an offset can say.
int64_t SumOf(const SliceChain& chain) {
  uint64_t sum = 0;
  for (const Slice& slice : chain) {
    sum += slice.bytes.size();
    if (sum > static_cast<uint64_t>(kOffsetMax)) return -1;
  }
  return static_cast<int64_t>(sum);
}

Error Invalid(const char* where) { return {ErrorCode::kInvalid, 0, where}; }

// Empty when the request keeps the rules.
const char* AppendFault(const AppendRequest& request, const PoolFile* file, int64_t bytes) {
  if (file == nullptr) return "append: file";
  if (request.offset < 0 || bytes < 0 || request.offset > kOffsetMax - bytes) {
    return "append: range";
  }
  if (request.mode == IoMode::kDirect) {
    const int64_t alignment = file->direct_alignment();
    if (request.offset % alignment != 0 || bytes % alignment != 0) return "append: alignment";
  }
  return nullptr;
}

Status ReadFault(const ReadRequest& request, const PoolFile* file) {
  if (file == nullptr) return Fail(ErrorCode::kInvalid, "read: file");
  if (request.offset < 0 || request.length <= 0 || request.offset > kOffsetMax - request.length) {
    return Fail(ErrorCode::kInvalid, "read: range");
  }
  if (request.offset + request.length > file->written_end()) {
    return Fail(ErrorCode::kCorrupt, "end");
  }
  return {};
}

// Carries a refusal to the timer thread.
template <class DoneT>
class Refusal : public Operation {
 public:
  explicit Refusal(DoneT done) : Operation(Plan{}), done_(std::move(done)) {}
  Status RunStep(int64_t) override { return {}; }
  void Finish(Status status) override {
    auto done = std::move(done_);
    done(std::unexpected(status.error()));
  }
  std::string Describe() const override { return "refusal"; }

 private:
  DoneT done_;
};

}  // namespace

Result<std::unique_ptr<PoolEngine>> PoolEngine::Start(PoolOptions options, Arena& arena,
                                                      std::shared_ptr<SystemCalls> calls) {
  DOVETAIL_CHECK(options.shards > 0 && options.read_pieces_max > 0);
  auto folder = DataFolder::Open(options.data_path, calls);
  if (!folder) return std::unexpected(folder.error());
  auto threads = PoolThreads::Start({.io_threads = options.io_threads,
                                     .control_threads = options.control_threads,
                                     .queue_max = options.queue_max});
  const int64_t descriptors_max = options.descriptors_max;
  std::shared_ptr<PoolCore> core(new PoolCore{.options = std::move(options),
                                              .arena = arena,
                                              .calls = std::move(calls),
                                              .folder = std::move(*folder),
                                              .threads = std::move(threads),
                                              .open_files = OpenFiles(descriptors_max),
                                              .counters = {}});
  return std::unique_ptr<PoolEngine>(new PoolEngine(std::move(core)));
}

PoolEngine::PoolEngine(std::shared_ptr<PoolCore> core) : core_(std::move(core)) {
  for (int i = 0; i < core_->options.shards; ++i) {
    shards_.push_back(std::make_unique<Strand>(fmt::format("shard-{}", i)));
  }
}

PoolEngine::~PoolEngine() {
  DOVETAIL_CHECK(Stop(TimePoint::max()));
  core_->threads->EndTimer();
}

void PoolEngine::Open(std::string path, bool create, OpenDone done) {
  core_->threads->Submit(
      std::make_shared<OpenOperation>(core_, std::move(path), create, std::move(done)));
}

void PoolEngine::Append(AppendRequest request, Done done) {
  PoolFileRef file = OwnFile(request.file);
  const int64_t bytes = SumOf(request.data);
  if (const char* fault = AppendFault(request, file.get(), bytes)) {
    core_->threads->Refuse(std::make_shared<Refusal<Done>>(std::move(done)), Invalid(fault));
    return;
  }
  core_->threads->Submit(std::make_shared<AppendOperation>(
      core_, std::move(file), std::move(request), bytes, std::move(done)));
}

void PoolEngine::Read(ReadRequest request, ReadDone done) {
  PoolFileRef file = OwnFile(request.file);
  if (const Status status = ReadFault(request, file.get()); !status) {
    core_->threads->Refuse(std::make_shared<Refusal<ReadDone>>(std::move(done)), status.error());
    return;
  }
  core_->threads->Submit(
      std::make_shared<ReadOperation>(core_, std::move(file), request, std::move(done)));
}

void PoolEngine::SubmitControl(std::string name, ControlOperation::Work work, Done done) {
  core_->threads->Submit(
      std::make_shared<ControlOperation>(std::move(name), std::move(work), std::move(done)));
}

void PoolEngine::RefuseControl(const char* where, Done done) {
  core_->threads->Refuse(std::make_shared<Refusal<Done>>(std::move(done)), Invalid(where));
}

void PoolEngine::Reserve(FileRef file, int64_t end, Done done) {
  PoolFileRef own = OwnFile(file);
  if (own == nullptr || end < 0) return RefuseControl("reserve", std::move(done));
  SubmitControl(
      "reserve of " + own->path(),
      [core = core_, own, end] { return ReserveFile(*core, *own, end); }, std::move(done));
}

void PoolEngine::Truncate(FileRef file, int64_t size, Done done) {
  PoolFileRef own = OwnFile(file);
  if (own == nullptr || size < 0 || size > own->written_end()) {
    return RefuseControl("truncate", std::move(done));
  }
  SubmitControl(
      "truncate of " + own->path(),
      [core = core_, own, size] { return TruncateFile(*core, *own, size); }, std::move(done));
}

void PoolEngine::Remove(std::string path, Done done) {
  std::string name = "remove of " + path;
  SubmitControl(
      std::move(name),
      [core = core_, path = std::move(path)] { return core->folder->RemoveFile(path); },
      std::move(done));
}

void PoolEngine::RemoveFolder(std::string path, Done done) {
  std::string name = "remove of folder " + path;
  SubmitControl(
      std::move(name),
      [core = core_, path = std::move(path)] { return core->folder->RemoveFolder(path); },
      std::move(done));
}

void PoolEngine::Space(SpaceDone done) {
  auto space = std::make_shared<SpaceInfo>();
  SubmitControl(
      "space of the file system", [core = core_, space] { return core->folder->Space(*space); },
      [space, done = std::move(done)](Status status) mutable {
        if (!status) return done(std::unexpected(status.error()));
        done(*space);
      });
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
    std::vector<std::string> names = core_->threads->DescribeHeld();
    if (names.size() > kHeldNamedMax) names.resize(kHeldNamedMax);
    spdlog::error(
        "data path {}: the stop deadline passed with {} operations held by the system{}: "
        "{}; they are left behind, check this disk",
        core_->options.data_path, held, drained ? "" : " and a shard still at work",
        fmt::join(names, ", "));
  }
  return stopped_clean_;
}

}  // namespace dovetail::engine
