#include "tests/e2e/wire/reader.h"

#include <algorithm>
#include <utility>

#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

constexpr int kPagesMax = 5'000;

}  // namespace

wire::GetMemoryShuffleDataRequest ToRequest(const PageAsk& ask) {
  wire::GetMemoryShuffleDataRequest request;
  request.set_appid(ask.target.app);
  request.set_shuffleid(ask.target.shuffle);
  request.set_partitionid(ask.partition);
  request.set_lastblockid(ask.last_block_id);
  request.set_readbuffersize(ask.read_bytes);
  request.set_timestamp(1'700'000'000'000);
  if (ask.filter) request.set_serializedexpectedtaskidsbitmap(*ask.filter);
  return request;
}

wire::GetMemoryShuffleDataResponse ReadPage(WireClient& client, const PageAsk& ask) {
  return client.Ask(&wire::ShuffleServer::Stub::getMemoryShuffleData, ToRequest(ask));
}

std::vector<ReadBlock> BlocksOf(const wire::GetMemoryShuffleDataResponse& page,
                                int32_t read_bytes) {
  std::vector<ReadBlock> blocks;
  int64_t offset = 0;
  for (const wire::ShuffleDataBlockSegment& segment : page.shuffledatablocksegments()) {
    EXPECT_LT(offset, read_bytes) << "the page was full before block " << segment.blockid();
    EXPECT_EQ(segment.offset(), offset);
    EXPECT_GT(segment.length(), 0);
    offset += segment.length();
    if (offset > static_cast<int64_t>(page.data().size())) break;
    ReadBlock block{segment.blockid(), segment.taskattemptid(), segment.uncompresslength(),
                    segment.crc(),
                    page.data().substr(static_cast<size_t>(segment.offset()),
                                       static_cast<size_t>(segment.length()))};
    EXPECT_EQ(Crc32(block.data), block.crc) << "block " << block.id;
    blocks.push_back(std::move(block));
  }
  EXPECT_EQ(offset, static_cast<int64_t>(page.data().size()));
  return blocks;
}

PagesRead ReadPages(WireClient& client, PageAsk ask, bool trust_is_end) {
  PagesRead read;
  bool ended = false;
  while (read.pages < kPagesMax) {
    const wire::GetMemoryShuffleDataResponse page = ReadPage(client, ask);
    ++read.pages;
    EXPECT_EQ(page.status(), wire::SUCCESS) << page.retmsg();
    EXPECT_TRUE(page.has_is_end());
    if (page.status() != wire::SUCCESS) return read;
    const std::vector<ReadBlock> blocks = BlocksOf(page, ask.read_bytes);
    if (!blocks.empty() && ended) {
      ADD_FAILURE() << "blocks after is_end";
      return read;
    }
    read.blocks.insert(read.blocks.end(), blocks.begin(), blocks.end());
    ended = page.is_end().value();
    EXPECT_TRUE(ended || !blocks.empty()) << "an empty page that is not the end";
    if (blocks.empty() || (trust_is_end && ended)) return read;
    ask.last_block_id = blocks.back().id;
  }
  ADD_FAILURE() << "the pages do not end";
  return read;
}

std::vector<int64_t> IdsOf(const std::vector<ReadBlock>& blocks) {
  std::vector<int64_t> ids;
  std::ranges::transform(blocks, std::back_inserter(ids), &ReadBlock::id);
  return ids;
}

void ExpectBlocks(const std::vector<ReadBlock>& read, const std::vector<wire::ShuffleBlock>& sent) {
  ASSERT_EQ(read.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(read[i].id, sent[i].blockid()) << "block number " << i;
    ASSERT_EQ(read[i].task, sent[i].taskattemptid());
    ASSERT_EQ(read[i].uncompress_length, sent[i].uncompresslength());
    ASSERT_EQ(read[i].crc, sent[i].crc());
    ASSERT_TRUE(read[i].data == sent[i].data()) << "bytes of block " << read[i].id;
  }
}

}  // namespace dovetail::e2e
