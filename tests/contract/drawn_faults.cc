#include "tests/contract/drawn_faults.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"

namespace dovetail::contract {
namespace {

constexpr size_t kAskedMax = 1'000'000;

struct CallFacts {
  const char* name;  // null: nothing is drawn for it
  bool moves_bytes;
  bool takes_space;
  bool nothing_is_the_end;  // a call that moved no bytes says that there are no more
};

CallFacts FactsOf(Kernel call) {
  switch (call) {
    case Kernel::kPreadv:
      return {"read", true, false, true};
    case Kernel::kPwritev:
      return {"write", true, true, false};
    case Kernel::kSplice:
      return {"splice", true, false, true};
    case Kernel::kFallocate:
      return {"fallocate", false, true, false};
    case Kernel::kFtruncate:
      return {"ftruncate", false, false, false};
    default:
      return {nullptr, false, false, false};
  }
}

// The last part of the path: descriptors have other numbers in every run.
uint64_t HashOfFile(int fd) {
  std::array<char, 512> path{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  if (length <= 0) return 0;
  std::string_view name(path.data(), static_cast<size_t>(length));
  name.remove_prefix(name.rfind('/') + 1);
  return std::hash<std::string_view>()(name);
}

uint64_t Together(uint64_t a, uint64_t b) { return MixBits(a + 0x9E3779B97F4A7C15ULL) ^ b; }

const char* NameOf(int os_error) {
  switch (os_error) {
    case EAGAIN:
      return "EAGAIN";
    case EINTR:
      return "EINTR";
    case ENOSPC:
      return "ENOSPC";
    default:
      return "EIO";
  }
}

}  // namespace

uint64_t DrawnFaults::NumberOf(Kernel call, const Target& target) {
  uint64_t key = Together(rates_.seed, static_cast<uint64_t>(call));
  for (const uint64_t part : {HashOfFile(target.fd), static_cast<uint64_t>(target.offset),
                              static_cast<uint64_t>(target.length), target.content}) {
    key = Together(key, part);
  }
  std::lock_guard lock(mutex_);
  if (asked_.size() > kAskedMax) asked_.clear();
  return MixBits(Together(key, asked_[key]++));
}

std::optional<KernelAct> DrawnFaults::Draw(Kernel call, const Target& target) {
  const CallFacts facts = FactsOf(call);
  if (facts.name == nullptr) return std::nullopt;
  const bool moves = facts.moves_bytes;
  const int error_per_mille = moves ? rates_.error_per_mille : rates_.control_error_per_mille;
  const int passing_per_mille = moves ? rates_.passing_per_mille : rates_.control_error_per_mille;
  const int short_per_mille = moves ? rates_.short_per_mille : 0;
  if (passing_per_mille + error_per_mille + short_per_mille == 0) return std::nullopt;
  const uint64_t number = NumberOf(call, target);
  auto left = static_cast<int>(number % 1000);
  const bool coin = (number >> 32) % 2 == 0;
  int os_error = 0;
  if (left < passing_per_mille) {
    os_error = moves && coin ? EAGAIN : EINTR;
  } else if ((left -= passing_per_mille) < error_per_mille) {
    os_error = facts.takes_space && coin ? ENOSPC : EIO;
  } else if (left - error_per_mille < short_per_mille) {
    return DrawShort(call, target, MixBits(number));
  }
  if (os_error == 0) return std::nullopt;
  Met(fmt::format("{}: {}", facts.name, NameOf(os_error)));
  return KernelAct{.os_error = os_error};
}

std::optional<KernelAct> DrawnFaults::DrawShort(Kernel call, const Target& target,
                                                uint64_t number) {
  const CallFacts facts = FactsOf(call);
  struct Choice {
    int64_t bytes;
    std::string name;
  };
  std::vector<Choice> choices;
  const int64_t n = target.length;
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{511}, int64_t{4095}, int64_t{4096}}) {
    if (k < n && (k > 0 || !facts.nothing_is_the_end)) choices.push_back({k, fmt::to_string(k)});
  }
  for (const int64_t k : {int64_t{1}, int64_t{511}, int64_t{4095}, int64_t{4096}}) {
    if (k < n) choices.push_back({n - k, fmt::format("n-{}", k)});
  }
  if (choices.empty()) return std::nullopt;
  const Choice& choice = choices[number % choices.size()];
  Met(fmt::format("{}: {} bytes", facts.name, choice.name));
  return KernelAct{.short_bytes = choice.bytes};
}

void DrawnFaults::Met(const std::string& event) {
  std::lock_guard lock(mutex_);
  ++met_[event];
}

std::map<std::string, int64_t> DrawnFaults::met() const {
  std::lock_guard lock(mutex_);
  return met_;
}

}  // namespace dovetail::contract
