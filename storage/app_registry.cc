#include "storage/app_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dovetail::storage {
namespace {

constexpr size_t kFolderNameBytesMax = 100;

// An application id is a hostile string: of its bytes only harmless ones are used, and not more
// than a file name can hold. Two ids may give the same name; the generation, which is unique, keeps
// their lives apart.
std::string FolderName(std::string_view app) {
  std::string name = "app-";
  for (const char c : app.substr(0, kFolderNameBytesMax)) {
    const bool harmless = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    name.push_back(harmless ? c : '+');
  }
  return name;
}

std::string LifeFolder(std::string_view app, int32_t shuffle, int64_t generation) {
  return fmt::format("apps/{}/{}.{}", FolderName(app), shuffle, generation);
}

}  // namespace

Result<std::shared_ptr<Shuffle>> AppRegistry::Register(std::string_view app, int32_t shuffle,
                                                       Properties properties) {
  std::unique_lock lock(mutex_);
  auto it = apps_.find(app);
  if (it == apps_.end()) {
    if (apps_.size() >= kAppsMax) return Fail(ErrorCode::kBusy, "applications");
    it = apps_.emplace(std::string(app), std::make_shared<App>(shared_.stats, clock_())).first;
    shared_.stats.registered_apps_total.fetch_add(1);
  }
  App& found = *it->second;
  found.last_seen_.store(clock_());
  if (!properties.empty() && !found.has_properties()) {
    found.properties_ = std::move(properties);
    found.has_properties_.store(true, std::memory_order_release);
  }
  const auto known = found.shuffles_.find(shuffle);
  if (known != found.shuffles_.end()) return known->second;
  if (found.shuffles_.size() >= kShufflesPerAppMax) return Fail(ErrorCode::kBusy, "shuffles");
  const int64_t generation = next_generation_++;
  auto made = std::make_shared<Shuffle>(shared_, generation, LifeFolder(app, shuffle, generation));
  found.shuffles_.emplace(shuffle, made);
  shared_.stats.registered_shuffles_total.fetch_add(1);
  return made;
}

Result<AppRegistry::Found> AppRegistry::Find(std::string_view app, int32_t shuffle) {
  std::shared_lock lock(mutex_);
  const auto it = apps_.find(app);
  if (it == apps_.end()) return Fail(ErrorCode::kNotFound, "app");
  it->second->last_seen_.store(clock_());
  const auto found = it->second->shuffles_.find(shuffle);
  if (found == it->second->shuffles_.end()) return Fail(ErrorCode::kNotFound, "shuffle");
  return Found{it->second, found->second};
}

Result<std::shared_ptr<App>> AppRegistry::FindApp(std::string_view app) {
  std::shared_lock lock(mutex_);
  const auto it = apps_.find(app);
  if (it == apps_.end()) return Fail(ErrorCode::kNotFound, "app");
  it->second->last_seen_.store(clock_());
  return it->second;
}

std::shared_ptr<Shuffle> AppRegistry::TakeShuffle(std::string_view app, int32_t shuffle) {
  std::unique_lock lock(mutex_);
  const auto it = apps_.find(app);
  if (it == apps_.end()) return nullptr;
  it->second->last_seen_.store(clock_());
  auto node = it->second->shuffles_.extract(shuffle);
  return node.empty() ? nullptr : std::move(node.mapped());
}

void AppRegistry::MoveShuffles(App& app, std::vector<std::shared_ptr<Shuffle>>& into) {
  for (auto& entry : app.shuffles_) into.push_back(std::move(entry.second));
  app.shuffles_.clear();
}

std::vector<std::shared_ptr<Shuffle>> AppRegistry::TakeApp(std::string_view app) {
  std::vector<std::shared_ptr<Shuffle>> taken;
  std::unique_lock lock(mutex_);
  const auto it = apps_.find(app);
  if (it == apps_.end()) return taken;
  MoveShuffles(*it->second, taken);
  apps_.erase(it);
  return taken;
}

std::vector<std::shared_ptr<Shuffle>> AppRegistry::TakeExpired(TimePoint before) {
  std::vector<std::shared_ptr<Shuffle>> taken;
  std::unique_lock lock(mutex_);
  for (auto it = apps_.begin(); it != apps_.end();) {
    if (it->second->last_seen_.load() >= before) {
      ++it;
      continue;
    }
    MoveShuffles(*it->second, taken);
    it = apps_.erase(it);
    shared_.stats.expired_apps_total.fetch_add(1);
  }
  return taken;
}

std::vector<std::shared_ptr<Shuffle>> AppRegistry::TakeAll() {
  std::vector<std::shared_ptr<Shuffle>> taken;
  std::unique_lock lock(mutex_);
  for (auto& entry : apps_) MoveShuffles(*entry.second, taken);
  apps_.clear();
  return taken;
}

std::vector<std::shared_ptr<Shuffle>> AppRegistry::AllShuffles() const {
  std::vector<std::shared_ptr<Shuffle>> all;
  std::shared_lock lock(mutex_);
  for (const auto& app : apps_) {
    for (const auto& entry : app.second->shuffles_) all.push_back(entry.second);
  }
  return all;
}

bool AppRegistry::AnyShuffle() const {
  std::shared_lock lock(mutex_);
  return std::ranges::any_of(apps_, [](const auto& app) { return !app.second->shuffles_.empty(); });
}

}  // namespace dovetail::storage
