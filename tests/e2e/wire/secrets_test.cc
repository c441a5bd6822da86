// Clients send their whole configuration, secrets included: none of it shows anywhere.
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"

namespace dovetail::e2e {
namespace {

class SecretsTest : public DaemonSuite<SecretsTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=64M", "log.log_level=DEBUG"}; }

 protected:
  static wire::ShuffleRegisterRequest Request(const std::string& app) {
    wire::ShuffleRegisterRequest request;
    request.set_appid(app);
    request.add_partitionranges();
    for (const char* key : {"spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword",
                            "spark.rss.password", "hunter-key", "spark.rss.hunter-key"}) {
      (*request.mutable_properties())[key] = "hunter-value";
    }
    request.mutable_remotestorage()->set_path("hdfs://hunter-path");
    wire::RemoteStorageConfItem* item = request.mutable_remotestorage()->add_remotestorageconf();
    item->set_key("hunter-item");
    item->set_value("hunter-value");
    request.set_user("hunter-user");
    return request;
  }

  static void ExpectNoSecrets() {
    for (const char* path : {"/metrics", "/readyz", "/healthz", "/", "/config"}) {
      EXPECT_EQ(daemon().Get(path).body.find("hunter"), std::string::npos) << path;
    }
    EXPECT_EQ(daemon().Log().find("hunter"), std::string::npos) << daemon().Log();
  }
};

TEST_F(SecretsTest, OfRegistrations) {
  const std::string app = NewTarget().app;
  EXPECT_EQ(client().Register(Request(app)), wire::SUCCESS);
  wire::ShuffleRegisterRequest bad = Request(app);
  bad.mutable_partitionranges(0)->set_start(-1);
  EXPECT_EQ(client().Register(bad), wire::INVALID_REQUEST);
  bad = Request(app);
  bad.mutable_mergecontext()->set_keyclass("hunter-class");
  const auto response = client().Ask(&wire::ShuffleServer::Stub::registerShuffle, bad);
  EXPECT_EQ(response.status(), wire::INVALID_REQUEST);
  EXPECT_EQ(response.retmsg().find("hunter"), std::string::npos);
  EXPECT_EQ(client().Store({app, 0}, {MakeBlocks(0, 0, 1, 100)}), wire::SUCCESS);
  ExpectNoSecrets();
  EXPECT_EQ(client().UnregisterApp(app), wire::SUCCESS);
  ExpectNoSecrets();
}

TEST_F(SecretsTest, OfTheCoordinatorsClients) {
  wire::AccessClusterRequest access;
  access.add_tags("GRPC");
  access.set_accessid("hunter-id");
  (*access.mutable_extraproperties())["hunter-key"] = "hunter-value";
  client().AskCoordinator(&wire::CoordinatorServer::Stub::accessCluster, access);
  wire::FetchClientConfRequest settings;
  (*settings.mutable_properties())["hunter-key"] = "hunter-value";
  client().AskCoordinator(&wire::CoordinatorServer::Stub::fetchClientConfV2, settings);
  ExpectNoSecrets();
}

// Only properties of ours are kept, so only they have a limit.
TEST_F(SecretsTest, PropertiesOfOthersMayBeLarge) {
  wire::ShuffleRegisterRequest request = Request(NewTarget().app);
  (*request.mutable_properties())["spark.other"] = std::string(4 << 20, 'x');
  EXPECT_EQ(client().Register(request), wire::SUCCESS);
  request = Request(NewTarget().app);
  (*request.mutable_properties())["spark.rss.other"] = std::string((1 << 20) + 1, 'x');
  EXPECT_EQ(client().Register(request), wire::INVALID_REQUEST);
  EXPECT_EQ(Metric("dovetail_apps"), 1);
}

}  // namespace
}  // namespace dovetail::e2e
