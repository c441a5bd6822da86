// One thread with one ring: it runs the tasks of its shard, gives the requests of its operations to
// the kernel, and ends them.
//
// A turn: take what others have handed in, run tasks, end what is past its deadline, fill in
// requests, submit and wait in one system call, take the results, continue or finish their
// operations. It sleeps in that call and nowhere else, until a result, the nearest deadline or a
// wake by another thread; who hands something in wakes it only when it has said that it sleeps.
//
// Reads (and pipes) wait in one bounded list, appends in another, taken in turn; with an io_depth
// of two or more each kind leaves one place to the other, so that neither starves.
//
// Threads: any may hand in; the rest is the shard's own. Shared ownership: the thread holds the
// shard, so that one that never comes back from the kernel finds it alive.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/disk_core.h"
#include "engine/options.h"
#include "engine/uring/ring.h"
#include "engine/uring/ring_operation.h"
#include "engine/uring/uring_file.h"

namespace dovetail::engine {

class UringShard : public std::enable_shared_from_this<UringShard> {
 public:
  using Task = std::move_only_function<void()>;

  // Comes back when the thread has made its ring, or could not.
  static Result<std::shared_ptr<UringShard>> Start(int index, const UringOptions& options,
                                                   std::shared_ptr<DiskCore> core,
                                                   std::unique_ptr<RingSystem> system);
  ~UringShard();
  UringShard(const UringShard&) = delete;
  UringShard& operator=(const UringShard&) = delete;

  // The shard that the calling thread is; null on others.
  static const UringShard* Current();

  // False, and the task is dropped, after CloseTasks.
  bool Post(Task task);
  // Takes the operation, or says why not: kBusy, kShutdown.
  std::optional<Error> Submit(RingOperationRef operation);
  // Makes places of the ring's file table free.
  void EmptyPlaces(std::vector<int> places);

  // The end, in this order; none of it on the shard's thread.
  void CloseTasks();
  bool WaitForTasks(TimePoint deadline);
  void Close();
  bool WaitForEnd(TimePoint deadline);
  // Ends what has not begun with kShutdown and asks the kernel to cancel the rest.
  void GiveUpAll();
  struct Left {
    int64_t held = 0;  // of which the done never runs
    std::vector<std::string> names;
    std::vector<RingOperationRef> untouched;  // that the thread has not even taken
  };
  // Whatever has not ended by now never will.
  Left LeaveBehind();

  int index() const { return index_; }
  const RingCounters& counters() const { return counters_; }
  // Handed in, and no request made yet.
  int64_t not_begun(Lane lane) const { return not_begun_[static_cast<size_t>(lane)].load(); }
  // Constant after Start.
  const std::string& features() const { return features_; }
  int depth() const { return depth_; }

 private:
  // A place for a request that the kernel has.
  struct Slot {
    RingOperationRef operation;
    uint32_t part = 0;
    uint32_t generation = 0;  // of its use: results of a former one would be told apart
  };
  struct Inbox {
    std::vector<RingOperationRef> operations;
    std::vector<std::pair<RingOperationRef, Status>> opened;
    std::vector<std::pair<RingOperationRef, Error>> rolled_back;
    std::vector<int> places;

    bool empty() const {
      return operations.empty() && opened.empty() && rolled_back.empty() && places.empty();
    }
  };

  UringShard(int index, const UringOptions& options, std::shared_ptr<DiskCore> core,
             std::unique_ptr<RingSystem> system);

  void Run(std::function<void(Status)> started);
  Status SetUp();
  void Loop();

  // The steps of a turn.
  void RunTasks();
  void TakeInbox();
  void Expire();
  void Resume();
  void SendCancels();
  void Fill();
  // Before the operation's first request. False when that cannot be made now: something is being
  // waited for, or the operation has ended.
  bool MakeReady(const RingOperationRef& operation);
  enum class Next : uint8_t { kTurn, kSleep, kEnd };
  Next Decide();
  void WakeUp();
  TimePoint NextDeadline() const;
  void Handle(const Completion& completion);

  // Operations.
  void Accept(RingOperationRef operation);
  enum class Place : uint8_t { kFirst, kLast };
  // Among those that begin; one that goes on is placed before all of these.
  void Enqueue(const RingOperationRef& operation, Place place = Place::kLast);
  void Dequeue(RingOperation& operation);
  bool CanBegin(Lane lane);
  bool TakeLane(Lane& lane);
  // Lets a control thread get what the operation lacks; it takes a place in its lane meanwhile.
  void Open(const RingOperationRef& operation);
  void TakeOpened(const RingOperationRef& operation, Status status);
  void Request(io_uring_sqe& sqe, const RingOperationRef& operation);
  // No more requests; those under way are waited for.
  void GiveUp(RingOperation& operation, Error error);
  void CancelRequests(const RingOperation& operation);
  void FinishIfOver(const RingOperationRef& operation);
  void Finish(const RingOperationRef& operation, Status status);
  // After a result, when there is more to do: now, or not before the pause is over.
  void GoOn(const RingOperationRef& operation, Milliseconds pause);
  void GiveUpOperations();
  RingCounters::Kind& CountersOf(RingOperation::Kind kind);
  void CountEnd(const RingOperation& operation, const Status& status);

  // REQUIRES: mutex_ is held.
  void WakeIfAsleep();

  const int index_;
  const UringOptions options_;
  const std::shared_ptr<DiskCore> core_;
  const std::unique_ptr<RingSystem> system_;
  RingCounters counters_;
  std::string features_;
  int depth_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Inbox inbox_;
  std::deque<Task> tasks_;
  bool running_task_ = false;
  bool tasks_closed_ = false;
  bool closed_ = false;  // for operations
  bool asleep_ = false;
  bool give_up_ = false;
  bool gave_up_ = false;
  bool finishing_ = false;
  bool abandoned_ = false;
  bool ended_ = false;
  std::vector<std::string> held_names_;
  std::vector<RingOperationRef> left_behind_;
  // Handed in and not begun, by lane.
  std::atomic<int64_t> not_begun_[kLanes] = {};

  // The thread's own.
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Slabs> slabs_;
  std::unique_ptr<FixedFiles> files_;
  std::optional<ShardTools> tools_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  RingOperation::List waiting_[kLanes];
  int running_[kLanes] = {};  // requests in the kernel, and what is being opened
  Lane last_lane_ = Lane::kRead;
  std::set<std::pair<TimePoint, RingOperationRef>> deadlines_;
  std::multimap<TimePoint, RingOperationRef> pausing_;
  RingOperation::List accepted_;  // and not finished
  std::vector<uint64_t> cancels_;
  bool starved_ = false;  // there was no place for a request that could be made: no sleep now
  std::vector<Completion> completions_;

  std::thread thread_;
};

}  // namespace dovetail::engine
