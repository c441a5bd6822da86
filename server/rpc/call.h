// One raw unary call on its way: its answer is watched from Finish() until gRPC has let go of it.
//
// A service's method makes a Call, returns it to gRPC, and answers it once, on any thread, before
// or after it returned. Threads: gRPC's. Lifetime: a Call ends itself in OnDone; Arrival points to
// what gRPC keeps until then; the watch outlives the calls.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>

#include "server/answer_watch.h"
#include "server/reply.h"

namespace dovetail::server {

// What gRPC calls a raw method with, and the method's name in the metrics.
struct Arrival {
  const char* method;
  grpc::CallbackServerContext* context;
  const grpc::ByteBuffer* request;
  grpc::ByteBuffer* response;
};

class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(const Arrival& arrival, AnswerWatch& watch) : arrival_(arrival), watch_(watch) {}

  const char* method() const { return arrival_.method; }
  double seconds() const;

  // Gives the request's bytes back. gRPC itself would keep them until the answer is gone, however
  // long that takes. Answer does it too; calls that wait do it as soon as they have read them.
  void DropRequest();

  // on_done runs when the answer is gone or given up. The call may be over before this returns.
  void Answer(grpc::ByteBuffer bytes, std::function<void()> on_done = nullptr);

  void OnDone() override;

 private:
  const Arrival arrival_;
  AnswerWatch& watch_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::function<void()> on_done_;
  std::shared_ptr<AnswerWatch::Answer> answer_;
};

grpc::ByteBuffer BytesOf(const google::protobuf::MessageLite& message);

// The fields that all answers begin with; some have no text.
template <class Response>
void Put(const Outcome& outcome, Response& response) {
  response.set_status(static_cast<decltype(response.status())>(outcome.code));
  if constexpr (requires { response.set_retmsg(outcome.message); }) {
    response.set_retmsg(outcome.message);
  }
}

}  // namespace dovetail::server
