// The contract of every disk engine. One Engine serves one data path with a number of shards; it
// appends to, reads from, reserves, cuts and removes files below that path. UringEngine (io_uring),
// PoolEngine (blocking calls on threads), MemEngine (a disk in memory, for tests) and FaultEngine
// (a decorator that injects faults) obey every sentence below; tests/contract holds them to it.
//
// Calls. Any thread may call anything; no call blocks on a device. Each accepted operation
// completes exactly once: its done function runs on a thread of the engine (never inside the call),
// must not block, and may call the engine again. After Stop every call completes with kShutdown.
//
// All or nothing. Success means all bytes: short reads and writes, EINTR and EAGAIN are continued
// inside. A failed append leaves the file as if it had not begun: it is cut back to the append's
// offset before done runs (its reservation may go with it); where even the cut fails, the error's
// place is "rollback", and the bytes beyond the offset are undefined, for the owner's next append
// to overwrite. A read past what was written is an error (kCorrupt, "end"), never padding, never
// less. Written is what completed appends reached, whatever is reserved behind it; of a file that
// was there when it was opened, its size.
//
// Ownership. The operation owns its bytes, its buffers and a reference to its file until the kernel
// has answered, whatever times out meanwhile: a deadline cancels what can be cancelled (completing
// with kTimeout when nothing was started) and still waits for what cannot. A file is closed with
// its last reference, so removing it under running operations hurts none of them. An engine that is
// short of descriptors may close a file that no operation uses and open it again by its name for
// the next one, which completes with kNotFound when the name is gone or another file's.
//
// Order. Operations of one file run in any order and in parallel; who needs an order waits for
// done. In particular the caller has at most one append in flight at the end of a file. Tasks given
// to Post of one shard run one at a time, in order of posting.
//
// Errors: kNoSpace (ENOSPC, EDQUOT), kIo (EIO and what else a device says), kNotFound (ENOENT),
// kTimeout, kInvalid (a request that breaks a rule of this header), kCorrupt, kShutdown, kBusy (the
// engine's queue is full, or the process lacks descriptors or memory: nothing was changed). One
// table maps errno: engine/errno.h.
// Error::os_error keeps the errno.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/buffer.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/counters.h"

namespace dovetail::engine {

// An open file of the engine that made it. Opaque to everyone else.
class File {
 public:
  virtual ~File() = default;
  // Offsets, lengths and memory of direct I/O on this file are multiples of this; 1 where direct
  // I/O cannot be had (the file system refuses O_DIRECT): such a file takes direct appends and
  // reads as buffered ones.
  virtual int64_t direct_alignment() const = 0;
};

using FileRef = std::shared_ptr<File>;

enum class IoMode : uint8_t { kBuffered, kDirect };

struct AppendRequest {
  FileRef file = nullptr;
  int64_t offset = 0;  // where the first byte goes; the end of the file as its owner knows it
  // Any number of pieces of any size. Buffered: written as they are, vectored, split at IOV_MAX.
  // Direct: gathered into aligned memory; offset and sum of sizes are then multiples of
  // direct_alignment().
  SliceChain data = {};
  IoMode mode = IoMode::kBuffered;
  TimePoint deadline = TimePoint::max();
};

struct ReadRequest {
  FileRef file = nullptr;
  int64_t offset = 0;
  int64_t length = 0;  // > 0
  IoMode mode = IoMode::kBuffered;
  TimePoint deadline = TimePoint::max();
};

// Bytes of a file on their way to a socket, by way of a pipe. Always through the page cache,
// however the file was written.
struct PipeRequest {
  FileRef file = nullptr;
  int64_t offset = 0;
  int64_t length = 0;  // > 0, at most the free room of the pipe: nobody reads before done
  // The write end. The caller's, who keeps it open until done.
  int pipe = -1;
  TimePoint deadline = TimePoint::max();
};

// Of the file system that the data path lies on.
struct SpaceInfo {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // for a process without privileges
  bool files_left = true;  // whether another file can be made
};

// What an engine runs on.
struct EngineInfo {
  std::string name = {};      // "io_uring" or "pool"
  std::string features = {};  // of the kernel that it uses, such as "defer_taskrun,fixed_files"
};

class Engine {
 public:
  using Done = std::move_only_function<void(Status)>;
  using SpaceDone = std::move_only_function<void(Result<SpaceInfo>)>;
  using OpenDone = std::move_only_function<void(Result<FileRef>)>;
  // Exactly length bytes, in one or more slices.
  using ReadDone = std::move_only_function<void(Result<SliceChain>)>;

  virtual ~Engine() = default;

  // Paths are relative to the engine's data path, without "." or ".." parts (kInvalid otherwise).
  // create: makes the file, which must not exist (kBusy, EEXIST), and the folders above it as
  // needed.
  virtual void Open(std::string path, bool create, OpenDone done) = 0;
  virtual void Append(AppendRequest request, Done done) = 0;
  virtual void Read(ReadRequest request, ReadDone done) = 0;
  // Puts exactly length bytes into the pipe. After a failure any part of them may be in it: the
  // owner closes such a pipe. A pipe whose read end is closed is kIo (EPIPE), and no signal.
  virtual void ToPipe(PipeRequest request, Done done) = 0;
  // Makes sure that the file has space for its first `end` bytes, so that a later append below that
  // needs none. May make the file longer; never shorter. kNoSpace changes nothing that was written.
  virtual void Reserve(FileRef file, int64_t end, Done done) = 0;
  // Cuts the file to `size` bytes, which are written (kInvalid otherwise), and frees the space
  // behind, reserved or not.
  virtual void Truncate(FileRef file, int64_t size, Done done) = 0;
  // Removes the file's name. What is not there is no error: removal is retried.
  virtual void Remove(std::string path, Done done) = 0;
  // Removes the folder if it is empty; one that is not there, or not empty, is no error.
  virtual void RemoveFolder(std::string path, Done done) = 0;

  virtual void Space(SpaceDone done) = 0;

  virtual int shards() const = 0;
  // Runs the task on the shard's strand. Tasks posted before Stop run; later ones are dropped
  // (false).
  virtual bool Post(int shard, std::move_only_function<void()> task) = 0;

  // What it did so far; null where nobody counts.
  virtual const EngineCounters* counters() const { return nullptr; }
  // And what each of its rings did, by shard; null for engines without rings.
  virtual const RingCounters* ring_counters(int) const { return nullptr; }
  // What it runs on, for logs and dovetail_engine_info.
  virtual EngineInfo info() const { return {}; }
  // Operations accepted and not completed.
  virtual int64_t in_flight() const = 0;

  // Refuses new work and waits until everything accepted has completed, at most until the deadline.
  // False when operations were still held by the system then (a hung disk): they, their buffers and
  // the threads that wait for them are left behind on purpose, and the engine must not be destroyed
  // but leaked. What had not begun by then has completed with kShutdown; the done of what is left
  // behind never runs, so its owner may go. Not to be called on a thread of the engine.
  [[nodiscard]] virtual bool Stop(TimePoint deadline) = 0;
};

}  // namespace dovetail::engine
