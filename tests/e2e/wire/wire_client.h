// A small client for what Spark never sends: the generated stubs for whole messages, and raw calls
// of any bytes to any method.
//
// Threads: any. It remembers which applications it registered, so that a test can end them all.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/coordinator.grpc.pb.h"
#include "proto/shuffle.grpc.pb.h"

namespace dovetail::e2e {

namespace wire = rss::common;

struct Target {
  std::string app;
  int32_t shuffle = 0;
};

struct RawAnswer {
  grpc::Status status;
  std::string bytes;
};

class WireClient {
 public:
  // Each client has a connection of its own.
  explicit WireClient(int port);

  template <class Request, class Response>
  using Method = grpc::Status (wire::ShuffleServer::Stub::*)(grpc::ClientContext*, const Request&,
                                                             Response*);
  template <class Request, class Response>
  using CoordinatorMethod = grpc::Status (wire::CoordinatorServer::Stub::*)(grpc::ClientContext*,
                                                                            const Request&,
                                                                            Response*);

  // The answer to a call that gRPC itself must carry out: anything but OK is a failed test.
  template <class Request, class Response>
  Response Ask(Method<Request, Response> method, const Request& request) {
    return AskOf<Request, Response>(*shuffle_, method, request);
  }
  template <class Request, class Response>
  Response AskCoordinator(CoordinatorMethod<Request, Response> method, const Request& request) {
    return AskOf<Request, Response>(*coordinator_, method, request);
  }

  // path: "/rss.common.ShuffleServer/sendShuffleData". slices are sent as they are cut.
  RawAnswer Raw(const std::string& path, const std::vector<std::string>& slices);
  RawAnswer Raw(const std::string& path, const std::string& bytes) {
    return Raw(path, std::vector<std::string>{bytes});
  }

  // The calls that every test needs. Register takes partitions 0 to partitions - 1.
  wire::StatusCode Register(const Target& target, int32_t partitions);
  wire::StatusCode Register(const wire::ShuffleRegisterRequest& request);
  wire::RequireBufferResponse Require(const Target& target, int64_t bytes);
  // The ticket; a refusal is a failed test.
  int64_t Ticket(const Target& target, int64_t bytes);
  wire::SendShuffleDataResponse Send(const wire::SendShuffleDataRequest& request);
  // With a ticket of the exact size, which must be had.
  wire::StatusCode Store(const Target& target, const std::vector<wire::ShuffleData>& groups);
  wire::StatusCode Unregister(const Target& target);
  wire::StatusCode UnregisterApp(const std::string& app);

  // Ends all that Register began.
  void UnregisterAll();

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  wire::ShuffleServer::Stub& shuffle_stub() { return *shuffle_; }

 private:
  template <class Request, class Response, class Stub, class StubMethod>
  Response AskOf(Stub& stub, StubMethod method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << Request::descriptor()->name() << ": gRPC status "
                             << status.error_code() << " " << status.error_message();
    return response;
  }

  static constexpr std::chrono::seconds kDeadline{60};

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<wire::ShuffleServer::Stub> shuffle_;
  std::unique_ptr<wire::CoordinatorServer::Stub> coordinator_;
  std::unique_ptr<grpc::GenericStub> generic_;

  std::mutex mutex_;
  std::set<std::string> apps_;  // guarded by mutex_
};

}  // namespace dovetail::e2e
