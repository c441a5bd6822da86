#include "tests/sim/world.h"

#include <limits>
#include <utility>

namespace dovetail::sim {

storage::StoreOptions World::Draw(Random& random) {
  const auto one_of = [&random](std::vector<int64_t> values) { return random.Of(values); };
  storage::StoreOptions options;
  options.memory.capacity_bytes = one_of({192 << 10, 256 << 10, 384 << 10});
  options.memory.require_wait_ms = 0;
  options.memory.read_wait_ms = 0;
  options.memory.read_bytes_max = one_of({24 << 10, 96 << 10, 512 << 10});
  options.memory.report_bytes_max = one_of({1 << 10, 4 << 10});
  options.local_file.data_paths = {"/disk0", "/disk1"};
  options.local_file.direct_io_append_enable = random.OneIn(2);
  options.local_file.flush_group_bytes_max = one_of({8 << 10, 32 << 10, 64 << 10});
  options.local_file.flush_bytes_in_flight_max = one_of({32 << 10, 128 << 10, 1 << 20});
  options.local_file.segment_bytes_max = one_of({24 << 10, 64 << 10, 128 << 10});
  options.local_file.index_cache_bytes_max = one_of({3 << 10, 12 << 10, 32 << 10});
  options.hybrid.memory_spill_high_watermark = one_of({5, 8}) / 10.0;
  options.hybrid.memory_spill_low_watermark = one_of({1, 3}) / 10.0;
  options.hybrid.memory_single_buffer_max_spill_size = one_of({0, 12 << 10});
  return options;
}

World::World(Random& random) : options_(Draw(random)) {
  executor_.Stop();
  ticker_.Stop();
  std::vector<std::unique_ptr<engine::Engine>> engines;
  for (int i = 0; i < kDisks; ++i) {
    const auto shards = static_cast<int>(random.Between(1, 2));
    memory_.push_back(std::make_unique<fakes::MemEngine>(
        fakes::MemOptions{.shards = shards, .stepped = true, .clock = [this] { return now_; }}));
    auto faults = std::make_unique<fakes::FaultEngine>(
        *memory_.back(),
        fakes::FaultOptions{.seed = random.Next(), .clock = [this] { return now_; }});
    faults_.push_back(faults.get());
    engines.push_back(std::move(faults));
  }
  store_ = std::make_unique<storage::ShuffleStore>(
      options_, arena_, executor_, ticker_, [this] { return now_; }, std::move(engines));
}

World::~World() { store_->Close(); }

void World::RunSome(Random& random, int64_t things) {
  for (int64_t i = 0; i < things; ++i) {
    const auto first = static_cast<int>(random.Below(kDisks));
    if (!faults(first).RunOne() && !faults((first + 1) % kDisks).RunOne()) return;
  }
}

bool World::RunAll() {
  bool ran = false;
  // What one disk completes may begin something on the other.
  for (bool again = true; again;) {
    again = false;
    for (fakes::FaultEngine* faults : faults_) again = faults->RunAll() || again;
    ran = ran || again;
  }
  return ran;
}

void World::Heal(int disk) {
  this->disk(disk).SetCapacity(std::numeric_limits<int64_t>::max());
  faults(disk).Heal();
}

}  // namespace dovetail::sim
