// What a call is answered with, whatever the wire: a status code of the protocol, a text for the
// client's log, and the call's own value.
#pragma once

#include <string>
#include <utility>

#include "engine/base/result.h"

namespace dovetail::server {

// The protocol's status codes (docs/protocol.md, "Status codes"), the same numbers on both wires.
// Codes above 10 are only for clients that showed that they know them.
enum class StatusCode : int {
  kSuccess = 0,
  kNoBuffer = 2,
  kNoRegister = 4,
  kInternalError = 6,
  kAccessDenied = 8,
  kInvalidRequest = 9,
  kInternalNotRetryError = 14,
};

// Name as in the protocol, such as "NO_BUFFER"; used as a metric label too.
const char* ToString(StatusCode code);

struct Outcome {
  StatusCode code = StatusCode::kSuccess;
  std::string message;

  bool ok() const { return code == StatusCode::kSuccess; }
};

template <class T>
struct Reply {
  Outcome outcome;
  T value{};
};

// The one table from errors of the layers below to codes of the wire (docs/protocol.md, "Answers").
Outcome ToOutcome(const Error& error);

inline Outcome Invalid(std::string message) {
  return {StatusCode::kInvalidRequest, std::move(message)};
}

}  // namespace dovetail::server
