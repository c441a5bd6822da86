// The applications that are alive here and their shuffles. Keys are the ids as they came (hostile
// strings, compared whole; no parsing, no prefixes).
//
// Every Find refreshes the application's age under the lock that expiry takes exclusively, so an
// application that just made a call is never taken out by an expiry that had looked earlier.
//
// Threads: any. The registry gives shuffles out as shared pointers and never calls into them; who
// takes one out of the registry ends its life (closes the gate).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "storage/shuffle.h"
#include "storage/stats.h"

namespace dovetail::storage {

using Properties = std::map<std::string, std::string>;

class App {
 public:
  App(StoreStats& stats, TimePoint now) : counted_(stats.apps), last_seen_(now) {}

  // Properties of the first registration that had any (clients from 0.10 on send them).
  bool has_properties() const { return has_properties_.load(std::memory_order_acquire); }

 private:
  friend class AppRegistry;

  Counted counted_;
  std::atomic<TimePoint> last_seen_;
  std::atomic<bool> has_properties_{false};
  Properties properties_;  // written under the registry's exclusive lock
  std::map<int32_t, std::shared_ptr<Shuffle>> shuffles_;  // guarded by the registry's lock
};

class AppRegistry {
 public:
  // Live applications, and shuffles of one application, that a hostile client can make.
  static constexpr size_t kAppsMax = 100'000;
  static constexpr size_t kShufflesPerAppMax = 1'000'000;

  AppRegistry(const Shuffle::Shared& shared, Clock clock) : shared_(shared), clock_(clock) {}

  // The app's life and the shuffle's, begun if they are not there. kBusy past the limits.
  Result<std::shared_ptr<Shuffle>> Register(std::string_view app, int32_t shuffle,
                                            Properties properties);

  struct Found {
    std::shared_ptr<App> app;
    std::shared_ptr<Shuffle> shuffle;
  };
  // kNotFound when either is unknown; an app that is known is refreshed all the same.
  Result<Found> Find(std::string_view app, int32_t shuffle);
  Result<std::shared_ptr<App>> FindApp(std::string_view app);

  // Taken out, for the caller to end; empty when unknown. The app itself stays until it is removed
  // or expires.
  std::shared_ptr<Shuffle> TakeShuffle(std::string_view app, int32_t shuffle);
  std::vector<std::shared_ptr<Shuffle>> TakeApp(std::string_view app);
  // Apps not seen since `before`.
  std::vector<std::shared_ptr<Shuffle>> TakeExpired(TimePoint before);
  std::vector<std::shared_ptr<Shuffle>> TakeAll();

  std::vector<std::shared_ptr<Shuffle>> AllShuffles() const;
  // Whether any shuffle is registered, as opposed to ended and still being removed.
  bool AnyShuffle() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view id) const { return std::hash<std::string_view>()(id); }
  };
  using Apps = std::unordered_map<std::string, std::shared_ptr<App>, Hash, std::equal_to<>>;

  static void MoveShuffles(App& app, std::vector<std::shared_ptr<Shuffle>>& into);

  const Shuffle::Shared shared_;
  const Clock clock_;
  mutable std::shared_mutex mutex_;
  Apps apps_;                    // guarded by mutex_
  int64_t next_generation_ = 1;  // guarded by mutex_
};

}  // namespace dovetail::storage
