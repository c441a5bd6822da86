#include "engine/pool/pool_operations.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/base/check.h"
#include "engine/errno.h"

namespace dovetail::engine {
namespace {

// Cells of direct I/O: of a class whose cells all lie on multiples of 4096 in memory.
constexpr int64_t kDirectCellBytesMin = 16 << 10;
constexpr auto kCellBytesMax = static_cast<int64_t>(Arena::kCellBytesMax);
constexpr int64_t kGatherBytesMax = 1 << 20;  // one system call's worth
constexpr int kAttemptsMax = 100;             // of a call that a signal interrupts

int64_t AlignDown(int64_t value, int64_t alignment) { return value - value % alignment; }
int64_t AlignUp(int64_t value, int64_t alignment) {
  return AlignDown(value + alignment - 1, alignment);
}

// REQUIRES: bytes is a multiple of alignment for direct I/O; 1 is buffered.
std::shared_ptr<ArenaBuffer> MakeCell(Arena& arena, int64_t bytes, int64_t alignment) {
  if (alignment > 1) {
    // Above 4096 only the largest cells are sure to lie right.
    bytes = alignment <= 4096 ? std::max(bytes, kDirectCellBytesMin) : kCellBytesMax;
  }
  auto cell = std::make_shared<ArenaBuffer>(arena, static_cast<size_t>(bytes));
  DOVETAIL_CHECK(reinterpret_cast<uintptr_t>(cell->data()) % static_cast<size_t>(alignment) == 0);
  return cell;
}

template <class Call>
int RepeatInterrupted(Call call) {
  int result = call();
  for (int i = 1; result == -EINTR && i < kAttemptsMax; ++i) result = call();
  return result;
}

// Copies a chain piece by piece into other memory.
class ChainReader {
 public:
  explicit ChainReader(const SliceChain& chain) : chain_(chain) {}

  // REQUIRES: so much is left.
  void CopyTo(std::byte* out, size_t bytes) {
    while (bytes > 0) {
      const ConstBytes rest = chain_[index_].bytes.subspan(done_);
      const size_t step = std::min(bytes, rest.size());
      if (step > 0) std::memcpy(out, rest.data(), step);
      out += step;
      bytes -= step;
      done_ += step;
      if (done_ == chain_[index_].bytes.size()) {
        ++index_;
        done_ = 0;
      }
    }
  }

