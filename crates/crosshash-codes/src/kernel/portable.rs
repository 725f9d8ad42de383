//! The safe reference kernel: plain Rust, one word at a time.

/// `out[i]` = ones in `combine(one, many[i])`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 65,535 ones by contract")]
pub(super) fn count(
    one: &[u64],
    many: &[u64],
    out: &mut [u16],
    combine: impl Fn(u64, u64) -> u64,
) {
    match *one {
        // the common widths, unrolled: up to 64, 128 and 256 bits
        [a] => {
            for (row, out) in many.iter().zip(out) {
                *out = combine(a, *row).count_ones() as u16;
            }
        }
        [a, b] => {
            for (row, out) in many.as_chunks::<2>().0.iter().zip(out) {
                let ones =
                    combine(a, row[0]).count_ones() + combine(b, row[1]).count_ones();
                *out = ones as u16;
            }
        }
        _ => {
            for (row, out) in many.chunks_exact(one.len()).zip(out) {
                let pairs = one.iter().zip(row);
                *out = pairs.map(|(&a, &b)| combine(a, b).count_ones()).sum::<u32>() as u16;
            }
        }
    }
}
