#include "engine/uring/uring_operations.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "engine/base/check.h"
#include "engine/control_operations.h"
#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr size_t kRequestBytesMax = 1 << 30;  // lengths of requests are 32 bits wide
constexpr size_t kCopyBytes = 64 << 10;

void PrepareRead(io_uring_sqe& sqe, const Transfer& transfer) {
  const auto parts = transfer.Next();
  const auto offset = static_cast<uint64_t>(transfer.offset());
  if (parts.size() == 1 && parts[0].iov_len <= kRequestBytesMax) {
    io_uring_prep_read(&sqe, transfer.fd(), parts[0].iov_base,
                       static_cast<unsigned>(parts[0].iov_len), offset);
  } else {
    io_uring_prep_readv(&sqe, transfer.fd(), parts.data(), static_cast<unsigned>(parts.size()),
                        offset);
  }
}

void PrepareWrite(io_uring_sqe& sqe, const Transfer& transfer) {
  const auto parts = transfer.Next();
  const auto offset = static_cast<uint64_t>(transfer.offset());
  if (parts.size() == 1 && parts[0].iov_len <= kRequestBytesMax) {
    io_uring_prep_write(&sqe, transfer.fd(), parts[0].iov_base,
                        static_cast<unsigned>(parts[0].iov_len), offset);
  } else {
    io_uring_prep_writev(&sqe, transfer.fd(), parts.data(), static_cast<unsigned>(parts.size()),
                         offset);
  }
}

bool IsAligned(const SliceChain& chain, int64_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return std::all_of(chain.begin(), chain.end(), [unit](const Slice& slice) {
    return slice.bytes.size() % unit == 0 &&
           reinterpret_cast<uintptr_t>(slice.bytes.data()) % unit == 0;
  });
}

uint32_t TakeFront(std::vector<uint32_t>& parts) {
  const uint32_t part = parts.front();
  parts.erase(parts.begin());
  return part;
}

}  // namespace

bool FileOperation::FindOpen() {
  if (open_ == nullptr) open_ = file_->UseIfOpen();
  return open_ != nullptr;
}

Status FileOperation::Open() {
  if (open_ != nullptr) return {};
  Result<DescriptorsRef> open = file_->Use();
  if (!open) return std::unexpected(open.error());
  open_ = std::move(*open);
  return {};
}

UringAppend::UringAppend(std::shared_ptr<DiskCore> core, UringFileRef file, AppendRequest request,
                         int64_t bytes, Engine::Done done)
    : FileOperation(Kind::kAppend, request.deadline, std::move(core), std::move(file)),
      request_(std::move(request)),
      bytes_(bytes),
      done_(std::move(done)),
      aligned_(request_.mode == IoMode::kDirect &&
               IsAligned(request_.data, file_->direct_alignment())),
      data_(request_.data) {}

bool UringAppend::FindOpen() {
  if (!FileOperation::FindOpen()) return false;
  direct_ = request_.mode == IoMode::kDirect && file_->TakesDirect(open());
  return true;
}

Status UringAppend::Check() {
  return CheckWhole(*core_, *file_, open().buffered(), request_.offset);
}

std::pair<Parts, int> UringAppend::Gather(int64_t size, ShardTools& tools) {
  if (!direct_) return {Parts(request_.data), -1};
  if (aligned_) return {data_.PartsOf(static_cast<size_t>(size)), -1};
  const int slab = tools.slabs.Take();
  std::byte* memory = tools.slabs.data(slab);
  data_.CopyTo(memory, static_cast<size_t>(size));
  Parts parts;
  parts.Add(memory, static_cast<size_t>(size));
  return {std::move(parts), slab};
}

uint32_t UringAppend::Begin(ShardTools& tools) {
  const int64_t size = direct_ ? std::min(bytes_ - begun_bytes_, kPieceBytesMax) : bytes_;
  auto [parts, slab] = Gather(size, tools);
  const Transfer::Plan plan{.way = Transfer::Way::kWrite,
                            .fd = direct_ ? open().direct() : open().buffered(),
                            .fd_any_offset = open().buffered(),
                            .offset = request_.offset + begun_bytes_,
                            .granularity = direct_ ? file_->direct_alignment() : 1,
                            .needed = size};
  begun_bytes_ += size;
  const uint32_t part = next_part_++;
  pieces_.emplace(part, Piece{Transfer(plan, std::move(parts), core_->counters), slab});
  return part;
}

