#include "engine/uring/uring_choice.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"

namespace dovetail::engine {
namespace {

constexpr size_t kTrialBytes = 4096;
constexpr Milliseconds kTrialTime{10'000};

template <class R>
struct Answer {
  std::promise<R> promise;
  R Wait() { return promise.get_future().get(); }
  auto Done() {
    return [this](R result) { promise.set_value(std::move(result)); };
  }
};

std::string Hint(const Error& error) {
  switch (error.os_error) {
    case EPERM:
    case EACCES:
      return " (forbidden by a seccomp filter, as in most containers, or by the sysctl "
             "kernel.io_uring_disabled: allow it there)";
    case ENOSYS:
      return " (this kernel has no io_uring)";
    case ENOMEM:
      return " (too little memory, or the limit of locked memory is too small for the rings: raise "
             "ulimit -l; what a former process held comes back a moment after its end)";
    default:
      return "";
  }
}

// The first of them that this process may not run on.
std::optional<int> MissingCpu(const std::vector<int>& cpus) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return std::nullopt;
  const auto missing = std::ranges::find_if(
      cpus, [&](int cpu) { return !CPU_ISSET(static_cast<size_t>(cpu), &allowed); });
  if (missing == cpus.end()) return std::nullopt;
  return *missing;
}

Status TransferOnce(Engine& engine, const FileRef& file, IoMode mode) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(kTrialBytes, std::byte{0x5a});
  Answer<Status> written;
  engine.Append({.file = file, .data = {{bytes, *bytes}}, .mode = mode}, written.Done());
  if (const Status status = written.Wait(); !status) return status;
  Answer<Result<SliceChain>> read;
  engine.Read({.file = file, .length = kTrialBytes, .mode = mode}, read.Done());
  const Result<SliceChain> back = read.Wait();
  if (!back) return std::unexpected(back.error());
  size_t at = 0;
  for (const Slice& slice : *back) {
    if (std::memcmp(bytes->data() + at, slice.bytes.data(), slice.bytes.size()) != 0) {
      return Fail(ErrorCode::kCorrupt, "trial");
    }
    at += slice.bytes.size();
  }
  return at == kTrialBytes ? Status() : Fail(ErrorCode::kCorrupt, "trial");
}

// A file of its own, removed again; direct where the file system offers it.
Status TryTransfer(Engine& engine) {
  const std::string name = fmt::format(".dovetail-trial.{}", getpid());
  Answer<Result<FileRef>> opened;
  engine.Open(name, /*create=*/true, opened.Done());
  Result<FileRef> file = opened.Wait();
  if (!file) return std::unexpected(file.error());
  const int64_t alignment = (*file)->direct_alignment();
  const bool direct = alignment > 1 && kTrialBytes % static_cast<size_t>(alignment) == 0;
  const Status status = TransferOnce(engine, *file, direct ? IoMode::kDirect : IoMode::kBuffered);
  Answer<Status> removed;
  engine.Remove(name, removed.Done());
  const Status gone = removed.Wait();
  return status ? gone : status;
}

Result<std::string> TryEngine(const UringOptions& options, const UringSystems& systems) {
  auto arena = std::make_unique<Arena>();
  auto engine = UringEngine::Start(options, *arena, systems);
  if (!engine) return std::unexpected(engine.error());
  const std::string features = (*engine)->info().features;
  const Status status = TryTransfer(**engine);
  if (!(*engine)->Stop(std::chrono::steady_clock::now() + kTrialTime)) {
    static_cast<void>(engine->release());
    static_cast<void>(arena.release());
    return Fail(ErrorCode::kTimeout, "trial");
  }
  if (!status) return std::unexpected(status.error());
  return features;
}

}  // namespace

std::string RefusalOf(const Error& error) {
  constexpr std::string_view kPrefix = "io_uring: ";
  std::string_view where = error.where;
  if (where.starts_with(kPrefix)) where.remove_prefix(kPrefix.size());
  const std::string what =
      error.os_error != 0 ? std::strerror(error.os_error) : ToString(error.code);
  return fmt::format("{}: {}{}", where, what, Hint(error));
}

std::expected<EngineChoice, std::string> ChooseEngine(std::string_view wanted,
                                                      const UringOptions& options,
                                                      const UringSystems& systems) {
  DOVETAIL_CHECK(wanted == "auto" || wanted == "io_uring" || wanted == "pool");
  if (wanted == "pool") return EngineChoice{.io_uring = false, .reason = "configured"};
  if (const std::optional<int> missing = MissingCpu(options.cpus)) {
    return std::unexpected(
        fmt::format("localfile_store.io_uring_options.cpus names processor {}, which this machine "
                    "does not have or does not let the process run on; name others",
                    *missing));
  }
  const Result<std::string> features = TryEngine(options, systems);
  if (features) return EngineChoice{.io_uring = true, .reason = *features};
  const std::string refusal = "io_uring is refused: " + RefusalOf(features.error());
  if (wanted == "io_uring") {
    return std::unexpected(refusal + "; or set localfile_store.engine to \"auto\" or \"pool\"");
  }
  return EngineChoice{.io_uring = false, .reason = refusal};
}

}  // namespace dovetail::engine
