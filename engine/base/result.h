// Errors as values. A Result<T> holds a T or an Error; both must be looked at (nodiscard). An Error
// says what the caller can do about it (code), what the system said (os_error, an errno or 0) and
// where it arose (a string literal, never owned). It carries no text: text is made only when
// something is logged or answered.
//
// Threads: plain values, no sharing.
#pragma once

#include <cstdint>
#include <expected>
#include <utility>

namespace dovetail {

enum class ErrorCode : uint8_t {
  kBusy,         // try again later
  kNoSpace,      // a disk or quota is full
  kIo,           // the device failed
  kTimeout,      // the deadline passed
  kNotFound,     // app, shuffle or partition is not (or no longer) known
  kNoBuffer,     // no memory now; comes back
  kInvalid,      // the request itself is wrong; repeating it is of no use
  kCorrupt,      // stored data is not what was written
  kShutdown,     // the process is stopping
  kUnsupported,  // not offered here
};

struct Error {
  ErrorCode code;
  int os_error = 0;
  const char* where = "";

  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code; }
};

template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

using Status = Result<void>;

inline std::unexpected<Error> Fail(ErrorCode code, const char* where, int os_error = 0) {
  return std::unexpected<Error>(Error{code, os_error, where});
}

// Short name of a code for logs and messages, such as "no_buffer".
constexpr const char* ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kNoSpace:
      return "no_space";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kNoBuffer:
      return "no_buffer";
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kShutdown:
      return "shutdown";
    case ErrorCode::kUnsupported:
      return "unsupported";
  }
  return "?";
}

}  // namespace dovetail
