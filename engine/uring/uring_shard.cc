#include "engine/uring/uring_shard.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <utility>

#include "engine/base/check.h"
#include "engine/errno.h"
#include "engine/pipe_io.h"

namespace dovetail::engine {
namespace {

thread_local const UringShard* current_shard = nullptr;

size_t IndexOf(Lane lane) { return static_cast<size_t>(lane); }

}  // namespace

Result<std::shared_ptr<UringShard>> UringShard::Start(int index, const UringOptions& options,
                                                      std::shared_ptr<DiskCore> core,
                                                      std::unique_ptr<RingSystem> system) {
  std::shared_ptr<UringShard> shard(
      new UringShard(index, options, std::move(core), std::move(system)));
  auto started = std::make_shared<std::promise<Status>>();
  shard->thread_ = std::thread(
      [shard, started] { shard->Run([&started](Status status) { started->set_value(status); }); });
  pthread_setname_np(shard->thread_.native_handle(), ("uring-" + std::to_string(index)).c_str());
  if (const Status status = started->get_future().get(); !status) {
    shard->thread_.join();
    return std::unexpected(status.error());
  }
  return shard;
}

UringShard::UringShard(int index, const UringOptions& options, std::shared_ptr<DiskCore> core,
                       std::unique_ptr<RingSystem> system)
    : index_(index), options_(options), core_(std::move(core)), system_(std::move(system)) {}

UringShard::~UringShard() { DOVETAIL_CHECK(!thread_.joinable()); }

const UringShard* UringShard::Current() { return current_shard; }

void UringShard::WakeIfAsleep() {
  // Under the mutex, so that the ring is there.
  if (!std::exchange(asleep_, false)) return;
  ring_->Wake();
}

bool UringShard::Post(Task task) {
  std::lock_guard lock(mutex_);
  if (tasks_closed_) return false;
  tasks_.push_back(std::move(task));
  WakeIfAsleep();
  return true;
}

std::optional<Error> UringShard::Submit(RingOperationRef operation) {
  std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::kShutdown, 0, "engine stopped"};
  std::atomic<int64_t>& not_begun = not_begun_[IndexOf(operation->lane())];
  if (not_begun.load() >= options_.queue_max) {
    return Error{ErrorCode::kBusy, 0, "engine queue full"};
  }
  not_begun.fetch_add(1);
  counters_.in_flight.fetch_add(1);
  inbox_.operations.push_back(std::move(operation));
  WakeIfAsleep();
  return std::nullopt;
}

void UringShard::EmptyPlaces(std::vector<int> places) {
  std::lock_guard lock(mutex_);
  if (ended_) return;
  inbox_.places.insert(inbox_.places.end(), places.begin(), places.end());
  WakeIfAsleep();
}

void UringShard::CloseTasks() {
  std::lock_guard lock(mutex_);
  tasks_closed_ = true;
}

bool UringShard::WaitForTasks(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return tasks_.empty() && !running_task_; });
}

void UringShard::Close() {
  std::lock_guard lock(mutex_);
  tasks_closed_ = closed_ = true;
  WakeIfAsleep();
}

bool UringShard::WaitForEnd(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const bool ended = changed_.wait_until(lock, deadline, [this] { return ended_; });
  lock.unlock();
  if (ended && thread_.joinable()) thread_.join();
  return ended;
}

void UringShard::GiveUpAll() {
  std::lock_guard lock(mutex_);
  give_up_ = true;
  WakeIfAsleep();
}

UringShard::Left UringShard::LeaveBehind() {
  std::unique_lock lock(mutex_);
  Left left;
  if (ended_) return left;
  changed_.wait(lock, [this] { return !finishing_; });
  abandoned_ = true;
  left.names = held_names_;
  left.untouched = std::exchange(inbox_.operations, {});
  counters_.in_flight.fetch_sub(static_cast<int64_t>(left.untouched.size()));
  left.held = counters_.in_flight.load();
  lock.unlock();
  thread_.detach();
  return left;
}

void UringShard::Run(std::function<void(Status)> started) {
  current_shard = this;
  BlockBrokenPipeSignal();
  const Status status = SetUp();
  started(status);
  if (status) Loop();
  // In this order, and on this thread: the kernel lets go of the slabs with the ring.
  tools_.reset();
  files_.reset();
  {
    std::lock_guard lock(mutex_);
    ring_.reset();
    ended_ = true;
    changed_.notify_all();
  }
  slabs_.reset();
}

