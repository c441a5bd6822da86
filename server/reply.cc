#include "server/reply.h"

#include <fmt/format.h>

namespace dovetail::server {

const char* ToString(StatusCode code) {
  switch (code) {
    case StatusCode::kSuccess:
      return "SUCCESS";
    case StatusCode::kNoBuffer:
      return "NO_BUFFER";
    case StatusCode::kNoRegister:
      return "NO_REGISTER";
    case StatusCode::kInternalError:
      return "INTERNAL_ERROR";
    case StatusCode::kAccessDenied:
      return "ACCESS_DENIED";
    case StatusCode::kInvalidRequest:
      return "INVALID_REQUEST";
    case StatusCode::kInternalNotRetryError:
      return "INTERNAL_NOT_RETRY_ERROR";
  }
  return "UNKNOWN";
}

Outcome ToOutcome(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return {StatusCode::kNoRegister,
              fmt::format("this {} is not registered here, was unregistered, or its application "
                          "expired",
                          error.where)};
    case ErrorCode::kNoBuffer:
      return {StatusCode::kNoBuffer, "no memory is free now, ask again later"};
    case ErrorCode::kInvalid:
      return Invalid(fmt::format("invalid {}", error.where));
    case ErrorCode::kUnsupported:
      return Invalid(fmt::format("not offered by this server: {}", error.where));
    case ErrorCode::kBusy:
      return {StatusCode::kInternalError,
              fmt::format("the limit on {} of this server is reached", error.where)};
    case ErrorCode::kShutdown:
      return {StatusCode::kInternalError, "the server is stopping"};
    case ErrorCode::kNoSpace:
    case ErrorCode::kIo:
    case ErrorCode::kTimeout:
    case ErrorCode::kCorrupt:
      return {StatusCode::kInternalError,
              fmt::format("{} error in {}", ToString(error.code), error.where)};
  }
  return {StatusCode::kInternalError, "unexpected error"};
}

}  // namespace dovetail::server
