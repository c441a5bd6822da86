// What disks do to the store, and for how long.
#include <algorithm>
#include <array>
#include <cerrno>

#include "tests/sim/model.h"

namespace dovetail::sim {

using fakes::Call;

void Model::ChangeFaults() {
  const auto disk = static_cast<int>(random_.Below(World::kDisks));
  BreakDisk(disk);
  static constexpr int64_t kSteps[] = {5, 20, 60, 60, 200};
  int64_t steps = random_.Of(kSteps);
  if (random_.OneIn(150)) steps = 3000;  // down for long
  if (steps == 3000) Met("disks down for long");
  healed_at_[disk] = std::max(healed_at_[disk], step_ + steps);
}

void Model::BreakDisk(int disk) {
  const int64_t kind = random_.Below(10);
  if (kind < 5) return BreakAppends(disk);
  if (kind < 8) return BreakOthers(disk);
  HangDisk(disk);
}

void Model::BreakAppends(int disk) {
  fakes::FaultEngine& faults = world_.faults(disk);
  static constexpr int kErrors[] = {ENOSPC, EIO, EDQUOT, EROFS, ENOMEM};
  static constexpr int64_t kAfter[] = {0, 1, 63, 64, 104, 4096, 20'000, 1 << 20};
  const int error = random_.Of(kErrors);
  const int64_t kind = random_.Below(10);
  if (kind < 5) {
    const int64_t after_bytes = random_.Of(kAfter);
    faults.FailNext(Call::kAppend, error, after_bytes, random_.OneIn(4));
  } else if (kind < 7) {
    faults.FailAll(Call::kAppend, error);
  } else if (kind < 9) {
    faults.SetSpace(random_.Between(0, 60'000));
  } else {
    fakes::MemDisk& files = world_.disk(disk);
    files.SetCapacity(files.used_bytes() + random_.Between(1, 300'000));
  }
}

void Model::BreakOthers(int disk) {
  fakes::FaultEngine& faults = world_.faults(disk);
  static constexpr Call kCallsThatFail[] = {Call::kOpen,         Call::kOpen,     Call::kReserve,
                                            Call::kReserve,      Call::kTruncate, Call::kRemove,
                                            Call::kRemoveFolder, Call::kSpace};
  static constexpr int kErrors[] = {EIO, EMFILE, ENOSPC};
  const Call call = random_.Of(kCallsThatFail);
  int error = random_.Of(kErrors);
  if (error == ENOSPC && call != Call::kOpen && call != Call::kReserve) error = EIO;
  if (call == Call::kRemove || call == Call::kRemoveFolder) Met("removals that fail");
  if (random_.OneIn(3)) {
    faults.FailAll(call, error);
  } else {
    faults.FailNext(call, error);
  }
}

void Model::HangDisk(int disk) {
  static constexpr Call kCallsThatHang[] = {Call::kAppend, Call::kAppend,  Call::kAppend,
                                            Call::kOpen,   Call::kReserve, Call::kRead,
                                            Call::kSpace,  Call::kRemove};
  world_.faults(disk).HangAll(random_.Of(kCallsThatHang));
  Met("hangs");
}

void Model::HealSome() {
  for (int disk = 0; disk < World::kDisks; ++disk) {
    if (healed_at_[disk] == 0 || healed_at_[disk] > step_) continue;
    world_.Heal(disk);
    healed_at_[disk] = 0;
  }
}

void Model::HealAll() {
  for (int disk = 0; disk < World::kDisks; ++disk) {
    world_.Heal(disk);
    healed_at_[disk] = 0;
  }
}

// Reads fail: only here, so that everywhere else "lost" is a fault of the store.
void Model::LoseSomething() {
  const LifeRef life = AnyLife();
  if (!life) return;
  HealAll();
  world_.RunAll();
  FinishReads();
  auto at = life->partitions.begin();
  std::advance(at, random_.Below(static_cast<int64_t>(life->partitions.size())));
  static constexpr int kErrors[] = {EIO, EIO, ENOMEM};
  const int error = random_.Of(kErrors);
  for (int disk = 0; disk < World::kDisks; ++disk) {
    world_.faults(disk).FailAll(Call::kRead, error);
  }
  ReadPartition(life, at->first, {.may_lose = true, .data_bytes = random_.Between(100, 20'000)});
  HealAll();
  world_.RunAll();
}

void Model::CountStates() {
  for (const auto& disk : world_.store().disks()) {
    if (disk->full()) Met("full disks");
    if (disk->broken()) Met("broken disks");
    if (disk->slow()) Met("slow disks");
    if (disk->busy()) Met("busy disks");
  }
  if (!world_.store().EnoughDisks()) Met("not enough disks");
}

}  // namespace dovetail::sim
