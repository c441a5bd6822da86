#include "server/coordinator/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <unordered_set>

namespace dovetail::server {
namespace {

constexpr int32_t kPortMax = 65'535;

constexpr std::array<const char*, kMemberStatuses> kStatusLabels = {
    "active", "decommissioning", "decommissioned", "lost", "unhealthy", "excluded"};

bool ValidIdentifier(std::string_view name) {
  return !name.empty() && name.size() <= Coordinator::kIdentifierBytesMax &&
         name.find('\0') == std::string_view::npos;
}

Outcome InvalidIdentifier(std::string_view what) {
  return Invalid(
      fmt::format("{} must have 1 to {} bytes and no NUL", what, Coordinator::kIdentifierBytesMax));
}

Outcome CheckTags(const std::vector<std::string>& tags) {
  if (tags.size() > Coordinator::kTagsMax) {
    return Invalid(fmt::format("{} tags are more than {}", tags.size(), Coordinator::kTagsMax));
  }
  if (!std::ranges::all_of(tags, ValidIdentifier)) return InvalidIdentifier("a tag");
  return {};
}

Outcome CheckReport(const ServerReport& report) {
  const ServerIdentity& server = report.server;
  if (!ValidIdentifier(server.id)) return InvalidIdentifier("a server id");
  if (!ValidIdentifier(server.ip)) return InvalidIdentifier("a server address");
  if (server.grpc_port < 1 || server.grpc_port > kPortMax) {
    return Invalid(fmt::format("port {} is not in 1..{}", server.grpc_port, kPortMax));
  }
  for (const int32_t port : {server.netty_port, server.http_port}) {
    if (port < 0 || port > kPortMax) {
      return Invalid(fmt::format("port {} is not in 0..{}", port, kPortMax));
    }
  }
  const auto status = static_cast<int>(report.status);
  if (status < 0 || status >= kMemberStatuses) {
    return Invalid(fmt::format("server status {} is not known", status));
  }
  return CheckTags(report.tags);
}

Outcome CheckRequest(const AssignmentRequest& request) {
  const AssignmentShape& shape = request.shape;
  if (!ValidIdentifier(request.app_id)) return InvalidIdentifier("an application id");
  if (request.shuffle_id < 0) {
    return Invalid(fmt::format("shuffle id {} is less than 0", request.shuffle_id));
  }
  if (shape.partitions < 1 || shape.partitions_per_range < 1 || shape.replicas < 1) {
    return Invalid(
        fmt::format("partitionNum {}, partitionNumPerRange {} and dataReplica {} must be 1 or more",
                    shape.partitions, shape.partitions_per_range, shape.replicas));
  }
  const int64_t ranges =
      (int64_t{shape.partitions} + shape.partitions_per_range - 1) / shape.partitions_per_range;
  if (ranges > Coordinator::kAssignmentEntriesMax / shape.replicas) {
    return Invalid(fmt::format("{} ranges on {} servers each are more than {} in all", ranges,
                               shape.replicas, Coordinator::kAssignmentEntriesMax));
  }
  if (request.faulty_server_ids.size() > Coordinator::kFaultyServersMax) {
    return Invalid(fmt::format("{} faulty servers are more than {}",
                               request.faulty_server_ids.size(), Coordinator::kFaultyServersMax));
  }
  return CheckTags(request.required_tags);
}

// Tags come from the wire and the text ends up in logs: one line, whatever they hold.
std::string OneLine(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string Listed(const std::vector<std::string>& tags) {
  return OneLine(fmt::format("[{}]", fmt::join(tags, ", ")));
}

template <class Tags>
bool HasAll(const Tags& tags, const std::vector<std::string>& required) {
  return std::ranges::all_of(required, [&](const auto& tag) { return tags.contains(tag); });
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, MetricsRegistry& metrics, Clock clock)
    : options_(options), metrics_(metrics), clock_(std::move(clock)) {
  AddMetrics();
}

Coordinator::~Coordinator() { metrics_.RemoveCallbacks(this); }

void Coordinator::AddMetrics() {
  for (int status = 0; status < kMemberStatuses; ++status) {
    metrics_.AddGauge(this, "dovetail_coordinator_servers",
                      "Shuffle servers with a heartbeat in time",
                      [this, status] { return CountServers(static_cast<MemberStatus>(status)); },
                      {{"status", kStatusLabels[static_cast<size_t>(status)]}});
  }
  const auto add_memory = [this](const char* state, int64_t ServerReport::*bytes) {
    metrics_.AddGauge(this, "dovetail_coordinator_memory_bytes",
                      "Memory for shuffle data of all servers, as their heartbeats say",
                      [this, bytes] { return SumMemory(bytes); }, {{"state", state}});
  };
  add_memory("used", &ServerReport::used_memory_bytes);
  add_memory("promised", &ServerReport::promised_memory_bytes);
  add_memory("available", &ServerReport::available_memory_bytes);
  metrics_.AddGauge(this, "dovetail_coordinator_applications",
                    "Applications that gave the coordinator a sign of life in time",
                    [this] { return CountApplications(); });
  heartbeats_ = &metrics_.AddCounter("dovetail_coordinator_heartbeats_total",
                                     "Heartbeats of shuffle servers taken in");
  for (const StatusCode status :
       {StatusCode::kSuccess, StatusCode::kInternalError, StatusCode::kInvalidRequest}) {
    assignments_[status] =
        &metrics_.AddCounter("dovetail_coordinator_assignments_total",
                             "Requests for servers for a shuffle", {{"status", ToString(status)}});
  }
}

bool Coordinator::Alive(const Member& member, TimePoint now) const {
  return now - member.seen <= std::chrono::seconds(options_.server_heartbeat_timeout_sec);
}

Outcome Coordinator::Heartbeat(ServerReport report) {
  if (Outcome checked = CheckReport(report); !checked.ok()) return checked;
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  const auto known = members_.find(report.server.id);
  if (known == members_.end() && members_.size() >= kServersMax) {
    ExpireWhenFull(now);
    if (members_.size() >= kServersMax) {
      return {StatusCode::kInternalError, fmt::format("{} servers are known, which is as many as "
                                                      "this coordinator takes",
                                                      members_.size())};
    }
  }
  if (known == members_.end()) {
    spdlog::info("coordinator: server {} is new", OneLine(report.server.id));
  }
  heartbeats_->Increment();
  Member& member = members_[report.server.id];
  member.tags = {std::make_move_iterator(report.tags.begin()),
                 std::make_move_iterator(report.tags.end())};
  report.tags.clear();
  member.seen = now;
  member.report = std::move(report);
  return {};
}

bool Coordinator::Remove(std::string_view server_id) {
  std::lock_guard lock(mutex_);
  const auto known = members_.find(server_id);
  if (known == members_.end()) return false;
  members_.erase(known);
  return true;
}

std::vector<ServerIdentity> Coordinator::Servers() const {
  const TimePoint now = clock_();
  std::vector<ServerIdentity> servers;
  std::lock_guard lock(mutex_);
  for (const auto& [id, member] : members_) {
    if (Alive(member, now)) servers.push_back(member.report.server);
  }
  return servers;
}

size_t Coordinator::server_count() const {
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(members_, [&](const auto& entry) { return Alive(entry.second, now); }));
}

bool Coordinator::available() const { return CheckAccess({}).ok(); }

double Coordinator::CountServers(MemberStatus status) const {
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  return static_cast<double>(std::ranges::count_if(members_, [&](const auto& entry) {
    return entry.second.report.status == status && Alive(entry.second, now);
  }));
}

double Coordinator::SumMemory(int64_t ServerReport::*bytes) const {
  const TimePoint now = clock_();
  double sum = 0;
  std::lock_guard lock(mutex_);
  for (const auto& [id, member] : members_) {
    if (Alive(member, now)) sum += static_cast<double>(member.report.*bytes);
  }
  return sum;
}

double Coordinator::CountApplications() const {
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  return static_cast<double>(std::ranges::count_if(
      applications_, [&](const auto& entry) { return now - entry.second <= kApplicationTimeout; }));
}

Outcome Coordinator::CheckAccess(const std::vector<std::string>& tags) const {
  if (Outcome checked = CheckTags(tags); !checked.ok()) return checked;
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  const bool found = std::ranges::any_of(members_, [&](const auto& entry) {
    const Member& member = entry.second;
    return Alive(member, now) && member.report.status == MemberStatus::kActive &&
           HasAll(member.tags, tags);
  });
  if (found) return {};
  return {StatusCode::kAccessDenied,
          fmt::format("none of {} known servers is active with the tags {}", members_.size(),
                      Listed(tags))};
}

Reply<Assignment> Coordinator::Assign(const AssignmentRequest& request) {
  Reply<Assignment> reply;
  reply.outcome = CheckRequest(request);
  if (reply.outcome.ok()) reply = Choose(request);
  const auto counter = assignments_.find(reply.outcome.code);
  if (counter != assignments_.end()) counter->second->Increment();
  if (reply.outcome.ok()) (void)SeeApplication(request.app_id);
  return reply;
}

Reply<Assignment> Coordinator::Choose(const AssignmentRequest& request) const {
  const std::unordered_set<std::string_view> faulty(request.faulty_server_ids.begin(),
                                                    request.faulty_server_ids.end());
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  std::vector<const Member*> fit;
  size_t inactive = 0;
  size_t untagged = 0;
  size_t named_faulty = 0;
  for (const auto& [id, member] : members_) {
    if (!Alive(member, now) || member.report.status != MemberStatus::kActive) {
      ++inactive;
    } else if (!HasAll(member.tags, request.required_tags)) {
      ++untagged;
    } else if (faulty.contains(id)) {
      ++named_faulty;
    } else {
      fit.push_back(&member);
    }
  }
  const auto replicas = static_cast<size_t>(request.shape.replicas);
  if (fit.size() < replicas) {
    return {{StatusCode::kInternalError,
             fmt::format("{} servers with the tags {} are needed and {} found; of {} known, {} are "
                         "silent or not active, {} lack a tag, {} were named faulty",
                         replicas, Listed(request.required_tags), fit.size(), members_.size(),
                         inactive, untagged, named_faulty)},
            {}};
  }
  // Members come by id, so servers of the same memory keep that order.
  std::ranges::stable_sort(fit, std::ranges::greater(), [](const Member* member) {
    return member->report.available_memory_bytes;
  });
  auto count = static_cast<size_t>(std::max<int64_t>(1, options_.shuffle_nodes_max));
  if (request.servers_wanted > 0) {
    count = std::min(count, static_cast<size_t>(request.servers_wanted));
  }
  fit.resize(std::min(fit.size(), std::max(count, replicas)));
  std::vector<ServerIdentity> servers;
  servers.reserve(fit.size());
  for (const Member* member : fit) servers.push_back(member->report.server);
  return {{}, Assignment(request.shape, std::move(servers))};
}

Outcome Coordinator::SeeApplication(std::string_view app_id) {
  if (!ValidIdentifier(app_id)) return InvalidIdentifier("an application id");
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  const auto known = applications_.find(app_id);
  if (known != applications_.end()) {
    known->second = now;
    return {};
  }
  if (applications_.size() >= kApplicationsMax) ExpireWhenFull(now);
  if (applications_.size() >= kApplicationsMax) {
    return {StatusCode::kInternalError,
            fmt::format("{} applications are known, which is as many as this coordinator takes",
                        applications_.size())};
  }
  applications_.emplace(app_id, now);
  return {};
}

std::vector<std::pair<std::string, std::string>> Coordinator::ClientSettings() {
  return {{"rss.storage.type", "MEMORY_LOCALFILE"}};
}

void Coordinator::Expire() {
  const TimePoint now = clock_();
  std::lock_guard lock(mutex_);
  ExpireLocked(now);
}

// A full table looks through itself once a second at most, however often it is asked to.
void Coordinator::ExpireWhenFull(TimePoint now) {
  if (now - expired_when_full_ < std::chrono::seconds(1)) return;
  expired_when_full_ = now;
  ExpireLocked(now);
}

void Coordinator::ExpireLocked(TimePoint now) {
  std::erase_if(members_, [&](const auto& entry) {
    if (Alive(entry.second, now)) return false;
    spdlog::warn("coordinator: server {} sent no heartbeat for {} s and gets no more shuffles",
                 OneLine(entry.first), options_.server_heartbeat_timeout_sec);
    return true;
  });
  std::erase_if(applications_,
                [&](const auto& entry) { return now - entry.second > kApplicationTimeout; });
}

}  // namespace dovetail::server
