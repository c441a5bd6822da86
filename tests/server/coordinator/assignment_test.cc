#include "server/coordinator/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace dovetail::server {
namespace {

std::vector<ServerIdentity> MakeServers(int count) {
  std::vector<ServerIdentity> servers;
  for (int i = 0; i < count; ++i) {
    servers.push_back({.id = "s" + std::to_string(i), .ip = "127.0.0.1", .grpc_port = 1000 + i});
  }
  return servers;
}

std::string Describe(const AssignmentShape& shape, int servers) {
  return std::to_string(shape.partitions) + " partitions, " +
         std::to_string(shape.partitions_per_range) + " a range, " +
         std::to_string(shape.replicas) + " replicas, " + std::to_string(shape.task_concurrency) +
         " tasks, " + std::to_string(servers) + " servers";
}

// What must hold of every assignment, whatever it was made from.
void ExpectSound(const AssignmentShape& shape, int servers) {
  SCOPED_TRACE(Describe(shape, servers));
  const Assignment assignment(shape, MakeServers(servers));
  int64_t next = 0;
  std::vector<int64_t> load(static_cast<size_t>(servers));
  for (int64_t range = 0; range < assignment.ranges(); ++range) {
    ASSERT_EQ(assignment.FirstPartition(range), next);
    ASSERT_EQ(assignment.LastPartition(range), next + shape.partitions_per_range - 1);
    next += shape.partitions_per_range;
    std::set<size_t> replicas;
    for (int32_t replica = 0; replica < shape.replicas; ++replica) {
      const size_t server = assignment.ServerIndex(range, replica);
      ASSERT_LT(server, static_cast<size_t>(servers));
      ASSERT_TRUE(replicas.insert(server).second) << "a server twice in range " << range;
      ++load[server];
    }
  }
  ASSERT_GE(next, shape.partitions) << "the last partitions are not covered";
  ASSERT_LT(next - shape.partitions_per_range, shape.partitions) << "an empty range";
  // Whole rounds are even; only the rest may differ, by a range for each replica.
  const auto [least, most] = std::ranges::minmax(load);
  EXPECT_LE(most - least, shape.replicas);
}

TEST(Assignment, IsSoundForManyShapes) {
  for (const int servers : {1, 2, 3, 5, 9}) {
    for (const int32_t partitions : {1, 2, 3, 7, 8, 9, 10, 64, 100, 1000}) {
      for (const int32_t per_range : {1, 2, 7}) {
        for (const int32_t replicas : {1, 2, 3}) {
          if (replicas > servers) continue;
          for (const int32_t tasks : {-1, 0, 1, 4, 50, 2000}) {
            ExpectSound({.partitions = partitions,
                         .partitions_per_range = per_range,
                         .replicas = replicas,
                         .task_concurrency = tasks},
                        servers);
          }
        }
      }
    }
  }
}

TEST(Assignment, IsSoundForRandomShapes) {
  std::mt19937 random(20240611);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const int servers = between(1, 20);
    ExpectSound({.partitions = between(1, 3000),
                 .partitions_per_range = between(1, 5),
                 .replicas = between(1, std::min(servers, 4)),
                 .task_concurrency = between(-10, 4000)},
                servers);
  }
}

std::vector<size_t> FirstReplicas(const AssignmentShape& shape, int servers) {
  const Assignment assignment(shape, MakeServers(servers));
  std::vector<size_t> order;
  for (int64_t range = 0; range < assignment.ranges(); ++range) {
    order.push_back(assignment.ServerIndex(range, 0));
  }
  return order;
}

TEST(Assignment, GoesRoundOneByOneWhenTheConcurrencyIsNotKnown) {
  EXPECT_EQ(FirstReplicas({.partitions = 6}, 3), (std::vector<size_t>{0, 1, 2, 0, 1, 2}));
}

TEST(Assignment, GivesAdjacentRangesToOneServerWithinAWave) {
  EXPECT_EQ(FirstReplicas({.partitions = 8, .task_concurrency = 4}, 2),
            (std::vector<size_t>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(Assignment, SpreadsTheRestOverAllServers) {
  // Two whole rounds of 2 ranges on 2 servers are 8 ranges; the rest of 3 is 2 and 1.
  EXPECT_EQ(FirstReplicas({.partitions = 11, .task_concurrency = 4}, 2),
            (std::vector<size_t>{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1}));
}

TEST(Assignment, PutsTheNextReplicaOnTheNextServer) {
  const Assignment assignment({.partitions = 3, .replicas = 2}, MakeServers(3));
  EXPECT_EQ(assignment.ServerIndex(0, 1), 1U);
  EXPECT_EQ(assignment.ServerIndex(1, 1), 2U);
  EXPECT_EQ(assignment.ServerIndex(2, 1), 0U);
}

TEST(Assignment, HoldsTheLargestNumbers) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const Assignment one_range(
      {.partitions = kMost, .partitions_per_range = kMost, .task_concurrency = kMost},
      MakeServers(2));
  EXPECT_EQ(one_range.ranges(), 1);
  EXPECT_EQ(one_range.LastPartition(0), kMost - 1);
  const Assignment two_ranges(
      {.partitions = kMost, .partitions_per_range = kMost - 1, .task_concurrency = kMost},
      MakeServers(2));
  EXPECT_EQ(two_ranges.ranges(), 2);
  EXPECT_EQ(two_ranges.FirstPartition(1), kMost - 1);
  // 2 * (kMost - 1) - 1 does not fit; the end is the last number there is.
  EXPECT_EQ(two_ranges.LastPartition(1), kMost);
  const Assignment many({.partitions = kMost, .task_concurrency = kMost}, MakeServers(2));
  EXPECT_EQ(many.ranges(), kMost);
  EXPECT_EQ(many.ServerIndex(kMost - 2, 0), 1U);
  EXPECT_EQ(many.ServerIndex(kMost - 1, 0), 0U);
}

}  // namespace
}  // namespace dovetail::server
