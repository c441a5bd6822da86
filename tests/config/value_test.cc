// What each key takes and refuses, by way of a file with that one key.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/assign.h"
#include "config/loader.h"
#include "config/size.h"
#include "tests/config/scratch_folder.h"

namespace dovetail::config {
namespace {

std::expected<LoadedConfig, Problems> LoadKey(const Key& key, const std::string& value) {
  const ScratchFolder folder;
  const std::string head = key.section.empty() ? "" : fmt::format("[{}]\n", key.section);
  const std::string text = fmt::format("{}{} = {}\n", head, key.name, value);
  return Load(folder.Write("one.toml", text), {});
}

std::string ProblemOf(const Key& key, const std::string& value) {
  const auto loaded = LoadKey(key, value);
  if (loaded.has_value()) {
    ADD_FAILURE() << PathOf(key) << " = " << value << " was taken";
    return "";
  }
  EXPECT_EQ(loaded.error().size(), 1u);
  return loaded.error()[0];
}

const Key& Find(const char* section, const char* name) { return *FindKey(section, name); }

TEST(Keys, AreExactlyThese) {
  std::vector<std::string> paths;
  for (const Key& key : Keys()) paths.push_back(PathOf(key));
  EXPECT_EQ(paths, (std::vector<std::string>{"store_type",
                                             "bind_address",
                                             "advertise_host",
                                             "grpc_port",
                                             "http_port",
                                             "grpc_message_bytes_max",
                                             "grpc_memory_bytes_max",
                                             "grpc_streams_max",
                                             "grpc_answer_timeout_ms",
                                             "tags",
                                             "heartbeat_interval_seconds",
                                             "stop_deadline_ms",
                                             "memory_store.capacity",
                                             "memory_store.buffer_ticket_timeout_sec",
                                             "memory_store.buffer_ticket_check_interval_sec",
                                             "memory_store.require_wait_ms",
                                             "memory_store.require_queue_max",
                                             "memory_store.read_bytes_max",
                                             "memory_store.read_wait_ms",
                                             "memory_store.read_queue_max",
                                             "memory_store.report_bytes_max",
                                             "localfile_store.data_paths",
                                             "localfile_store.engine",
                                             "localfile_store.min_number_of_available_disks",
                                             "localfile_store.disk_high_watermark",
                                             "localfile_store.disk_low_watermark",
                                             "localfile_store.disk_healthy_check_interval_sec",
                                             "localfile_store.direct_io_append_enable",
                                             "localfile_store.read_mode",
                                             "localfile_store.io_duration_threshold_sec",
                                             "localfile_store.flush_group_bytes_max",
                                             "localfile_store.flush_bytes_in_flight_max",
                                             "localfile_store.segment_bytes_max",
                                             "localfile_store.index_cache_bytes_max",
                                             "localfile_store.io_uring_options.threads",
                                             "localfile_store.io_uring_options.io_depth",
                                             "localfile_store.io_uring_options.sqpoll",
                                             "localfile_store.io_uring_options.sqpoll_idle_ms",
                                             "localfile_store.io_uring_options.cpus",
                                             "localfile_store.io_uring_options.file_workers_max",
                                             "localfile_store.io_uring_options.pipe_workers_max",
                                             "hybrid_store.memory_spill_high_watermark",
                                             "hybrid_store.memory_spill_low_watermark",
                                             "hybrid_store.memory_single_buffer_max_spill_size",
                                             "app_config.app_heartbeat_timeout_min",
                                             "coordinator.server_heartbeat_timeout_sec",
                                             "coordinator.shuffle_nodes_max",
                                             "log.log_level"}));
}

TEST(Keys, EachHasItsOwnField) {
  Config config;
  std::vector<const void*> fields;
  for (const Key& key : Keys()) {
    const void* field =
        std::visit([&](auto get) -> const void* { return &get(config); }, key.field);
    for (const void* other : fields) EXPECT_NE(field, other) << PathOf(key);
    fields.push_back(field);
  }
}

TEST(Keys, WholeNumbersHaveAllOfTheirRangeAndNoMore) {
  for (const Key& key : Keys()) {
    const auto* field = std::get_if<IntegerField>(&key.field);
    if (field == nullptr) continue;
    EXPECT_FALSE(key.check != nullptr) << PathOf(key);
    for (const int64_t number : {key.min - 1, key.max + 1, int64_t{-1}}) {
      if (number == 0 && !key.derived.empty()) continue;
      const std::string problem = ProblemOf(key, std::to_string(number));
      EXPECT_NE(problem.find(ExpectedOf(key)), std::string::npos) << problem;
    }
    Config config;
    const int64_t usual = (*field)(config);
    for (const int64_t end : {key.min, key.max}) {
      Config at_end;
      EXPECT_FALSE(Assign(key, TomlValue(end), &at_end)) << PathOf(key);
      EXPECT_EQ((*field)(at_end), end) << PathOf(key);
    }
    EXPECT_TRUE(usual == 0 || (usual >= key.min && usual <= key.max)) << PathOf(key);
    for (const char* wrong : {"1.5", "true", "[1]", "{a = 1}", "\"x\"", "2024-01-01",
                              "99999999999999999999", "0xffffffffffffffffff"}) {
      ProblemOf(key, wrong);
    }
  }
}

TEST(Keys, NumbersBeyond64BitsAreNotCutToTheLargest) {
  for (const char* number :
       {"9223372036854775808", "-9223372036854775809", "99_999_999_999_999_999_999",
        "0x8000000000000000", "0o1000000000000000000000"}) {
    const std::string problem = ProblemOf(Find("", "stop_deadline_ms"), number);
    EXPECT_NE(problem.find("does not fit 64 bits"), std::string::npos) << problem;
  }
  const std::string problem = ProblemOf(Find("", "stop_deadline_ms"), "+9_223_372_036_854_775_807");
  EXPECT_NE(problem.find("is 9223372036854775807."), std::string::npos) << problem;
}

TEST(Keys, SwitchesAreTrueOrFalseAndNothingElse) {
  int switches = 0;
  for (const Key& key : Keys()) {
    const auto* field = std::get_if<SwitchField>(&key.field);
    if (field == nullptr) continue;
    ++switches;
    for (const bool on : {true, false}) {
      Config config = LoadKey(key, on ? "true" : "false")->config;
      EXPECT_EQ((*field)(config), on) << PathOf(key);
    }
    for (const char* wrong :
         {"0", "1", "0.0", "\"true\"", "\"yes\"", "\"\"", "[true]", "{a = true}"}) {
      const std::string problem = ProblemOf(key, wrong);
      EXPECT_NE(problem.find("Expected true or false."), std::string::npos) << problem;
    }
  }
  EXPECT_EQ(switches, 2);
}

TEST(Keys, SharesGoFromNothingToAll) {
  int shares = 0;
  for (const Key& key : Keys()) {
    const auto* field = std::get_if<RatioField>(&key.field);
    if (field == nullptr) continue;
    ++shares;
    for (const double share : {0.0, 0.5, 1.0}) {
      Config config;
      EXPECT_FALSE(Assign(key, TomlValue(share), &config)) << PathOf(key);
      EXPECT_EQ((*field)(config), share) << PathOf(key);
    }
    Config config;
    EXPECT_FALSE(Assign(key, TomlValue(int64_t{1}), &config));
    EXPECT_EQ((*field)(config), 1.0);
    for (const char* wrong : {"-0.1", "1.0001", "2", "-1", "nan", "inf", "-inf", "true", "\"0.5\"",
                              "\"50%\"", "[0.5]", "{a = 0.5}"}) {
      const std::string problem = ProblemOf(key, wrong);
      EXPECT_NE(problem.find("Expected a share from 0.0 to 1.0."), std::string::npos) << problem;
    }
  }
  EXPECT_EQ(shares, 4);
}

TEST(Keys, OnlySizesTakeUnits) {
  for (const Key& key : Keys()) {
    if (!std::holds_alternative<IntegerField>(key.field)) continue;
    if (key.is_size) {
      Config config;
      const auto refusal = Assign(key, TomlValue(std::string("1GiB")), &config);
      ASSERT_FALSE(refusal) << *refusal;
      EXPECT_EQ(std::get<IntegerField>(key.field)(config), 1LL << 30) << PathOf(key);
    } else {
      ProblemOf(key, "\"1K\"");
    }
  }
}

TEST(Keys, AFractionOfASizeIsRefusedWithAHint) {
  const std::string problem = ProblemOf(Find("memory_store", "capacity"), "\"1.5G\"");
  EXPECT_NE(problem.find("1536M"), std::string::npos) << problem;
}

TEST(Keys, TextsRefuseOtherTypesAndControlCharacters) {
  for (const Key& key : Keys()) {
    if (!std::holds_alternative<TextField>(key.field)) continue;
    for (const char* wrong :
         {"1", "true", "[]", "[\"INFO\"]", "{a = 1}", "\"INFO\\n\"", "\"a\\u0000\""}) {
      ProblemOf(key, wrong);
    }
  }
}

TEST(Keys, ListsRefuseOtherTypesAndRepetition) {
  for (const Key& key : Keys()) {
    if (!std::holds_alternative<TextListField>(key.field)) continue;
    for (const char* wrong : {"1", "\"/a\"", "[1]", "[\"/a\", 1]", "[\"\"]",
                              "[\"/a\", \"/b\", \"/a\"]", "[[\"/a\"]]", "[\"/a\\n\"]"}) {
      ProblemOf(key, wrong);
    }
    EXPECT_TRUE(LoadKey(key, "[\"/a\", \"/b\"]").has_value()) << PathOf(key);
    EXPECT_TRUE(LoadKey(key, "[]").has_value()) << PathOf(key);
  }
}

TEST(Keys, StoreTypeIsRefusedWithTheReason) {
  for (const char* other : {"\"MEMORY\"", "\"HDFS\"", "\"MEMORY_LOCALFILE_HDFS\"", "\"\""}) {
    const std::string problem = ProblemOf(Find("", "store_type"), other);
    EXPECT_NE(problem.find("only MEMORY_LOCALFILE is served"), std::string::npos) << problem;
  }
}

TEST(Keys, TextsOfEachKind) {
  ProblemOf(Find("", "bind_address"), "\"localhost\"");
  ProblemOf(Find("", "bind_address"), "\"127.0.0.1:19999\"");
  ProblemOf(Find("", "bind_address"), "\"\"");
  EXPECT_TRUE(LoadKey(Find("", "bind_address"), "\"::1\"").has_value());
  ProblemOf(Find("", "advertise_host"), "\"0.0.0.0\"");
  ProblemOf(Find("", "advertise_host"), "\"::\"");
  ProblemOf(Find("", "advertise_host"), "\"http://a\"");
  ProblemOf(Find("", "advertise_host"), "\"a:19999\"");
  EXPECT_TRUE(LoadKey(Find("", "advertise_host"), "\"shuffle-1.example.org\"").has_value());
  ProblemOf(Find("log", "log_level"), "\"info\"");
  ProblemOf(Find("log", "log_level"), "\"\"");
  ProblemOf(Find("", "tags"), "[\"a,b\"]");
  ProblemOf(Find("localfile_store", "data_paths"), "[\"relative/path\"]");
  for (const char* level : {"\"DEBUG\"", "\"INFO\"", "\"WARN\"", "\"ERROR\""}) {
    EXPECT_TRUE(LoadKey(Find("log", "log_level"), level).has_value()) << level;
  }
}

}  // namespace
}  // namespace dovetail::config
