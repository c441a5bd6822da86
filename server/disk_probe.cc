#include "server/disk_probe.h"

#include <fmt/format.h>
#include <mntent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/uring/uring_choice.h"
#include "server/file_limit.h"
#include "storage/data_path.h"
#include "storage/segment_format.h"

namespace dovetail::server {
namespace {

namespace fs = std::filesystem;

bool DirectAppends(const engine::EngineFacts& facts) {
  return facts.direct_io && storage::kGroupAlignment % facts.direct_alignment == 0;
}

double UsedShare(const engine::EngineFacts& facts) {
  if (facts.total_bytes <= 0) return 0;
  return 1.0 - static_cast<double>(facts.free_bytes) / static_cast<double>(facts.total_bytes);
}

// The last of the longest mount points above the path: later mounts hide earlier ones.
void FindMount(DiskProbe& probe) {
  std::error_code error;
  const fs::path real = fs::canonical(probe.path, error);
  const std::unique_ptr<FILE, int (*)(FILE*)> table(setmntent("/proc/self/mounts", "r"), endmntent);
  if (error || !table) return;
  size_t longest = 0;
  while (const mntent* entry = getmntent(table.get())) {
    const fs::path mount = entry->mnt_dir;
    const fs::path relative = real.lexically_relative(mount);
    if (relative.empty() || *relative.begin() == "..") continue;
    if (mount.native().size() < longest) continue;
    longest = mount.native().size();
    probe.mount_point = mount.native();
    probe.mount_source = entry->mnt_fsname;
  }
}

// The other path that names the same folder, or nullptr.
const DiskProbe* SameFolder(const DiskProbe& probe, const std::vector<DiskProbe>& others) {
  struct stat here {};
  if (stat(probe.path.c_str(), &here) != 0) return nullptr;
  for (const DiskProbe& other : others) {
    struct stat there {};
    if (stat(other.path.c_str(), &there) != 0) continue;
    if (here.st_dev == there.st_dev && here.st_ino == there.st_ino) return &other;
  }
  return nullptr;
}

void AddNotes(DiskProbe& probe, bool has_old_files, const storage::LocalFileStoreOptions& options) {
  const engine::EngineFacts& facts = *probe.facts;
  if (UsedShare(facts) > options.disk_high_watermark) {
    probe.notes.push_back(fmt::format(
        "it would take no data: more than {:.1f}% is used (disk_high_watermark); free space until "
        "less than {:.1f}% is (disk_low_watermark)",
        options.disk_high_watermark * 100, options.disk_low_watermark * 100));
  }
  if (facts.file_system == "tmpfs" || facts.file_system == "ramfs") {
    probe.notes.push_back("files there take memory: the daemon's budget does not count them");
  }
  if (!facts.reserve) {
    probe.notes.push_back("without reservation a full disk shows only in the middle of a write");
  }
  if (has_old_files) {
    probe.notes.push_back("a start removes what a former process left there");
  }
}

void ProbeEngine(DiskProbe& probe, const std::string& folder, engine::EngineOptions options) {
  options.io_uring.data_path = folder;
  auto choice = engine::ChooseEngine(options.engine, options.io_uring);
  if (!choice) {
    if (probe.refusal.empty()) {
      probe.refusal = fmt::format("data path {}: {}", probe.path, choice.error());
    }
    return;
  }
  probe.engine = choice->io_uring ? "io_uring" : "pool";
  probe.engine_reason = std::move(choice->reason);
}

DiskProbe ProbeDisk(const std::string& path, const std::vector<DiskProbe>& others,
                    const storage::LocalFileStoreOptions& options,
                    const engine::EngineOptions& engine_options) {
  DiskProbe probe;
  probe.path = path;
  FindMount(probe);
  const storage::DataPathLook look = storage::DataPathClaim::Look(path);
  probe.refusal = look.refusal;
  if (const DiskProbe* other = SameFolder(probe, others); other && probe.refusal.empty()) {
    probe.refusal =
        fmt::format("data path {} is the same folder as {}; name it once", path, other->path);
  }
  if (probe.refusal.empty()) probe.refusal = storage::NestedDataPath(path, options.data_paths);
  if (look.probe_folder.empty()) return probe;
  const Result<engine::EngineFacts> facts = engine::Probe(look.probe_folder);
  if (!facts) {
    if (probe.refusal.empty()) probe.refusal = ProbeFailure(path, facts.error());
    return probe;
  }
  probe.facts = *facts;
  ProbeEngine(probe, look.probe_folder, engine_options);
  probe.direct_appends = options.direct_io_append_enable && DirectAppends(*facts);
  probe.append_mode = AppendMode(*facts, options.direct_io_append_enable);
  AddNotes(probe, look.has_old_files, options);
  return probe;
}

std::string SizeText(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string DiskText(const DiskProbe& disk) {
  std::string text = fmt::format("data path {}\n", disk.path);
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("  {:<13} {}\n", name, value);
  };
  if (!disk.mount_point.empty()) {
    line("mount", fmt::format("{} on {}", disk.mount_source, disk.mount_point));
  }
  if (disk.facts) {
    const engine::EngineFacts& facts = *disk.facts;
    line("file system", facts.file_system);
    line("space", fmt::format("{} free of {}, {:.1f}% used", SizeText(facts.free_bytes),
                              SizeText(facts.total_bytes), UsedShare(facts) * 100));
    line("direct I/O", facts.direct_io
                           ? fmt::format("works, in multiples of {} bytes", facts.direct_alignment)
                           : std::string("refused"));
    line("reservation", facts.reserve ? "works" : "refused");
    if (!disk.engine.empty()) {
      line("engine", fmt::format("{} ({})", disk.engine, disk.engine_reason));
    }
    line("appends", disk.append_mode);
  }
  for (const std::string& note : disk.notes) line("note", note);
  line("start", disk.refusal.empty() ? "would take it" : "would refuse it: " + disk.refusal);
  return text + "\n";
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string QuoteOrNull(const std::string& text) { return text.empty() ? "null" : Quote(text); }

std::string DiskJson(const DiskProbe& disk) {
  std::string notes;
  for (const std::string& note : disk.notes) {
    notes += (notes.empty() ? "" : ", ") + Quote(note);
  }
  std::string text =
      fmt::format(R"({{"path": {}, "usable": {}, "refusal": {}, "notes": [{}], "mount_point": {}, )"
                  R"("mount_source": {}, )",
                  Quote(disk.path), disk.refusal.empty(), QuoteOrNull(disk.refusal), notes,
                  QuoteOrNull(disk.mount_point), QuoteOrNull(disk.mount_source));
  if (!disk.facts) return text + R"("facts": null})";
  const engine::EngineFacts& facts = *disk.facts;
  return text + fmt::format(R"("facts": {{"file_system": {}, "total_bytes": {}, "free_bytes": {}, )"
                            R"("direct_io": {}, "direct_alignment": {}, "reserve": {}, )"
                            R"("engine": {}, "engine_reason": {}, "appends": "{}"}}}})",
                            Quote(facts.file_system), facts.total_bytes, facts.free_bytes,
                            facts.direct_io, facts.direct_alignment, facts.reserve,
                            QuoteOrNull(disk.engine), QuoteOrNull(disk.engine_reason),
                            disk.direct_appends ? "direct" : "buffered");
}

int64_t UsableCount(const ProbeReport& report) {
  return std::ranges::count_if(report.disks, [](const auto& disk) { return disk.refusal.empty(); });
}

}  // namespace

bool ProbeReport::usable() const {
  return open_files_refusal.empty() && file_size_refusal.empty() &&
         UsableCount(*this) == static_cast<int64_t>(disks.size());
}

ProbeReport ProbeDisks(const storage::LocalFileStoreOptions& options,
                       const engine::EngineOptions& engine_options) {
  ProbeReport report;
  if (const auto limit = RaiseFileLimit()) {
    report.open_files_max = *limit;
  } else {
    report.open_files_refusal = limit.error();
  }
  if (const auto limit = RaiseFileSizeLimit(options); !limit) {
    report.file_size_refusal = limit.error();
  }
  for (const std::string& path : options.data_paths) {
    report.disks.push_back(ProbeDisk(path, report.disks, options, engine_options));
  }
  return report;
}

std::string ProbeText(const ProbeReport& report) {
  std::string text;
  for (const DiskProbe& disk : report.disks) text += DiskText(disk);
  text +=
      report.open_files_refusal.empty()
          ? fmt::format("open files: at most {}\n", report.open_files_max)
          : fmt::format("open files: a start would be refused: {}\n", report.open_files_refusal);
  if (!report.file_size_refusal.empty()) {
    text += fmt::format("file size: a start would be refused: {}\n", report.file_size_refusal);
  }
  return text +
         fmt::format("{} of {} data paths usable\n", UsableCount(report), report.disks.size());
}

std::string ProbeJson(const ProbeReport& report) {
  std::string disks;
  for (const DiskProbe& disk : report.disks) {
    disks += (disks.empty() ? "\n  " : ",\n  ") + DiskJson(disk);
  }
  return fmt::format(
      "{{\"usable\": {}, \"open_files_max\": {}, \"open_files_refusal\": {}, "
      "\"file_size_refusal\": {}, \"data_paths\": [{}\n]}}\n",
      report.usable(), report.open_files_max, QuoteOrNull(report.open_files_refusal),
      QuoteOrNull(report.file_size_refusal), disks);
}

std::string ProbeFailure(const std::string& data_path, const Error& error) {
  return fmt::format(
      "data path {} cannot be used: a test file could not be written and read back ({} at {}: {}); "
      "check permissions and free space",
      data_path, ToString(error.code), error.where, std::strerror(error.os_error));
}

std::string AppendMode(const engine::EngineFacts& facts, bool direct_wanted) {
  if (!direct_wanted) return "buffered, as configured";
  if (!facts.direct_io) return "buffered: the file system refuses O_DIRECT";
  if (DirectAppends(facts)) return "direct";
  return fmt::format("buffered: direct I/O there needs multiples of {} bytes",
                     facts.direct_alignment);
}

}  // namespace dovetail::server
