// A long random life of the io_uring engine against a model in memory: appends, reads, pipes,
// reservations, cuts and removals of several files at once, with deadlines, on rings that are
// short, fail, are late and mix their results. Whatever happens, a read that succeeds has exactly
// the committed bytes, and a failed append leaves them alone.
//
//   DOVETAIL_MODEL_SEED, DOVETAIL_MODEL_OPERATIONS: another life, and a longer one.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::IoMode;

constexpr int kFiles = 5;
constexpr int kAtOnce = 24;
constexpr int64_t kFileBytesMax = 4 << 20;
constexpr int64_t kPipeBytesMax = 60 << 10;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

struct ModelCase {
  std::string name;
  IoMode mode;
  bool on_disk;
  bool faults;
};

struct ModelFile {
  FileRef file;
  Bytes committed = {};
  bool appending = false;
  int others = 0;  // operations under way beside the append
};

class UringModel : public testing::TestWithParam<ModelCase> {
 protected:
  UringModel()
      : seed_(static_cast<uint64_t>(FromEnvironment("DOVETAIL_MODEL_SEED", 11))),
        random_(seed_),
        folder_(GetParam().on_disk ? DiskFolder() : MemoryFolder()) {
    engine::UringSystems systems{.calls = calls_, .ring = [this](int shard) {
                                   return std::make_unique<ScriptedRing>(calls_, Rules(shard));
                                 }};
    auto started = engine::UringEngine::Start(
        {.data_path = folder_.path(), .threads = 2, .io_depth = 8, .slabs = 4}, arena_, systems);
    EXPECT_TRUE(started.has_value());
    engine_ = std::move(*started);
  }

  RingRules Rules(int shard) const {
    if (!GetParam().faults) return {};
    return {.seed = seed_ + static_cast<uint64_t>(shard),
            .short_per_mille = 100,
            .passing_per_mille = 20,
            .error_per_mille = 20,
            .late_per_mille = 50,
            .reorders = true,
            .wakes_lost_per_mille = 50,
            .enters_busy_per_mille = 5};
  }

  void Live(int64_t operations) {
    files_.resize(kFiles);
    for (int i = 0; i < kFiles; ++i) Recreate(i);
    for (int64_t i = 0; i < operations && !HasFailure(); ++i) {
      while (under_way_ >= kAtOnce) RunOneDone();
      // Or an engine that is slow for a moment would see nothing of this life.
      if (!BeginSomething(static_cast<int>(Draw(kFiles))) && under_way_ > 0) RunOneDone();
      while (RunDoneNow()) {
      }
    }
    while (under_way_ > 0) RunOneDone();
    for (ModelFile& file : files_) CheckWhole(file);
  }

  uint64_t Draw(uint64_t below) { return random_() % below; }

