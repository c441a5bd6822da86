#include "engine/pool/pool_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "engine/control_operations.h"
#include "engine/pipe_io.h"
#include "engine/transfer.h"

namespace dovetail::engine {
namespace {

constexpr auto kCellBytesMax = static_cast<int64_t>(Arena::kCellBytesMax);

ReadPieces CutOf(const DiskFile& file, const ReadRequest& request) {
  return {.range = {request.offset, request.offset + request.length},
          .alignment = request.mode == IoMode::kDirect ? file.direct_alignment() : 1};
}

// Blocks until all of it has moved.
Status MoveAll(DiskCore& core, const Transfer::Plan& plan, Parts parts) {
  Transfer transfer(plan, std::move(parts), core.counters);
  while (!transfer.done()) {
    const int64_t result =
        plan.way == Transfer::Way::kRead
            ? core.calls->Preadv(transfer.fd(), transfer.Next(), transfer.offset())
            : core.calls->Pwritev(transfer.fd(), transfer.Next(), transfer.offset());
    const Result<Milliseconds> pause = transfer.Take(result);
    if (!pause) return std::unexpected(pause.error());
    PauseFor(*pause);
  }
  return {};
}

}  // namespace

AppendOperation::AppendOperation(std::shared_ptr<DiskCore> core, DiskFileRef file,
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
  if (!status) {
    return std::unexpected(
        CutBack(*core_, *file_, (*open)->buffered(), request_.offset, status.error()));
  }
  file_->GrowWritten(request_.offset + bytes_);
  core_->counters.appends.fetch_add(1, std::memory_order_relaxed);
  core_->counters.append_bytes.fetch_add(bytes_, std::memory_order_relaxed);
  return {};
}

Status AppendOperation::WriteBuffered(const Descriptors& open) {
  return MoveAll(*core_,
                 {.way = Transfer::Way::kWrite,
                  .fd = open.buffered(),
                  .fd_any_offset = open.buffered(),
                  .offset = request_.offset,
                  .needed = bytes_},
                 Parts(request_.data));
}

Status AppendOperation::WriteDirect(const Descriptors& open) {
  const int64_t alignment = file_->direct_alignment();
  ChainReader data(request_.data);
  std::vector<std::shared_ptr<ArenaBuffer>> cells;
  const int64_t gathered_max = std::min(bytes_, kPieceBytesMax);
  for (int64_t at = 0; at < gathered_max; at += kCellBytesMax) {
    cells.push_back(MakeCell(core_->arena, std::min(gathered_max - at, kCellBytesMax), alignment));
  }
  for (int64_t at = 0; at < bytes_; at += kPieceBytesMax) {
    const int64_t piece = std::min(bytes_ - at, kPieceBytesMax);
    Parts parts;
    for (int64_t done = 0; done < piece; done += kCellBytesMax) {
      const auto step = static_cast<size_t>(std::min(piece - done, kCellBytesMax));
      std::byte* cell = cells[static_cast<size_t>(done / kCellBytesMax)]->data();
      data.CopyTo(cell, step);
      parts.Add(cell, step);
    }
    Status status = MoveAll(*core_,
                            {.way = Transfer::Way::kWrite,
                             .fd = open.direct(),
                             .fd_any_offset = open.buffered(),
                             .offset = request_.offset + at,
                             .granularity = alignment,
                             .needed = piece},
                            std::move(parts));
    if (!status) return status;
  }
  return {};
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

ReadOperation::ReadOperation(std::shared_ptr<DiskCore> core, DiskFileRef file,
                             const ReadRequest& request, int pieces_at_once_max,
                             Engine::ReadDone done)
    : Operation(Plan{.lane = Lane::kRead,
                     .deadline = request.deadline,
                     .steps = CutOf(*file, request).count(),
                     .steps_at_once_max = pieces_at_once_max}),
      core_(std::move(core)),
      file_(std::move(file)),
      direct_(request.mode == IoMode::kDirect),
      cut_(CutOf(*file_, request)),
      path_(file_->path()),
      pieces_(static_cast<size_t>(cut_.count())),
      done_(std::move(done)) {}

Status ReadOperation::RunStep(int64_t step) {
  const ByteRange range = cut_.At(step);
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
Result<SliceChain> ReadOperation::ReadPiece(const Descriptors& open, ByteRange range, bool direct) {
  const int64_t alignment = direct ? cut_.alignment : 1;
  ReadMemory memory = MakeReadMemory(core_->arena, range, alignment);
  const Status status = MoveAll(*core_,
                                {.way = Transfer::Way::kRead,
                                 .fd = direct ? open.direct() : open.buffered(),
                                 .fd_any_offset = open.buffered(),
                                 .offset = memory.offset,
                                 .granularity = alignment,
                                 .needed = memory.needed},
                                std::move(memory.parts));
  if (!status) return std::unexpected(status.error());
  return std::move(memory.slices);
}

void ReadOperation::Finish(Status status) {
  Result<SliceChain> result;
  if (status) {
    for (SliceChain& piece : pieces_)
      std::move(piece.begin(), piece.end(), std::back_inserter(*result));
    core_->counters.reads.fetch_add(1, std::memory_order_relaxed);
    core_->counters.read_bytes.fetch_add(cut_.range.size(), std::memory_order_relaxed);
  } else {
    result = std::unexpected(status.error());
  }
  pieces_.clear();
  file_.reset();
  auto done = std::move(done_);
  done(std::move(result));
}

std::string ReadOperation::Describe() const {
  return fmt::format("read of {} bytes at {} of {}", cut_.range.size(), cut_.range.begin, path_);
}

PipeOperation::PipeOperation(std::shared_ptr<DiskCore> core, DiskFileRef file,
                             const PipeRequest& request, Engine::Done done)
    : Operation(Plan{.lane = Lane::kRead, .deadline = request.deadline}),
      core_(std::move(core)),
      file_(std::move(file)),
      request_(request),
      path_(file_->path()),
      done_(std::move(done)) {}

Status PipeOperation::RunStep(int64_t) {
  const Result<DescriptorsRef> open = file_->Use();
  if (!open) return std::unexpected(open.error());
  const PipeRange range{.fd = (*open)->buffered(),
                        .offset = request_.offset,
                        .length = request_.length,
                        .pipe = request_.pipe};
  Status status = FillPipe(*core_->calls, core_->counters, range, request_.deadline);
  if (!status) return status;
  core_->counters.pipes.fetch_add(1, std::memory_order_relaxed);
  core_->counters.pipe_bytes.fetch_add(request_.length, std::memory_order_relaxed);
  return {};
}

void PipeOperation::Finish(Status status) {
  request_.file.reset();
  file_.reset();
  auto done = std::move(done_);
  done(status);
}

std::string PipeOperation::Describe() const {
  return fmt::format("pipe of {} bytes at {} of {}", request_.length, request_.offset, path_);
}

}  // namespace dovetail::engine
