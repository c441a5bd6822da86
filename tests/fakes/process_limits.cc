#include "tests/fakes/process_limits.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace dovetail::fakes {

namespace {

// System calls with numbers from first to last fail with EPERM.
bool Forbid(unsigned first, unsigned last) {
  std::array filter = {sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                       sock_filter BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
                       sock_filter BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
                       sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                       sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static_assert(SYS_io_uring_enter == SYS_io_uring_setup + 1 &&
              SYS_io_uring_register == SYS_io_uring_setup + 2);

}  // namespace

bool ForbidRings() { return Forbid(SYS_io_uring_setup, SYS_io_uring_register); }

bool ForbidEnteringRings() { return Forbid(SYS_io_uring_enter, SYS_io_uring_enter); }

bool LimitLockedMemory(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  // What root's next program may have at most. Not permitted means that there is nothing to lose.
  prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= ~(1U << CAP_IPC_LOCK);
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && syscall(SYS_capset, &header, data) == 0;
}

}  // namespace dovetail::fakes
