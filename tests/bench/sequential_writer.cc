#include "tests/bench/sequential_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/base/check.h"

namespace dovetail::bench {
namespace {

constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kAlignment = 4096;

}  // namespace

Usage WriteSequentially(const std::string& folder, int64_t bytes) {
  const std::string path = folder + "/sequential";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
  DOVETAIL_CHECK(fd >= 0);
  const std::unique_ptr<void, void (*)(void*)> piece(std::aligned_alloc(kAlignment, kPieceBytes),
                                                     std::free);
  std::memset(piece.get(), 'd', kPieceBytes);
  const Stopwatch watch;
  DOVETAIL_CHECK(fallocate(fd, 0, 0, bytes) == 0);
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(kPieceBytes)) {
    DOVETAIL_CHECK(pwrite(fd, piece.get(), kPieceBytes, at) == static_cast<ssize_t>(kPieceBytes));
  }
  const Usage usage = watch.Elapsed();
  close(fd);
  unlink(path.c_str());
  return usage;
}

}  // namespace dovetail::bench
