// The bytes of answers that carry block data: everything but the data as protobuf writes it, then
// the data field as slices of the store's own memory. Nothing is copied; the memory and the reply's
// share of the read budget are held until gRPC has let go of the last slice.
//
// Threads: pure functions.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "server/reply.h"
#include "storage/shuffle_store.h"

namespace dovetail::server {

grpc::ByteBuffer EncodeMemoryReply(Reply<storage::MemoryAnswer> reply);
grpc::ByteBuffer EncodeIndexReply(Reply<storage::FileAnswer> reply);
grpc::ByteBuffer EncodeDataReply(Reply<storage::FileAnswer> reply);

}  // namespace dovetail::server
