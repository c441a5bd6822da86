// Values that are fine alone and wrong together.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/loader.h"
#include "tests/config/scratch_folder.h"

namespace dovetail::config {
namespace {

std::string ProblemOf(const std::vector<std::string>& sets) {
  const auto loaded = Load({}, sets);
  if (loaded.has_value()) return "";
  EXPECT_EQ(loaded.error().size(), 1u);
  return loaded.error()[0];
}

TEST(Relations, PortsDifferUnlessFree) {
  EXPECT_NE(ProblemOf({"grpc_port=7", "http_port=7"}), "");
  EXPECT_NE(ProblemOf({"grpc_port=20010"}), "");
  EXPECT_EQ(ProblemOf({"grpc_port=0", "http_port=0"}), "");
}

TEST(Relations, GrpcMemoryHoldsTheLargestMessage) {
  EXPECT_NE(ProblemOf({"grpc_memory_bytes_max=512M"}), "");
  EXPECT_EQ(ProblemOf({"grpc_memory_bytes_max=1G"}), "");
  EXPECT_EQ(ProblemOf({"grpc_memory_bytes_max=512M", "grpc_message_bytes_max=512M"}), "");
}

TEST(Relations, HeartbeatsComeBeforeTheTimeout) {
  EXPECT_NE(ProblemOf({"heartbeat_interval_seconds=30"}), "");
  EXPECT_EQ(ProblemOf({"heartbeat_interval_seconds=29"}), "");
  EXPECT_NE(ProblemOf({"coordinator.server_heartbeat_timeout_sec=2"}), "");
}

TEST(Relations, LowWatermarksAreBelowHighOnes) {
  EXPECT_NE(ProblemOf({"localfile_store.disk_low_watermark=0.95"}), "");
  EXPECT_NE(ProblemOf({"localfile_store.disk_high_watermark=0.9"}), "");
  EXPECT_EQ(ProblemOf({"localfile_store.disk_high_watermark=0.91"}), "");
  EXPECT_NE(ProblemOf({"hybrid_store.memory_spill_low_watermark=0.8"}), "");
  EXPECT_NE(ProblemOf({"hybrid_store.memory_spill_high_watermark=0.1"}), "");
  EXPECT_EQ(ProblemOf({"hybrid_store.memory_spill_low_watermark=0.79"}), "");
  EXPECT_EQ(ProblemOf({"hybrid_store.memory_spill_low_watermark=0",
                       "hybrid_store.memory_spill_high_watermark=1"}),
            "");
}

TEST(Relations, AGroupFitsWhatIsUnderWayAndASegment) {
  EXPECT_NE(ProblemOf({"localfile_store.flush_bytes_in_flight_max=15M"}), "");
  EXPECT_EQ(ProblemOf({"localfile_store.flush_bytes_in_flight_max=16M"}), "");
  EXPECT_NE(ProblemOf({"localfile_store.flush_group_bytes_max=257M"}), "");
  EXPECT_EQ(ProblemOf({"localfile_store.flush_group_bytes_max=256M"}), "");
  EXPECT_NE(ProblemOf({"localfile_store.segment_bytes_max=15M"}), "");
  EXPECT_EQ(ProblemOf({"localfile_store.segment_bytes_max=16M"}), "");
}

TEST(Relations, NoMoreDisksAreNeededThanThereAre) {
  const std::string two = "localfile_store.data_paths=[\"/a\", \"/b\"]";
  EXPECT_NE(ProblemOf({two, "localfile_store.min_number_of_available_disks=3"}), "");
  EXPECT_EQ(ProblemOf({two, "localfile_store.min_number_of_available_disks=2"}), "");
  EXPECT_EQ(ProblemOf({"localfile_store.min_number_of_available_disks=3"}), "");
}

TEST(Relations, AProblemNamesBothKeysTheirValuesAndPlaces) {
  const ScratchFolder folder;
  const std::string file = folder.Write("d.toml", "\nhttp_port = 19999\n");
  const auto loaded = Load(file, {});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error()[0], "grpc_port = 19999 (default) and http_port = 19999 (" + file +
                                   ":2:13) cannot be the same port. Change one.");
}

}  // namespace
}  // namespace dovetail::config
