// Writers: tickets, sends with their duplicates, and what a hostile client does with both.
#include <algorithm>
#include <climits>
#include <utility>

#include "storage/memory_budget.h"
#include "tests/sim/model.h"

namespace dovetail::sim {

using storage::kTicketOverheadBytes;

SentBlock Model::MakeBlock(Life& life) {
  auto at = life.partitions.begin();
  std::advance(at, random_.Below(static_cast<int64_t>(life.partitions.size())));
  SentBlock block;
  block.partition = at->first;
  static constexpr int64_t kLengths[] = {1, 40, 300, 300, 2000, 6000};
  int64_t length = random_.Between(1, random_.Of(kLengths));
  if (random_.OneIn(300)) length = random_.Between(20'000, 40'000);
  block.meta = {.block_id = next_block_++,
                .crc = static_cast<int64_t>(++next_token_ * 0x9E3779B97F4A7C15ULL),
                .task_attempt_id = random_.Below(5),
                .length = static_cast<int32_t>(length),
                .uncompress_length = static_cast<int32_t>(length * 3)};
  return block;
}

std::vector<SentBlock> Model::MakeBlocks(Life& life) {
  std::vector<SentBlock> blocks;
  const int64_t kind = random_.Below(20);
  if (kind < 3 && !life.recent.empty()) return random_.Of(life.recent);  // the whole batch again
  if (kind < 6 && !life.recent.empty()) {  // a part of it, with others behind
    blocks = random_.Of(life.recent);
    std::erase_if(blocks, [this](const SentBlock&) { return random_.OneIn(2); });
  }
  for (int64_t count = random_.Between(1, 10); count > 0; --count) {
    blocks.push_back(MakeBlock(life));
  }
  if (kind == 6 && !life.recent.empty()) {  // other bytes under an id that was there
    SentBlock other = random_.Of(random_.Of(life.recent));
    other.meta.crc = static_cast<int64_t>(++next_token_ * 0x9E3779B97F4A7C15ULL);
    other.meta.length = static_cast<int32_t>(random_.Between(1, 500));
    blocks.push_back(other);
  }
  if (random_.OneIn(200)) blocks.back().meta.block_id = random_.OneIn(2) ? INT64_MAX : 0;
  if (kind == 7) blocks.push_back(random_.Of(blocks));  // twice in one batch
  if (random_.OneIn(2)) {
    std::ranges::stable_sort(blocks, {}, &SentBlock::partition);
  }
  return blocks;
}

void Model::Pack(std::vector<SentBlock> blocks, Outgoing& out) {
  out.blocks = std::move(blocks);
  for (const SentBlock& block : out.blocks) out.data.push_back(BytesOf(block.meta));
  for (size_t i = 0; i < out.blocks.size(); ++i) {
    const SentBlock& block = out.blocks[i];
    storage::IncomingBatch& batch = out.batch;
    if (batch.groups.empty() || batch.groups.back().partition != block.partition) {
      batch.groups.push_back({block.partition, static_cast<uint32_t>(batch.blocks.size()), 0});
    }
    ++batch.groups.back().block_count;
    storage::IncomingBlock incoming{.meta = block.meta,
                                    .first_piece = static_cast<uint32_t>(batch.pieces.size())};
    ConstBytes bytes(reinterpret_cast<const std::byte*>(out.data[i].data()), out.data[i].size());
    // Receive buffers end anywhere.
    while (bytes.size() > 1 && random_.OneIn(3)) {
      const auto part =
          static_cast<size_t>(random_.Between(1, static_cast<int64_t>(bytes.size()) - 1));
      batch.pieces.push_back(bytes.first(part));
      bytes = bytes.subspan(part);
    }
    batch.pieces.push_back(bytes);
    incoming.piece_count = static_cast<uint32_t>(batch.pieces.size()) - incoming.first_piece;
    batch.blocks.push_back(incoming);
    out.ticket_bytes += block.meta.length + kTicketOverheadBytes;
  }
  if (random_.OneIn(10)) {
    out.batch.groups.push_back(
        {out.blocks.back().partition, static_cast<uint32_t>(out.batch.blocks.size()), 0});
  }
}

// A ticket; nothing when there is no room, which is known from the accounts.
std::optional<int64_t> Model::Require(Life& life, int64_t bytes) {
  const storage::MemoryBudget& budget = world_.store().budget();
  const bool fits = budget.figures().total_bytes() + bytes <= budget.capacity_bytes();
  std::optional<Result<int64_t>> ticket;
  const std::vector<int32_t> partitions = {life.partitions.begin()->first};
  world_.store().Require(life.app, life.shuffle, partitions, bytes,
                         [&](Result<int64_t> result) { ticket = std::move(result); });
  Touch(life.app);
  if (!Expect(ticket.has_value(), "a request for memory was not answered at once")) return {};
  if (*ticket) {
    Expect(fits, "memory was promised beyond the capacity");
    const auto age_max = std::chrono::seconds(world_.options().memory.buffer_ticket_timeout_sec);
    const bool is_new =
        life.tickets.emplace(**ticket, Ticket{bytes, world_.now() + age_max}).second;
    Expect(is_new && **ticket > 0, "a ticket id twice");
    return **ticket;
  }
  const ErrorCode code = ticket->error().code;
  if (bytes > budget.capacity_bytes()) {
    Expect(code == ErrorCode::kInvalid, "a request larger than the memory");
    Met("requests larger than the memory");
  } else {
    Expect(code == ErrorCode::kNoBuffer && !fits, "a request that fits was refused");
    Met("requests refused");
  }
  return {};
}

// Unknown applications and partitions that are not registered.
void Model::RequireForeign() {
  const LifeRef life = AnyLife();
  std::optional<Result<int64_t>> ticket;
  const std::vector<int32_t> partitions = {1'000'000};
  const std::string app = life && random_.OneIn(2) ? life->app : "nobody";
  const int32_t shuffle = life ? life->shuffle : 0;
  world_.store().Require(app, shuffle, partitions, 100,
                         [&](Result<int64_t> result) { ticket = std::move(result); });
  Touch(app);
  Expect(ticket && !*ticket && ticket->error().code == ErrorCode::kNotFound,
         "a request for what is not registered");
}

// Promises that nobody redeems: they run out, or end with the shuffle.
void Model::LeaveTicket() {
  if (random_.OneIn(4)) return RequireForeign();
  const LifeRef life = AnyLife();
  if (!life) return;
  int64_t bytes = random_.Between(1, 6000);
  if (random_.OneIn(20)) bytes = world_.options().memory.capacity_bytes / 2;
  if (random_.OneIn(20)) bytes = world_.options().memory.capacity_bytes + 1;
  if (Require(*life, bytes)) Met("tickets left");
}

// Tickets that are not this shuffle's, used or made up: refused, and the owner's stays.
void Model::TryWrongTickets(const LifeRef& life, int64_t good) {
  const auto refused = [&](const Life& sender, int64_t ticket, const char* what) {
    const auto admission = world_.store().AdmitSend(sender.app, sender.shuffle, ticket);
    Touch(sender.app);
    Expect(!admission && admission.error().code == ErrorCode::kInvalid, what);
    Met("wrong tickets");
  };
  refused(*life, INT64_MAX, "a ticket that never was");
  if (const LifeRef other = AnyLife(); other != life) {
    refused(*other, good, "a ticket of another shuffle");
  }
  if (!used_tickets_.empty()) {
    const auto& [owner, ticket] = random_.Of(used_tickets_);
    const LifeRef now = FindLife(owner->app, owner->shuffle);
    if (now) refused(*now, ticket, "a ticket for the second time");
  }
}

void Model::Send() {
  const LifeRef life = AnyLife();
  if (!life) return Register();
  Outgoing out;
  Pack(MakeBlocks(*life), out);
  if (random_.OneIn(60)) {
    out.blocks.back().partition = 1'000'000;  // which nobody registered
    out.batch.groups.push_back({1'000'000, static_cast<uint32_t>(out.batch.blocks.size() - 1), 1});
  }
  int64_t bytes = out.ticket_bytes;
  if (random_.OneIn(8)) bytes *= 2;
  if (random_.OneIn(40)) bytes = std::max<int64_t>(1, bytes - 1);
  const std::optional<int64_t> ticket = Require(*life, bytes);
  if (!ticket) return;
  if (random_.OneIn(10)) TryWrongTickets(life, *ticket);
  SendWith(life, out, *ticket);
}

// As a writer beside a reader: nothing that was there before.
void Model::SendFresh(const LifeRef& life) {
  Outgoing out;
  Pack({MakeBlock(*life), MakeBlock(*life)}, out);
  if (const auto ticket = Require(*life, out.ticket_bytes)) SendWith(life, out, *ticket);
}

void Model::SendAgain(const LifeRef& life) {
  if (life->recent.empty()) return;
  Outgoing out;
  Pack(random_.Of(life->recent), out);
  if (const auto ticket = Require(*life, out.ticket_bytes)) SendWith(life, out, *ticket);
}

void Model::SendWith(const LifeRef& life, Outgoing& out, int64_t ticket) {
  auto admission = world_.store().AdmitSend(life->app, life->shuffle, ticket);
  Touch(life->app);
  if (!Expect(admission.has_value(), "a good ticket was refused")) return;
  Expect(admission->ticket_bytes() == life->tickets.at(ticket).bytes, "the size of a ticket");
  life->tickets.erase(ticket);
  NoteUsed(life, ticket);
  if (random_.OneIn(15)) {  // its data takes a while to arrive
    admitted_.push_back({life, std::move(*admission)});
    return;
  }
  Store(life, std::move(*admission), out);
}

void Model::StoreAdmitted() {
  if (admitted_.empty()) return;
  Admitted first = std::move(admitted_.front());
  admitted_.pop_front();
  if (random_.OneIn(5)) return;  // the client is gone
  Outgoing out;
  std::vector<SentBlock> blocks;
  int64_t room = first.admission.ticket_bytes();
  while (blocks.size() < 6) {
    blocks.push_back(MakeBlock(*first.life));
    room -= blocks.back().meta.length + kTicketOverheadBytes;
    if (room < 0) break;
  }
  if (room < 0 && blocks.size() > 1) blocks.pop_back();
  Pack(std::move(blocks), out);
  Store(first.life, std::move(first.admission), out);
}

void Model::Store(const LifeRef& life, storage::SendAdmission admission, Outgoing& out) {
  const storage::StoreStats& stats = world_.store().stats();
  const int64_t ticket_bytes = admission.ticket_bytes();
  const auto before = world_.store().budget().figures();
  const int64_t duplicates_before = stats.duplicate_blocks_total.load();
  const Status status = world_.store().Store(std::move(admission), out.batch);
  const auto after = world_.store().budget().figures();
  Expect(after.promised_bytes == before.promised_bytes - ticket_bytes,
         "a ticket was not given back once");
  const bool registered = std::ranges::all_of(out.blocks, [&](const SentBlock& block) {
    return life->partitions.contains(block.partition);
  });
  ErrorCode expected = ErrorCode::kBusy;
  if (out.ticket_bytes > ticket_bytes) {
    expected = ErrorCode::kInvalid;
    Met("sends larger than their ticket");
  } else if (life->ended || !registered) {
    expected = ErrorCode::kNotFound;
    Met(life->ended ? "sends after the end" : "sends to what is not registered");
  } else {
    if (!Expect(status.has_value(), "a send that should be stored was refused")) return;
    return CheckStored(*life, out, stats.duplicate_blocks_total.load() - duplicates_before,
                       before.used_bytes);
  }
  Expect(!status && status.error().code == expected, "a send that should be refused was not");
  Expect(after.used_bytes == before.used_bytes, "a refused send left something");
}

void Model::CheckStored(Life& life, const Outgoing& out, int64_t duplicates, int64_t used_before) {
  int64_t known = 0;
  int64_t within = 0;
  int64_t cost = 0;
  std::set<std::pair<int32_t, int64_t>> batch;
  for (const SentBlock& block : out.blocks) {
    PartitionTruth& truth = life.partitions.at(block.partition);
    const bool again = !batch.emplace(block.partition, block.meta.block_id).second;
    within += again ? 1 : 0;
    known += again || truth.acked.contains(block.meta.block_id) ? 1 : 0;
    cost += CostOf(block.meta);
  }
  for (const SentBlock& block : out.blocks) {
    PartitionTruth& truth = life.partitions.at(block.partition);
    truth.made = true;
    if (!truth.Acked(block.meta)) truth.acked[block.meta.block_id].push_back(block.meta);
  }
  Expect(duplicates >= within && duplicates <= known, "what counts as a duplicate");
  const auto count = static_cast<int64_t>(out.blocks.size());
  const int64_t used = world_.store().budget().figures().used_bytes - used_before;
  if (duplicates == 0) Expect(used == cost, "what a send takes");
  if (duplicates == count) Expect(used == 0, "what a send of duplicates takes");
  life.stored_blocks += count - duplicates;
  life.recent.push_back(out.blocks);
  if (life.recent.size() > 8) life.recent.erase(life.recent.begin());
  Met("sends");
  Met("duplicates dropped", duplicates);
  Met("duplicates of flushed blocks", known - duplicates);
}

}  // namespace dovetail::sim
