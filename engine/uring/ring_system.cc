#include "engine/uring/ring_system.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace dovetail::engine {

int RingSystem::Setup(unsigned entries, io_uring& ring, io_uring_params& params) {
  return io_uring_queue_init_params(entries, &ring, &params);
}

bool RingSystem::Offers(io_uring& ring, int opcode) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool offered = io_uring_opcode_supported(probe, opcode) != 0;
  io_uring_free_probe(probe);
  return offered;
}

int RingSystem::Enter(io_uring& ring, bool wait, __kernel_timespec* timeout) {
  if (!wait) {
    // Also runs what a ring of DEFER_TASKRUN has put off.
    return io_uring_submit_and_get_events(&ring);
  }
  if (timeout == nullptr) return io_uring_submit_and_wait(&ring, 1);
  io_uring_cqe* ignored = nullptr;
  return io_uring_submit_and_wait_timeout(&ring, &ignored, 1, timeout, nullptr);
}

size_t RingSystem::Reap(io_uring& ring, std::span<Completion> out) {
  std::array<io_uring_cqe*, 64> entries{};
  const auto most = static_cast<unsigned>(std::min(out.size(), entries.size()));
  const unsigned count = io_uring_peek_batch_cqe(&ring, entries.data(), most);
  for (unsigned i = 0; i < count; ++i) {
    out[i] = {.user_data = entries[i]->user_data, .result = entries[i]->res};
  }
  io_uring_cq_advance(&ring, count);
  return count;
}

int RingSystem::RegisterFiles(io_uring& ring, unsigned count) {
  // Not by the call for sparse tables, which is from 5.19.
  const std::vector<int> empty(count, -1);
  return io_uring_register_files(&ring, empty.data(), count);
}

int RingSystem::UpdateFile(io_uring& ring, unsigned place, int fd) {
  const int result = io_uring_register_files_update(&ring, place, &fd, 1);
  return result < 0 ? result : 0;
}

int RingSystem::RegisterBuffers(io_uring& ring, std::span<const iovec> buffers) {
  return io_uring_register_buffers(&ring, buffers.data(), static_cast<unsigned>(buffers.size()));
}

int RingSystem::LimitWorkers(io_uring& ring, unsigned files, unsigned pipes) {
  std::array<unsigned, 2> limits{files, pipes};
  return io_uring_register_iowq_max_workers(&ring, limits.data());
}

int RingSystem::Wake(int event_fd) {
  const uint64_t one = 1;
  return write(event_fd, &one, sizeof(one)) < 0 ? -errno : 0;
}

}  // namespace dovetail::engine
