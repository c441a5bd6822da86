// Which servers each range of a shuffle's partitions goes to, as a rule instead of a table: a
// request for a million ranges costs no memory until somebody writes the answer down, range by
// range.
//
// Threads: a value; const after it is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dovetail::server {

// How clients know a shuffle server. They compare all of it, so a server must send the same in
// every heartbeat.
struct ServerIdentity {
  std::string id;
  std::string ip;
  int32_t grpc_port = 0;
  // 0: not offered.
  int32_t netty_port = 0;
  int32_t http_port = 0;

  friend bool operator==(const ServerIdentity&, const ServerIdentity&) = default;
};

struct AssignmentShape {
  // All at least 1; replicas at most the number of servers.
  int32_t partitions = 1;
  int32_t partitions_per_range = 1;
  int32_t replicas = 1;
  // How many partitions are expected to be worked on at once; 0 or less: not known.
  int32_t task_concurrency = 0;
};

class Assignment {
 public:
  Assignment() = default;
  // Servers in order of preference.
  Assignment(const AssignmentShape& shape, std::vector<ServerIdentity> servers);

  int64_t ranges() const { return ranges_; }
  int32_t replicas() const { return shape_.replicas; }
  const std::vector<ServerIdentity>& servers() const { return servers_; }

  // range: 0..ranges()-1. Both ends belong to it; the last range may reach beyond the last
  // partition.
  int32_t FirstPartition(int64_t range) const;
  int32_t LastPartition(int64_t range) const;

  // Index into servers(); replica: 0..replicas()-1. The replicas of a range are distinct servers.
  size_t ServerIndex(int64_t range, int32_t replica) const;

 private:
  AssignmentShape shape_;
  std::vector<ServerIdentity> servers_;
  int64_t ranges_ = 0;
  // Adjacent ranges that go to one server before the next one has its turn.
  int64_t block_ = 1;
  // Ranges before this one fill whole rounds over all servers.
  int64_t whole_rounds_ = 0;
};

}  // namespace dovetail::server
