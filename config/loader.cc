#include "config/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "config/advertise_host.h"
#include "config/assign.h"
#include "config/cpu_list.h"
#include "config/memory_limit.h"
#include "config/nearest_key.h"
#include "config/text_check.h"
#include "config/toml_text.h"

namespace dovetail::config {
namespace {

struct Problem {
  Place place;
  std::string text;
};

// Where the value of one key was set. Empty texts: nowhere, so the default holds.
struct Origin {
  std::string source;  // for --print-config
  std::string where;   // for a problem, with the column
};

// Control characters of a file's name would break a problem or a comment into lines.
std::string Printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string Where(const std::string& file, Place place) {
  if (place.line == 0) return file;
  return fmt::format("{}:{}:{}", file, place.line, place.column);
}

std::string UnknownKey(const std::string& section, const std::string& name) {
  const std::string path = Printable(section.empty() ? name : section + "." + name);
  const Key* nearest = NearestKey(section, name);
  if (nearest == nullptr) {
    return fmt::format("unknown key {}. No key is like it; --print-config lists all.", path);
  }
  std::string hint = fmt::format("unknown key {}. Did you mean {}?", path, PathOf(*nearest));
  if (nearest->name == name && nearest->section != section) {
    hint += nearest->section.empty() ? " It stands above the first [section]."
                                     : fmt::format(" It belongs to [{}].", nearest->section);
  }
  return hint;
}

class Loader {
 public:
  Loader() : origins_(Keys().size()) {}

  void ReadFile(const std::string& path);
  void ReadSet(const std::string& text);
  // Only sensible while there is no problem: relations between values, and values from the machine.
  void CheckWatermarks(std::string_view section, std::string_view low_name, double low,
                       std::string_view high_name, double high);
  void CheckRelations();
  void CheckFlushSizes(const storage::LocalFileStoreOptions& options);
  void Derive();
  std::expected<LoadedConfig, Problems> Finish();

  bool has_problems() const { return !problems_.empty(); }

 private:
  Origin& OriginOf(const Key& key) { return origins_[static_cast<size_t>(&key - Keys().data())]; }
  std::string Described(std::string_view section, std::string_view name);
  void ReadSection(const TomlSection& section, const TomlDocument& document,
                   std::vector<Problem>* found);
  void ReadEntry(const std::string& file, const TomlEntry& entry, std::vector<Problem>* found);

