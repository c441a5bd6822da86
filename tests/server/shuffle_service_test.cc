// The fields of every call, checked: docs/protocol.md, "Answers", row by row, below any wire.
#include "server/shuffle_service.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/storage/store_fixture.h"

namespace dovetail::server {
namespace {

using storage::BatchBuilder;
constexpr BlockIdLayout kLayout{21, 20, 22};

class ServiceTest : public storage::StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    service_.emplace(*store_);
  }

  Outcome RegisterApp(std::string_view app, std::map<std::string, std::string> properties = {}) {
    return service_->Register(
        {.key = {app, 0}, .ranges = {{0, 9}}, .properties = std::move(properties)});
  }

  Reply<int64_t> RequireNow(const ShuffleKey& key, int64_t bytes,
                            std::vector<int32_t> partitions = {}) {
    std::promise<Reply<int64_t>> promise;
    service_->RequireBuffer({key, std::move(partitions), bytes},
                            [&](Reply<int64_t> reply) { promise.set_value(std::move(reply)); });
    return promise.get_future().get();
  }

  Outcome SendTo(const ShuffleKey& key, const storage::IncomingBatch& batch, int64_t ticket_bytes) {
    const Reply<int64_t> ticket = RequireNow(key, ticket_bytes);
    auto admission = service_->AdmitSend({key, ticket.value});
    if (!admission.outcome.ok()) return admission.outcome;
    return service_->Store(std::move(*admission.value), batch);
  }

  Outcome ReadOf(MemoryReadCall call) {
    std::promise<Outcome> promise;
    service_->ReadMemory(std::move(call), [&](Reply<storage::MemoryAnswer> reply) {
      promise.set_value(std::move(reply.outcome));
    });
    return promise.get_future().get();
  }

  Outcome IndexOf(const ShuffleKey& key, int32_t partition) {
    std::promise<Outcome> promise;
    service_->ReadLocalIndex(key, partition, [&](Reply<storage::FileAnswer> reply) {
      promise.set_value(std::move(reply.outcome));
    });
    return promise.get_future().get();
  }

  Outcome DataOf(const LocalReadCall& call) {
    std::promise<Outcome> promise;
    service_->ReadLocalData(call, [&](Reply<storage::FileAnswer> reply) {
      promise.set_value(std::move(reply.outcome));
    });
    return promise.get_future().get();
  }

  Reply<storage::ReportsAnswer> ReplyOf(ResultCall call) {
    std::promise<Reply<storage::ReportsAnswer>> promise;
    service_->GetResult(std::move(call), [&](Reply<storage::ReportsAnswer> reply) {
      promise.set_value(std::move(reply));
    });
    return promise.get_future().get();
  }

  StatusCode ResultOf(const ShuffleKey& key, std::vector<int32_t> partitions,
                      BlockIdLayout layout = kLayout) {
    return ReplyOf({key, std::move(partitions), layout}).outcome.code;
  }

  std::optional<ShuffleService> service_;
};

constexpr auto kInvalid = StatusCode::kInvalidRequest;
constexpr auto kNoRegister = StatusCode::kNoRegister;

// Every call with a key that can never be right.
TEST_F(ServiceTest, HostileKeysAreInvalidEverywhere) {
  const std::string with_nul("a\0b", 3);
  const std::string too_long(256, 'a');
  const ShuffleKey keys[] = {{"", 0}, {with_nul, 0}, {too_long, 0}, {"app", -1}};
  for (const ShuffleKey& key : keys) {
    EXPECT_EQ(service_->Register({.key = key, .ranges = {{0, 9}}}).code, kInvalid);
    EXPECT_EQ(RequireNow(key, 10).outcome.code, kInvalid);
    EXPECT_EQ(RequireNow(key, 10).value, -1);
    EXPECT_EQ(service_->AdmitSend({key, 1}).outcome.code, kInvalid);
    EXPECT_EQ(service_->Report(key, {}).code, kInvalid);
    EXPECT_EQ(ResultOf(key, {1}), kInvalid);
    EXPECT_EQ(ReadOf({.key = key, .read_bytes = 10}).code, kInvalid);
    EXPECT_EQ(IndexOf(key, 0).code, kInvalid);
    EXPECT_EQ(DataOf({.key = key}).code, kInvalid);
    EXPECT_EQ(service_->Unregister(key).code, kInvalid);
    if (key.shuffle == 0) {
      EXPECT_EQ(service_->Heartbeat(key.app).code, kInvalid);
      EXPECT_EQ(service_->UnregisterApp(key.app).code, kInvalid);
    }
  }
  EXPECT_TRUE(RegisterApp(std::string(255, 'a')).ok());
}

