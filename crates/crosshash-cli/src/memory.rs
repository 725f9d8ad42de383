//! Memory of a process, where the system reports it, and sizes of memory as arguments.

/// A size such as `500M` or `2G`; units are powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        unit => return Err(format!("unknown unit {unit:?}; use K, M, G or T, e.g. 2G")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{digits:?} is not a whole number, e.g. 2G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too much"))
}

/// Resident memory of a process in bytes, by its number or `self`.
pub fn resident_bytes_of(process: &str) -> Option<u64> {
    Some(memory_kib(process, "VmRSS")? * 1024)
}

/// Peak resident memory of a process so far in bytes, by its number or `self`.
pub fn peak_bytes_of(process: &str) -> Option<u64> {
    Some(memory_kib(process, "VmHWM")? * 1024)
}

/// Peak resident memory of this process so far, in MiB.
pub fn peak_mib() -> Option<f64> {
    Some(peak_bytes_of("self")? as f64 / f64::from(1 << 20))
}

/// Makes the present memory of this process its peak, where the system can do that (Linux).
pub fn reset_peak() {
    // Without it, the peak only counts what exceeds the earlier one: callers that measure a
    // difference to the present memory are then too high, never too low.
    drop(fs_err::write("/proc/self/clear_refs", "5"));
}

/// A memory field of `/proc/PID/status`: `VmRSS` is the current size, `VmHWM` the peak.
fn memory_kib(process: &str, field: &str) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("17"), Ok(17));
        assert_eq!(parse_bytes("500M"), Ok(500 << 20));
        assert_eq!(parse_bytes("2gb"), Ok(2 << 30));
        assert!(parse_bytes("2x").unwrap_err().contains("unknown unit"));
        assert!(parse_bytes("G").unwrap_err().contains("not a whole number"));
        assert!(parse_bytes("99999999999T").unwrap_err().contains("too much"));
    }
}
