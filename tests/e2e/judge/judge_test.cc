// Somebody else's judge on the engines: fio writes files of a mount that is an engine (engine_fs),
// each block with its checksum, reads them back and verifies them; after a remount, with the other
// engine below, it verifies them again. What the engine counted shows that it was met.
//
//   DOVETAIL_JUDGE_SCALE=20: files so many times as large.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/config/scratch_folder.h"
#include "tests/e2e/disk/fuse_mount.h"
#include "tests/e2e/disk/mounts.h"
#include "tests/e2e/process/subprocess.h"

namespace dovetail::e2e {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFio = "/usr/bin/fio";
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kDiskBytes = 640 * kMiB;  // an ext4 of usual blocks
constexpr std::chrono::seconds kRunTime{60};
constexpr std::chrono::seconds kUnmountTime{30};

// A job of fio.
struct Job {
  const char* name;
  // A multiple of the block size where there is one: fio makes a file anew that is shorter.
  int64_t bytes;
  const char* options;
  // fio finds its blocks again in another run. Those of drawn odd sizes it does not, on any file
  // system, and of those that it verified while it wrote it reads none.
  bool verified_again;
};

constexpr Job kJobs[] = {
    // At the end of files with space reserved ahead, as the segment store writes.
    {"appends", 32 * kMiB, "rw=write\nbs=1m\nnrfiles=4\niodepth=8\nfallocate=keep\n", true},
    // In the middle of a file, many at once.
    {"overwrites", 24 * kMiB,
     "rw=randwrite\nbssplit=4k/40:12k/20:64k/20:512k/20\niodepth=16\nfallocate=native\n", true},
    // No multiples of a page or a sector.
    {"odd", 500 * 12'345, "rw=randwrite\nbs=12345\niodepth=8\nfallocate=none\n", true},
    {"odd_appends", 16 * 999'999, "rw=write\nbs=999999\niodepth=4\nfallocate=none\n", true},
    // Read back while others are written.
    {"ragged", 12 * kMiB,
     "rw=randwrite\nbsrange=700-70000\nbs_unaligned=1\niodepth=8\nverify_backlog=32\n"
     "fallocate=none\n",
     false},
    {"ragged_appends", 4 * kMiB,
     "rw=write\nbsrange=512-9000\nbs_unaligned=1\niodepth=8\nfallocate=none\n", false},
};

struct JudgeCase {
  std::string name;
  std::string engine;
  std::string writes;
  std::string reads;
  bool in_memory = false;
  bool faults = false;
  bool few_descriptors = false;

  friend std::ostream& operator<<(std::ostream& out, const JudgeCase& judged) {
    return out << judged.name;
  }
};

// The counters of engine_fs, by name.
class Summary {
 public:
  explicit Summary(std::string text) : text_(std::move(text)) {
    std::istringstream words(text_);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals != std::string::npos) {
        values_[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }

  int64_t operator[](const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) {
      ADD_FAILURE() << "no " << key << " in: " << text_;
      return -1;
    }
    return std::atoll(found->second.c_str());
  }
  bool Has(const std::string& key, const std::string& part) const {
    const auto found = values_.find(key);
    return found != values_.end() && found->second.find(part) != std::string::npos;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::map<std::string, std::string> values_;
};

int64_t Scale() {
  const char* text = std::getenv("DOVETAIL_JUDGE_SCALE");
  return text != nullptr ? std::max<int64_t>(1, std::atoll(text)) : 1;
}

int64_t BytesOf(bool only_verified_again) {
  int64_t bytes = 0;
  for (const Job& job : kJobs) {
    if (job.verified_again || !only_verified_again) bytes += job.bytes * Scale();
  }
  return bytes;
}

// Blocks of one size do not fill a file to its end, and random ones meet.
int64_t MostOf(int64_t bytes) { return bytes / 100 * 95; }

std::string JobFile(const std::string& folder) {
  std::string text = fmt::format(
      "[global]\ndirectory={}\nioengine=libaio\ndirect=1\nthread=1\nverify=crc32c\n"
      "verify_fatal=1\nverify_state_save=0\ndo_verify=1\n",
      folder);
  for (const Job& job : kJobs) {
    text += fmt::format("\n[{}]\nsize={}\n{}", job.name, job.bytes * Scale(), job.options);
  }
  return text;
}

template <class Look>
void ForEachFile(const std::string& folder, Look look) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int file = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0) << entry.path();
    look(file, static_cast<size_t>(entry.file_size()));
    close(file);
  }
}

// So that what is read next comes from the disk.
void ForgetPages(const std::string& folder) {
  ForEachFile(folder, [](int file, size_t) {
    EXPECT_EQ(fdatasync(file), 0);
    EXPECT_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  });
}

// Of the files in the folder, in the page cache.
int64_t CachedPages(const std::string& folder) {
  int64_t cached = 0;
  ForEachFile(folder, [&](int file, size_t bytes) {
    if (bytes == 0) return;
    void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    EXPECT_EQ(mincore(mapped, bytes, pages.data()), 0);
    for (const unsigned char flags : pages) cached += flags & 1;
    munmap(mapped, bytes);
  });
  return cached;
}

class JudgeTest : public testing::TestWithParam<JudgeCase> {
 protected:
  // False: the test is to be skipped.
  bool MakeDisk() {
    why_not_ = EnterOwnMounts();
    if (!why_not_.empty()) return false;
    if (access(kFio, X_OK) != 0) {
      why_not_ = fmt::format("there is no {}: install the package fio", kFio);
      return false;
    }
    const std::string path = scratch_.path() + "/disk";
    const int64_t bytes = kDiskBytes * Scale();
    disk_ = GetParam().in_memory ? Mount::Tmpfs(path, bytes, why_not_)
                                 : Mount::Ext4(path, bytes, why_not_);
    if (disk_ == nullptr) return false;
    fs::create_directory(files());
    return true;
  }
  std::string files() const { return disk_->folder() + "/files"; }