  // Results are looked at on the test's thread, one at a time.
  void Hand(std::function<void()> look) {
    std::lock_guard lock(mutex_);
    done_.push_back(std::move(look));
    changed_.notify_one();
  }
  void RunOneDone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !done_.empty(); });
    auto look = std::move(done_.front());
    done_.pop_front();
    lock.unlock();
    --under_way_;
    look();
  }
  bool RunDoneNow() {
    {
      std::lock_guard lock(mutex_);
      if (done_.empty()) return false;
    }
    RunOneDone();
    return true;
  }

  void Recreate(int index) {
    ModelFile& file = files_[static_cast<size_t>(index)];
    if (file.file != nullptr) {
      EXPECT_TRUE(Remove(*engine_, NameOf(index)));
    }
    const Result<FileRef> made = Open(*engine_, NameOf(index), true);
    ASSERT_TRUE(made);
    file = {.file = *made};
  }
  std::string NameOf(int index) const { return fmt::format("files/{}", index); }

  TimePoint SomeDeadline() {
    if (Draw(20) != 0) return TimePoint::max();
    return std::chrono::steady_clock::now() + std::chrono::microseconds(Draw(3000));
  }

  // False when the file cannot have what was drawn.
  bool BeginSomething(int index) {
    ModelFile& file = files_[static_cast<size_t>(index)];
    const bool idle = !file.appending && file.others == 0;
    const auto size = static_cast<int64_t>(file.committed.size());
    const uint64_t what = Draw(100);
    if (idle && (size > kFileBytesMax || Draw(300) == 0)) {
      Recreate(index);
    } else if (idle && size > 0 && Draw(60) == 0) {
      Cut(file);
    } else if (what < 45) {
      if (file.appending) return false;
      BeginAppend(file);
    } else if (what < 50) {
      BeginReserve(file);
    } else if (size == 0) {
      return false;
    } else if (what < 85) {
      BeginRead(file);
    } else {
      BeginPipe(file);
    }
    return true;
  }

  void BeginAppend(ModelFile& file) {
    const int64_t unit = GetParam().mode == IoMode::kDirect ? file.file->direct_alignment() : 1;
    const int64_t most = Draw(10) == 0 ? 2'500'000 : 40'000;
    const auto wanted = static_cast<int64_t>(1 + Draw(static_cast<uint64_t>(most)));
    auto bytes = std::make_shared<Bytes>(Pattern((wanted + unit - 1) / unit * unit, random_()));
    auto offset = static_cast<int64_t>(file.committed.size());
    file.appending = true;
    ++under_way_;
    const size_t piece = Draw(2) == 0 ? 1 + Draw(3000) : SIZE_MAX;
    engine_->Append({.file = file.file,
                     .offset = offset,
                     .data = ChainOf(*bytes, piece),
                     .mode = GetParam().mode,
                     .deadline = SomeDeadline()},
                    [this, &file, bytes](Status status) {
                      Hand([&file, bytes, status] {
                        file.appending = false;
                        if (status) {
                          file.committed.insert(file.committed.end(), bytes->begin(), bytes->end());
                        } else {
                          EXPECT_NE(status.error().code, ErrorCode::kInvalid);
                          EXPECT_NE(status.error().code, ErrorCode::kCorrupt);
                          EXPECT_STRNE(status.error().where, "rollback");
                        }
                      });
                    });
  }

  // A range of what is committed now; it stays so while anything is under way.
  std::pair<int64_t, int64_t> SomeRange(const ModelFile& file, int64_t most) {
    const auto size = static_cast<int64_t>(file.committed.size());
    const auto offset = static_cast<int64_t>(Draw(static_cast<uint64_t>(size)));
    const int64_t left = std::min(size - offset, Draw(5) == 0 ? most : int64_t{9000});
    return {offset, 1 + static_cast<int64_t>(Draw(static_cast<uint64_t>(std::min(left, most))))};
  }
  bool Same(const ModelFile& file, int64_t offset, const Bytes& seen, int64_t length) const {
    return static_cast<int64_t>(seen.size()) == length &&
           std::equal(seen.begin(), seen.end(), file.committed.begin() + offset);
  }

  void BeginRead(ModelFile& file) {
    const auto [offset, length] = SomeRange(file, 3'000'000);
    ++file.others;
    ++under_way_;
    engine_->Read({.file = file.file,
                   .offset = offset,
                   .length = length,
                   .mode = Draw(2) == 0 ? IoMode::kDirect : IoMode::kBuffered,
                   .deadline = SomeDeadline()},
                  [this, &file, offset, length](Result<SliceChain> result) {
                    Hand([this, &file, offset, length, result = std::move(result)] {
                      --file.others;
                      if (result) {
                        EXPECT_TRUE(Same(file, offset, Flat(*result), length))
                            << offset << " " << length << " seed " << seed_;
                      } else {
                        EXPECT_NE(result.error().code, ErrorCode::kCorrupt);
                        EXPECT_NE(result.error().code, ErrorCode::kInvalid);
                      }
                    });
                  });
  }

  void BeginPipe(ModelFile& file) {
    const auto [offset, length] = SomeRange(file, kPipeBytesMax);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    ++file.others;
    ++under_way_;
    engine_->ToPipe({.file = file.file,
                     .offset = offset,
                     .length = length,
                     .pipe = ends[1],
                     .deadline = SomeDeadline()},
                    [this, &file, offset, length, in = ends[0], out = ends[1]](Status status) {
                      Hand([this, &file, offset, length, in, out, status] {
                        --file.others;
                        Bytes seen(kPipeBytesMax + 1);
                        const ssize_t got = read(in, seen.data(), seen.size());
                        seen.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
                        if (status) {
                          EXPECT_TRUE(Same(file, offset, seen, length)) << offset << " " << length;
                        }
                        close(in);
                        close(out);
                      });
                    });
  }

  void BeginReserve(ModelFile& file) {
    ++file.others;
    ++under_way_;
    const auto end = static_cast<int64_t>(file.committed.size() + Draw(1 << 20));
    engine_->Reserve(file.file, end, [this, &file](Status status) {
      Hand([&file, status] {
        --file.others;
        EXPECT_TRUE(status);
      });
    });
  }

  void Cut(ModelFile& file) {
    const int64_t unit = file.file->direct_alignment();
    auto size = static_cast<int64_t>(Draw(file.committed.size() + 1));
    if (GetParam().mode == IoMode::kDirect) size -= size % unit;
    ASSERT_TRUE(Truncate(*engine_, file.file, size));
    file.committed.resize(static_cast<size_t>(size));
  }

  // With a kernel that lies no more.
  void CheckWhole(ModelFile& file) {
    const auto size = static_cast<int64_t>(file.committed.size());
    if (size == 0) return;
    for (int attempt = 0; attempt < 100; ++attempt) {
      const Result<Bytes> read = Read(*engine_, {.file = file.file, .length = size});
      if (!read && GetParam().faults) continue;
      ASSERT_TRUE(read);
      EXPECT_TRUE(*read == file.committed) << "seed " << seed_;
      return;
    }
    ADD_FAILURE() << "never read whole, seed " << seed_;
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  TemporaryFolder folder_;
  std::shared_ptr<ScriptedCalls> calls_ = std::make_shared<ScriptedCalls>();
  Arena arena_;
  std::unique_ptr<engine::UringEngine> engine_;
  std::vector<ModelFile> files_;
  int under_way_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> done_;
};

INSTANTIATE_TEST_SUITE_P(
    Lives, UringModel,
    testing::Values(ModelCase{"DiskBuffered", IoMode::kBuffered, true, false},
                    ModelCase{"DiskDirect", IoMode::kDirect, true, false},
                    ModelCase{"TmpfsBuffered", IoMode::kBuffered, false, false},
                    ModelCase{"DiskBufferedFaults", IoMode::kBuffered, true, true},
                    ModelCase{"DiskDirectFaults", IoMode::kDirect, true, true},
                    ModelCase{"TmpfsBufferedFaults", IoMode::kBuffered, false, true},
                    ModelCase{"TmpfsDirectFaults", IoMode::kDirect, false, true}),
    [](const auto& info) { return info.param.name; });

TEST_P(UringModel, HoldsWhatWasCommitted) {
  Live(FromEnvironment("DOVETAIL_MODEL_OPERATIONS", 3000));
  EXPECT_EQ(engine_->in_flight(), 0);
  const auto& counters = *engine_->counters();
  EXPECT_GT(counters.appends, 0);
  if (GetParam().faults) {
    EXPECT_GT(counters.rollbacks, 0);
  }
}

}  // namespace
}  // namespace dovetail::contract
