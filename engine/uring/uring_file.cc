#include "engine/uring/uring_file.h"

#include <utility>

#include "engine/uring/uring_shard.h"

namespace dovetail::engine {

UringFile::UringFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened,
                     std::shared_ptr<const ShardList> shards, int shard)
    : DiskFile(std::move(core), std::move(path), opened),
      shards_(std::move(shards)),
      shard_(shard),
      places_(shards_->size()) {}

UringFile::~UringFile() {
  for (size_t shard = 0; shard < places_.size(); ++shard) {
    std::vector<int> places;
    for (const int place : {places_[shard].buffered, places_[shard].direct}) {
      if (place >= 0) places.push_back(place);
    }
    if (!places.empty()) (*shards_)[shard]->EmptyPlaces(std::move(places));
  }
}

void UringFile::Use(io_uring_sqe& sqe, int fd, ShardTools& tools) {
  Places& places = places_[static_cast<size_t>(tools.shard)];
  int& place = fd == direct() ? places.direct : places.buffered;
  if (place == kUnknown) {
    place = tools.files.Fill(fd);
    if (place < 0) place = kNone;
  }
  if (place < 0) return;
  sqe.fd = place;
  sqe.flags |= IOSQE_FIXED_FILE;
  tools.ring_counters.fixed_file_requests.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace dovetail::engine
