// The memory read of ShuffleStore: how much will the answer be, a share of the read budget for it,
// then the answer.
#include <utility>

#include "storage/shuffle_store.h"

namespace dovetail::storage {
namespace {

Partition::PageRequest PageOf(const MemoryReadRequest& request, int64_t bytes_hard_max) {
  return {.last_block_id = request.last_block_id,
          .bytes_soft_max = request.bytes_soft_max,
          .bytes_hard_max = bytes_hard_max,
          .filter = request.filter.get()};
}

MemoryAnswer EmptyAnswer() {
  MemoryAnswer answer;
  answer.page.is_end = true;
  return answer;
}

}  // namespace

void ShuffleStore::ReadMemory(MemoryReadRequest request, MemoryDone done) {
  Result<FoundPartition> found = FindPartition(request.app, request.shuffle, request.partition);
  if (!found) return done(std::unexpected(found.error()));
  if (request.filter) stats_.filtered_memory_reads_total.fetch_add(1);
  ReadPage(std::move(found->shuffle), std::move(request), std::move(done));
}

void ShuffleStore::ReadPage(std::shared_ptr<Shuffle> shuffle, MemoryReadRequest request,
                            MemoryDone done) {
  const Partition* partition = shuffle->Find(request.partition);
  const int64_t bytes = partition ? partition->PageBytes(PageOf(request, INT64_MAX)) : 0;
  if (bytes == 0) {
    // Empty because the shuffle ended a moment ago is not the same as empty.
    if (shuffle->gate().closed()) return done(Fail(ErrorCode::kNotFound, "shuffle"));
    return done(EmptyAnswer());
  }
  read_budget_.Acquire(
      bytes, [this, shuffle = std::move(shuffle), request = std::move(request),
              done = std::move(done)](Result<std::shared_ptr<ReadGrant>> grant) mutable {
        if (!grant) {
          if (grant.error().code == ErrorCode::kNoBuffer) stats_.read_no_buffer_total.fetch_add(1);
          return done(std::unexpected(grant.error()));
        }
        AnswerRead(shuffle, std::move(request), std::move(*grant), std::move(done));
      });
}

// Nothing was referenced while the call waited; the page is taken now and stays within what was
// granted.
void ShuffleStore::AnswerRead(const std::shared_ptr<Shuffle>& shuffle, MemoryReadRequest request,
                              std::shared_ptr<ReadGrant> grant, MemoryDone done) {
  MemoryAnswer answer;
  answer.page = shuffle->Find(request.partition)->ReadPage(PageOf(request, grant->bytes()));
  if (shuffle->gate().closed()) return done(Fail(ErrorCode::kNotFound, "shuffle"));
  if (answer.page.blocks.empty() && !answer.page.is_end) {
    // What is first now is larger than what was first then. An empty page would mean the end: ask
    // again.
    grant.reset();
    return ReadPage(shuffle, std::move(request), std::move(done));
  }
  stats_.memory_read_blocks_total.fetch_add(static_cast<int64_t>(answer.page.blocks.size()));
  stats_.memory_read_bytes_total.fetch_add(answer.page.data_bytes);
  answer.grant = std::move(grant);
  done(std::move(answer));
}

}  // namespace dovetail::storage
