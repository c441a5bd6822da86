// The half of the shard that deals with operations: who waits, who runs, who is given up.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "engine/base/check.h"
#include "engine/uring/uring_shard.h"

namespace dovetail::engine {
namespace {

size_t IndexOf(Lane lane) { return static_cast<size_t>(lane); }

constexpr uint64_t UserData(uint32_t slot, uint32_t generation) {
  return uint64_t{generation} << 32 | slot;
}

constexpr Error kDeadline{ErrorCode::kTimeout, 0, "deadline"};
constexpr Error kStopped{ErrorCode::kShutdown, 0, "engine stopped"};

TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace

void UringShard::Accept(RingOperationRef operation) {
  operation->known_ = accepted_.insert(accepted_.end(), operation);
  if (operation->deadline_ != TimePoint::max()) {
    deadlines_.emplace(operation->deadline_, operation);
  }
  if (const UringFileRef file = operation->appended()) {
    if (file->appending) {
      file->appends_waiting.push_back(std::move(operation));
      return;
    }
    file->appending = true;
  }
  if (operation->HasNext()) return Enqueue(operation);
  FinishIfOver(operation);  // an append of nothing
}

void UringShard::Enqueue(const RingOperationRef& operation, Place place) {
  RingOperation::List& list = waiting_[IndexOf(operation->lane())];
  // What goes on comes first: it may hold the slabs that all others wait for.
  auto at = list.begin();
  if (!operation->GoesOn()) {
    const auto begins = [](const RingOperationRef& other) { return !other->GoesOn(); };
    at = place == Place::kFirst ? std::find_if(at, list.end(), begins) : list.end();
  }
  operation->place_ = list.insert(at, operation);
}

void UringShard::Dequeue(RingOperation& operation) {
  if (!operation.place_) return;
  waiting_[IndexOf(operation.lane())].erase(*operation.place_);
  operation.place_.reset();
}

void UringShard::Expire() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= Now()) {
    const RingOperationRef operation = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    operation->expired_ = true;
    CancelRequests(*operation);
    // With everything under way it is the kernel that says how it ends.
    const bool begins_more =
        operation->under_way_ == 0 || operation->opening_ || operation->HasNext();
    if (!begins_more) continue;
    GiveUp(*operation, kDeadline);
    FinishIfOver(operation);
  }
}

void UringShard::Resume() {
  while (!pausing_.empty() && pausing_.begin()->first <= Now()) {
    const RingOperationRef operation = std::move(pausing_.begin()->second);
    pausing_.erase(pausing_.begin());
    if (!std::exchange(operation->pausing_, false)) continue;  // given up meanwhile
    Enqueue(operation, Place::kFirst);
  }
}

void UringShard::CancelRequests(const RingOperation& operation) {
  if (operation.under_way_ == 0) return;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].operation.get() != &operation) continue;
    cancels_.push_back(UserData(slot, slots_[slot].generation));
  }
}

void UringShard::SendCancels() {
  while (!cancels_.empty()) {
    const uint64_t user_data = cancels_.back();
    const Slot& slot = slots_[user_data & UINT32_MAX];
    if (slot.operation != nullptr && slot.generation == user_data >> 32) {
      io_uring_sqe* sqe = ring_->Next();
      if (sqe == nullptr) {
        starved_ = true;
        return;
      }
      io_uring_prep_cancel64(sqe, user_data, 0);
      ring_->Add(*sqe, Ring::kIgnored);
      counters_.cancels.fetch_add(1, std::memory_order_relaxed);
    }
    cancels_.pop_back();
  }
}

