#include "server/rpc/call.h"

#include <utility>

namespace dovetail::server {

double Call::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Call::DropRequest() {
  // The object is gRPC's, not const there, and for this call only.
  const_cast<grpc::ByteBuffer*>(arrival_.request)->Clear();
}

void Call::Answer(grpc::ByteBuffer bytes, std::function<void()> on_done) {
  on_done_ = std::move(on_done);
  *arrival_.response = std::move(bytes);
  DropRequest();
  answer_ = watch_.Begin([context = arrival_.context] { context->TryCancel(); });
  Finish(grpc::Status::OK);
}

void Call::OnDone() {
  // First of all: the context ends with this function.
  watch_.End(*answer_);
  if (on_done_) on_done_();
  delete this;
}

grpc::ByteBuffer BytesOf(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace dovetail::server
