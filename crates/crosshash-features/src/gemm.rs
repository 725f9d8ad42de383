//! Matrix products into existing memory, `D <- s D + A B`. It has `unsafe`, because the `gemm` crate (also used
//! by the tensor library) takes pointers. Sizes are checked before pointers are created.

#![expect(unsafe_code, reason = "the gemm crate takes pointers")]

use gemm::Parallelism;

/// A row-major matrix or its transpose.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T = f32> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    strides: (isize, isize), // from row to row, from column to column
}

impl<'a, T> Factor<'a, T> {
    /// `columns` of a matrix by rows of `width`, starting at column `from`.
    ///
    /// # Panics
    /// If the columns are out of range.
    pub fn columns(
        values: &'a [T],
        width: usize,
        from: usize,
        columns: usize,
    ) -> Factor<'a, T> {
        assert!(width > 0 && values.len().is_multiple_of(width), "whole rows");
        assert!(from + columns <= width, "columns {from}.. of {width}");
        let rows = values.len() / width;
        let values = if rows == 0 { values } else { &values[from..] };
        Factor { values, rows, columns, strides: (stride(width), 1) }
    }

    /// A whole matrix by rows of `width`.
    pub fn whole(values: &'a [T], width: usize) -> Factor<'a, T> {
        Factor::columns(values, width, 0, width)
    }

    /// The transpose.
    #[must_use]
    pub fn transposed(self) -> Factor<'a, T> {
        Factor {
            rows: self.columns,
            columns: self.rows,
            strides: (self.strides.1, self.strides.0),
            ..self
        }
    }
}

/// `out <- scale out + a b`, `out` by rows, in single precision (networks) or double (algebra);
/// on all threads of the pool or on this one.
///
/// # Panics
/// If the sizes do not match.
pub fn accumulate<T: From<f32> + std::ops::MulAssign + Copy + 'static>(
    out: &mut [T],
    scale: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    all_threads: bool,
) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert_eq!(k, b.rows, "the inner sizes are equal");
    assert_eq!(out.len(), m * n, "the result is {m} x {n}");
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        out.iter_mut().for_each(|x| *x *= scale);
        return;
    }
    let parallelism = if all_threads { Parallelism::Rayon(0) } else { Parallelism::None };
    // SAFETY: `gemm` knows both precisions (it panics for types it does not); `Factor` only comes from `columns`, which checks that every (row, column) lies in
    // its slice, and a transpose swaps both; `out` holds m x n numbers by rows of n and is not
    // aliased, being borrowed mutably.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride(n),
            true,
            a.values.as_ptr(),
            a.strides.1,
            a.strides.0,
            b.values.as_ptr(),
            b.strides.1,
            b.strides.0,
            scale,
            T::from(1.0),
            false,
            false,
            false,
            parallelism,
        );
    }
}

fn stride(width: usize) -> isize {
    isize::try_from(width).expect("a slice is shorter than isize::MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_three_loops() {
        let numbers = |count: usize, step: f32| -> Vec<f32> {
            (0..count).map(|k| (k as f32 * step).sin()).collect()
        };
        for (m, n, k, width, from) in
            [(1, 1, 1, 1, 0), (5, 7, 3, 9, 2), (130, 33, 17, 40, 23), (4, 3, 0, 5, 1)]
        {
            // a is the transpose of k rows, of which columns from .. from + m are taken
            let width = width.max(from + m);
            let (a, b) = (numbers(k * width, 0.7), numbers(k * n, 1.3));
            let start = numbers(m * n, 0.11);
            for all_threads in [false, true] {
                let mut out = start.clone();
                let factor = Factor::columns(&a, width, from, m).transposed();
                accumulate(&mut out, 0.9, factor, Factor::whole(&b, n), all_threads);
                for i in 0..m {
                    for j in 0..n {
                        let sum: f32 =
                            (0..k).map(|l| a[l * width + from + i] * b[l * n + j]).sum();
                        let wanted = 0.9 * start[i * n + j] + sum;
                        assert!((out[i * n + j] - wanted).abs() < 1e-4);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "inner sizes")]
    fn refuses_sizes_that_do_not_fit() {
        let (a, b) = ([0.0; 6], [0.0; 6]);
        let (a, b) = (Factor::whole(&a, 3), Factor::whole(&b, 3));
        accumulate(&mut [0.0; 6], 1.0, a, b, false);
    }
}