  LoadedConfig loaded_;
  std::vector<Origin> origins_;
  Problems problems_;
};

// Entries speak for an unknown section, with a hint for each; only an empty one needs its own
// problem.
void Loader::ReadSection(const TomlSection& section, const TomlDocument& document,
                         std::vector<Problem>* found) {
  if (const Key* key = FindKey(section.name)) {
    if (auto refusal = Assign(*key, OtherValue{"a table"}, &loaded_.config)) {
      found->push_back({section.place, *refusal});
    }
    return;
  }
  const bool has_entries = std::ranges::any_of(
      document.entries, [&](const TomlEntry& entry) { return entry.section == section.name; });
  if (IsSection(section.name) || has_entries) return;
  found->push_back({section.place, fmt::format("unknown section {}. --print-config lists all.",
                                               Printable(section.name))});
}

void Loader::ReadEntry(const std::string& file, const TomlEntry& entry,
                       std::vector<Problem>* found) {
  const Key* key = FindKey(entry.section, entry.name);
  if (key == nullptr) {
    const std::string path = entry.section.empty() ? entry.name : entry.section + "." + entry.name;
    const bool section_as_key = IsSection(path);
    found->push_back({entry.name_place,
                      section_as_key ? fmt::format("{0} is a section: write [{0}] on a line of its "
                                                   "own and its keys below.",
                                                   path)
                                     : UnknownKey(entry.section, entry.name)});
    return;
  }
  if (const std::optional<std::string> refusal = Assign(*key, entry.value, &loaded_.config)) {
    found->push_back({entry.value_place, *refusal});
    return;
  }
  OriginOf(*key) =
      Origin{fmt::format("{}:{}", file, entry.value_place.line), Where(file, entry.value_place)};
}

void Loader::ReadFile(const std::string& path) {
  const std::string file = path.empty() ? "--config" : Printable(path);
  std::ifstream stream(path, std::ios::binary);
  std::string text(kTomlBytesMax + 1, '\0');  // one more than is taken, to see that there is more
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    problems_.push_back(
        fmt::format("{}: cannot read the configuration file: {}. Check its path "
                    "and its permissions.",
                    file, std::strerror(errno)));
    return;
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  const std::expected<TomlDocument, TomlProblem> document = ParseToml(text);
  if (!document) {
    const TomlProblem& problem = document.error();
    problems_.push_back(
        problem.is_syntax
            ? fmt::format("{}: not valid TOML: {}. Expected lines such as key = value, with texts "
                          "and sizes in quotes: capacity = \"3G\".",
                          Where(file, problem.place), Printable(problem.what))
            : fmt::format("{}: {}.", Where(file, problem.place), problem.what));
    return;
  }
  std::vector<Problem> found;
  for (const TomlSection& section : document->sections) ReadSection(section, *document, &found);
  for (const TomlEntry& entry : document->entries) {
    const bool below_a_key = FindKey(entry.section) != nullptr;
    if (!below_a_key) ReadEntry(file, entry, &found);  // else ReadSection has said so
  }
  std::ranges::stable_sort(found, {}, [](const Problem& problem) {
    return std::pair(problem.place.line, problem.place.column);
  });
  for (const Problem& problem : found) {
    problems_.push_back(fmt::format("{}: {}", Where(file, problem.place), problem.text));
  }
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// What is no TOML value is taken as a text, so that the shell's quotes are enough: --set
// log.log_level=DEBUG.
std::expected<TomlValue, std::string> ReadSetValue(std::string_view text) {
  std::expected<TomlValue, TomlProblem> value = ParseTomlValue(text);
  if (value) return std::move(*value);
  if (text.find_first_of("\"'[]{}\r\n") == std::string_view::npos) return std::string(text);
  return std::unexpected(value.error().what);
}

void Loader::ReadSet(const std::string& text) {
  const std::string where = "--set " + Printable(text);
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    problems_.push_back(where +
                        ": no '=' in it. Expected key=value, such as "
                        "--set memory_store.capacity=3G.");
    return;
  }
  const std::string path(Trim(std::string_view(text).substr(0, equals)));
  const size_t dot = path.rfind('.');
  const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
  const Key* key = FindKey(path);
  if (key == nullptr) {
    problems_.push_back(fmt::format("{}: {}", where, UnknownKey(section, name)));
    return;
  }
  const auto value = ReadSetValue(Trim(std::string_view(text).substr(equals + 1)));
  if (!value) {
    problems_.push_back(fmt::format("{}: the value is not valid TOML: {}. Expected {}.", where,
                                    value.error(), ExpectedOf(*key)));
    return;
  }
  if (const std::optional<std::string> refusal = Assign(*key, *value, &loaded_.config)) {
    problems_.push_back(fmt::format("{}: {}", where, *refusal));
    return;
  }
  OriginOf(*key) = Origin{"--set", where};
}

// A key with its value and where that was set, for problems of two keys at once.
std::string Loader::Described(std::string_view section, std::string_view name) {
  const Key* key = FindKey(section, name);
  const std::string& where = OriginOf(*key).where;
  return fmt::format("{} = {} ({})", PathOf(*key), ValueText(*key, loaded_.config),
                     where.empty() ? "default" : where);
}

void Loader::CheckWatermarks(std::string_view section, std::string_view low_name, double low,
                             std::string_view high_name, double high) {
  if (low < high) return;
  problems_.push_back(fmt::format("{} is not below {}. Lower the first or raise the second.",
                                  Described(section, low_name), Described(section, high_name)));
}

void Loader::CheckFlushSizes(const storage::LocalFileStoreOptions& options) {
  if (options.flush_group_bytes_max > options.flush_bytes_in_flight_max) {
    problems_.push_back(
        fmt::format("{} is more than {}, so a whole group could never be under way. "
                    "Lower the first or raise the second.",
                    Described("localfile_store", "flush_group_bytes_max"),
                    Described("localfile_store", "flush_bytes_in_flight_max")));
  }
  if (options.segment_bytes_max < options.flush_group_bytes_max) {
    problems_.push_back(
        fmt::format("{} is less than {}, so every full group would get a file of its own. "
                    "Raise the first or lower the second.",
                    Described("localfile_store", "segment_bytes_max"),
                    Described("localfile_store", "flush_group_bytes_max")));
  }
  const auto paths = static_cast<int64_t>(options.data_paths.size());
  if (paths > 0 && options.min_number_of_available_disks > paths) {
    problems_.push_back(
        fmt::format("{} is more than there are in {}, so the server would never be ready. "
                    "Lower the first or name more paths.",
                    Described("localfile_store", "min_number_of_available_disks"),
                    Described("localfile_store", "data_paths")));
  }
}

void Loader::CheckRelations() {
  const server::ServerOptions& server = loaded_.config.server;
  if (server.grpc_port == server.http_port && server.grpc_port != 0) {
    problems_.push_back(fmt::format("{} and {} cannot be the same port. Change one.",
                                    Described("", "grpc_port"), Described("", "http_port")));
  }
  if (server.grpc_memory_bytes_max < server.grpc_message_bytes_max) {
    problems_.push_back(fmt::format(
        "{} is less than {}, so the largest message would never fit. "
        "Raise the first or lower the second.",
        Described("", "grpc_memory_bytes_max"), Described("", "grpc_message_bytes_max")));
  }
  const storage::StoreOptions& store = loaded_.config.store;
  CheckWatermarks("localfile_store", "disk_low_watermark", store.local_file.disk_low_watermark,
                  "disk_high_watermark", store.local_file.disk_high_watermark);
  CheckWatermarks("hybrid_store", "memory_spill_low_watermark",
                  store.hybrid.memory_spill_low_watermark, "memory_spill_high_watermark",
                  store.hybrid.memory_spill_high_watermark);
  CheckFlushSizes(store.local_file);
  if (server.heartbeat_interval_seconds >= server.coordinator.server_heartbeat_timeout_sec) {
    problems_.push_back(
        fmt::format("{} is not shorter than {}, so the server would be dropped between two "
                    "heartbeats. Lower the first or raise the second.",
                    Described("", "heartbeat_interval_seconds"),
                    Described("coordinator", "server_heartbeat_timeout_sec")));
  }
}

void Loader::Derive() {
  engine::EngineOptions& engine = loaded_.config.engine;
  if (const auto cpus = ParseCpuList(engine.cpus)) engine.io_uring.cpus = *cpus;
  int64_t& capacity = loaded_.config.store.memory.capacity_bytes;
  if (capacity == 0) {
    const Key& key = *FindKey("memory_store", "capacity");
    const MemoryLimit limit = FindMemoryLimit("", MachineMemoryBytes());
    capacity = std::max(limit.bytes / 4, key.min);
    OriginOf(key).source =
        fmt::format("default: a quarter of {} bytes, {}", limit.bytes, Printable(limit.reason));
  }
  std::string& advertise_host = loaded_.config.server.advertise_host;
  if (advertise_host.empty()) {
    const AdvertiseHost found = FindAdvertiseHost(loaded_.config.server.bind_address);
    advertise_host = found.host;
    OriginOf(*FindKey("", "advertise_host")).source = "default: " + found.reason;
  }
}

std::expected<LoadedConfig, Problems> Loader::Finish() {
  if (has_problems()) return std::unexpected(std::move(problems_));
  for (const Key& key : Keys()) {
    const std::string& source = OriginOf(key).source;
    loaded_.settings.push_back(Setting{&key, ValueText(key, loaded_.config),
                                       source.empty() ? std::string("default") : source});
  }
  return std::move(loaded_);
}

}  // namespace

std::expected<LoadedConfig, Problems> Load(const std::optional<std::string>& file,
                                           const std::vector<std::string>& sets) {
  Loader loader;
  if (file) loader.ReadFile(*file);
  for (const std::string& text : sets) loader.ReadSet(text);
  if (!loader.has_problems()) loader.CheckRelations();
  if (!loader.has_problems()) loader.Derive();
  return loader.Finish();
}

std::string Print(const LoadedConfig& loaded) {
  std::string text =
      "# The configuration in force, with the source of each value: --set over file over "
      "default.\n";
  std::string_view section;
  for (const Setting& setting : loaded.settings) {
    if (setting.key->section != section) {
      section = setting.key->section;
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}  # {}\n", setting.key->name, setting.text, setting.source);
  }
  return text;
}

}  // namespace dovetail::config