Status UringShard::SetUp() {
  if (!options_.cpus.empty()) {
    const size_t at = static_cast<size_t>(index_) % options_.cpus.size();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(options_.cpus[at]), &set);
    if (const int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set); error != 0) {
      return FailErrno("io_uring: cpu", error);
    }
  }
  const int64_t entries = options_.ring_entries > 0 ? options_.ring_entries : options_.io_depth;
  auto ring = Ring::Make({.entries = static_cast<unsigned>(entries),
                          .sqpoll = options_.sqpoll,
                          .sqpoll_idle_ms = static_cast<int>(options_.sqpoll_idle_ms)},
                         *system_, counters_);
  if (!ring) return std::unexpected(ring.error());
  ring_ = std::move(*ring);
  depth_ = static_cast<int>(options_.io_depth);
  if (ring_->shrunk()) depth_ = std::min(depth_, static_cast<int>(ring_->entries()));

  features_ = ring_->features();
  if (options_.file_workers_max > 0 || options_.pipe_workers_max > 0) {
    const bool limited = ring_->LimitWorkers(static_cast<unsigned>(options_.file_workers_max),
                                             static_cast<unsigned>(options_.pipe_workers_max));
    if (limited) features_ += ",worker_limits";
  }
  slabs_ = std::make_unique<Slabs>(options_.slabs);
  slabs_->Register(*ring_);
  if (slabs_->registered()) {
    features_ += ",fixed_buffers";
  } else {
    counters_.slabs_refused.fetch_add(1);
  }
  files_ = std::make_unique<FixedFiles>(*ring_, options_.fixed_files_max, counters_);
  if (files_->granted()) features_ += ",fixed_files";
  const bool splices = ring_->Offers(IORING_OP_SPLICE);
  if (splices) features_ += ",splice";
  tools_.emplace(ShardTools{.shard = index_,
                            .splices = splices,
                            .arena = core_->arena,
                            .slabs = *slabs_,
                            .files = *files_,
                            .counters = core_->counters,
                            .ring_counters = counters_});
  slots_.resize(static_cast<size_t>(depth_));
  for (auto slot = static_cast<uint32_t>(depth_); slot-- > 0;) free_slots_.push_back(slot);
  return {};
}

void UringShard::Loop() {
  while (true) {
    RunTasks();
    TakeInbox();
    Expire();
    Resume();
    starved_ = false;
    SendCancels();
    Fill();
    const Next next = Decide();
    if (next == Next::kEnd) return;
    ring_->Turn(next == Next::kSleep, NextDeadline(), completions_);
    if (next == Next::kSleep) WakeUp();
    for (const Completion& completion : completions_) Handle(completion);
    completions_.clear();
  }
}

void UringShard::RunTasks() {
  std::unique_lock lock(mutex_);
  // Those that are there now; what they post waits a turn, so that results are seen between.
  for (size_t left = tasks_.size(); left > 0; --left) {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_task_ = true;
    lock.unlock();
    task();
    task = nullptr;  // what it owned is let go outside the lock
    lock.lock();
    running_task_ = false;
    if (tasks_.empty()) changed_.notify_all();
  }
}

void UringShard::TakeInbox() {
  Inbox taken;
  bool give_up = false;
  {
    std::lock_guard lock(mutex_);
    std::swap(taken, inbox_);
    give_up = give_up_ && !gave_up_;
  }
  for (const int place : taken.places) files_->Empty(place);
  for (auto& [operation, status] : taken.opened) TakeOpened(operation, status);
  for (auto& [operation, error] : taken.rolled_back) Finish(operation, std::unexpected(error));
  for (RingOperationRef& operation : taken.operations) Accept(std::move(operation));
  if (give_up) GiveUpOperations();
}

UringShard::Next UringShard::Decide() {
  // Under one lock: whoever comes after it finds the shard asleep, and wakes it.
  std::lock_guard lock(mutex_);
  if (!tasks_.empty() || !inbox_.empty()) return Next::kTurn;
  if (closed_ && counters_.in_flight.load() == 0) return Next::kEnd;
  if (starved_ || (give_up_ && !gave_up_)) return Next::kTurn;
  asleep_ = true;
  return Next::kSleep;
}

void UringShard::WakeUp() {
  std::lock_guard lock(mutex_);
  asleep_ = false;
}

TimePoint UringShard::NextDeadline() const {
  TimePoint next = TimePoint::max();
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (!pausing_.empty()) next = std::min(next, pausing_.begin()->first);
  return next;
}

}  // namespace dovetail::engine
