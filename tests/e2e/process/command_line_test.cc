// The binary as a person or a script meets it: its options, what it prints, its exit codes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/process/subprocess.h"

namespace dovetail::e2e {
namespace {

Finished Daemon(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DaemonBinary());
  return RunToEnd(arguments);
}

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest()
      : file_(testing::TempDir() + "dovetail-" + std::to_string(getpid()) + ".toml") {}
  ~CommandLineTest() override { std::remove(file_.c_str()); }

  const std::string& Write(const std::string& text) {
    std::ofstream(file_) << text;
    return file_;
  }

  const std::string file_;
};

// What is printed without the sources, which differ by where a value came from.
std::string WithoutComments(const std::string& text) {
  std::string values;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    line.resize(std::min(line.find("  # "), line.size()));
    if (!line.starts_with("#")) values += line + "\n";
    begin = end + 1;
  }
  return values;
}

TEST_F(CommandLineTest, Version) {
  const Finished run = Daemon({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.out.starts_with("dovetaild ")) << run.out;
  EXPECT_EQ(run.err, "");
}

TEST_F(CommandLineTest, HelpNamesEveryOption) {
  const Finished run = Daemon({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* option : {"--config", "--set", "--check-config", "--print-config", "--probe",
                             "--json", "--version", "--help"}) {
    EXPECT_NE(run.out.find(option), std::string::npos) << option;
  }
}

TEST_F(CommandLineTest, WrongOptionsAre2) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--no-such-option"}, {"-x"},    {"surplus"},
      {"--config"},         {"--set"}, {"--check-config", "--print-config"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const Finished run = Daemon(arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments[0];
    EXPECT_NE(run.err, "") << arguments[0];
    EXPECT_EQ(run.out, "") << arguments[0];
  }
}

TEST_F(CommandLineTest, WrongConfigurationIs3) {
  for (const char* mode : {"--check-config", "--print-config", "--set=grpc_port=0"}) {
    Finished run = Daemon({mode, "--config", Write("grpc_prot = 1\n")});
    EXPECT_EQ(run.exit_code, 3) << mode;
    EXPECT_NE(run.err.find(file_ + ":1:1: "), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("grpc_port"), std::string::npos) << "the nearest key: " << run.err;
    EXPECT_EQ(run.out, "");
    for (const std::string& bad : {std::string("grpc_port = "), std::string("grpc_port = 70000"),
                                   std::string("grpc_port = \"x\""), std::string(1000, '['),
                                   std::string("store_type = \"LOCALFILE\"")}) {
      EXPECT_EQ(Daemon({mode, "--config", Write(bad)}).exit_code, 3) << bad;
    }
  }
  EXPECT_EQ(Daemon({"--config", file_ + ".missing"}).exit_code, 3);
  EXPECT_EQ(Daemon({"--config", "/"}).exit_code, 3);
  for (const char* set : {"grpc_port", "=", "grpc_port=", "nothing=1", "grpc_port=-1"}) {
    EXPECT_EQ(Daemon({"--check-config", "--set", set}).exit_code, 3) << set;
  }
}

TEST_F(CommandLineTest, CheckConfigStartsNothing) {
  const Finished run =
      Daemon({"--check-config", "--config", DOVETAIL_SOURCE_DIR "/config/dovetail.toml"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("valid"), std::string::npos);
  EXPECT_EQ(run.err, "");
}

TEST_F(CommandLineTest, WhatIsPrintedIsAConfiguration) {
  const std::vector<std::string> sets = {
      "--set", "memory_store.capacity=3G", "--set", "tags=[\"a\", \"b\\\"c\"]",
      "--set", "log.log_level=DEBUG",      "--set", "bind_address=127.0.0.1"};
  std::vector<std::string> arguments = {"--print-config"};
  arguments.insert(arguments.end(), sets.begin(), sets.end());
  const Finished first = Daemon(arguments);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("capacity = \"3G\"  # --set"), std::string::npos) << first.out;
  const Finished second = Daemon({"--print-config", "--config", Write(first.out)});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(WithoutComments(second.out), WithoutComments(first.out));
  EXPECT_NE(second.out.find(file_ + ":"), std::string::npos) << "the source of each value";
}

TEST_F(CommandLineTest, SetGoesOverTheFileAndTheFileOverTheDefault) {
  Write("grpc_port = 1234\nhttp_port = 1235\n");
  const Finished run = Daemon({"--print-config", "--config", file_, "--set", "http_port=1236"});
  EXPECT_NE(run.out.find("grpc_port = 1234  # " + file_ + ":1"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("http_port = 1236  # --set"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("stop_deadline_ms = 10000  # default"), std::string::npos) << run.out;
}

TEST_F(CommandLineTest, ADaemonTakesItsFile) {
  Write(
      "grpc_port = 0\nhttp_port = 0\nbind_address = \"127.0.0.1\"\n[memory_store]\n"
      "capacity = \"7M\"\n");
  Subprocess process({DaemonBinary(), "--config", file_});
  while (process.Running() && process.Err().find("ready: ") == std::string::npos) usleep(10'000);
  const std::string log = process.Err();
  const size_t http = log.find("http=127.0.0.1:");
  ASSERT_NE(http, std::string::npos) << log;
  const HttpAnswer page = HttpGet(std::stoi(log.substr(http + 15)), "/metrics");
  EXPECT_EQ(MetricsPage(page.body).Value("dovetail_memory_capacity_bytes"), 7 << 20);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(std::chrono::seconds(60)), 0);
}

}  // namespace
}  // namespace dovetail::e2e