uint32_t UringAppend::Prepare(io_uring_sqe& sqe, ShardTools& tools) {
  const uint32_t part = again_.empty() ? Begin(tools) : TakeFront(again_);
  const Piece& piece = pieces_.at(part);
  PrepareWrite(sqe, piece.transfer);
  if (piece.slab >= 0 && tools.slabs.registered()) {
    sqe.opcode = IORING_OP_WRITE_FIXED;
    sqe.buf_index = static_cast<uint16_t>(piece.slab);
    tools.ring_counters.fixed_buffer_requests.fetch_add(1, std::memory_order_relaxed);
  }
  open().Use(sqe, piece.transfer.fd(), tools);
  return part;
}

void UringAppend::End(uint32_t part, ShardTools& tools) {
  const auto piece = pieces_.find(part);
  DOVETAIL_CHECK(piece != pieces_.end());
  if (piece->second.slab >= 0) tools.slabs.Give(piece->second.slab);
  pieces_.erase(piece);
}

Result<Milliseconds> UringAppend::Take(uint32_t part, int32_t result, ShardTools& tools) {
  Transfer& transfer = pieces_.at(part).transfer;
  Result<Milliseconds> pause = Milliseconds::zero();
  if (direct_ && result == -EINVAL) {
    file_->RefuseDirect();
    refused_ = true;
  } else {
    pause = transfer.Take(result);
  }
  if (!pause || refused_ || transfer.done()) {
    End(part, tools);
  } else {
    again_.push_back(part);
  }
  if (refused_) {
    while (!again_.empty()) End(TakeFront(again_), tools);
    if (pieces_.empty()) {
      direct_ = refused_ = false;
      begun_bytes_ = 0;
    }
  }
  return pause;
}

void UringAppend::Settle(ShardTools& tools) {
  while (!pieces_.empty()) End(pieces_.begin()->first, tools);
  again_.clear();
}

Error UringAppend::RollBack(Error error) {
  if (next_part_ == 0) return error;  // nothing was written
  return CutBack(*core_, *file_, open().buffered(), request_.offset, error);
}

void UringAppend::Finish(Status status) {
  if (status) {
    file_->GrowWritten(request_.offset + bytes_);
    core_->counters.appends.fetch_add(1, std::memory_order_relaxed);
    core_->counters.append_bytes.fetch_add(bytes_, std::memory_order_relaxed);
  }
  request_ = {};
  LetGoOfFile();
  auto done = std::move(done_);
  done(status);
}

std::string UringAppend::Describe() const {
  return fmt::format("append of {} bytes to {}", bytes_, file_->path());
}

UringRead::UringRead(std::shared_ptr<DiskCore> core, UringFileRef file, const ReadRequest& request,
                     int pieces_at_once_max, Engine::ReadDone done)
    : FileOperation(Kind::kRead, request.deadline, std::move(core), std::move(file)),
      direct_(request.mode == IoMode::kDirect),
      cut_{.range = {request.offset, request.offset + request.length},
           .alignment = direct_ ? file_->direct_alignment() : 1},
      at_once_max_(static_cast<size_t>(pieces_at_once_max)),
      done_(std::move(done)),
      slices_(static_cast<size_t>(cut_.count())) {}

bool UringRead::HasNext() const {
  return !again_.empty() || (next_part_ < slices_.size() && reading_.size() < at_once_max_);
}

void UringRead::Begin(uint32_t part, bool direct) {
  const int64_t alignment = direct ? cut_.alignment : 1;
  ReadMemory memory = MakeReadMemory(core_->arena, cut_.At(part), alignment);
  const Transfer::Plan plan{.way = Transfer::Way::kRead,
                            .fd = direct ? open().direct() : open().buffered(),
                            .fd_any_offset = open().buffered(),
                            .offset = memory.offset,
                            .granularity = alignment,
                            .needed = memory.needed};
  slices_[part] = std::move(memory.slices);
  reading_.push_back({part, Transfer(plan, std::move(memory.parts), core_->counters)});
}

UringRead::Piece& UringRead::Find(uint32_t part) {
  const auto piece = std::ranges::find(reading_, part, &Piece::part);
  DOVETAIL_CHECK(piece != reading_.end());
  return *piece;
}

void UringRead::End(uint32_t part) {
  std::swap(Find(part), reading_.back());
  reading_.pop_back();
}

uint32_t UringRead::Prepare(io_uring_sqe& sqe, ShardTools& tools) {
  const bool begins = again_.empty();
  const uint32_t part = begins ? next_part_++ : TakeFront(again_);
  if (begins) Begin(part, direct_ && file_->TakesDirect(open()));
  const Transfer& transfer = Find(part).transfer;
  PrepareRead(sqe, transfer);
  open().Use(sqe, transfer.fd(), tools);
  return part;
}