TEST_F(ServiceTest, NegativePartitionsAreInvalid) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_EQ(RequireNow({"app", 0}, 10, {1, -1}).outcome.code, kInvalid);
  EXPECT_EQ(ResultOf({"app", 0}, {-1}), kInvalid);
  EXPECT_EQ(ReadOf({.key = {"app", 0}, .partition = -1, .read_bytes = 10}).code, kInvalid);
  EXPECT_EQ(service_->Report({"app", 0}, {{-1, {}}}).code, kInvalid);
  EXPECT_EQ(IndexOf({"app", 0}, -1).code, kInvalid);
  BatchBuilder batch;
  batch.Add(-1, 1, 10, 'x');
  EXPECT_EQ(SendTo({"app", 0}, batch.batch(), batch.ticket_bytes()).code, kInvalid);
}

TEST_F(ServiceTest, RangesMustBeRanges) {
  for (const storage::PartitionRange range : {storage::PartitionRange{-1, 3}, {3, 2}}) {
    EXPECT_EQ(service_->Register({.key = {"app", 0}, .ranges = {{0, 1}, range}}).code, kInvalid);
  }
  EXPECT_EQ(service_->Heartbeat("app").code, kNoRegister);  // nothing changed
}

TEST_F(ServiceTest, RemoteMergeIsRefused) {
  EXPECT_EQ(
      service_->Register({.key = {"app", 0}, .ranges = {{0, 1}}, .has_merge_context = true}).code,
      kInvalid);
}

TEST_F(ServiceTest, SizesMustBePositive) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_EQ(RequireNow({"app", 0}, 0).outcome.code, kInvalid);
  EXPECT_EQ(RequireNow({"app", 0}, -5).outcome.code, kInvalid);
  EXPECT_EQ(ReadOf({.key = {"app", 0}, .read_bytes = 0}).code, kInvalid);
  EXPECT_EQ(ReadOf({.key = {"app", 0}, .read_bytes = -1}).code, kInvalid);
}

TEST_F(ServiceTest, LayoutsMustSumTo63) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_EQ(ResultOf({"app", 0}, {1}), StatusCode::kSuccess);
  for (const BlockIdLayout layout :
       {BlockIdLayout{0, 0, 0}, BlockIdLayout{21, 20, 21}, BlockIdLayout{32, 20, 11},
        BlockIdLayout{31, 31, 1}, BlockIdLayout{31, 32, 0}, BlockIdLayout{-1, 33, 31}}) {
    const bool valid = layout.sequence_bits == 31 && layout.partition_bits == 31;
    EXPECT_EQ(ResultOf({"app", 0}, {1}, layout),
              valid ? StatusCode::kSuccess : StatusCode::kInvalidRequest);
  }
}

TEST_F(ServiceTest, ResultOfNothingIsEmpty) {
  ASSERT_TRUE(RegisterApp("app").ok());
  const Reply<storage::ReportsAnswer> reply = ReplyOf({{"app", 0}, {}, kLayout});
  EXPECT_TRUE(reply.outcome.ok());
  EXPECT_EQ(reply.value.bitmap, "");
}

TEST_F(ServiceTest, BlocksAreChecked) {
  ASSERT_TRUE(RegisterApp("app").ok());
  BatchBuilder zero;
  zero.Add(1, 1, 10, 'x');
  zero.batch().blocks[0].meta.length = 0;
  EXPECT_EQ(SendTo({"app", 0}, zero.batch(), 100).code, kInvalid);
  BatchBuilder negative;
  negative.Add(1, -1, 10, 'x');
  EXPECT_EQ(SendTo({"app", 0}, negative.batch(), 100).code, kInvalid);
  EXPECT_EQ(SendTo({"app", 0}, {}, 100).code, kInvalid);  // no groups
  BatchBuilder fits;
  fits.Add(1, 1, 10, 'x');
  EXPECT_EQ(SendTo({"app", 0}, fits.batch(), 41).code, kInvalid);  // 42 are needed
  EXPECT_EQ(SendTo({"app", 0}, fits.batch(), 42).code, StatusCode::kSuccess);
  EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
}

TEST_F(ServiceTest, AnEmptyGroupIsAccepted) {
  ASSERT_TRUE(RegisterApp("app").ok());
  storage::IncomingBatch batch;
  batch.groups.push_back({3, 0, 0});
  EXPECT_EQ(SendTo({"app", 0}, batch, 100).code, StatusCode::kSuccess);
  EXPECT_EQ(store_->stats().partitions.load(), 0);
}

TEST_F(ServiceTest, UnknownTicketsAreInternalErrors) {
  ASSERT_TRUE(RegisterApp("app").ok());
  ASSERT_TRUE(RegisterApp("other").ok());
  const Reply<int64_t> ticket = RequireNow({"app", 0}, 100);
  EXPECT_EQ(service_->AdmitSend({{"app", 0}, 12345}).outcome.code, StatusCode::kInternalError);
  EXPECT_EQ(service_->AdmitSend({{"app", 0}, -1}).outcome.code, StatusCode::kInternalError);
  EXPECT_EQ(service_->AdmitSend({{"other", 0}, ticket.value}).outcome.code,
            StatusCode::kInternalError);
  EXPECT_TRUE(service_->AdmitSend({{"app", 0}, ticket.value}).outcome.ok());
  EXPECT_EQ(service_->AdmitSend({{"app", 0}, ticket.value}).outcome.code,
            StatusCode::kInternalError);
}

