#include "engine/probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/data_folder.h"
#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr size_t kProbeBytes = 256 << 10;

std::string NameOfFileSystem(int64_t magic) {
  constexpr std::array<std::pair<int64_t, std::string_view>, 14> kNames{{
      {0xef53, "ext4"},
      {0x58465342, "xfs"},
      {0x9123683e, "btrfs"},
      {0x01021994, "tmpfs"},
      {0x794c7630, "overlay"},
      {0x65735546, "fuse"},
      {0x6969, "nfs"},
      {0xf2f52010, "f2fs"},
      {0x2fc12fc1, "zfs"},
      {0x01021997, "9p"},
      {0x858458f6, "ramfs"},
      {0xff534d42, "cifs"},
      {0x00c36400, "ceph"},
      {0x0bd00bd0, "lustre"},
  }};
  for (const auto& [number, name] : kNames) {
    if (number == magic) return std::string(name);
  }
  return fmt::format("{:#x}", magic);
}

// One real write and read: some file systems accept O_DIRECT and refuse the transfer.
bool DirectWorks(SystemCalls& calls, int fd) {
  Arena arena;
  ArenaBuffer out(arena, kProbeBytes);
  ArenaBuffer in(arena, kProbeBytes);
  std::memset(out.data(), 0x5a, kProbeBytes);
  std::memset(in.data(), 0, kProbeBytes);
  const iovec out_part{out.data(), kProbeBytes};
  const iovec in_part{in.data(), kProbeBytes};
  return calls.Pwritev(fd, {&out_part, 1}, 0) == static_cast<int64_t>(kProbeBytes) &&
         calls.Preadv(fd, {&in_part, 1}, 0) == static_cast<int64_t>(kProbeBytes) &&
         std::memcmp(out.data(), in.data(), kProbeBytes) == 0;
}

}  // namespace

Result<EngineFacts> Probe(const std::string& path, std::shared_ptr<SystemCalls> calls) {
  auto folder = DataFolder::Open(path, calls);
  if (!folder) return std::unexpected(folder.error());
  EngineFacts facts;
  struct statfs space {};
  if (const int result = calls->StatFileSystem((*folder)->descriptor(), &space); result < 0) {
    return FailErrno("probe: space", -result);
  }
  facts.file_system = NameOfFileSystem(static_cast<int64_t>(space.f_type));
  facts.free_bytes = static_cast<int64_t>(space.f_bavail) * space.f_bsize;
  facts.total_bytes = static_cast<int64_t>(space.f_blocks) * space.f_bsize;

  const std::string name = fmt::format(".dovetail-probe.{}", getpid());
  const auto file = (*folder)->OpenFile(name, /*create=*/true);
  if (!file) return std::unexpected(file.error());
  const Status removed = (*folder)->RemoveFile(name);
  const int reserved = calls->Fallocate(file->buffered, 0, kProbeBytes);
  facts.reserve = reserved == 0;
  if (file->direct >= 0 && DirectWorks(*calls, file->direct)) {
    facts.direct_io = true;
    facts.direct_alignment = file->direct_alignment;
  }
  if (file->direct >= 0) calls->Close(file->direct);
  calls->Close(file->buffered);
  if (!removed) return std::unexpected(removed.error());
  if (reserved < 0 && CodeOfErrno(-reserved) == ErrorCode::kNoSpace) {
    return FailErrno("probe: reserve", -reserved);
  }
  return facts;
}

}  // namespace dovetail::engine
