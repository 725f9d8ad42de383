//! A queue of recent outputs of one modality, as additional items to compare a batch with.
//!
//! A ring buffer of fixed capacity. Rows are normalised to length 1 and stored without gradients.
//! Slots have a fixed order, so sums over the queue are deterministic and a restored queue continues
//! exactly.

use burn_tensor::{Device, Tensor, TensorData};

use crate::checkpoint::Arrays;
use crate::{Error, Result};

/// Item indices are saved as two values below this, which are exact in single precision.
const LOW: usize = 1 << 16;

/// Recent outputs of one modality and the items they belong to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputQueue {
    bits: usize,
    capacity: usize,
    outputs: Vec<f32>, // by rows of `bits`, each of length 1
    items: Vec<usize>, // invariant: one per row, at most `capacity`
    next: usize,       // invariant: the slot that is written next, below `capacity`
}

impl OutputQueue {
    /// An empty queue for at most `capacity` outputs of `bits` values.
    pub(crate) fn new(bits: usize, capacity: usize) -> OutputQueue {
        let capacity = capacity.max(1);
        OutputQueue { bits, capacity, outputs: Vec::new(), items: Vec::new(), next: 0 }
    }

    /// Number of outputs.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The outputs in the order of their slots, by rows, each of length 1.
    pub(crate) fn outputs(&self) -> &[f32] {
        &self.outputs
    }

    /// The outputs as a tensor without gradients, one row per slot.
    pub(crate) fn tensor(&self, device: &Device) -> Tensor<2> {
        let shape = [self.len(), self.bits];
        Tensor::from_data(TensorData::new(self.outputs.clone(), shape), device)
    }

    /// The item of each slot.
    pub(crate) fn items(&self) -> &[usize] {
        &self.items
    }

    /// Adds the outputs of some items, by rows; replaces the oldest.
    ///
    /// # Panics
    /// If there is not one row per item.
    pub(crate) fn push(&mut self, outputs: &[f32], items: &[usize]) {
        assert_eq!(outputs.len(), items.len() * self.bits, "one row of outputs per item");
        for (row, &item) in outputs.chunks_exact(self.bits).zip(items) {
            let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
            let unit = row.iter().map(|x| x * scale);
            if self.items.len() < self.capacity {
                self.outputs.extend(unit);
                self.items.push(item);
            } else {
                let slot = &mut self.outputs[self.next * self.bits..][..self.bits];
                slot.iter_mut().zip(unit).for_each(|(old, new)| *old = new);
                self.items[self.next] = item;
            }
            self.next = (self.next + 1) % self.capacity;
        }
    }

    /// Adds the state to a checkpoint, with names that start with `name`.
    pub(crate) fn save(&self, name: &str, arrays: &mut Arrays) {
        let split = |&item: &usize| [(item / LOW) as f32, (item % LOW) as f32];
        let items = self.items.iter().flat_map(split).collect();
        arrays.push(format!("{name}.outputs"), self.bits, self.outputs.clone());
        arrays.push(format!("{name}.items"), 2, items);
        let next = [(self.next / LOW) as f32, (self.next % LOW) as f32];
        arrays.push(format!("{name}.next"), 2, next.to_vec());
    }

    /// Restores the state of a queue of the same size from a checkpoint.
    pub(crate) fn restore(&mut self, name: &str, arrays: &mut Arrays) -> Result<()> {
        let outputs = arrays.take(&format!("{name}.outputs"))?;
        let items = join(&arrays.take(&format!("{name}.items"))?.values);
        let next = join(&arrays.take(&format!("{name}.next"))?.values);
        let rows = outputs.values.len() / self.bits.max(1);
        let whole = rows * self.bits == outputs.values.len() && rows == items.len();
        let &[next] = &next[..] else {
            return Err(Error::content(format!("{name}.next must have one value")));
        };
        if !whole || rows > self.capacity || next >= self.capacity {
            return Err(Error::content(format!(
                "{name} does not match: {} outputs of width {} for {} items, next slot {next}; \
                 expected at most {} outputs of width {}",
                rows,
                outputs.columns,
                items.len(),
                self.capacity,
                self.bits
            )));
        }
        (self.outputs, self.items, self.next) = (outputs.values, items, next);
        Ok(())
    }
}

/// Integers from their high and low parts.
fn join(parts: &[f32]) -> Vec<usize> {
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers, as saved")]
    #[expect(clippy::cast_sign_loss, reason = "not negative, as saved")]
    let whole = |x: f32| x as usize;
    parts.chunks_exact(2).map(|part| whole(part[0]) * LOW + whole(part[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> OutputQueue {
        let mut queue = OutputQueue::new(2, 3);
        queue.push(&[3.0, 4.0, 0.0, -2.0], &[7, 70_000]);
        queue.push(&[1.0, 0.0, 0.0, 5.0], &[9, 20_000_003]);
        queue
    }

    #[test]
    fn the_oldest_are_replaced_and_rows_have_length_one() {
        let queue = filled();
        assert_eq!(queue.items(), [20_000_003, 70_000, 9]);
        assert_eq!(queue.outputs(), [0.0, 1.0, 0.0, -1.0, 1.0, 0.0]);
    }

    #[test]
    fn zero_rows_are_unchanged() {
        let mut queue = OutputQueue::new(2, 3);
        queue.push(&[0.0, 0.0], &[1]);
        assert_eq!((queue.len(), queue.outputs()), (1, &[0.0, 0.0][..]));
    }

    #[test]
    fn a_saved_queue_is_restored_exactly() {
        for queue in [OutputQueue::new(2, 3), filled()] {
            let mut arrays = Arrays::default();
            queue.save("queue.image", &mut arrays);
            let mut other = OutputQueue::new(2, 3);
            other.restore("queue.image", &mut arrays.clone()).unwrap();
            assert_eq!(other, queue);
            let mut smaller = OutputQueue::new(2, 2);
            assert_eq!(
                smaller.restore("queue.image", &mut arrays).is_err(),
                queue.len() > 2
            );
        }
    }
}
