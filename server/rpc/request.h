// From the bytes of a request to its message, within the limits of request_limits.h: the bytes are
// walked and counted before the first object is made of them.
//
// Threads: pure function.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "server/reply.h"

namespace dovetail::server {

// INVALID_REQUEST with what is wrong: too large, too many entries, or no such message (text that is
// not UTF-8 included). Then `message` is not to be used.
Outcome ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& message);

}  // namespace dovetail::server
