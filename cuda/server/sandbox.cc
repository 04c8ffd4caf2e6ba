#include "server/sandbox.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace partita::remote::server {
namespace {

constexpr rlim_t kMaxFiles = 1024;

// Ends the process: nothing that we do asks for these.
constexpr int kDeadly[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_open_by_handle_at,
    SYS_pidfd_getfd,
    SYS_io_uring_setup,
};

// What a session on the CPU does: bytes on descriptors that it has, files of the image cache,
// threads, memory, time.
constexpr int kEnough[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_recvfrom,
    SYS_sendto,
    SYS_shutdown,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_poll,
    SYS_ppoll,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_epoll_ctl,
    SYS_epoll_create1,
    SYS_eventfd2,
    SYS_futex,
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_close,
    SYS_fcntl,
    SYS_fstat,
    SYS_newfstatat,
    SYS_openat,
    SYS_lseek,
    SYS_renameat,
    SYS_unlinkat,
    SYS_getdents64,
    SYS_getrandom,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_restart_syscall,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_clone,
    SYS_clone3,
    SYS_prctl,
    SYS_dup,
    SYS_uname,
    SYS_sysinfo,
    SYS_membarrier,
    SYS_ioctl,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Sanitizers look whether memory is there, and what the program is called.
    SYS_pipe,
    SYS_pipe2,
    SYS_readlink,
#endif
};

sock_filter instruction(std::uint16_t code, std::uint32_t k, std::uint8_t yes = 0,
                        std::uint8_t no = 0) {
  return {code, yes, no, k};
}

template <std::size_t kSize>
void answer(std::vector<sock_filter>& program, const int (&calls)[kSize], std::uint32_t with) {
  for (const int call : calls) {
    program.push_back(
        instruction(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    program.push_back(instruction(BPF_RET | BPF_K, with));
  }
}

Result<void> filter_calls(Confinement confinement) {
  constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint32_t kX32 = 0x4000'0000;
  std::vector<sock_filter> program = {
      instruction(kLoad, offsetof(seccomp_data, arch)),
      instruction(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      instruction(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      instruction(kLoad, offsetof(seccomp_data, nr)),
      instruction(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1),
      instruction(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  answer(program, kDeadly, SECCOMP_RET_KILL_PROCESS);
  std::uint32_t others = SECCOMP_RET_ALLOW;
  if (confinement == Confinement::strict) {
    answer(program, kEnough, SECCOMP_RET_ALLOW);
    others = SECCOMP_RET_ERRNO | EPERM;
  }
  program.push_back(instruction(BPF_RET | BPF_K, others));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
    return environment_error("seccomp", std::strerror(errno));
  return {};
}

}  // namespace

Result<void> confine(const SandboxOptions& options) {
  const auto limit = [](__rlimit_resource what, rlim_t most) {
    rlimit now{};
    ::getrlimit(what, &now);
    most = std::min(most, now.rlim_max);
    const rlimit wanted{most, most};
    return ::setrlimit(what, &wanted) == 0;
  };
  if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, kMaxFiles))
    return environment_error("setrlimit", std::strerror(errno));
  if (::getuid() == 0 && options.uid >= 0) {
    const auto uid = static_cast<uid_t>(options.uid);
    const auto gid = static_cast<gid_t>(options.gid >= 0 ? options.gid : options.uid);
    if (::setgroups(0, nullptr) != 0 || ::setresgid(gid, gid, gid) != 0 ||
        ::setresuid(uid, uid, uid) != 0)
      return environment_error("setresuid", std::strerror(errno));
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // which a change of user forgets
  ::prctl(PR_SET_DUMPABLE, 0);         // nobody of the same user may look into it
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return environment_error("prctl(no_new_privs)", std::strerror(errno));
  if (options.confinement == Confinement::none) return {};
  return filter_calls(options.confinement);
}

}  // namespace partita::remote::server
