// How much a peer may make us hold for one request. Two bytes of a message can become an object of
// a hundred, so bytes alone bound nothing: what would become objects is counted first.
#pragma once

#include <cstdint>

namespace dovetail::server {

// Bytes of a request that is no send. (A send is bounded by grpc_message_bytes_max, and its blocks
// by the ticket.)
inline constexpr int64_t kRequestBytesMax = 32 << 20;

// Objects in a request, at any depth: entries of lists of messages or strings, entries of maps, and
// fields that our schema does not know. In a send: partition groups.
inline constexpr int64_t kRequestEntriesMax = 1 << 20;

// Bytes of the application id in the head of a send. Longer ones are refused anyway, but should not
// be copied first.
inline constexpr int kSendAppBytesMax = 4096;

}  // namespace dovetail::server