TEST_F(ServiceTest, WhatIsUnknownIsNotRegistered) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_EQ(service_->Heartbeat("other").code, kNoRegister);
  EXPECT_EQ(RequireNow({"app", 1}, 10).outcome.code, kNoRegister);
  EXPECT_EQ(RequireNow({"app", 1}, 10).value, -1);
  EXPECT_EQ(RequireNow({"app", 0}, 10, {10}).outcome.code, kNoRegister);
  EXPECT_EQ(service_->AdmitSend({{"app", 1}, 1}).outcome.code, kNoRegister);
  EXPECT_EQ(service_->Report({"app", 0}, {{10, {}}}).code, kNoRegister);
  EXPECT_EQ(ResultOf({"app", 0}, {1, 10}), kNoRegister);
  EXPECT_EQ(ReadOf({.key = {"app", 0}, .partition = 10, .read_bytes = 10}).code, kNoRegister);
  EXPECT_EQ(IndexOf({"app", 0}, 10).code, kNoRegister);
  EXPECT_EQ(DataOf({.key = {"app", 0}, .partition = 10}).code, kNoRegister);
}

TEST_F(ServiceTest, UnregisteringTheUnknownSucceeds) {
  EXPECT_TRUE(service_->Unregister({"never", 3}).ok());
  EXPECT_TRUE(service_->UnregisterApp("never").ok());
}

TEST_F(ServiceTest, NothingOnDiskMeansAnEmptyIndexAndNoData) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_TRUE(IndexOf({"app", 0}, 1).ok());
  EXPECT_EQ(DataOf({.key = {"app", 0}, .partition = 1, .length = 5}).code, kInvalid);
}

TEST_F(ServiceTest, MoreThanTheCapacityIsRefusedByWhatTheClientKnows) {
  ASSERT_TRUE(RegisterApp("old").ok());
  ASSERT_TRUE(RegisterApp("new", {{"spark.rss.some.key", "1"}}).ok());
  // Only properties of ours show a client of 0.10 or later; but any client of 0.10 sends some.
  EXPECT_EQ(RequireNow({"old", 0}, 1 << 21).outcome.code, kInvalid);
  EXPECT_EQ(RequireNow({"new", 0}, 1 << 21).outcome.code, StatusCode::kInternalNotRetryError);
  EXPECT_EQ(RequireNow({"new", 0}, 1 << 21).value, -1);
}

TEST_F(ServiceTest, NoBufferWhenFull) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_TRUE(RequireNow({"app", 0}, 1 << 20).outcome.ok());
  EXPECT_EQ(RequireNow({"app", 0}, 1).outcome.code, StatusCode::kNoBuffer);
}

TEST_F(ServiceTest, BitmapsMustDecode) {
  ASSERT_TRUE(RegisterApp("app").ok());
  EXPECT_EQ(ReadOf({.key = {"app", 0}, .partition = 1, .read_bytes = 10, .task_bitmap = "x"}).code,
            kInvalid);
  EXPECT_TRUE(ReadOf({.key = {"app", 0}, .partition = 1, .read_bytes = 10}).ok());
}

TEST_F(ServiceTest, TooManyPropertiesAreRefusedAndForeignOnesDropped) {
  std::map<std::string, std::string> foreign{{"spark.password", std::string(2 << 20, 'x')}};
  EXPECT_TRUE(RegisterApp("app", foreign).ok());
  EXPECT_FALSE(store_->HasProperties("app"));
  std::map<std::string, std::string> own{{"spark.rss.x", std::string(2 << 20, 'x')}};
  EXPECT_EQ(RegisterApp("app2", own).code, kInvalid);
}

TEST_F(ServiceTest, WhenStoppingOnlyReadsGoOn) {
  ASSERT_TRUE(RegisterApp("app").ok());
  BatchBuilder batch;
  batch.Add(1, 1, 10, 'x');
  ASSERT_TRUE(SendTo({"app", 0}, batch.batch(), 100).ok());
  const Reply<int64_t> ticket = RequireNow({"app", 0}, 100);
  service_->BeginStop();
  EXPECT_EQ(RegisterApp("app2").code, StatusCode::kInternalError);
  EXPECT_EQ(RequireNow({"app", 0}, 10).outcome.code, StatusCode::kInternalError);
  EXPECT_EQ(service_->AdmitSend({{"app", 0}, ticket.value}).outcome.code,
            StatusCode::kInternalError);
  EXPECT_TRUE(ReadOf({.key = {"app", 0}, .partition = 1, .read_bytes = 10}).ok());
  EXPECT_TRUE(service_->Report({"app", 0}, {}).ok());
  EXPECT_EQ(ResultOf({"app", 0}, {1}), StatusCode::kSuccess);
  EXPECT_TRUE(service_->Heartbeat("app").ok());
}

}  // namespace
}  // namespace dovetail::server
