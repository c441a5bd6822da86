#include "tests/sim/model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdio>

#include "storage/block_bitmap.h"

namespace dovetail::sim {
namespace {

using storage::PartitionRange;

// Ids as a hostile client would choose them: some give the same folder name, one has a zero byte,
// one climbs, one is longer than a file name may be.
const std::vector<std::string>& AppIds() {
  static const std::vector<std::string> ids = {
      "application_1_1", "../../etc", "a/b", "a+b", std::string("a\0b", 3), std::string(255, 'x')};
  return ids;
}

constexpr std::array<int32_t, 3> kShuffles = {0, 7, INT32_MAX};
constexpr std::array<PartitionRange, 4> kRanges = {
    PartitionRange{0, 3}, {2, 5}, {17, 17}, {INT32_MAX - 1, INT32_MAX}};

// Where the run is, for a promise of the program that breaks in the middle of it.
volatile uint64_t g_seed = 0;
volatile int64_t g_step = 0;

void OnDeath(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  char text[160];
  const int size = std::snprintf(
      text, sizeof(text), "died: DOVETAIL_MODEL_SEED=%llu DOVETAIL_MODEL_STEPS=%lld\n",
      static_cast<unsigned long long>(g_seed), static_cast<long long>(g_step));
  if (write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) _exit(1);
}

}  // namespace

Model::Model(uint64_t seed) : seed_(seed), random_(seed), world_(random_) {
  g_seed = seed;
  std::signal(SIGABRT, OnDeath);
#ifdef NDEBUG  // the sanitizers have their own
  std::signal(SIGSEGV, OnDeath);
#endif
}

Model::~Model() {
  std::signal(SIGABRT, SIG_DFL);
#ifdef NDEBUG
  std::signal(SIGSEGV, SIG_DFL);
#endif
}

bool Model::Run(int64_t steps) {
  constexpr int64_t kFullCheckSteps = 1000;
  for (step_ = 1; step_ <= steps && !wrong_; ++step_) {
    g_step = step_;
    Step();
    if (!wrong_ && step_ % kFullCheckSteps == 0) FullCheck();
  }
  // Also after a failure, so that the store can be taken down.
  End();
  return !wrong_;
}

void Model::Wrong(const std::string& what) {
  if (wrong_) return;
  wrong_ = true;
  ADD_FAILURE() << what << "\nin step " << step_ << "; again with DOVETAIL_MODEL_SEED=" << seed_
                << " DOVETAIL_MODEL_STEPS=" << step_;
}

bool Model::Expect(bool holds, std::string_view what) {
  if (!holds) Wrong(std::string(what));
  return holds;
}

void Model::Step() {
  HealSome();
  const int64_t choice = random_.Below(1000);
  if (choice < 40) return Register();
  if (choice < 420) return Send();
  if (choice < 450) return LeaveTicket();
  if (choice < 490) return StoreAdmitted();
  if (choice < 720) return world_.RunSome(random_, random_.Between(1, 12));
  if (choice < 800) return ReadStep();
  if (choice < 830) return StartRead();
  if (choice < 860) return FinishReads();
  if (choice < 890) return Report();
  if (choice < 920) return ReadReports();
  if (choice < 935) return Unregister();
  if (choice < 939) return UnregisterApp();
  if (choice < 948) return Age();
  if (choice < 975) {
    CountStates();
    world_.store().CheckDisks();
    return CountStates();
  }
  if (choice < 999) return ChangeFaults();
  if (random_.OneIn(2)) LoseSomething();
}

void Model::Touch(const std::string& app) {
  if (const auto found = apps_.find(app); found != apps_.end()) {
    found->second.last_seen = world_.now();
  }
}

LifeRef Model::FindLife(const std::string& app, int32_t shuffle) {
  const auto found = apps_.find(app);
  if (found == apps_.end()) return nullptr;
  const auto life = found->second.shuffles.find(shuffle);
  return life == found->second.shuffles.end() ? nullptr : life->second;
}

LifeRef Model::AnyLife() {
  std::vector<LifeRef> lives;
  for (const auto& [id, app] : apps_) {
    for (const auto& [number, life] : app.shuffles) lives.push_back(life);
  }
  return lives.empty() ? nullptr : random_.Of(lives);
}

void Model::Register() {
  const std::string& app = random_.Of(AppIds());
  const int32_t shuffle = random_.Of(kShuffles);
  std::vector<PartitionRange> ranges = {random_.Of(kRanges)};
  if (random_.OneIn(2)) ranges.push_back(random_.Of(kRanges));
  if (random_.OneIn(50)) {
    const PartitionRange bad{5, 2};
    const Status status = world_.store().Register(app, shuffle, std::span(&bad, 1), {});
    Expect(!status && status.error().code == ErrorCode::kInvalid, "a bad range was registered");
    return;
  }
  if (!Expect(world_.store().Register(app, shuffle, ranges, {}).has_value(), "register")) return;
  AppTruth& truth = apps_[app];
  truth.last_seen = world_.now();
  LifeRef& life = truth.shuffles[shuffle];
  if (!life) {
    life = std::make_shared<Life>();
    life->app = app;
    life->shuffle = shuffle;
    life->generation = ++lives_;
    Met("lives begun");
  } else {
    Met("registered again");
  }
  for (const PartitionRange& range : ranges) {
    for (int64_t p = range.start; p <= range.end; ++p) life->partitions[static_cast<int32_t>(p)];
  }
}

void Model::NoteUsed(const LifeRef& life, int64_t ticket) {
  constexpr size_t kRememberedMax = 50;
  used_tickets_.emplace_back(life, ticket);
  if (used_tickets_.size() > kRememberedMax) used_tickets_.erase(used_tickets_.begin());
}

void Model::EndLife(const LifeRef& life) {
  life->ended = true;
  for (const auto& [id, ticket] : life->tickets) NoteUsed(life, id);
  life->tickets.clear();
  if (world_.store().stats().frozen_bytes.load() > 0) Met("lives ended during flushes");
  Met("lives ended");
}

void Model::Unregister() {
  const std::string& app = random_.Of(AppIds());
  const int32_t shuffle = random_.Of(kShuffles);
  if (const LifeRef life = FindLife(app, shuffle)) {
    EndLife(life);
    apps_[app].shuffles.erase(shuffle);
  }
  world_.store().Unregister(app, shuffle);
  Touch(app);
}

void Model::UnregisterApp() {
  const std::string& app = random_.Of(AppIds());
  if (const auto found = apps_.find(app); found != apps_.end()) {
    for (const auto& [number, life] : found->second.shuffles) EndLife(life);
    apps_.erase(found);
  }
  world_.store().UnregisterApp(app);
}

// Time passes: tickets and applications that nobody uses are forgotten.
void Model::Age() {
  const storage::StoreOptions& options = world_.options();
  static constexpr std::array<int64_t, 5> kSeconds = {1, 20, 70, 301, 700};
  world_.Advance(std::chrono::seconds(random_.Of(kSeconds)));
  for (const auto& entry : apps_) {
    const std::string& app = entry.first;
    if (random_.OneIn(2)) {
      Expect(world_.store().Heartbeat(app).has_value(), "heartbeat of an app that lives");
      Touch(app);
    }
  }
  for (const auto& entry : apps_) {
    for (const auto& [number, life] : entry.second.shuffles) {
      Met("tickets expired", std::erase_if(life->tickets, [&](const auto& ticket) {
            return ticket.second.deadline <= world_.now();
          }));
    }
  }
  world_.store().ExpireTickets();
  const auto age_max = std::chrono::minutes(options.app.app_heartbeat_timeout_min);
  for (auto it = apps_.begin(); it != apps_.end();) {
    if (it->second.last_seen >= world_.now() - age_max) {
      ++it;
      continue;
    }
    for (const auto& [number, life] : it->second.shuffles) EndLife(life);
    it = apps_.erase(it);
    Met("apps expired");
  }
  world_.store().ExpireApps();
  Expect(world_.store().stats().apps.load() == static_cast<int64_t>(apps_.size()),
         "the number of apps after some expired");
}

void Model::Report() {
  const LifeRef life = AnyLife();
  if (!life) return;
  std::vector<int64_t> ids;
  auto at = life->partitions.begin();
  std::advance(at, random_.Below(static_cast<int64_t>(life->partitions.size())));
  PartitionTruth& truth = at->second;
  for (const auto& entry : truth.acked) {
    if (random_.OneIn(3)) ids.push_back(entry.first);
  }
  if (random_.OneIn(20)) ids.push_back(INT64_MAX);
  const bool had_room =
      world_.store().stats().report_bytes.load() < world_.options().memory.report_bytes_max;
  const storage::PartitionReport report{at->first, ids};
  const Status status = world_.store().Report(life->app, life->shuffle, std::span(&report, 1));
  Touch(life->app);
  if (!status) {
    Met("reports refused");
    Expect(status.error().code == ErrorCode::kBusy && !had_room, "a report was refused");
    return;
  }
  if (!ids.empty()) truth.made = true;
  truth.reported.insert(ids.begin(), ids.end());
  Met("reports");
}

void Model::ReadReports() {
  const LifeRef life = AnyLife();
  if (!life) return;
  std::vector<int32_t> partitions;
  bool lost = false;
  for (const auto& [number, truth] : life->partitions) {
    if (random_.OneIn(2)) continue;
    partitions.push_back(number);
    lost = lost || truth.lost;
  }
  std::optional<Result<storage::ReportsAnswer>> answer;
  DropHeld(0);
  FinishReads();
  world_.store().ReadReports(
      life->app, life->shuffle, partitions,
      [&](Result<storage::ReportsAnswer> result) { answer = std::move(result); });
  Touch(life->app);
  if (!Expect(answer.has_value(), "reports were not answered at once")) return;
  if (lost) {
    Expect(!*answer && answer->error().code == ErrorCode::kCorrupt,
           "the result of a partition that lost data");
    return;
  }
  if (!*answer && answer->error().code == ErrorCode::kNoBuffer) {
    Expect(world_.store().read_budget().bytes_in_flight() > 0, "no read memory, and none in use");
    return;
  }
  if (Expect(answer->has_value(), "reading reports"))
    CheckReports(*life, partitions, (*answer)->bitmap);
}

// Exactly what was acknowledged: the store merges the bitmaps of the partitions, and the order of
// Add does not show in the bytes.
void Model::CheckReports(const Life& life, const std::vector<int32_t>& partitions,
                         const std::string& bitmap) {
  storage::BlockBitmap expected;
  for (const int32_t partition : partitions) {
    const std::set<int64_t>& reported = life.partitions.at(partition).reported;
    expected.Add(std::vector<int64_t>(reported.begin(), reported.end()));
  }
  Expect(bitmap == expected.Serialize(), "a result is not what was reported");
  Met("results");
}

}  // namespace dovetail::sim
