#include "config/nearest_key.h"

#include <gtest/gtest.h>

#include <string>

namespace dovetail::config {
namespace {

std::string Near(const char* section, const std::string& name) {
  const Key* key = NearestKey(section, name);
  return key == nullptr ? "" : PathOf(*key);
}

TEST(NearestKey, AFewEditsAway) {
  EXPECT_EQ(Near("", "grpc_prot"), "grpc_port");
  EXPECT_EQ(Near("", "htpp_port"), "http_port");
  EXPECT_EQ(Near("", "bind_adress"), "bind_address");
  EXPECT_EQ(Near("", "tag"), "tags");
  EXPECT_EQ(Near("memory_stor", "capacty"), "memory_store.capacity");
  EXPECT_EQ(Near("memory_store", "read_byte_max"), "memory_store.read_bytes_max");
  EXPECT_EQ(Near("log", "loglevel"), "log.log_level");
  EXPECT_EQ(Near("", "capcity"), "memory_store.capacity");
}

TEST(NearestKey, TheSameNameElsewhereIsNear) {
  EXPECT_EQ(Near("memory", "capacity"), "memory_store.capacity");
  EXPECT_EQ(Near("memory_store", "grpc_port"), "grpc_port");
  EXPECT_EQ(Near("", "log_level"), "log.log_level");
}

TEST(NearestKey, NothingWhenNothingIsNear) {
  EXPECT_EQ(Near("", "xyzzy"), "");
  EXPECT_EQ(Near("metrics", "push_gateway_endpoint"), "");
  EXPECT_EQ(Near("", std::string(100'000, 'p')), "");
}

TEST(NearestKey, EveryKeyIsFoundFromItselfWithOneLetterLess) {
  for (const Key& key : Keys()) {
    const std::string shorter(key.name.substr(0, key.name.size() - 1));
    const Key* nearest = NearestKey(key.section, shorter);
    ASSERT_NE(nearest, nullptr) << PathOf(key);
    EXPECT_EQ(PathOf(*nearest), PathOf(key));
  }
}

}  // namespace
}  // namespace dovetail::config
