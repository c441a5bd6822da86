#include "tests/fakes/mem_engine.h"

#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "engine/base/check.h"
#include "engine/errno.h"
#include "engine/pipe_io.h"

namespace dovetail::fakes {
namespace {

using engine::AppendRequest;
using engine::FileRef;
using engine::IoMode;
using engine::PipeRequest;
using engine::ReadRequest;

constexpr int64_t kOffsetMax = std::numeric_limits<int64_t>::max();

class MemFile : public engine::File {
 public:
  MemFile(MemDisk::InodeRef inode, int64_t alignment)
      : inode_(std::move(inode)), alignment_(alignment) {}

  int64_t direct_alignment() const override { return alignment_; }
  const MemDisk::InodeRef& inode() const { return inode_; }

 private:
  const MemDisk::InodeRef inode_;
  const int64_t alignment_;
};

MemDisk::InodeRef InodeOf(const FileRef& file) {
  const auto own = std::dynamic_pointer_cast<MemFile>(file);
  return own == nullptr ? nullptr : own->inode();
}

std::optional<Error> Invalid(const char* where) { return Error{ErrorCode::kInvalid, 0, where}; }

std::optional<Error> AppendFault(const AppendRequest& request) {
  int64_t end = request.offset;
  if (InodeOf(request.file) == nullptr || end < 0) return Invalid("append");
  for (const Slice& slice : request.data) {
    const auto bytes = static_cast<int64_t>(slice.bytes.size());
    if (end > kOffsetMax - bytes) return Invalid("append: range");
    end += bytes;
  }
  const int64_t alignment = request.mode == IoMode::kDirect ? request.file->direct_alignment() : 1;
  if (request.offset % alignment != 0 || end % alignment != 0) return Invalid("append: alignment");
  return {};
}

std::optional<Error> PipeFault(const PipeRequest& request) {
  const bool fine = InodeOf(request.file) != nullptr && request.offset >= 0 && request.length > 0 &&
                    request.offset <= kOffsetMax - request.length && request.pipe >= 0;
  return fine ? std::nullopt : Invalid("pipe");
}

// The bytes are in memory; the pipe has room.
Status WriteToPipe(int pipe, const SliceChain& chain) {
  const engine::WithoutBrokenPipeSignal without_signal;
  for (const Slice& slice : chain) {
    ConstBytes rest = slice.bytes;
    while (!rest.empty()) {
      const ssize_t written = write(pipe, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return engine::FailErrno("pipe", errno);
      rest = rest.subspan(static_cast<size_t>(written));
    }
  }
  return {};
}

std::optional<Error> ReadFault(const ReadRequest& request) {
  const bool fine = InodeOf(request.file) != nullptr && request.offset >= 0 && request.length > 0 &&
                    request.offset <= kOffsetMax - request.length;
  return fine ? std::nullopt : Invalid("read");
}

}  // namespace

MemEngine::MemEngine(MemOptions options, std::shared_ptr<MemDisk> disk)
    : options_(std::move(options)),
      disk_(std::move(disk)),
      tasks_(static_cast<size_t>(options_.shards)) {
  if (!options_.stepped) thread_ = std::thread([this] { Loop(); });
}

MemEngine::~MemEngine() {
  DOVETAIL_CHECK(Stop(TimePoint::max()));
  if (options_.stepped) {
    RunAll();  // answers to calls after Stop
    return;
  }
  {
    std::lock_guard lock(mutex_);
    thread_ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void MemEngine::Submit(Event event, std::optional<Error> fault) {
  std::lock_guard lock(mutex_);
  if (stopping_) {
    fault = Error{ErrorCode::kShutdown, 0, "engine stopped"};
  } else if (!fault && in_flight_ >= options_.queue_max) {
    fault = Error{ErrorCode::kBusy, 0, "engine queue full"};
  }
  if (crashed_) return;
  event.sequence = next_sequence_++;
  if (fault) {
    event.deadline = TimePoint::max();
    event.run = [run = std::move(event.run), fault](auto) mutable { run(fault); };
  } else {
    event.accepted = true;
    ++in_flight_;
  }
  operations_.push_back(std::move(event));
  changed_.notify_all();
}

void MemEngine::Open(std::string path, bool create, OpenDone done) {
  Event event;
  event.run = [disk = disk_, path = std::move(path), create,
               done = std::move(done)](std::optional<Error> error) mutable {
    if (error) return done(std::unexpected(*error));
    auto inode = disk->Open(path, create);
    if (!inode) return done(std::unexpected(inode.error()));
    done(std::make_shared<MemFile>(std::move(*inode), disk->options().direct_alignment));
  };
  Submit(std::move(event), {});
}

void MemEngine::Append(AppendRequest request, Done done) {
  const std::optional<Error> fault = AppendFault(request);
  Event event;
  event.deadline = request.deadline;
  // Shared by the two things that may become of it; only one does.
  auto shared = std::make_shared<AppendRequest>(std::move(request));
  event.tear = [disk = disk_, shared](std::mt19937_64& random) {
    int64_t bytes = 0;
    for (const Slice& slice : shared->data) bytes += static_cast<int64_t>(slice.bytes.size());
    disk->WriteTorn(*InodeOf(shared->file), shared->offset, shared->data,
                    static_cast<int64_t>(random() % static_cast<uint64_t>(bytes + 1)));
  };
  event.run = [disk = disk_, shared, done = std::move(done)](std::optional<Error> error) mutable {
    Status status;
    if (error) {
      status = std::unexpected(*error);
    } else {
      status = disk->Write(*InodeOf(shared->file), shared->offset, shared->data);
    }
    *shared = {};
    done(status);
  };
  Submit(std::move(event), fault);
}

void MemEngine::Read(ReadRequest request, ReadDone done) {
  const std::optional<Error> fault = ReadFault(request);
  Event event;
  event.deadline = request.deadline;
  event.run = [disk = disk_, request = std::move(request),
               done = std::move(done)](std::optional<Error> error) mutable {
    Result<SliceChain> result;
    if (error) {
      result = std::unexpected(*error);
    } else {
      result = disk->Read(*InodeOf(request.file), request.offset, request.length);
    }
    request = {};
    done(std::move(result));
  };
  Submit(std::move(event), fault);
}

void MemEngine::ToPipe(PipeRequest request, Done done) {
  const std::optional<Error> fault = PipeFault(request);
  Event event;
  event.deadline = request.deadline;
  event.run = [disk = disk_, request = std::move(request),
               done = std::move(done)](std::optional<Error> error) mutable {
    Status status;
    if (error) {
      status = std::unexpected(*error);
    } else {
      const auto bytes = disk->Read(*InodeOf(request.file), request.offset, request.length);
      status = bytes ? WriteToPipe(request.pipe, *bytes) : std::unexpected(bytes.error());
    }
    request = {};
    done(status);
  };
  Submit(std::move(event), fault);
}

namespace {

// Reserve and Truncate differ only in what they do to the file.
template <class Work>
auto FileWork(FileRef file, engine::Engine::Done done, Work work) {
  return
      [file = std::move(file), done = std::move(done), work](std::optional<Error> error) mutable {
        Status status;
        if (error) {
          status = std::unexpected(*error);
        } else {
          status = work(*InodeOf(file));
        }
        file.reset();
        done(status);
      };
}

template <class Work>
auto PathWork(std::string path, engine::Engine::Done done, Work work) {
  return
      [path = std::move(path), done = std::move(done), work](std::optional<Error> error) mutable {
        if (error) return done(std::unexpected(*error));
        done(work(path));
      };
}

}  // namespace

void MemEngine::Reserve(FileRef file, int64_t end, Done done) {
  const auto fault = InodeOf(file) == nullptr || end < 0 ? Invalid("reserve") : std::nullopt;
  Event event;
  event.run = FileWork(std::move(file), std::move(done),
                       [disk = disk_, end](auto& inode) { return disk->Reserve(inode, end); });
  Submit(std::move(event), fault);
}

void MemEngine::Truncate(FileRef file, int64_t size, Done done) {
  const auto fault = InodeOf(file) == nullptr || size < 0 ? Invalid("truncate") : std::nullopt;
  Event event;
  event.run = FileWork(std::move(file), std::move(done),
                       [disk = disk_, size](auto& inode) { return disk->Truncate(inode, size); });
  Submit(std::move(event), fault);
}

void MemEngine::Remove(std::string path, Done done) {
  Event event;
  event.run = PathWork(std::move(path), std::move(done),
                       [disk = disk_](const auto& name) { return disk->Remove(name); });
  Submit(std::move(event), {});
}

void MemEngine::RemoveFolder(std::string path, Done done) {
  Event event;
  event.run = PathWork(std::move(path), std::move(done),
                       [disk = disk_](const auto& name) { return disk->RemoveFolder(name); });
  Submit(std::move(event), {});
}

void MemEngine::Space(SpaceDone done) {
  Event event;
  event.run = [disk = disk_, done = std::move(done)](std::optional<Error> error) mutable {
    if (error) return done(std::unexpected(*error));
    done(disk->Space());
  };
  Submit(std::move(event), {});
}

bool MemEngine::Post(int shard, std::move_only_function<void()> task) {
  DOVETAIL_CHECK(shard >= 0 && shard < options_.shards);
  std::lock_guard lock(mutex_);
  if (stopping_) return false;
  Event event;
  event.sequence = next_sequence_++;
  event.run = [task = std::move(task)](auto) mutable { task(); };
  tasks_[static_cast<size_t>(shard)].push_back(std::move(event));
  changed_.notify_all();
  return true;
}

int64_t MemEngine::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

}  // namespace dovetail::fakes
