#include "engine/uring/uring_file.h"

#include <utility>

#include "engine/uring/uring_shard.h"

namespace dovetail::engine {

UringDescriptors::UringDescriptors(std::shared_ptr<DiskCore> core, const OpenedFile& opened,
                                   std::shared_ptr<const ShardList> shards)
    : Descriptors(std::move(core), opened), shards_(std::move(shards)), places_(shards_->size()) {}

UringDescriptors::~UringDescriptors() {
  for (size_t shard = 0; shard < places_.size(); ++shard) {
    std::vector<int> places;
    for (const int place : {places_[shard].buffered, places_[shard].direct}) {
      if (place >= 0) places.push_back(place);
    }
    if (!places.empty()) (*shards_)[shard]->EmptyPlaces(std::move(places));
  }
}

void UringDescriptors::Use(io_uring_sqe& sqe, int fd, ShardTools& tools) const {
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

UringFile::UringFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened,
                     std::shared_ptr<const ShardList> shards, int shard)
    : DiskFile(core, std::move(path), opened,
               std::make_shared<UringDescriptors>(core, opened, shards)),
      core_(std::move(core)),
      shards_(std::move(shards)),
      shard_(shard) {}

DescriptorsRef UringFile::MakeDescriptors(const OpenedFile& opened) const {
  return std::make_shared<UringDescriptors>(core_, opened, shards_);
}

}  // namespace dovetail::engine
