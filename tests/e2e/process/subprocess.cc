#include "tests/e2e/process/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/fakes/process_limits.h"

namespace dovetail::e2e {
namespace {

constexpr std::chrono::seconds kRunTimeout{30};
constexpr std::chrono::milliseconds kPoll{5};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::vector<std::string>& over) {
  std::vector<std::string> all = over;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;  // of two entries with one name the first counts
}

std::string ReadAll(int file) {
  std::string text;
  char piece[16384];
  ssize_t got = 0;
  while ((got = pread(file, piece, sizeof(piece), static_cast<off_t>(text.size()))) > 0) {
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

// Between fork and exec: only what is allowed there.
[[noreturn]] void Become(char* const* argv, char* const* environment, int out, int err,
                         const SubprocessOptions& options, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close(in);
  if (options.nofile > 0) {
    const rlimit limit{options.nofile, options.nofile};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (options.file_bytes_hard > 0) {
    const rlimit limit{options.file_bytes_soft, options.file_bytes_hard};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.forbid_rings && !fakes::ForbidRings()) _exit(127);
  if (options.locked_bytes && !fakes::LimitLockedMemory(*options.locked_bytes)) _exit(127);
  execve(argv[0], argv, environment);
  _exit(127);
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& argv, const SubprocessOptions& options)
    : out_(memfd_create("stdout", MFD_CLOEXEC)), err_(memfd_create("stderr", MFD_CLOEXEC)) {
  // Appending, as to a log: two writers of one file do not overwrite each other.
  for (const int file : {out_, err_}) fcntl(file, F_SETFL, O_APPEND);
  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = Environment(options.environment);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    Become(argument_pointers.data(), environment_pointers.data(), out_, err_, options, parent);
  }
  if (pid_ < 0) ADD_FAILURE() << "fork failed";
}

Subprocess::~Subprocess() {
  if (Running()) {
    Signal(SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  close(out_);
  close(err_);
}

bool Subprocess::Running() { return pid_ > 0 && !Wait(std::chrono::milliseconds(0)); }

void Subprocess::Signal(int number) {
  if (pid_ > 0 && !exit_code_) kill(pid_, number);
}

std::optional<int> Subprocess::Wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!exit_code_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    } else if (std::chrono::steady_clock::now() >= deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
  return exit_code_;
}

std::string Subprocess::Out() const { return ReadAll(out_); }

std::string Subprocess::Err() const { return ReadAll(err_); }

Finished RunToEnd(const std::vector<std::string>& argv, const SubprocessOptions& options) {
  Subprocess process(argv, options);
  const std::optional<int> exit_code = process.Wait(kRunTimeout);
  if (!exit_code) ADD_FAILURE() << argv[0] << " did not end; it wrote:\n" << process.Err();
  return {exit_code.value_or(-1000), process.Out(), process.Err()};
}

}  // namespace dovetail::e2e
