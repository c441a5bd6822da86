#include "server/command_line.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/config/scratch_folder.h"

namespace dovetail::server {
namespace {

struct Outcome {
  int exit_code = -1;  // -1: run
  std::string out;
  std::string err;
  config::Config config;
  std::optional<ProbeArguments> probe;
};

Outcome Parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"dovetaild"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto parsed = ParseCommandLine(static_cast<int>(argv.size()), argv.data());
  Outcome outcome;
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  if (parsed) outcome.config = parsed->config;
  if (parsed) outcome.probe = parsed->probe;
  if (!parsed) outcome.exit_code = parsed.error();
  return outcome;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommandLine, RunsSilentlyWithFileAndSets) {
  const config::ScratchFolder folder;
  const std::string file = folder.Write("d.toml", "grpc_port = 1\nhttp_port = 2\n");
  const Outcome outcome =
      Parse({"--config", file, "--set", "http_port=3", "--set", "log.log_level=DEBUG"});
  EXPECT_EQ(outcome.exit_code, -1) << outcome.err;
  EXPECT_EQ(outcome.config.server.grpc_port, 1);
  EXPECT_EQ(outcome.config.server.http_port, 3);
  EXPECT_EQ(outcome.config.server.log.log_level, "DEBUG");
  EXPECT_EQ(outcome.out + outcome.err, "");
  EXPECT_EQ(Parse({}).exit_code, -1);
}

TEST(CommandLine, ABadOneExitsWith2) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--nonsense"},
                                             {"stray"},
                                             {"--set"},
                                             {"--config"},
                                             {"--set", "grpc_port=1", "http_port=2"},
                                             {"--config", "a", "--config", "b"},
                                             {"--check-config", "--print-config"},
                                             {"--probe"},
                                             {"--json"},
                                             {"--json", "/a"},
                                             {"--probe", "--check-config", "/a"},
                                             {"--probe", "--print-config", "/a"}}) {
    const Outcome outcome = Parse(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments[0];
    EXPECT_EQ(outcome.out, "") << arguments[0];
    EXPECT_NE(outcome.err, "") << arguments[0];
  }
}

TEST(CommandLine, ABadConfigurationExitsWith3WhateverWasAsked) {
  for (const char* option : {"--check-config", "--print-config", "--set=http_port=1"}) {
    const Outcome outcome = Parse({option, "--set", "grpc_prot=1", "--set", "stop_deadline_ms=x"});
    EXPECT_EQ(outcome.exit_code, 3) << option;
    EXPECT_EQ(outcome.out, "") << option;
    EXPECT_TRUE(Contains(outcome.err, "Did you mean grpc_port?\n")) << outcome.err;
    EXPECT_TRUE(Contains(outcome.err, "stop_deadline_ms")) << outcome.err;
    EXPECT_TRUE(Contains(outcome.err, "2 problems")) << outcome.err;
  }
  EXPECT_EQ(Parse({"--config", "/nonexistent/d.toml"}).exit_code, 3);
  EXPECT_EQ(Parse({"--config", ""}).exit_code, 3);
}

TEST(CommandLine, WhatIsAskedForGoesToStandardOutputAndExitsWith0) {
  const Outcome check = Parse({"--check-config"});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_TRUE(Contains(check.out, "valid"));
  const Outcome print = Parse({"--print-config", "--set", "tags=[\"x\"]"});
  EXPECT_EQ(print.exit_code, 0);
  EXPECT_TRUE(Contains(print.out, "\ntags = [\"x\"]  # --set\n")) << print.out;
  const Outcome version = Parse({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out, "dovetaild " DOVETAIL_VERSION "\n");
  const Outcome help = Parse({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* option : {"--config", "--check-config", "--print-config", "--probe", "--json",
                             "--set", "--version", "--help"}) {
    EXPECT_TRUE(Contains(help.out, option)) << option;
  }
  for (const Outcome& outcome : {check, print, version, help}) EXPECT_EQ(outcome.err, "");
}

TEST(CommandLine, AProbeTakesItsPathsOrThoseOfTheConfiguration) {
  const Outcome named = Parse({"--probe", "/a", "b", "--json", "--set", "grpc_port=1"});
  ASSERT_TRUE(named.probe) << named.err;
  EXPECT_EQ(named.probe->paths, (std::vector<std::string>{"/a", "b"}));
  EXPECT_TRUE(named.probe->json);
  EXPECT_EQ(named.config.server.grpc_port, 1);
  const Outcome configured = Parse({"--set", "localfile_store.data_paths=[\"/c\"]", "--probe"});
  ASSERT_TRUE(configured.probe) << configured.err;
  EXPECT_TRUE(configured.probe->paths.empty());
  EXPECT_FALSE(configured.probe->json);
  EXPECT_FALSE(Parse({}).probe);
  EXPECT_TRUE(Contains(Parse({"--probe"}).err, "localfile_store.data_paths"));
  EXPECT_EQ(Parse({"--probe", "/a", "--set", "grpc_prot=1"}).exit_code, 3);
}

TEST(CommandLine, WhatIsPrintedCanBeLoaded) {
  const config::ScratchFolder folder;
  const Outcome print = Parse({"--print-config", "--set", "memory_store.capacity=3G"});
  const Outcome run = Parse({"--config", folder.Write("p.toml", print.out)});
  EXPECT_EQ(run.exit_code, -1) << run.err;
  EXPECT_EQ(run.config.store.memory.capacity_bytes, 3LL << 30);
}

}  // namespace
}  // namespace dovetail::server
