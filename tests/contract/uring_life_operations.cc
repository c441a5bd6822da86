// The half of a life that begins operations and looks at their results.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/errno.h"
#include "tests/contract/uring_life.h"

namespace dovetail::contract {

using engine::IoMode;

namespace {

constexpr int64_t kFileBytesMax = 2 << 20;
constexpr int64_t kPieceBytes = 1 << 20;  // what the engine cuts large transfers into
// A pipe has 16 places; one range takes one of them for each page, and one more for each piece that
// a splice was short by.
constexpr int64_t kPipeBytesMax = 40 << 10;
constexpr size_t kAlignment = 4096;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

int64_t UringLife::DrawSize() {
  const uint64_t kind = Draw(200);
  const uint64_t most = kind < 110 ? 6000 : kind < 188 ? 40'000 : kind < 198 ? 300'000 : 2'500'000;
  return static_cast<int64_t>(1 + Draw(most));
}

TimePoint UringLife::DrawDeadline() {
  if (!OneIn(20)) return TimePoint::max();
  const auto now = std::chrono::steady_clock::now();
  // What a race decides does not replay.
  if (options_.rounds) return now - std::chrono::microseconds(1);
  return now + std::chrono::microseconds(Draw(2000));
}

bool UringLife::BeginSomething(LifeFileRef& file) {
  const uint64_t what = Draw(1000);
  Note(what);
  if (file->idle() && file->size() > kFileBytesMax) {
    Remove(file);
    return true;
  }
  if (what < 5) {
    Remove(file);
    return true;
  }
  if (what < 35) {
    if (!file->idle()) return false;
    if (what < 15) {
      OpenAgain(*file);
    } else {
      const int64_t unit = options_.mode == IoMode::kDirect ? file->file->direct_alignment() : 1;
      const auto size = static_cast<int64_t>(Draw(file->committed.size() + 1));
      Cut(*file, size - size % unit);
    }
    return true;
  }
  if (what < 450) {
    if (file->appending || file->guarded) return false;
    BeginAppend(file);
  } else if (what < 500) {
    BeginReserve(file);
  } else if (what < 530) {
    if (file->appending || file->guarded) return false;
    what < 520 ? BeginReadPastEnd(file) : BeginPipe(file, /*past_end=*/true);
  } else if (file->size() == 0) {
    return false;
  } else if (what < 850) {
    BeginRead(file);
  } else {
    BeginPipe(file, /*past_end=*/false);
  }
  return true;
}

bool UringLife::IsCommitted(const LifeFile& file, int64_t offset, const Bytes& seen,
                            int64_t length) const {
  return static_cast<int64_t>(seen.size()) == length &&
         std::equal(seen.begin(), seen.end(), file.committed.begin() + offset);
}

void UringLife::LookAtFailure(const Asked& asked, const Error& error) {
  Meet(std::string(asked.what) + ": failed");
  const std::string said = std::string(asked.what) + " " + asked.file->name + ": " + error.where +
                           ", " + std::strerror(error.os_error) + ", seed " + std::to_string(seed_);
  if (error.code == ErrorCode::kTimeout) {
    Meet(std::string(asked.what) + ": too late");
    EXPECT_TRUE(asked.limited) << said;
  } else if (error.code == ErrorCode::kNotFound) {
    EXPECT_TRUE(asked.file->removed) << said;
  } else if (error.code == ErrorCode::kNoSpace) {
    EXPECT_EQ(error.os_error, ENOSPC) << said;
    EXPECT_TRUE(options_.faults) << said;
  } else {
    EXPECT_EQ(error.code, ErrorCode::kIo) << said;
    EXPECT_NE(error.os_error, ENOSPC) << said;
    EXPECT_TRUE(options_.faults) << said;
  }
}

// Bytes of their own, so that a tool sees who uses them too long.
SliceChain UringLife::DrawBytes(const LifeFile& file, Bytes& copy) {
  const bool direct = options_.mode == IoMode::kDirect;
  const int64_t unit = direct ? file.file->direct_alignment() : 1;
  const auto size = static_cast<size_t>(RoundUp(DrawSize(), unit));
  const auto from = pool_.begin() + static_cast<int64_t>(Draw(pool_.size() - size));
  copy.assign(from, from + static_cast<int64_t>(size));
  const bool aligned = direct && OneIn(3);
  const std::shared_ptr<std::byte> owned(
      static_cast<std::byte*>(std::aligned_alloc(
          kAlignment, static_cast<size_t>(RoundUp(static_cast<int64_t>(size), kAlignment)))),
      std::free);
  std::memcpy(owned.get(), copy.data(), size);
  size_t piece = size;
  if (OneIn(2)) piece = aligned ? kAlignment * (1 + Draw(4)) : 1 + Draw(3000);
  SliceChain chain;
  for (size_t at = 0; at < size; at += piece) {
    chain.push_back({owned, {owned.get() + at, std::min(piece, size - at)}});
  }
  if (aligned) Meet("appends of aligned memory");
  if (chain.size() > 1024) Meet("appends of more pieces than a call takes");
  if (static_cast<int64_t>(size) > kPieceBytes) Meet("appends of several requests");
  return chain;
}

void UringLife::BeginAppend(const LifeFileRef& file) {
  auto bytes = std::make_shared<Bytes>();
  SliceChain data = DrawBytes(*file, *bytes);
  Note(bytes->size());
  const TimePoint deadline = DrawDeadline();
  const bool limited = deadline != TimePoint::max();
  file->appending = true;
  const uint64_t number = BeginOne();
  engine_->Append({.file = file->file,
                   .offset = file->size(),
                   .data = std::move(data),
                   .mode = options_.mode,
                   .deadline = deadline},
                  [this, number, file, bytes, limited](Status status) {
                    Hand(number, [this, file, bytes, limited, status] {
                      LookAtAppend(file, *bytes, limited, status);
                    });
                  });
}

void UringLife::LookAtAppend(const LifeFileRef& file, const Bytes& bytes, bool limited,
                             Status status) {
  file->appending = false;
  // Whether a file whose name is gone is still open is decided by a race.
  if (!file->removed) Note(status.has_value());
  if (status) {
    file->committed.insert(file->committed.end(), bytes.begin(), bytes.end());
    Meet("appends");
  } else {
    ++file->failed_appends;
    LookAtFailure({"append", file, limited}, status.error());
    if (std::string(status.error().where) == "rollback") {
      EXPECT_TRUE(options_.faults) << seed_;
      file->longest = std::max(file->longest, file->size() + static_cast<int64_t>(bytes.size()));
    }
  }
  CheckLength(*file);
}

// Of what is committed now; it stays so while anything is under way.
std::pair<int64_t, int64_t> UringLife::DrawRange(const LifeFile& file, int64_t most) {
  const bool large = OneIn(12);
  const auto offset = static_cast<int64_t>(Draw(file.committed.size()) / (large ? 8 : 1));
  most = large ? most : std::min<int64_t>(most, 9000);
  const int64_t left = std::min(file.size() - offset, most);
  return {offset, static_cast<int64_t>(1 + Draw(static_cast<uint64_t>(left)))};
}

void UringLife::BeginRead(const LifeFileRef& file) {
  const auto [offset, length] = DrawRange(*file, kFileBytesMax * 2);
  const TimePoint deadline = DrawDeadline();
  const bool limited = deadline != TimePoint::max();
  if (length > kPieceBytes) Meet("reads of several requests");
  ++file->others;
  const uint64_t number = BeginOne();
  engine_->Read({.file = file->file,
                 .offset = offset,
                 .length = length,
                 .mode = OneIn(2) ? IoMode::kDirect : IoMode::kBuffered,
                 .deadline = deadline},
                [this, number, file, offset, length, limited](Result<SliceChain> result) {
                  Hand(number, [this, file, offset, length, limited, result = std::move(result)] {
                    --file->others;
                    if (!result) return LookAtFailure({"read", file, limited}, result.error());
                    Meet("reads");
                    EXPECT_TRUE(IsCommitted(*file, offset, Flat(*result), length))
                        << offset << " " << length << " seed " << seed_;
                  });
                });
}

void UringLife::BeginReadPastEnd(const LifeFileRef& file) {
  const auto before = static_cast<int64_t>(Draw(file->committed.size() + 1));
  const auto behind = static_cast<int64_t>(1 + Draw(10'000));
  file->guarded = true;
  const uint64_t number = BeginOne();
  engine_->Read({.file = file->file,
                 .offset = file->size() - before,
                 .length = before + behind,
                 .mode = OneIn(2) ? IoMode::kDirect : IoMode::kBuffered},
                [this, number, file](Result<SliceChain> result) {
                  Hand(number, [this, file, result = std::move(result)] {
                    file->guarded = false;
                    ASSERT_FALSE(result) << "seed " << seed_;
                    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
                    Meet("reads past the end");
                  });
                });
}

void UringLife::BeginPipe(const LifeFileRef& file, bool past_end) {
  auto [offset, length] = past_end ? std::pair(file->size(), int64_t{1} + file->size() % 100)
                                   : DrawRange(*file, kPipeBytesMax);
  const TimePoint deadline = past_end ? TimePoint::max() : DrawDeadline();
  const bool limited = deadline != TimePoint::max();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  ++file->others;
  file->guarded = file->guarded || past_end;
  const uint64_t number = BeginOne();
  const auto look = [this, file, offset = offset, length = length, limited, past_end, in = ends[0],
                     out = ends[1]](Status status) {
    --file->others;
    Bytes seen(kPipeBytesMax + 1);
    const ssize_t got = read(in, seen.data(), seen.size());
    seen.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    close(in);
    close(out);
    if (past_end) {
      file->guarded = false;
      ASSERT_FALSE(status) << "seed " << seed_;
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      EXPECT_TRUE(seen.empty());
      Meet("pipes past the end");
    } else if (!status) {
      LookAtFailure({"pipe", file, limited}, status.error());
    } else {
      Meet("pipes");
      EXPECT_TRUE(IsCommitted(*file, offset, seen, length))
          << offset << " " << length << " seed " << seed_;
    }
  };
  engine_->ToPipe(
      {.file = file->file,
       .offset = offset,
       .length = length,
       .pipe = ends[1],
       .deadline = deadline},
      [this, number, look](Status status) { Hand(number, [look, status] { look(status); }); });
}

void UringLife::BeginReserve(const LifeFileRef& file) {
  const auto end = file->size() + static_cast<int64_t>(Draw(1 << 20));
  // One that meets an append that fails may go with it.
  const bool alone = !file->appending;
  const int64_t failed = file->failed_appends;
  ++file->others;
  file->longest = std::max(file->longest, end);
  const uint64_t number = BeginOne();
  engine_->Reserve(file->file, end, [this, number, file, end, alone, failed](Status status) {
    Hand(number, [this, file, end, alone, failed, status] {
      --file->others;
      if (!status) return LookAtFailure({"reserve", file, false}, status.error());
      Meet("reservations");
      if (!alone || file->appending || file->failed_appends != failed || file->removed) return;
      struct stat facts {};
      ASSERT_EQ(stat((folder_.path() + "/" + file->name).c_str(), &facts), 0);
      EXPECT_GE(facts.st_size, end) << "seed " << seed_;
      EXPECT_GE(facts.st_blocks * 512, end) << "seed " << seed_;
      Meet("reservations that were looked at");
    });
  });
}

}  // namespace dovetail::contract
