#include "storage/disk.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "storage/segment_format.h"

namespace dovetail::storage {
namespace {

constexpr char kProbe[] = "probe";

}  // namespace

void Observe(Histogram* histogram, TimePoint started) {
  if (!histogram) return;
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - started;
  histogram->Observe(age.count());
}

Disk::Disk(int index, std::string data_path, std::unique_ptr<engine::Engine> engine,
           const LocalFileStoreOptions& options, Clock clock, std::function<void()> on_usable)
    : index_(index),
      data_path_(std::move(data_path)),
      options_(options),
      clock_(std::move(clock)),
      on_usable_(std::move(on_usable)),
      engine_(std::move(engine)) {}

bool Disk::usable() const { return !full() && !broken() && !slow() && !busy(); }

void Disk::OnAppendFailed(const Error& error, int64_t bytes) {
  stats_.append_failures_total.fetch_add(1);
  if (error.code == ErrorCode::kNoSpace) {
    {
      std::lock_guard lock(mutex_);
      failed_write_bytes_ = bytes;
    }
    if (!full_.exchange(true)) {
      spdlog::warn(
          "data path {} is full (errno {}): it takes no new data until space is free; what "
          "is in memory stays there",
          data_path_, error.os_error);
    }
    return;
  }
  if (error.code == ErrorCode::kShutdown) return;
  if (error.code == ErrorCode::kBusy) {
    if (!busy_.exchange(true)) {
      spdlog::warn(
          "data path {}: no descriptor, memory or place in the queue for a write ({}, errno {}); "
          "tried again in {} s; if this repeats, raise the limit of open files",
          data_path_, error.where, error.os_error, options_.disk_healthy_check_interval_sec);
    }
    return;
  }
  if (!broken_.exchange(true)) {
    const char* advice =
        error.code == ErrorCode::kNotFound
            ? "its folder dovetail was removed under the daemon: restart it"
            : "it is tried again by itself; look at the kernel's log and the path's permissions";
    spdlog::error("data path {} failed a write ({} at {}, errno {}) and takes no new data; {}",
                  data_path_, ToString(error.code), error.where, error.os_error, advice);
  }
}

Disk::Watch::Watch(Disk& disk, std::function<void()> on_slow) : disk_(&disk) {
  std::lock_guard lock(disk.mutex_);
  started_ = disk.in_flight_.emplace(disk.clock_(), std::move(on_slow));
}

Disk::Watch::Watch(Watch&& other) noexcept
    : disk_(std::exchange(other.disk_, nullptr)), started_(other.started_) {}

Disk::Watch::~Watch() {
  if (!disk_) return;
  std::lock_guard lock(disk_->mutex_);
  disk_->in_flight_.erase(started_);
}

engine::IoMode Disk::AppendMode(const engine::File& file) const {
  const bool direct =
      options_.direct_io_append_enable && kGroupAlignment % file.direct_alignment() == 0;
  return direct ? engine::IoMode::kDirect : engine::IoMode::kBuffered;
}

void Disk::CheckAge() {
  std::vector<std::function<void()>> to_tell;
  {
    std::lock_guard lock(mutex_);
    const auto age_max = std::chrono::seconds(options_.io_duration_threshold_sec);
    if (!in_flight_.empty() && clock_() - in_flight_.begin()->first > age_max) {
      for (const auto& [started, on_slow] : in_flight_) to_tell.push_back(on_slow);
    }
  }
  if (to_tell.empty()) return Leave(slow_, "slow");
  if (!slow_.exchange(true)) {
    spdlog::warn(
        "data path {} has not answered for {} s: it takes no new data and no reads until it does",
        data_path_, options_.io_duration_threshold_sec);
  }
  for (const std::function<void()>& on_slow : to_tell) {
    if (on_slow) on_slow();
  }
}

void Disk::AtNextLook(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  at_next_look_.push_back(std::move(task));
}

void Disk::Check() {
  CheckAge();
  Leave(busy_, "busy");
  std::vector<std::function<void()>> due;
  {
    std::lock_guard lock(mutex_);
    due.swap(at_next_look_);
  }
  for (const std::function<void()>& task : due) task();
  // One look at a time: a hung disk must not collect them.
  if (checking_.exchange(true)) return;
  engine_->Space([this, watch = Watch(*this)](Result<engine::SpaceInfo> space) {
    checking_.store(false);
    if (space) OnSpace(*space);
    if (broken_.load()) Probe();
  });
}

void Disk::OnSpace(const engine::SpaceInfo& space) {
  const auto total_bytes = static_cast<double>(space.total_bytes);
  const auto free_bytes = static_cast<double>(space.free_bytes);
  stats_.file_system_bytes.store(space.total_bytes);
  stats_.file_system_free_bytes.store(space.free_bytes);
  if (space.total_bytes <= 0) return;
  const double used = 1.0 - free_bytes / total_bytes;
  double wanted = 0;
  {
    std::lock_guard lock(mutex_);
    wanted = static_cast<double>(failed_write_bytes_);
  }
  // One partition may be larger than a group, and than the disk: it must not keep the others out.
  wanted = std::min({wanted, static_cast<double>(options_.flush_group_bytes_max), total_bytes / 2});
  if (used > options_.disk_high_watermark) {
    if (!full_.exchange(true)) {
      spdlog::warn("data path {} is {:.1f}% full, above disk_high_watermark: it takes no new data",
                   data_path_, used * 100);
    }
    return;
  }
  if (used > options_.disk_low_watermark || free_bytes < wanted || !space.files_left) return;
  {
    std::lock_guard lock(mutex_);
    failed_write_bytes_ = 0;
  }
  Leave(full_, "full");
}

void Disk::Leave(std::atomic<bool>& evidence, const char* name) {
  if (!evidence.exchange(false)) return;
  spdlog::info("data path {} is no longer {}", data_path_, name);
  if (usable() && on_usable_) on_usable_();
}

// Writes, reads back and removes a small file; every step must succeed for the disk to be trusted
// again. The way of the appends: through the page cache a dead device would pass.
void Disk::Probe() {
  engine_->Remove(kProbe, [this](Status) {
    engine_->Open(kProbe, true, [this](Result<engine::FileRef> file) {
      if (file) ProbeFile(*file);
    });
  });
}

void Disk::ProbeFile(const engine::FileRef& file) {
  auto bytes = std::make_shared<std::string>(kGroupAlignment, 'd');
  const ConstBytes view(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
  const engine::IoMode mode = AppendMode(*file);
  engine_->Append({.file = file, .data = {Slice{bytes, view}}, .mode = mode},
                  [this, file, mode](Status written) {
                    if (!written) return;
                    engine_->Read({.file = file, .length = kGroupAlignment, .mode = mode},
                                  [this](Result<SliceChain> read) {
                                    if (!read) return;
                                    Leave(broken_, "broken");
                                    engine_->Remove(kProbe, [](Status) {});
                                  });
                  });
}

}  // namespace dovetail::storage
