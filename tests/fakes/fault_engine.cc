#include "tests/fakes/fault_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "engine/errno.h"

namespace dovetail::fakes {
namespace {

using engine::AppendRequest;
using engine::FailErrno;
using engine::FileRef;
using engine::IoMode;
using engine::PipeRequest;
using engine::ReadRequest;

constexpr const char* kNames[] = {"open",   "append",        "read",  "reserve", "truncate",
                                  "remove", "remove folder", "space", "pipe"};
static_assert(std::size(kNames) == kCalls);

size_t IndexOf(Call call) { return static_cast<size_t>(call); }

int64_t SumOf(const SliceChain& chain) {
  int64_t sum = 0;
  for (const Slice& slice : chain) sum += static_cast<int64_t>(slice.bytes.size());
  return sum;
}

SliceChain FirstBytes(const SliceChain& chain, int64_t bytes) {
  SliceChain first;
  for (const Slice& slice : chain) {
    if (bytes == 0) break;
    const int64_t step = std::min(bytes, static_cast<int64_t>(slice.bytes.size()));
    first.push_back({slice.owner, slice.bytes.first(static_cast<size_t>(step))});
    bytes -= step;
  }
  return first;
}

MemEngine* SteppedOrNull(engine::Engine& engine) {
  auto* memory = dynamic_cast<MemEngine*>(&engine);
  return memory != nullptr && memory->stepped() ? memory : nullptr;
}

bool CanBeFull(Call call) {
  return call == Call::kAppend || call == Call::kReserve || call == Call::kOpen;
}

}  // namespace

FaultEngine::FaultEngine(engine::Engine& inner, FaultOptions options)
    : inner_(inner),
      stepped_(SteppedOrNull(inner)),
      options_(std::move(options)),
      random_(options_.seed),
      order_(~options_.seed) {
  if (stepped_ == nullptr) thread_ = std::thread([this] { Loop(); });
}

FaultEngine::~FaultEngine() {
  Heal();
  DOVETAIL_CHECK(Stop(TimePoint::max()));
  if (stepped_ != nullptr) {
    RunAll();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    thread_ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

FaultEngine::Fault FaultEngine::Draw(Call call, int64_t bytes) {
  const size_t index = IndexOf(call);
  ++calls_[index];
  // Always the same number of draws, so that a switch moved by hand does not shift what follows.
  const auto chance = [this](int per_mille) {
    return static_cast<int>(random_() % 1000) < per_mille;
  };
  const bool fails = chance(options_.fail_per_mille[index]);
  const bool torn = chance(options_.torn_per_mille);
  const bool rollback_fails = chance(options_.rollback_fails_per_mille);
  const bool late = chance(options_.late_per_mille);
  const uint64_t which = random_();
  const uint64_t where = random_();

  Fault fault{.late = late, .hangs = hang_all_[index]};
  if (!fail_next_[index].empty()) {
    const Fault scripted = fail_next_[index].front();
    fail_next_[index].pop_front();
    fault.os_error = scripted.os_error;
    fault.after_bytes = std::min(scripted.after_bytes, bytes);
    fault.rollback_fails = scripted.rollback_fails;
  } else if (fail_all_[index]) {
    fault.os_error = *fail_all_[index];
  } else if (fails && !options_.errnos.empty()) {
    fault.os_error = options_.errnos[which % options_.errnos.size()];
    if (fault.os_error == ENOSPC && !CanBeFull(call)) fault.os_error = EIO;
    if (torn && call == Call::kAppend) {
      fault.after_bytes = static_cast<int64_t>(where % static_cast<uint64_t>(bytes + 1));
      fault.rollback_fails = rollback_fails;
    }
  }
  if (call == Call::kAppend) ApplySpace(fault, bytes);
  if (fault.os_error != 0 || fault.hangs) Note(call, fault);
  return fault;
}

void FaultEngine::ApplySpace(Fault& fault, int64_t bytes) {
  if (space_bytes_ == std::numeric_limits<int64_t>::max() || fault.os_error != 0) return;
  if (bytes > space_bytes_) {
    fault.os_error = ENOSPC;
    fault.after_bytes = space_bytes_;
  } else {
    space_bytes_ -= bytes;
  }
}

void FaultEngine::Note(Call call, const Fault& fault) {
  std::string line = fmt::format("{} {}:", kNames[IndexOf(call)], calls_[IndexOf(call)]);
  if (fault.hangs) line += " hangs";
  if (fault.os_error != 0) {
    line += fmt::format(" errno {} after {} bytes", fault.os_error, fault.after_bytes);
  }
  if (fault.rollback_fails) line += ", rollback fails";
  log_.push_back(std::move(line));
}

// start(fault) begins the call at the inner engine or fails it; start(error) only ends it.
template <class Start>
void FaultEngine::Enter(Call call, int64_t bytes, TimePoint deadline, Start start) {
  Fault fault;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      const Error error{ErrorCode::kShutdown, 0, "engine stopped"};
      ++in_flight_;  // Deliver takes it back
      late_.push_back({TimePoint::min(), [start = std::move(start), error]() mutable {
                         start(Fault{}, std::optional<Error>(error));
                       }});
      changed_.notify_all();
      return;
    }
    ++in_flight_;
    fault = Draw(call, bytes);
    if (fault.hangs) {
      hung_.push_back({deadline, [start = std::move(start), fault](auto error) mutable {
                         start(fault, error);
                       }});
      changed_.notify_all();
      return;
    }
  }
  start(fault, std::nullopt);
}

void FaultEngine::Leave(bool late, std::move_only_function<void()> deliver) {
  {
    std::lock_guard lock(mutex_);
    if (late) {
      const auto wait = std::chrono::microseconds(
          options_.late_us_max > 0 ? random_() % static_cast<uint64_t>(options_.late_us_max) : 0);
      late_.push_back({options_.clock() + wait, std::move(deliver)});
      changed_.notify_all();
      return;
    }
  }
  Deliver(std::move(deliver));
}

void FaultEngine::Deliver(std::move_only_function<void()> deliver) {
  {
    std::lock_guard lock(mutex_);
    if (abandoned_) {  // what the inner engine held at the deadline
      left_behind_done_.push_back(std::move(deliver));
      return;
    }
    --in_flight_;
    ++delivering_;
  }
  deliver();
  deliver = nullptr;
  std::lock_guard lock(mutex_);
  --delivering_;
  changed_.notify_all();
}

// The bytes before the fault really go to the inner engine, and are cut off there again.
void FaultEngine::BeginTorn(AppendRequest request, const Fault& fault, Done done) {
  AppendRequest part{.file = request.file,
                     .offset = request.offset,
                     .data = FirstBytes(request.data, fault.after_bytes)};
  // Owns all of the request to the end, not only the part.
  auto cut = [this, request = std::move(request), fault,
              done = std::move(done)](Status status) mutable {
    // When the inner engine fails by itself, that is the answer.
    if (status && fault.rollback_fails) status = FailErrno("rollback", fault.os_error);
    if (!status) {
      request = {};
      return done(status);
    }
    const FileRef file = request.file;
    const int64_t offset = request.offset;
    inner_.Truncate(file, offset,
                    [request = std::move(request), fault, done = std::move(done)](Status) mutable {
                      request = {};
                      done(FailErrno("append", fault.os_error));
                    });
  };
  inner_.Append(std::move(part), std::move(cut));
}

namespace {

// A done that keeps its result until it may be delivered.
template <class Value, class DoneT>
std::move_only_function<void()> Bind(DoneT done, Value value) {
  return [done = std::move(done), value = std::move(value)]() mutable { done(std::move(value)); };
}

}  // namespace

void FaultEngine::Append(AppendRequest request, Done done) {
  const int64_t bytes = SumOf(request.data);
  const TimePoint deadline = request.deadline;
  Enter(Call::kAppend, bytes, deadline,
        [this, request = std::move(request), done = std::move(done)](
            const Fault& fault, std::optional<Error> error) mutable {
          if (error) {
            request = {};
            return done(std::unexpected(*error));
          }
          auto end = [this, late = fault.late, done = std::move(done)](Status status) mutable {
            Leave(late, Bind(std::move(done), status));
          };
          if (fault.os_error == 0) return inner_.Append(std::move(request), std::move(end));
          BeginTorn(std::move(request), fault, std::move(end));
        });
}

void FaultEngine::Open(std::string path, bool create, OpenDone done) {
  Enter(Call::kOpen, 0, TimePoint::max(),
        [this, path = std::move(path), create, done = std::move(done)](
            const Fault& fault, std::optional<Error> error) mutable {
          if (error) return done(std::unexpected(*error));
          auto end = [this, fault, done = std::move(done)](Result<FileRef> result) mutable {
            if (fault.os_error != 0) result = FailErrno("open", fault.os_error);
            Leave(fault.late, Bind(std::move(done), std::move(result)));
          };
          // Opening what exists changes nothing, so it may run and its result be lost; creating
          // must not leave a file behind, so a lookup that fails or succeeds runs in its place.
          inner_.Open(std::move(path), create && fault.os_error == 0, std::move(end));
        });
}

void FaultEngine::Read(ReadRequest request, ReadDone done) {
  const TimePoint deadline = request.deadline;
  Enter(Call::kRead, 0, deadline,
        [this, request = std::move(request), done = std::move(done)](
            const Fault& fault, std::optional<Error> error) mutable {
          if (error) {
            request = {};
            return done(std::unexpected(*error));
          }
          auto end = [this, fault, done = std::move(done)](Result<SliceChain> result) mutable {
            if (fault.os_error != 0) result = FailErrno("read", fault.os_error);
            Leave(fault.late, Bind(std::move(done), std::move(result)));
          };
          inner_.Read(std::move(request), std::move(end));
        });
}

void FaultEngine::ToPipe(PipeRequest request, Done done) {
  const TimePoint deadline = request.deadline;
  Enter(Call::kToPipe, 0, deadline,
        [this, request = std::move(request), done = std::move(done)](
            const Fault& fault, std::optional<Error> error) mutable {
          if (error) {
            request = {};
            return done(std::unexpected(*error));
          }
          auto end = [this, fault, done = std::move(done)](Status status) mutable {
            if (fault.os_error != 0) status = FailErrno("pipe", fault.os_error);
            Leave(fault.late, Bind(std::move(done), status));
          };
          // Any part of the bytes may be in a pipe that failed; all of them is one.
          inner_.ToPipe(std::move(request), std::move(end));
        });
}

void FaultEngine::EnterSimple(Call call, std::move_only_function<void(Done)> begin, Done done) {
  Enter(call, 0, TimePoint::max(),
        [this, call, begin = std::move(begin), done = std::move(done)](
            const Fault& fault, std::optional<Error> error) mutable {
          if (error) {
            begin = nullptr;
            return done(std::unexpected(*error));
          }
          auto end = [this, call, fault, done = std::move(done)](Status status) mutable {
            if (fault.os_error != 0) status = FailErrno(kNames[IndexOf(call)], fault.os_error);
            Leave(fault.late, Bind(std::move(done), status));
          };
          if (fault.os_error == 0) return begin(std::move(end));
          // A failure leaves no trace: something harmless runs at the inner engine instead, so that
          // the error arrives on one of its threads.
          begin = nullptr;
          inner_.Remove("", std::move(end));
        });
}

void FaultEngine::Reserve(FileRef file, int64_t end, Done done) {
  EnterSimple(
      Call::kReserve,
      [this, file = std::move(file), end](Done inner_done) mutable {
        inner_.Reserve(std::move(file), end, std::move(inner_done));
      },
      std::move(done));
}

void FaultEngine::Truncate(FileRef file, int64_t size, Done done) {
  EnterSimple(
      Call::kTruncate,
      [this, file = std::move(file), size](Done inner_done) mutable {
        inner_.Truncate(std::move(file), size, std::move(inner_done));
      },
      std::move(done));
}

void FaultEngine::Remove(std::string path, Done done) {
  EnterSimple(
      Call::kRemove,
      [this, path = std::move(path)](Done inner_done) mutable {
        inner_.Remove(std::move(path), std::move(inner_done));
      },
      std::move(done));
}

void FaultEngine::RemoveFolder(std::string path, Done done) {
  EnterSimple(
      Call::kRemoveFolder,
      [this, path = std::move(path)](Done inner_done) mutable {
        inner_.RemoveFolder(std::move(path), std::move(inner_done));
      },
      std::move(done));
}

void FaultEngine::Space(SpaceDone done) {
  auto space = std::make_shared<engine::SpaceInfo>();
  EnterSimple(
      Call::kSpace,
      [this, space](Done inner_done) mutable {
        inner_.Space([space, inner_done = std::move(inner_done)](auto answer) mutable {
          if (!answer) return inner_done(std::unexpected(answer.error()));
          *space = *answer;
          inner_done({});
        });
      },
      [space, done = std::move(done)](Status status) mutable {
        if (!status) return done(std::unexpected(status.error()));
        done(*space);
      });
}

}  // namespace dovetail::fakes
