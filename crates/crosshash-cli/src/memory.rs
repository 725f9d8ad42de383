//! Memory of a process, where the system reports it.

/// Resident memory of a process in bytes, by its number or `self`.
pub fn resident_bytes_of(process: &str) -> Option<u64> {
    Some(memory_kib(process, "VmRSS")? * 1024)
}

/// Peak resident memory of this process so far, in MiB.
pub fn peak_mib() -> Option<f64> {
    Some(memory_kib("self", "VmHWM")? as f64 / 1024.0)
}

/// A memory field of `/proc/PID/status`: `VmRSS` is the current size, `VmHWM` the peak.
fn memory_kib(process: &str, field: &str) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value?.split_whitespace().next()?.parse().ok()
}
