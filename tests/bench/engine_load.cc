#include "tests/bench/engine_load.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::bench {
namespace {

using engine::Engine;
using engine::FileRef;

class Countdown {
 public:
  explicit Countdown(int64_t count) : count_(count) {}
  void Down() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t count_;
};

FileRef OpenFile(Engine& engine, const std::string& path, bool create) {
  std::promise<FileRef> opened;
  engine.Open(path, create, [&](Result<FileRef> file) {
    DOVETAIL_CHECK(file.has_value());
    opened.set_value(*file);
  });
  return opened.get_future().get();
}

Engine::Done Must(std::promise<void>& done) {
  return [&done](Status status) {
    DOVETAIL_CHECK(status.has_value());
    done.set_value();
  };
}

void ReserveFile(Engine& engine, const FileRef& file, int64_t bytes) {
  std::promise<void> done;
  engine.Reserve(file, bytes, Must(done));
  done.get_future().get();
}

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// The same memory again and again. Not aligned: as blocks lie in memory, so that direct appends
// have to gather them.
SliceChain DataOf(int64_t bytes, int64_t piece, bool aligned = true) {
  constexpr size_t kBytes = 16 << 20;
  constexpr size_t kPage = 4096;
  constexpr size_t kOff = 64;
  static const std::shared_ptr<std::byte> memory = [] {
    const std::shared_ptr<std::byte> made(
        static_cast<std::byte*>(std::aligned_alloc(kPage, kBytes + kPage)), Freed());
    std::memset(made.get(), 'd', kBytes + kPage);
    return made;
  }();
  SliceChain chain;
  for (int64_t at = 0; at < bytes; at += piece) {
    const size_t begin = static_cast<size_t>(at) % kBytes + (aligned ? 0 : kOff);
    chain.push_back({memory, {memory.get() + begin, static_cast<size_t>(piece)}});
  }
  return chain;
}

}  // namespace

Usage AppendOnce(Engine& engine, const AppendShape& shape, const std::vector<FileRef>& files) {
  const SliceChain data = DataOf(shape.append_bytes, shape.piece_bytes, shape.aligned);
  Countdown left(shape.files);
  std::function<void(const FileRef&, int64_t)> next = [&](const FileRef& file, int64_t offset) {
    if (offset >= shape.bytes_per_file) return left.Down();
    engine.Append({.file = file, .offset = offset, .data = data, .mode = shape.mode},
                  [&, file, offset](Status status) {
                    DOVETAIL_CHECK(status.has_value());
                    next(file, offset + shape.append_bytes);
                  });
  };
  const Stopwatch watch;
  for (const FileRef& file : files) next(file, 0);
  left.Wait();
  return watch.Elapsed();
}

Usage AppendAll(Engine& engine, const AppendShape& shape) {
  std::vector<FileRef> files;
  for (int i = 0; i < shape.files; ++i) {
    files.push_back(OpenFile(engine, "append" + std::to_string(i), true));
    ReserveFile(engine, files.back(), shape.bytes_per_file);
  }
  // Memory that the page cache takes anew may cost more than the write.
  if (shape.mode == engine::IoMode::kBuffered) AppendOnce(engine, shape, files);
  const Usage usage = AppendOnce(engine, shape, files);
  for (int i = 0; i < shape.files; ++i) {
    std::promise<void> done;
    engine.Remove("append" + std::to_string(i), Must(done));
    done.get_future().get();
  }
  return usage;
}

void MakeFileToRead(Engine& engine, int64_t bytes) {
  constexpr int64_t kAppendBytes = 16 << 20;
  const FileRef file = OpenFile(engine, "read", true);
  ReserveFile(engine, file, bytes);
  for (int64_t at = 0; at < bytes; at += kAppendBytes) {
    std::promise<void> done;
    engine.Append({.file = file,
                   .offset = at,
                   .data = DataOf(kAppendBytes, kAppendBytes),
                   .mode = engine::IoMode::kDirect},
                  Must(done));
    done.get_future().get();
  }
}

Usage ReadRandomly(Engine& engine, const ReadShape& shape) {
  const FileRef file = OpenFile(engine, "read", false);
  std::atomic<int64_t> begun = 0;
  Countdown left(shape.at_once);
  const auto places = static_cast<uint64_t>(shape.file_bytes / shape.read_bytes);
  std::function<void(std::shared_ptr<std::mt19937_64>)> next =
      [&](std::shared_ptr<std::mt19937_64> random) {
        if (begun.fetch_add(1) >= shape.reads) return left.Down();
        const auto offset = static_cast<int64_t>((*random)() % places) * shape.read_bytes;
        engine.Read(
            {.file = file, .offset = offset, .length = shape.read_bytes, .mode = shape.mode},
            [&, random](Result<SliceChain> result) {
              DOVETAIL_CHECK(result.has_value());
              next(random);
            });
      };
  const Stopwatch watch;
  for (int i = 0; i < shape.at_once; ++i) {
    next(std::make_shared<std::mt19937_64>(static_cast<uint64_t>(i)));
  }
  left.Wait();
  return watch.Elapsed();
}

}  // namespace dovetail::bench