  bool MountEngine(const std::string& engine, bool faults) {
    const JudgeCase& judged = GetParam();
    const std::string folder = scratch_.path() + "/mount";
    std::vector<std::string> server{DOVETAIL_BINARY_DIR "/bin/engine_fs",
                                    files(),
                                    folder,
                                    "--engine=" + engine,
                                    "--writes=" + judged.writes,
                                    "--reads=" + judged.reads};
    if (faults) server.emplace_back("--faults=17");
    if (judged.few_descriptors) server.emplace_back("--descriptors=4");
    mount_ = FuseMount::Make(server, folder, why_not_);
    // That is no want of FUSE.
    EXPECT_EQ(why_not_.find("engine_fs: "), std::string::npos) << why_not_;
    return mount_ != nullptr;
  }

  void RunFio(const std::vector<std::string>& more) {
    std::vector<std::string> argv{kFio, scratch_.Write("jobs.fio", JobFile(mount_->folder()))};
    argv.insert(argv.end(), more.begin(), more.end());
    Subprocess fio(argv);
    const std::optional<int> code = fio.Wait(kRunTime * Scale());
    // Nor would it end when killed, with calls under way.
    if (!code) mount_->KillServer();
    const bool passed = code == 0;
    EXPECT_TRUE(passed) << (code ? fmt::format("fio ended with {}", *code) : "fio does not end")
                        << "\n"
                        << fio.Err() << fio.Out() << mount_->Err();
  }

  // What the engine did; an end without faults is expected.
  Summary Unmount() {
    const std::optional<int> code = mount_->Unmount(kUnmountTime * Scale());
    EXPECT_EQ(code, 0) << mount_->Err();
    Summary summary(mount_->Out());
    fmt::print("{}", summary.text());
    mount_.reset();
    EXPECT_EQ(summary["failed"], 0);
    EXPECT_EQ(summary["rollbacks"], 0);
    EXPECT_EQ(summary["direct_refused"], 0);
    return summary;
  }

  void ExpectWritten(const Summary& summary) const {
    EXPECT_GE(summary["written_bytes"], MostOf(BytesOf(false)));
    EXPECT_GE(summary["read_bytes"], summary["written_bytes"]);
    EXPECT_GE(summary["engine_append_bytes"], summary["written_bytes"]);
    ExpectReadThroughEngine(summary);
    EXPECT_GT(summary["reserves"], 0);
    EXPECT_GT(summary["alignment"], GetParam().writes == "direct" ? 1 : 0);
    EXPECT_GE(summary["at_once_max"], 8);
    EXPECT_EQ(summary["reopened"] > 0, GetParam().few_descriptors);
  }

