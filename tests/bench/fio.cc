#include "tests/bench/fio.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "engine/base/check.h"

namespace dovetail::bench {
namespace {

std::vector<std::string> Arguments(const std::string& folder, const FioJob& job) {
  std::vector<std::string> arguments = {"fio",
                                        "--name=bench",
                                        "--directory=" + folder,
                                        "--rw=" + job.work,
                                        "--ioengine=" + job.engine,
                                        fmt::format("--bs={}", job.block_bytes),
                                        fmt::format("--iodepth={}", job.depth),
                                        "--direct=1",
                                        "--fallocate=posix",
                                        "--thread",
                                        "--randrepeat=0",
                                        "--norandommap",
                                        "--scramble_buffers=0",
                                        "--zero_buffers",
                                        "--file_service_type=roundrobin",
                                        "--terse-version=3",
                                        "--output-format=terse"};
  if (job.filename.empty()) {
    arguments.push_back(fmt::format("--nrfiles={}", job.files));
    arguments.push_back(fmt::format("--size={}", job.bytes));
  } else {
    arguments.push_back("--filename=" + job.filename);
    arguments.push_back(fmt::format("--io_size={}", job.bytes));
  }
  if (job.fixed) arguments.insert(arguments.end(), {"--registerfiles", "--fixedbufs"});
  return arguments;
}

// Of a line of terse output, version 3: fields counted from 0, separated by ;.
std::string Field(std::string_view line, int index) {
  for (; index > 0; --index) {
    const size_t end = line.find(';');
    DOVETAIL_CHECK(end != line.npos);
    line.remove_prefix(end + 1);
  }
  return std::string(line.substr(0, line.find(';')));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

Usage RunFio(const std::string& folder, const FioJob& job) {
  std::vector<std::string> arguments = Arguments(folder, job);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int out[2];
  DOVETAIL_CHECK(pipe2(out, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  pid_t child = -1;
  const double machine_before = MachineCpuSeconds();
  const int error = posix_spawnp(&child, "fio", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  DOVETAIL_CHECK(error == 0);  // the package fio is not installed
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = read(out[0], piece, sizeof(piece))) > 0;) {
    text.append(piece, static_cast<size_t>(got));
  }
  close(out[0]);
  int status = -1;
  rusage usage{};
  DOVETAIL_CHECK(wait4(child, &status, 0, &usage) == child && status == 0);
  // Of reads and of writes: KiB in all, KiB a second, operations a second, milliseconds.
  constexpr int kReadRuntime = 8;
  constexpr int kWriteRuntime = 49;
  const bool reads = job.work.find("read") != std::string::npos;
  const std::string runtime_ms = Field(text, reads ? kReadRuntime : kWriteRuntime);
  return {.seconds = std::strtod(runtime_ms.c_str(), nullptr) / 1000,
          .cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime),
          .machine_cpu_seconds = MachineCpuSeconds() - machine_before};
}

}  // namespace dovetail::bench