 private:
  const SliceChain& chain_;
  size_t index_ = 0;
  size_t done_ = 0;  // bytes of the piece at index_
};

}  // namespace

namespace {

// Somebody else may have cut the file. Writing behind the hole would make padding of what was
// there. needed: as far as the caller relies on it.
Status CheckWhole(PoolCore& core, const PoolFile& file, int fd, int64_t needed) {
  // Before the look at the size: another append may end, and grow both, in between.
  const int64_t least = std::min(file.written_end(), needed);
  struct statx facts {};
  if (const int result = core.calls->Stat(fd, &facts); result < 0) {
    return FailErrno("append: stat", -result);
  }
  if (static_cast<int64_t>(facts.stx_size) >= least) return {};
  return Fail(ErrorCode::kCorrupt, "append: the file is shorter than what was written to it");
}

}  // namespace

AppendOperation::AppendOperation(std::shared_ptr<PoolCore> core, PoolFileRef file,
                                 AppendRequest request, int64_t bytes, Engine::Done done)
    : Operation(Plan{.lane = Lane::kAppend, .deadline = request.deadline}),
      core_(std::move(core)),
      file_(std::move(file)),
      request_(std::move(request)),
      bytes_(bytes),
      path_(file_->path()),
      done_(std::move(done)) {}

Status AppendOperation::RunStep(int64_t) {
  const Result<DescriptorsRef> open = file_->Use();
  if (!open) return std::unexpected(open.error());
  if (Status whole = CheckWhole(*core_, *file_, (*open)->buffered(), request_.offset); !whole) {
    return whole;
  }
  const bool direct = request_.mode == IoMode::kDirect && file_->TakesDirect(**open);
  Status status = direct ? WriteDirect(**open) : WriteBuffered(**open);
  if (!status && direct && status.error().os_error == EINVAL) {
    file_->RefuseDirect();
    status = WriteBuffered(**open);  // the same range again, from its beginning
  }
  if (!status) return CutBack(**open, status.error());
  file_->GrowWritten(request_.offset + bytes_);
  core_->counters.appends.fetch_add(1, std::memory_order_relaxed);
  core_->counters.append_bytes.fetch_add(bytes_, std::memory_order_relaxed);
  return {};
}

Status AppendOperation::WriteBuffered(const Descriptors& open) {
  return WriteAll({*core_->calls, core_->counters}, open.buffered(), Parts(request_.data),
                  request_.offset, 1);
}

Status AppendOperation::WriteDirect(const Descriptors& open) {
  const int64_t alignment = file_->direct_alignment();
  ChainReader data(request_.data);
  std::vector<std::shared_ptr<ArenaBuffer>> cells;
  const int64_t gathered_max = std::min(bytes_, kGatherBytesMax);
  for (int64_t at = 0; at < gathered_max; at += kCellBytesMax) {
    cells.push_back(MakeCell(core_->arena, std::min(gathered_max - at, kCellBytesMax), alignment));
  }
  for (int64_t at = 0; at < bytes_; at += kGatherBytesMax) {
    const int64_t chunk = std::min(bytes_ - at, kGatherBytesMax);
    Parts parts;
    for (int64_t done = 0; done < chunk; done += kCellBytesMax) {
      const auto step = static_cast<size_t>(std::min(chunk - done, kCellBytesMax));
      std::byte* cell = cells[static_cast<size_t>(done / kCellBytesMax)]->data();
      data.CopyTo(cell, step);
      parts.Add(cell, step);
    }
    Status status = WriteAll({*core_->calls, core_->counters}, open.direct(), std::move(parts),
                             request_.offset + at, alignment);
    if (!status) return status;
  }
  return {};
}

Status AppendOperation::CutBack(const Descriptors& open, Error error) {
  file_->Shrink(request_.offset);
  const int result =
      RepeatInterrupted([&] { return core_->calls->Ftruncate(open.buffered(), request_.offset); });
  core_->counters.rollbacks.fetch_add(1, std::memory_order_relaxed);
  if (result < 0) {
    core_->counters.rollback_failures.fetch_add(1, std::memory_order_relaxed);
    spdlog::warn(
        "{}/{}: an append at {} failed ({}) and could not be cut back ({}); its bytes are ignored "
        "and overwritten by the next append",
        core_->options.data_path, path_, request_.offset, std::strerror(error.os_error),
        std::strerror(-result));
    error.where = "rollback";
  }
  return std::unexpected(error);
}

void AppendOperation::Finish(Status status) {
  request_ = {};
  file_.reset();
  auto done = std::move(done_);
  done(status);
}

std::string AppendOperation::Describe() const {
  return fmt::format("append of {} bytes to {}", bytes_, path_);
}

ReadOperation::ReadOperation(std::shared_ptr<PoolCore> core, PoolFileRef file,
                             const ReadRequest& request, Engine::ReadDone done)
    : Operation(PlanOf(*core, *file, request)),
      core_(std::move(core)),
      file_(std::move(file)),
      alignment_(request.mode == IoMode::kDirect ? file_->direct_alignment() : 1),
      direct_(request.mode == IoMode::kDirect),
      range_{request.offset, request.offset + request.length},
      path_(file_->path()),
      pieces_(static_cast<size_t>(PlanOf(*core_, *file_, request).steps)),
      done_(std::move(done)) {}

Operation::Plan ReadOperation::PlanOf(const PoolCore& core, const PoolFile& file,
                                      const ReadRequest& request) {
  const int64_t alignment = request.mode == IoMode::kDirect ? file.direct_alignment() : 1;
  const int64_t span = request.offset % alignment + request.length;
  return {.lane = Lane::kRead,
          .deadline = request.deadline,
          .steps = (span + kPieceBytes - 1) / kPieceBytes,
          .steps_at_once_max = core.options.read_pieces_max};
}

ReadOperation::Range ReadOperation::PieceRange(int64_t step) const {
  const int64_t begin = AlignDown(range_.begin, alignment_) + step * kPieceBytes;
  return {std::max(begin, range_.begin), std::min(begin + kPieceBytes, range_.end)};
}

Status ReadOperation::RunStep(int64_t step) {
  const Range range = PieceRange(step);
  const Result<DescriptorsRef> open = file_->Use();
  if (!open) return std::unexpected(open.error());
  const bool direct = direct_ && file_->TakesDirect(**open);
  Result<SliceChain> piece = ReadPiece(**open, range, direct);
  if (!piece && direct && piece.error().os_error == EINVAL) {
    file_->RefuseDirect();
    piece = ReadPiece(**open, range, false);
  }
  if (!piece) return std::unexpected(piece.error());
  pieces_[static_cast<size_t>(step)] = std::move(*piece);
  return {};
}

// A direct read covers whole alignment units; the slices cover exactly what was asked for.
Result<SliceChain> ReadOperation::ReadPiece(const Descriptors& open, Range range, bool direct) {
  const int64_t alignment = direct ? alignment_ : 1;
  const int64_t begin = AlignDown(range.begin, alignment);
  const int64_t end = AlignUp(range.end, alignment);
  Parts parts;
  SliceChain slices;
  for (int64_t at = begin; at < end; at += kCellBytesMax) {
    const int64_t bytes = std::min(end - at, kCellBytesMax);
    auto cell = MakeCell(core_->arena, bytes, alignment);
    parts.Add(cell->data(), static_cast<size_t>(bytes));
    const int64_t from = std::max(at, range.begin) - at;
    const int64_t to = std::min(at + bytes, range.end) - at;
    if (from < to) {
      const ConstBytes exact(cell->data() + from, static_cast<size_t>(to - from));
      slices.push_back({std::move(cell), exact});
    }
  }
  const ReadFrom from{.fd = direct ? open.direct() : open.buffered(),
                      .fd_any_offset = open.buffered(),
                      .granularity = alignment};
  const Status status =
      ReadAll({*core_->calls, core_->counters}, from, std::move(parts), begin, range.end - begin);
  if (!status) return std::unexpected(status.error());
  return slices;
}

void ReadOperation::Finish(Status status) {
  Result<SliceChain> result;
  if (status) {
    for (SliceChain& piece : pieces_)
      std::move(piece.begin(), piece.end(), std::back_inserter(*result));
    core_->counters.reads.fetch_add(1, std::memory_order_relaxed);
    core_->counters.read_bytes.fetch_add(range_.end - range_.begin, std::memory_order_relaxed);
  } else {
    result = std::unexpected(status.error());
  }
  pieces_.clear();
  file_.reset();
  auto done = std::move(done_);
  done(std::move(result));
}

std::string ReadOperation::Describe() const {
  return fmt::format("read of {} bytes at {} of {}", range_.end - range_.begin, range_.begin,
                     path_);
}

Status ControlOperation::RunStep(int64_t) { return work_(); }

void ControlOperation::Finish(Status status) {
  work_ = nullptr;
  auto done = std::move(done_);
  done(status);
}

Status OpenOperation::RunStep(int64_t) {
  const Result<OpenedFile> opened = core_->folder->OpenFile(path_, create_);
  if (!opened) return std::unexpected(opened.error());
  file_ = std::make_shared<PoolFile>(core_, path_, *opened);
  return {};
}

void OpenOperation::Finish(Status status) {
  Result<FileRef> result = std::move(file_);
  if (!status) result = std::unexpected(status.error());
  auto done = std::move(done_);
  done(std::move(result));
}

std::string OpenOperation::Describe() const { return "open of " + path_; }

Status ReserveFile(PoolCore& core, PoolFile& file, int64_t end) {
  const int64_t begin = file.reserved_end();
  if (end <= begin) return {};
  const Result<DescriptorsRef> open = file.Use();
  if (!open) return std::unexpected(open.error());
  const int fd = (*open)->buffered();
  if (Status whole = CheckWhole(core, file, fd, file.written_end()); !whole) return whole;
  const int result =
      RepeatInterrupted([&] { return core.calls->Fallocate(fd, begin, end - begin); });
  if (result == -EOPNOTSUPP || result == -ENOSYS) {
    // Appends then find out themselves whether there is space; they roll back where there is none.
    core.counters.unreserved.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  if (result < 0) return FailErrno("reserve", -result);
  file.GrowReserved(end);
  return {};
}

Status TruncateFile(PoolCore& core, PoolFile& file, int64_t size) {
  const Result<DescriptorsRef> open = file.Use();
  if (!open) return std::unexpected(open.error());
  const int fd = (*open)->buffered();
  const int result = RepeatInterrupted([&] { return core.calls->Ftruncate(fd, size); });
  if (result < 0) return FailErrno("truncate", -result);
  file.Shrink(size);
  return {};
}

}  // namespace dovetail::engine