  void ExpectReadThroughEngine(const Summary& summary) const {
    EXPECT_GE(summary["engine_read_bytes"] + summary["engine_pipe_bytes"], summary["read_bytes"]);
    EXPECT_EQ(summary["engine_pipes"] > 0, GetParam().reads == "mixed");
  }

  // Where this kernel grants them, registered files and memory were used.
  void ExpectRings(const Summary& summary) const {
    EXPECT_TRUE(summary.Has("engine", "io_uring"));
    EXPECT_GE(summary["requests"], summary["engine_appends"] + summary["engine_reads"]);
    if (summary.Has("features", "fixed_files")) {
      const int64_t for_files = summary["requests"] - summary["splices"];
      if (GetParam().faults || GetParam().reads == "mixed") {
        EXPECT_GT(summary["fixed_file_requests"], 0);
      } else {
        EXPECT_EQ(summary["fixed_file_requests"], for_files);
      }
    }
    if (summary.Has("features", "fixed_buffers")) {
      EXPECT_EQ(summary["fixed_buffer_requests"] > 0, GetParam().writes == "direct");
    }
    if (GetParam().faults) {
      EXPECT_GT(summary["continued"], 100);
      EXPECT_GT(summary["retries"], 0);
    }
  }

  // Nothing of a file is in the page cache if, and only if, it was never asked to take part. (It
  // finishes direct reads that end where direct I/O cannot go on.)
  void ExpectPages() const {
    const bool only_direct = GetParam().writes == "direct" && GetParam().reads == "direct";
    if (only_direct && GetParam().faults) return;
    const int64_t cached = CachedPages(files());
    EXPECT_EQ(cached == 0, only_direct) << cached;
  }

  const config::ScratchFolder scratch_;
  std::string why_not_;
  std::unique_ptr<Mount> disk_;
  std::unique_ptr<FuseMount> mount_;
};

TEST_P(JudgeTest, FioFindsEveryByteAgain) {
  const JudgeCase& judged = GetParam();
  if (!MakeDisk() || !MountEngine(judged.engine, judged.faults)) GTEST_SKIP() << why_not_;
  RunFio({});
  const Summary written = Unmount();
  if (HasFailure()) return;
  ExpectWritten(written);
  if (judged.engine == "io_uring") ExpectRings(written);
  ExpectPages();

  ForgetPages(files());
  ASSERT_TRUE(MountEngine(judged.engine == "pool" ? "io_uring" : "pool", /*faults=*/false));
  std::vector<std::string> again{"--verify_only"};
  for (const Job& job : kJobs) {
    if (job.verified_again) again.push_back(fmt::format("--section={}", job.name));
  }
  RunFio(again);
  const Summary verified = Unmount();
  EXPECT_EQ(verified["engine_appends"], 0);
  EXPECT_GE(verified["read_bytes"], MostOf(BytesOf(true)));
  ExpectReadThroughEngine(verified);
}

INSTANTIATE_TEST_SUITE_P(
    Engines, JudgeTest,
    testing::Values(
        JudgeCase{
            .name = "IoUringDirect", .engine = "io_uring", .writes = "direct", .reads = "direct"},
        JudgeCase{.name = "IoUringBuffered",
                  .engine = "io_uring",
                  .writes = "buffered",
                  .reads = "buffered"},
        JudgeCase{.name = "PoolDirect", .engine = "pool", .writes = "direct", .reads = "direct"},
        JudgeCase{
            .name = "PoolBuffered", .engine = "pool", .writes = "buffered", .reads = "buffered"},
        JudgeCase{.name = "IoUringBufferedInMemory",
                  .engine = "io_uring",
                  .writes = "buffered",
                  .reads = "mixed",
                  .in_memory = true},
        JudgeCase{.name = "PoolBufferedInMemory",
                  .engine = "pool",
                  .writes = "buffered",
                  .reads = "mixed",
                  .in_memory = true},
        JudgeCase{.name = "IoUringDirectAndThroughThePageCache",
                  .engine = "io_uring",
                  .writes = "direct",
                  .reads = "mixed",
                  .few_descriptors = true},
        JudgeCase{.name = "IoUringDirectOnShortRequests",
                  .engine = "io_uring",
                  .writes = "direct",
                  .reads = "direct",
                  .faults = true},
        JudgeCase{.name = "IoUringBufferedOnShortRequests",
                  .engine = "io_uring",
                  .writes = "buffered",
                  .reads = "buffered",
                  .faults = true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dovetail::e2e
