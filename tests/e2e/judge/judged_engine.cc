#include "tests/e2e/judge/judged_engine.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "engine/pool/pool_engine.h"
#include "engine/uring/uring_engine.h"
#include "tests/contract/scripted_calls.h"
#include "tests/contract/scripted_ring.h"
#include "tests/contract/sync_io.h"

namespace dovetail::judge {
namespace {

using engine::IoMode;

constexpr std::chrono::seconds kStopTime{30};

// Whatever does not change what an operation is to bring.
std::shared_ptr<contract::ScriptedCalls> CallsWithFaults(uint64_t seed) {
  auto calls = std::make_shared<contract::ScriptedCalls>();
  calls->drawn().SetRates({.seed = seed, .short_per_mille = 200, .passing_per_mille = 20});
  return calls;
}

contract::RingRules RulesOf(uint64_t seed) {
  return {.seed = seed,
          .late_per_mille = 100,
          .reorders = true,
          .wakes_lost_per_mille = 20,
          .enters_busy_per_mille = 5};
}

template <class EngineT>
std::unique_ptr<engine::Engine> Take(Result<std::unique_ptr<EngineT>> started) {
  if (started) return std::move(*started);
  fmt::print(stderr, "engine_fs: the engine does not start: {} ({})\n", started.error().where,
             std::strerror(started.error().os_error));
  return nullptr;
}

std::unique_ptr<engine::Engine> Start(const std::string& folder, const JudgedOptions& options,
                                      Arena& arena) {
  if (options.engine == "pool") {
    return Take(engine::PoolEngine::Start(
        {.data_path = folder, .descriptors_max = options.descriptors_max}, arena));
  }
  engine::UringSystems systems;
  if (options.faults_seed != 0) {
    systems.ring = [seed = options.faults_seed](int shard) {
      const uint64_t own_seed = seed + static_cast<uint64_t>(shard);
      return std::make_unique<contract::ScriptedRing>(CallsWithFaults(own_seed), RulesOf(own_seed));
    };
  }
  return Take(engine::UringEngine::Start(
      {.data_path = folder, .descriptors_max = options.descriptors_max}, arena, systems));
}

ReadWay WayOf(const std::string& name) {
  static const std::map<std::string, ReadWay> ways{{"direct", ReadWay::kDirect},
                                                   {"buffered", ReadWay::kBuffered},
                                                   {"pipe", ReadWay::kPipe},
                                                   {"mixed", ReadWay::kMixed}};
  return ways.at(name);
}

class Line {
 public:
  void Add(const char* key, int64_t value) { text_ += fmt::format(" {}={}", key, value); }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

void AddRings(const engine::Engine& engine, Line& line) {
  using Rings = engine::RingCounters;
  using Field = std::pair<const char*, engine::RingCounters::Count Rings::*>;
  static constexpr Field kFields[] = {
      {"requests", &Rings::requests},
      {"enters", &Rings::enters},
      {"retries", &Rings::retries},
      {"splices", &Rings::splices},
      {"splice_bytes", &Rings::splice_bytes},
      {"splice_refused", &Rings::splice_refused},
      {"fixed_file_requests", &Rings::fixed_file_requests},
      {"fixed_buffer_requests", &Rings::fixed_buffer_requests},
      {"file_table_refused", &Rings::file_table_refused},
      {"file_table_full", &Rings::file_table_full},
      {"slabs_refused", &Rings::slabs_refused},
      {"slab_waits", &Rings::slab_waits},
  };
  if (engine.ring_counters(0) == nullptr) return;
  line.Add("rings", engine.shards());
  for (const auto& [name, field] : kFields) {
    int64_t sum = 0;
    for (int shard = 0; shard < engine.shards(); ++shard) {
      sum += (engine.ring_counters(shard)->*field).load();
    }
    line.Add(name, sum);
  }
}

}  // namespace

JudgedEngine::JudgedEngine(const std::string& folder, const JudgedOptions& options)
    : arena_(std::make_unique<Arena>()), engine_(Start(folder, options, *arena_)) {
  if (engine_ == nullptr) return;
  const IoMode writes = options.writes == "direct" ? IoMode::kDirect : IoMode::kBuffered;
  state_.reset(new FileSystemState{
      .engine = *engine_, .arena = *arena_, .writes = writes, .reads = WayOf(options.reads)});
}

bool JudgedEngine::Stop() {
  stopped_ = engine_->Stop(std::chrono::steady_clock::now() + kStopTime);
  return stopped_;
}

JudgedEngine::~JudgedEngine() {
  if (engine_ == nullptr || stopped_) return;
  // As its contract has it: what is still held by the system is left behind.
  static_cast<void>(engine_.release());
  static_cast<void>(arena_.release());
}

std::string JudgedEngine::Summary() const {
  const FileCounts& asked = state_->counts;
  const engine::EngineCounters& did = *engine_->counters();
  Line line;
  line.Add("writes", asked.writes);
  line.Add("written_bytes", asked.written_bytes);
  line.Add("reads", asked.reads);
  line.Add("read_bytes", asked.read_bytes);
  line.Add("reserves", asked.reserves);
  line.Add("truncates", asked.truncates);
  line.Add("failed", asked.failed);
  line.Add("at_once_max", asked.at_once_max);
  line.Add("alignment", asked.alignment);
  line.Add("engine_appends", did.appends);
  line.Add("engine_append_bytes", did.append_bytes);
  line.Add("engine_reads", did.reads);
  line.Add("engine_read_bytes", did.read_bytes);
  line.Add("engine_pipes", did.pipes);
  line.Add("engine_pipe_bytes", did.pipe_bytes);
  line.Add("continued", did.continued);
  line.Add("rollbacks", did.rollbacks);
  line.Add("direct_refused", did.direct_refused);
  line.Add("reopened", did.reopened);
  line.Add("unreserved", did.unreserved);
  AddRings(*engine_, line);
  const engine::EngineInfo info = engine_->info();
  return fmt::format("engine={} features={}{}", info.name, info.features, line.text());
}

int OpenFile(FileSystemState& state, const std::string& folder, const std::string& name,
             bool create, std::shared_ptr<EngineFile>& out) {
  const Result<engine::FileRef> file = contract::Open(state.engine, name, create);
  if (!file) return file.error().os_error != 0 ? -file.error().os_error : -EIO;
  struct stat facts {};
  if (stat((folder + "/" + name).c_str(), &facts) != 0) return -errno;
  state.counts.alignment = (*file)->direct_alignment();
  out = std::make_shared<EngineFile>(state, name, *file, facts.st_size);
  return 0;
}

int RemoveFile(FileSystemState& state, const std::string& name) {
  const Status status = contract::Remove(state.engine, name);
  if (status) return 0;
  return status.error().os_error != 0 ? -status.error().os_error : -EIO;
}

}  // namespace dovetail::judge