bool UringShard::CanBegin(Lane lane) {
  const RingOperation::List& list = waiting_[IndexOf(lane)];
  if (list.empty() || running_[IndexOf(lane)] >= std::max(1, depth_ - 1)) return false;
  if (!list.front()->NeedsSlab() || slabs_->AnyFree()) return true;
  counters_.slab_waits.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool UringShard::TakeLane(Lane& lane) {
  // The other kind first, then the same again.
  const Lane other = last_lane_ == Lane::kRead ? Lane::kAppend : Lane::kRead;
  if (CanBegin(other)) {
    last_lane_ = other;
  } else if (!CanBegin(last_lane_)) {
    return false;
  }
  lane = last_lane_;
  return true;
}

void UringShard::Fill() {
  Lane lane{};
  while (!free_slots_.empty() && TakeLane(lane)) {
    const RingOperationRef operation = waiting_[IndexOf(lane)].front();
    if (!operation->begun_ && !MakeReady(operation)) continue;
    io_uring_sqe* sqe = ring_->Next();
    if (sqe == nullptr) {
      starved_ = true;
      return;
    }
    Dequeue(*operation);
    Request(*sqe, operation);
    if (operation->HasNext()) Enqueue(operation);
  }
}

bool UringShard::MakeReady(const RingOperationRef& operation) {
  if (!operation->FindOpen()) {
    Dequeue(*operation);
    Open(operation);
    return false;
  }
  // Only now it is known to want one.
  if (operation->NeedsSlab() && !slabs_->AnyFree()) return false;
  if (const Status fit = operation->Check(); !fit) {
    GiveUp(*operation, fit.error());
    FinishIfOver(operation);
    return false;
  }
  return true;
}

void UringShard::Open(const RingOperationRef& operation) {
  operation->opening_ = true;
  ++operation->under_way_;
  ++running_[IndexOf(operation->lane())];
  core_->threads->RunCleanup([shard = shared_from_this(), operation] {
    const Status status = operation->Open();
    std::lock_guard lock(shard->mutex_);
    shard->inbox_.opened.emplace_back(operation, status);
    shard->WakeIfAsleep();
  });
}

void UringShard::TakeOpened(const RingOperationRef& operation, Status status) {
  operation->opening_ = false;
  --operation->under_way_;
  --running_[IndexOf(operation->lane())];
  if (!status) {
    GiveUp(*operation, status.error());
  } else if (!operation->error_ && operation->HasNext()) {
    return Enqueue(operation, Place::kFirst);
  }
  FinishIfOver(operation);
}

void UringShard::Request(io_uring_sqe& sqe, const RingOperationRef& operation) {
  const Lane lane = operation->lane();
  if (!std::exchange(operation->begun_, true)) not_begun_[IndexOf(lane)].fetch_sub(1);
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.part = operation->Prepare(sqe, *tools_);
  slot.operation = operation;
  ring_->Add(sqe, UserData(index, slot.generation));
  ++operation->under_way_;
  ++running_[IndexOf(lane)];
  counters_.in_kernel.fetch_add(1, std::memory_order_relaxed);
  counters_.requests.fetch_add(1, std::memory_order_relaxed);
}

void UringShard::Handle(const Completion& completion) {
  const auto index = static_cast<uint32_t>(completion.user_data & UINT32_MAX);
  DOVETAIL_CHECK(index < slots_.size());
  Slot& slot = slots_[index];
  DOVETAIL_CHECK(slot.operation != nullptr && slot.generation == completion.user_data >> 32);
  const RingOperationRef operation = std::move(slot.operation);
  slot.operation = nullptr;
  // The largest one is left out, so that no user_data of ours is one of the ring's own.
  if (++slot.generation == UINT32_MAX) slot.generation = 0;
  free_slots_.push_back(index);
  --operation->under_way_;
  --running_[IndexOf(operation->lane())];
  counters_.in_kernel.fetch_sub(1, std::memory_order_relaxed);
  if (completion.result == -EAGAIN || completion.result == -EINTR) {
    counters_.retries.fetch_add(1, std::memory_order_relaxed);
  } else if (completion.result == -ECANCELED) {
    counters_.cancelled.fetch_add(1, std::memory_order_relaxed);
  }

  const Result<Milliseconds> pause = operation->Take(slot.part, completion.result, *tools_);
  if (!pause) {
    GiveUp(*operation, pause.error());
  } else if (!operation->HasNext()) {
    Dequeue(*operation);  // nothing more for now, though there was
  } else if (!operation->error_) {
    if (operation->expired_) {
      GiveUp(*operation, kDeadline);
    } else if (!operation->pausing_) {
      GoOn(operation, *pause);
    }
  }
  FinishIfOver(operation);
}

void UringShard::GoOn(const RingOperationRef& operation, Milliseconds pause) {
  if (pause > Milliseconds::zero()) {
    Dequeue(*operation);
    operation->pausing_ = true;
    pausing_.emplace(Now() + pause, operation);
  } else if (operation->GoesOn()) {
    Dequeue(*operation);
    Enqueue(operation);
  } else if (!operation->place_) {
    Enqueue(operation);
  }
}

void UringShard::GiveUp(RingOperation& operation, Error error) {
  if (!operation.error_) operation.error_ = error;
  operation.pausing_ = false;
  Dequeue(operation);
}

void UringShard::FinishIfOver(const RingOperationRef& operation) {
  if (operation->under_way_ > 0) return;
  if (!operation->error_ && (operation->pausing_ || operation->HasNext())) return;
  if (std::exchange(operation->ending_, true)) return;
  deadlines_.erase({operation->deadline_, operation});
  operation->Settle(*tools_);
  if (!operation->error_) return Finish(operation, {});
  if (operation->kind() != RingOperation::Kind::kAppend || !operation->begun_) {
    return Finish(operation, std::unexpected(*operation->error_));
  }
  core_->threads->RunCleanup([shard = shared_from_this(), operation] {
    const Error error = operation->RollBack(*operation->error_);
    std::lock_guard lock(shard->mutex_);
    shard->inbox_.rolled_back.emplace_back(operation, error);
    shard->WakeIfAsleep();
  });
}

RingCounters::Kind& UringShard::CountersOf(RingOperation::Kind kind) {
  switch (kind) {
    case RingOperation::Kind::kAppend:
      return counters_.appends;
    case RingOperation::Kind::kRead:
      return counters_.reads;
    case RingOperation::Kind::kPipe:
      break;
  }
  return counters_.pipes;
}

void UringShard::CountEnd(const RingOperation& operation, const Status& status) {
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(Now() - operation.accepted_).count();
  RingCounters::Kind& kind = CountersOf(operation.kind());
  kind.latency.Add(microseconds);
  if (status) kind.bytes.fetch_add(operation.bytes(), std::memory_order_relaxed);
}

void UringShard::Finish(const RingOperationRef& operation, Status status) {
  accepted_.erase(operation->known_);
  if (!operation->begun_) not_begun_[IndexOf(operation->lane())].fetch_sub(1);
  RingOperationRef next;
  if (const UringFileRef file = operation->appended()) {
    auto& queue = file->appends_waiting;
    const auto place = std::find(queue.begin(), queue.end(), operation);
    if (place != queue.end()) {
      queue.erase(place);  // it was given up before its turn
    } else if (queue.empty()) {
      file->appending = false;
    } else {
      next = std::move(queue.front());
      queue.pop_front();
    }
  }
  {
    std::lock_guard lock(mutex_);
    if (abandoned_) {
      // Whoever asked may be gone. What the operation owns stays, as Stop has announced.
      left_behind_.push_back(operation);
      return;
    }
    counters_.in_flight.fetch_sub(1);
    finishing_ = true;
  }
  CountEnd(*operation, status);
  operation->Finish(status);
  {
    std::lock_guard lock(mutex_);
    finishing_ = false;
    if (closed_) changed_.notify_all();
  }
  if (next == nullptr) return;
  if (next->HasNext()) {
    Enqueue(next);
  } else {
    FinishIfOver(next);
  }
}

void UringShard::GiveUpOperations() {
  const std::vector<RingOperationRef> all(accepted_.begin(), accepted_.end());
  for (const RingOperationRef& operation : all) {
    if (operation->ending_) continue;
    CancelRequests(*operation);
    GiveUp(*operation, kStopped);
    FinishIfOver(operation);
  }
  std::lock_guard lock(mutex_);
  gave_up_ = true;
  for (const RingOperationRef& operation : accepted_) {
    held_names_.push_back(operation->Describe());
  }
}

}  // namespace dovetail::engine
