// One partition of more than 4 GiB: offsets are 64 bit from end to end.
#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

constexpr int64_t kFourGiB = int64_t{4} << 30;
constexpr size_t kBlockBytes = (31 << 20) + 11;
constexpr auto kBlocks = static_cast<int64_t>(kFourGiB / kBlockBytes + 3);

// Blocks differ in their first and last bytes; making 4 GiB of other bytes would take long.
class LargePartitionTest : public DiskTest {
 protected:
  std::string BlockBytes(int64_t n) const {
    std::string bytes = body_;
    std::memcpy(bytes.data(), &n, sizeof(n));
    std::memcpy(bytes.data() + bytes.size() - sizeof(n), &n, sizeof(n));
    return bytes;
  }

  bool Write(const Target& target, int64_t n) {
    wire::ShuffleBlock block = MakeBlock(n, 1);
    block.set_data(BlockBytes(n));
    block.set_length(static_cast<int32_t>(kBlockBytes));
    const std::vector<wire::ShuffleData> groups{MakeGroup(0, {block})};
    for (int attempt = 0; attempt < 100; ++attempt) {
      const auto ticket = client().Require(target, TicketBytes(groups));
      if (ticket.status() == wire::NO_BUFFER) continue;  // it has waited already
      if (ticket.status() != wire::SUCCESS) return false;
      const auto request = MakeSend(target, ticket.requirebufferid(), groups);
      return client().Send(request).status() == wire::SUCCESS;
    }
    return false;
  }

  // The blocks lie behind each other in some order, which the index says.
  std::string Expected(const std::string& index, int64_t offset, int64_t length) const {
    std::string expected;
    while (length > 0) {
      const int64_t place = offset / static_cast<int64_t>(kBlockBytes);
      const int64_t inside = offset % static_cast<int64_t>(kBlockBytes);
      const int64_t bytes = std::min(length, static_cast<int64_t>(kBlockBytes) - inside);
      uint64_t id = 0;
      std::memcpy(&id, index.data() + place * 40 + 24, sizeof(id));
      expected += BlockBytes(static_cast<int64_t>(be64toh(id)))
                      .substr(static_cast<size_t>(inside), static_cast<size_t>(bytes));
      offset += bytes;
      length -= bytes;
    }
    return expected;
  }

  const std::string body_ = Payload(7, kBlockBytes);
};

// Four gigabytes are too many for a sanitized daemon; its offsets are the same.
#ifndef __SANITIZE_ADDRESS__
TEST_F(LargePartitionTest, IsReadBackAcrossFourGiB) {
  ASSERT_TRUE(Start({PlainPath("disk")}, {"memory_store.capacity=512M"}));
  const Target target = Registered("app", 1);
  for (int64_t n = 0; n < kBlocks; ++n) ASSERT_TRUE(Write(target, n)) << "block " << n;
  // A ticket for nearly all of the memory has everything flushed.
  wire::StatusCode status = wire::NO_BUFFER;
  for (int i = 0; i < 100 && status == wire::NO_BUFFER; ++i) {
    status = client().Require(target, 500 << 20).status();
  }
  ASSERT_EQ(status, wire::SUCCESS);
  const auto index = ReadIndex(client(), target, 0);
  ASSERT_EQ(index.status(), wire::SUCCESS);
  ASSERT_EQ(index.indexdata().size(), static_cast<size_t>(kBlocks) * 40);
  EXPECT_GT(index.datafilelen(), kFourGiB);
  const int64_t end = index.datafilelen();
  for (const int64_t offset :
       {int64_t{0}, (int64_t{1} << 31) - 5, kFourGiB - 5, kFourGiB, end - 10}) {
    const auto data = ReadData(client(), target, 0, offset, 10);
    ASSERT_EQ(data.status(), wire::SUCCESS) << offset;
    EXPECT_EQ(data.data(), Expected(index.indexdata(), offset, 10)) << offset;
  }
  const int32_t large = 14 << 20;
  const auto data = ReadData(client(), target, 0, kFourGiB - large / 2, large);
  ASSERT_EQ(data.status(), wire::SUCCESS);
  EXPECT_TRUE(data.data() == Expected(index.indexdata(), kFourGiB - large / 2, large));
  EXPECT_EQ(ReadData(client(), target, 0, end, 1).status(), wire::INVALID_REQUEST);
  Finish();
}
#endif

}  // namespace
}  // namespace dovetail::e2e
