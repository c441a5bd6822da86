// The coordinator: knows by their heartbeats which shuffle servers there are and gives a shuffle
// the servers that it will use. Pure logic; the wire is coordinator_grpc.h.
//
// Owner: the composition root. Threads: any, all calls are short and take one mutex. The metrics
// registry outlives it. Identifiers come from the wire: they are compared as a whole, bounded in
// length, and never used as paths or patterns.
//
// Refusals: INVALID_REQUEST when the request itself is wrong (nothing changed), INTERNAL_ERROR when
// it cannot be had now, ACCESS_DENIED only from CheckAccess; each with a text for the client's log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/metrics.h"
#include "server/coordinator/assignment.h"
#include "server/options.h"
#include "server/reply.h"

namespace dovetail::server {

// The numbers are those of the wire.
enum class MemberStatus : int {
  kActive = 0,
  kDecommissioning = 1,
  kDecommissioned = 2,
  kLost = 3,
  kUnhealthy = 4,
  kExcluded = 5,
};
inline constexpr int kMemberStatuses = 6;

struct ServerReport {
  ServerIdentity server;
  int64_t used_memory_bytes = 0;
  int64_t promised_memory_bytes = 0;
  // Less than 0 is possible: blocks may take a little more than the capacity.
  int64_t available_memory_bytes = 0;
  std::vector<std::string> tags;
  MemberStatus status = MemberStatus::kActive;
};

struct AssignmentRequest {
  std::string_view app_id;
  int32_t shuffle_id = 0;
  AssignmentShape shape;
  // A server must have all of them.
  std::vector<std::string> required_tags;
  // 0 or less, or not below the coordinator's own limit: that limit.
  int32_t servers_wanted = -1;
  std::vector<std::string> faulty_server_ids;
};

class Coordinator {
 public:
  static constexpr size_t kIdentifierBytesMax = 255;
  static constexpr size_t kServersMax = 10'000;
  static constexpr size_t kTagsMax = 64;
  static constexpr size_t kFaultyServersMax = 10'000;
  static constexpr size_t kApplicationsMax = 100'000;
  // Ranges times replicas of one answer.
  static constexpr int64_t kAssignmentEntriesMax = 1'000'000;
  // Drivers send a heartbeat every 10 seconds.
  static constexpr std::chrono::seconds kApplicationTimeout{120};

  Coordinator(const CoordinatorOptions& options, MetricsRegistry& metrics,
              Clock clock = SteadyClock());
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // ---- Servers ----
  Outcome Heartbeat(ServerReport report);
  // True when it was known. It may come back with its next heartbeat.
  bool Remove(std::string_view server_id);
  // Those whose heartbeats have not run out, by id.
  std::vector<ServerIdentity> Servers() const;
  size_t server_count() const;
  // Whether any server can be assigned.
  bool available() const;

  // ---- Applications ----
  // Servers by available memory; see Assignment for how ranges go to them.
  Reply<Assignment> Assign(const AssignmentRequest& request);
  Outcome CheckAccess(const std::vector<std::string>& tags) const;
  // A first sign of life and every later one are the same to us.
  Outcome SeeApplication(std::string_view app_id);
  // What every client is told to set.
  static std::vector<std::pair<std::string, std::string>> ClientSettings();

  // Forgets servers and applications that were silent for too long. Nothing depends on its being
  // called in time: the silent are left out of every answer anyway.
  void Expire();

 private:
  struct Member {
    ServerReport report;  // without its tags
    std::set<std::string, std::less<>> tags;
    TimePoint seen;
  };

  void AddMetrics();
  Reply<Assignment> Choose(const AssignmentRequest& request) const;
  bool Alive(const Member& member, TimePoint now) const;
  void ExpireLocked(TimePoint now);
  void ExpireWhenFull(TimePoint now);
  double CountServers(MemberStatus status) const;
  double SumMemory(int64_t ServerReport::*bytes) const;
  double CountApplications() const;

  const CoordinatorOptions options_;
  MetricsRegistry& metrics_;
  const Clock clock_;
  Counter* heartbeats_ = nullptr;
  std::map<StatusCode, Counter*> assignments_;

  mutable std::mutex mutex_;
  std::map<std::string, Member, std::less<>> members_;          // guarded by mutex_
  std::map<std::string, TimePoint, std::less<>> applications_;  // guarded by mutex_
  TimePoint expired_when_full_;                                 // guarded by mutex_
};

}  // namespace dovetail::server
