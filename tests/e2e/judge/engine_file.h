// One file of a disk engine, with the calls of a POSIX file: what the owner of a file has to do for
// that, and no more.
//
// The engine appends; where this file is written in the middle, the append goes there. Direct
// appends are of whole units: bytes around them are read and written again. A hole is filled with
// zeros by the append that makes it. One append at a time goes to the end of the file. What is
// reserved, or written behind the end because units are whole, is cut off by Settle.
//
// So that the engine meets more than single calls of one buffer, every few calls ask it for more
// than was asked for: some reads are wider, some writes take their neighbours with them, and the
// bytes come to it as one piece, as aligned memory, or in pieces of odd sizes.
//
// Threads: any; every call blocks until the engine has answered, so none may come from its threads.
// Errors: a negative errno, as FUSE wants it. After a failed append the file ends where the append
// began: that is the engine's contract, and the file's loss.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/arena.h"
#include "engine/base/buffer.h"
#include "engine/engine.h"
#include "tests/e2e/judge/range_locks.h"

namespace dovetail::judge {

enum class ReadWay { kDirect, kBuffered, kPipe, kMixed };  // mixed: each in turn

// What was asked of the files, all together.
struct FileCounts {
  using Count = std::atomic<int64_t>;
  Count writes{0};
  Count written_bytes{0};
  Count reads{0};
  Count read_bytes{0};
  Count reserves{0};
  Count truncates{0};
  Count failed{0};
  Count at_once{0};
  Count at_once_max{0};
  Count alignment{0};  // of direct I/O, as the last file that was opened has it
};

// What all files share. Outlives them.
struct FileSystemState {
  engine::Engine& engine;
  Arena& arena;
  engine::IoMode writes = engine::IoMode::kBuffered;
  ReadWay reads = ReadWay::kBuffered;
  FileCounts counts = {};
  std::atomic<uint64_t> turn{0};
};

class EngineFile {
 public:
  // size: of the file as it is.
  EngineFile(FileSystemState& state, std::string path, engine::FileRef file, int64_t size)
      : state_(state), path_(std::move(path)), file_(std::move(file)), size_(size) {}

  int64_t size() const { return size_.load(); }

  // How many bytes; fewer than asked for only at the end of the file.
  int64_t Read(int64_t offset, std::span<std::byte> out);
  int64_t Write(int64_t offset, ConstBytes data);
  int Truncate(int64_t size);
  // grows: the file is then at least that long.
  int Reserve(int64_t end, bool grows);
  // Cuts off what is behind the end.
  int Settle();

 private:
  int64_t unit() const;
  int64_t DoWrite(int64_t offset, ConstBytes data, uint64_t turn);
  // What the append for these bytes covers.
  engine::ByteRange SpanOf(engine::ByteRange bytes, bool wide) const;
  // The bytes of that range and its neighbours in the span, for the engine.
  Result<SliceChain> Compose(engine::ByteRange span, int64_t offset, ConstBytes data,
                             uint64_t turn);
  Result<SliceChain> Fetch(engine::ByteRange range, uint64_t turn);
  Result<SliceChain> FetchByPipe(engine::ByteRange range);
  int Failed(const char* what, engine::ByteRange range, const Error& error);

  FileSystemState& state_;
  const std::string path_;
  const engine::FileRef file_;
  std::atomic<int64_t> size_;  // changed by who holds the end of the file
  RangeLocks locks_;
};

}  // namespace dovetail::judge