Result<Milliseconds> UringRead::Take(uint32_t part, int32_t result, ShardTools&) {
  Transfer& transfer = Find(part).transfer;
  if (result == -EINVAL && transfer.fd() != open().buffered()) {
    file_->RefuseDirect();
    End(part);
    Begin(part, /*direct=*/false);
    again_.push_back(part);
    return Milliseconds::zero();
  }
  const Result<Milliseconds> pause = transfer.Take(result);
  if (!pause || transfer.done()) {
    End(part);
  } else {
    again_.push_back(part);
  }
  return pause;
}

void UringRead::Finish(Status status) {
  Result<SliceChain> result;
  if (status) {
    for (SliceChain& slices : slices_)
      std::move(slices.begin(), slices.end(), std::back_inserter(*result));
    core_->counters.reads.fetch_add(1, std::memory_order_relaxed);
    core_->counters.read_bytes.fetch_add(cut_.range.size(), std::memory_order_relaxed);
  } else {
    result = std::unexpected(status.error());
  }
  slices_.clear();
  reading_.clear();
  LetGoOfFile();
  auto done = std::move(done_);
  done(std::move(result));
}

std::string UringRead::Describe() const {
  return fmt::format("read of {} bytes at {} of {}", cut_.range.size(), cut_.range.begin,
                     file_->path());
}

UringPipe::UringPipe(std::shared_ptr<DiskCore> core, UringFileRef file, const PipeRequest& request,
                     Engine::Done done)
    : FileOperation(Kind::kPipe, request.deadline, std::move(core), std::move(file)),
      request_(request),
      done_(std::move(done)),
      range_{request.offset, request.offset + request.length},
      stalls_(core_->counters) {}

void UringPipe::Refuse(ShardTools& tools) {
  tools.ring_counters.splice_refused.fetch_add(1, std::memory_order_relaxed);
  memory_ = MakeCell(core_->arena, kCopyBytes, 1);
}

uint32_t UringPipe::Prepare(io_uring_sqe& sqe, ShardTools& tools) {
  busy_ = true;
  if (memory_ == nullptr && !tools.splices) Refuse(tools);
  const auto left = static_cast<size_t>(range_.size());
  if (memory_ == nullptr) {
    io_uring_prep_splice(&sqe, open().buffered(), range_.begin, request_.pipe, -1,
                         static_cast<unsigned>(std::min(left, kRequestBytesMax)), SPLICE_F_MOVE);
  } else if (read_.empty()) {
    io_uring_prep_read(&sqe, open().buffered(), memory_->data(),
                       static_cast<unsigned>(std::min(left, kCopyBytes)),
                       static_cast<uint64_t>(range_.begin));
  } else {
    io_uring_prep_write(&sqe, request_.pipe, read_.data(), static_cast<unsigned>(read_.size()),
                        ~uint64_t{0});
  }
  return 0;
}

Result<Milliseconds> UringPipe::Take(uint32_t, int32_t result, ShardTools& tools) {
  busy_ = false;
  const bool splices = memory_ == nullptr;
  if (splices && (result == -EINVAL || result == -EOPNOTSUPP)) {
    Refuse(tools);
    return Milliseconds::zero();
  }
  const int os_error = result < 0 ? -result : 0;
  if (result == 0) return Fail(ErrorCode::kCorrupt, "end");
  if (os_error != 0 && !IsPassing(os_error)) return FailErrno("pipe", os_error);
  const int64_t moved = std::max(result, 0);
  if (!splices && read_.empty()) {
    read_ = {memory_->data(), static_cast<size_t>(moved)};
  } else {
    range_.begin += moved;
    if (!splices) read_ = read_.subspan(static_cast<size_t>(moved));
  }
  if (splices && moved > 0) {
    tools.ring_counters.splices.fetch_add(1, std::memory_order_relaxed);
    tools.ring_counters.splice_bytes.fetch_add(moved, std::memory_order_relaxed);
  }
  if (range_.size() == 0 || (!splices && moved > 0)) return Milliseconds::zero();
  const auto pause = stalls_.Continue(moved > 0, os_error);
  if (!pause) return Fail(ErrorCode::kIo, "pipe: no progress", os_error);
  return *pause;
}

void UringPipe::Finish(Status status) {
  if (status) {
    core_->counters.pipes.fetch_add(1, std::memory_order_relaxed);
    core_->counters.pipe_bytes.fetch_add(request_.length, std::memory_order_relaxed);
  }
  memory_.reset();
  request_.file.reset();
  LetGoOfFile();
  auto done = std::move(done_);
  done(status);
}

std::string UringPipe::Describe() const {
  return fmt::format("pipe of {} bytes at {} of {}", request_.length, request_.offset,
                     file_->path());
}

}  // namespace dovetail::engine
