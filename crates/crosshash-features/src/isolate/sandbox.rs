//! The limits of a worker process. They cannot be lifted again.
//!
//! | limit | by |
//! |---|---|
//! | memory | `RLIMIT_AS` |
//! | CPU time of a picture | `RLIMIT_CPU`, moved before each picture |
//! | no core dumps, no file that grows, no further file descriptors | `RLIMIT_CORE`, `RLIMIT_FSIZE`, `RLIMIT_NOFILE` |
//! | no privileges through other programs | `PR_SET_NO_NEW_PRIVS` (Linux) |
//! | only memory, time, and reading and writing open pipes | seccomp (Linux on x86-64 and AArch64) |

use std::io::Result;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::protocol::SandboxLimits;

/// Applies all limits to this process.
pub(super) fn enter(limits: &SandboxLimits) -> Result<()> {
    // Read first: without file descriptors, no file can be opened.
    let most = program_size().saturating_add(limits.memory);
    for resource in [Resource::Core, Resource::Fsize, Resource::Nofile] {
        setrlimit(resource, Rlimit { current: Some(0), maximum: Some(0) })?;
    }
    // macOS has no usable limit of addresses.
    if cfg!(target_os = "linux") {
        setrlimit(Resource::As, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    begin_job(limits)?;
    #[cfg(target_os = "linux")]
    rustix::thread::set_no_new_privs(true)?;
    filter()
}

/// Moves the limit of CPU time: the next picture has its own.
pub(super) fn begin_job(limits: &SandboxLimits) -> Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let used = u64::try_from(used).unwrap_or(0);
    // The limit is in whole seconds of the whole process.
    let current = used.saturating_add(limits.seconds).saturating_add(1);
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = Some(maximum.map_or(current, |maximum| current.min(maximum)));
    Ok(setrlimit(Resource::Cpu, Rlimit { current, maximum })?)
}

/// Bytes of addresses that the code of the program and its libraries takes. What the allocator has
/// reserved does not count: pictures are decoded there.
fn program_size() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |line: &str| {
        let size = line.strip_prefix("VmExe:").or_else(|| line.strip_prefix("VmLib:"))?;
        size.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    status.lines().filter_map(kib).sum::<u64>().saturating_mul(1024)
}

/// The system calls of decoders, allocators and the standard library.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: [libc::c_long; 28] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
];

/// Allows [`CALLS`], and the limits of this process itself; all other calls fail with EPERM. An
/// unexpected but harmless call (of an allocator, say) then does not end the worker.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn filter() -> Result<()> {
    use std::io::Error;

    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
        SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
    };

    let fault = |err: BackendError| Error::other(err.to_string());
    let own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0);
    let own = SeccompRule::new(vec![own.map_err(fault)?]).map_err(fault)?;
    let limits = (libc::SYS_prlimit64, vec![own]);
    let allowed = CALLS.iter().map(|&call| (call, Vec::new())).chain([limits]).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(fault)?;
    let eperm = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error().unsigned_abs());
    let filter = SeccompFilter::new(allowed, eperm, SeccompAction::Allow, arch);
    let program: BpfProgram = filter.map_err(fault)?.try_into().map_err(fault)?;
    apply_filter_all_threads(&program).map_err(|err| Error::other(err.to_string()))
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn filter() -> Result<()> {
    Ok(())
}
