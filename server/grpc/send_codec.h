// The bytes of a sendShuffleData request, read where gRPC put them: the message is walked field by
// field over gRPC's own slices, and block data is never copied here. What comes out points into the
// slices.
//
// Two passes, because a send is admitted by its head before its blocks are looked at: the second
// pass is bounded by the ticket, so that no message can make it collect more than the ticket's
// bytes of bookkeeping.
//
// Threads: pure functions. Lifetime: SendMessage holds the slices; results live no longer than it.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "storage/block.h"

namespace dovetail::server {

struct SendMessage {
  std::vector<grpc::Slice> slices;
};

struct SendHeadFields {
  std::string app;
  int32_t shuffle = 0;
  int64_t ticket_id = 0;
};

// kInvalid: gRPC could not hand the bytes out.
Result<SendMessage> TakeSlices(const grpc::ByteBuffer& buffer);

// kInvalid: not a well-formed message.
Result<SendHeadFields> ParseSendHead(const SendMessage& message);

// kInvalid: malformed, a block whose length is not that of its data, or more blocks or bytes than
// the ticket is for.
Result<storage::IncomingBatch> ParseSendBlocks(const SendMessage& message, int64_t ticket_bytes);

}  // namespace dovetail::server
