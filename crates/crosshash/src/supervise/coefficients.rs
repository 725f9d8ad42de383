//! `Coefficients`: the weights `q_is`, `u_is` of the unary loss, stored per distinct label set.
//!
//! Both are zero unless `s` is a label of item `i`, and items with the same labels have the same
//! coefficients. Therefore a row has |Y| values and is stored once per label set.

use std::io::{self, Write};

use crosshash_codes::npy::{Element as _, Header};

use super::groups::Groups;

/// `q_is` and `u_is` of every item, sparse.
#[derive(Clone, Debug)]
pub struct Coefficients {
    classes: usize,
    of_item: Vec<u32>,  // item -> row
    starts: Vec<usize>, // row -> start in the three vectors below
    labels: Vec<u32>,
    q: Vec<f64>,
    u: Vec<f64>,
}

/// The coefficients of one item: `q[k]` and `u[k]` belong to label `labels[k]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// The item's labels, ascending.
    pub labels: &'a [u32],
    /// Weights of the classification term.
    pub q: &'a [f64],
    /// Weights of the attraction term.
    pub u: &'a [f64],
}

/// Which of the two matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Weights of the classification term `l_c`.
    Q,
    /// Weights of the attraction term `|h - c|`.
    U,
}

impl Coefficients {
    /// Rows in the order of the groups' sets, labels ascending within each.
    pub(crate) fn new(groups: Groups, q: Vec<f64>, u: Vec<f64>) -> Coefficients {
        let starts = groups.starts();
        let sets = &groups.sets;
        let labels = (0..sets.len())
            .flat_map(|set| sets.indices(set))
            .map(|label| u32::try_from(label).unwrap_or(u32::MAX))
            .collect::<Vec<_>>();
        assert!(labels.len() == q.len() && labels.len() == u.len(), "one value per label");
        Coefficients {
            classes: sets.classes(),
            of_item: groups.of_item,
            starts,
            labels,
            q,
            u,
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.of_item.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.of_item.is_empty()
    }

    /// Number of labels, C.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of distinct rows.
    pub fn distinct(&self) -> usize {
        self.starts.len() - 1
    }

    /// The coefficients of one item.
    pub fn row(&self, item_idx: usize) -> Row<'_> {
        let row = self.of_item[item_idx] as usize;
        let span = self.starts[row]..self.starts[row + 1];
        Row {
            labels: &self.labels[span.clone()],
            q: &self.q[span.clone()],
            u: &self.u[span],
        }
    }

    /// Writes the dense rows of a batch, `items.len()` x C, into `q` and `u`.
    ///
    /// Panics if a buffer has the wrong size.
    pub fn fill(&self, items: &[usize], q: &mut [f32], u: &mut [f32]) {
        assert!(q.len() == items.len() * self.classes && u.len() == q.len(), "batch x C");
        q.fill(0.0);
        u.fill(0.0);
        for (k, &item_idx) in items.iter().enumerate() {
            let row = self.row(item_idx);
            for (&label, (&q_is, &u_is)) in row.labels.iter().zip(row.q.iter().zip(row.u)) {
                let place = k * self.classes + label as usize;
                #[expect(clippy::cast_possible_truncation, reason = "training is in f32")]
                {
                    q[place] = q_is as f32;
                    u[place] = u_is as f32;
                }
            }
        }
    }

    /// The sums of q, of u and of |Y_i| over all items.
    pub fn sums(&self) -> (f64, f64, f64) {
        let mut counts = vec![0_u64; self.distinct()];
        self.of_item.iter().for_each(|&row| counts[row as usize] += 1);
        let mut sums = (0.0, 0.0, 0.0);
        for (row, &count) in counts.iter().enumerate() {
            let (span, count) = (self.starts[row]..self.starts[row + 1], count as f64);
            sums.0 += count * self.q[span.clone()].iter().sum::<f64>();
            sums.1 += count * self.u[span.clone()].iter().sum::<f64>();
            sums.2 += count * span.len() as f64;
        }
        sums
    }

    /// Divides q and u by `M = sum q / sum |Y_i|`, so that the mean of q is 1, and returns M. If
    /// every q is 0 (no item has a negative), nothing is changed and M is 1.
    pub fn rescale(&mut self) -> f64 {
        let (q, _, labels) = self.sums();
        let scale = if q > 0.0 { q / labels } else { 1.0 };
        self.divide(scale);
        scale
    }

    pub(crate) fn divide(&mut self, scale: f64) {
        self.q.iter_mut().chain(&mut self.u).for_each(|value| *value /= scale);
    }

    /// Writes one matrix as `.npy` (f64, items x C) row by row, without a dense copy in memory.
    /// `progress` is called with the number of rows written.
    pub fn write_npy(
        &self,
        part: Part,
        mut out: impl Write,
        progress: &(dyn Fn(usize) + Sync),
    ) -> io::Result<()> {
        Header::write(&mut out, f64::DTYPE, &[self.len(), self.classes])?;
        let mut dense = vec![0.0_f64; self.classes];
        for item_idx in 0..self.len() {
            let row = self.row(item_idx);
            let values = match part {
                Part::Q => row.q,
                Part::U => row.u,
            };
            row.labels
                .iter()
                .zip(values)
                .for_each(|(&s, &value)| dense[s as usize] = value);
            dense.iter().try_for_each(|value| value.put(&mut out))?;
            row.labels.iter().for_each(|&s| dense[s as usize] = 0.0);
            if item_idx % 4096 == 0 {
                progress(item_idx);
            }
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use crosshash_codes::Labels;
    use crosshash_codes::npy::Npy;

    use super::*;

    fn small() -> Coefficients {
        let rows: [&[u32]; 4] = [&[2], &[0, 1], &[], &[2]];
        let groups = Groups::new(&Labels::from_indices(3, rows).unwrap());
        Coefficients::new(groups, vec![3.0, 1.0, 2.0], vec![6.0, 2.0, 4.0])
    }

    #[test]
    fn a_batch_is_dense() {
        let (mut q, mut u) = (vec![9.0; 6], vec![9.0; 6]);
        small().fill(&[1, 3], &mut q, &mut u);
        assert_eq!(q, [1.0, 2.0, 0.0, 0.0, 0.0, 3.0]);
        assert_eq!(u, [2.0, 4.0, 0.0, 0.0, 0.0, 6.0]);
    }

    #[test]
    fn rescaling_sets_the_mean_to_one() {
        let mut coefficients = small();
        assert_eq!(coefficients.sums(), (9.0, 18.0, 4.0));
        assert_eq!(coefficients.rescale(), 2.25);
        let (q, u, labels) = coefficients.sums();
        assert!((q - labels).abs() < 1e-12 && (u - 2.0 * labels).abs() < 1e-12);
    }

    #[test]
    fn npy_contains_the_dense_matrix() {
        let mut bytes = Vec::new();
        small().write_npy(Part::U, &mut bytes, &|_| ()).unwrap();
        let size = bytes.len() as u64;
        let npy = Npy::from_reader(std::io::Cursor::new(bytes), size).unwrap();
        assert_eq!(npy.shape(), [4, 3]);
        let mut values = Vec::new();
        npy.each(|_, _, value| {
            values.push(value);
            Ok(())
        })
        .unwrap();
        assert_eq!(values, [0., 0., 6., 2., 4., 0., 0., 0., 0., 0., 0., 6.]);
    }
}
