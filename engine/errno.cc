#include "engine/errno.h"

#include <cerrno>

#include "engine/base/check.h"

namespace dovetail::engine {

ErrorCode CodeOfErrno(int os_error) {
  DOVETAIL_CHECK(os_error > 0);
  switch (os_error) {
    // Full: comes back by itself when somebody frees space.
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kNoSpace;

    case ENOENT:
      return ErrorCode::kNotFound;

    // The process or the system lacks something for the moment, or somebody else holds it: says
    // nothing about the device.
    case EAGAIN:
    case EBUSY:
    case EEXIST:
    case EINTR:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ETXTBSY:
      return ErrorCode::kBusy;

    case ECANCELED:
    case ETIMEDOUT:
      return ErrorCode::kTimeout;

    // The request breaks a rule: a path that leads outside, through a link or through a file, an
    // offset that no file can have.
    case EFAULT:
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EXDEV:
      return ErrorCode::kInvalid;

    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::kUnsupported;

    // EIO, EROFS, EACCES, EPERM, ENODEV, ENXIO, ESTALE, ENOTCONN (a FUSE server that died), EFBIG,
    // EBADF and the rest: this disk is of no use as it is now.
    default:
      return ErrorCode::kIo;
  }
}

std::unexpected<Error> FailErrno(const char* where, int os_error) {
  return Fail(CodeOfErrno(os_error), where, os_error);
}

}  // namespace dovetail::engine
