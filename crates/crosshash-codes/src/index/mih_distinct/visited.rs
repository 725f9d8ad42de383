//! The codes that a query has visited.

/// References of the codes whose items have been offered, in a hash table.
#[derive(Default)]
pub(super) struct VisitedCodes {
    /// References plus one; 0 for none.
    slots: Vec<u32>,
    count: usize,
}

impl VisitedCodes {
    /// Slots at the beginning.
    const FEW: usize = 256;

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.slots.truncate(VisitedCodes::FEW);
        self.slots.fill(0);
        self.slots.resize(VisitedCodes::FEW, 0);
    }

    /// Whether it is new.
    pub(super) fn insert(&mut self, reference: u32) -> bool {
        if 2 * self.count >= self.slots.len() {
            let slots = vec![0; 2 * self.slots.len().max(VisitedCodes::FEW)];
            let before = std::mem::replace(&mut self.slots, slots);
            self.count = 0;
            for slot in before.into_iter().filter(|&slot| slot != 0) {
                self.insert(slot - 1);
            }
        }
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: neighbouring references are likely
        let mut at = (reference.wrapping_mul(0x9e37_79b9) >> 8) as usize & mask;
        while self.slots[at] != 0 {
            if self.slots[at] == reference + 1 {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = reference + 1;
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_not_new() {
        let mut seen = VisitedCodes::default();
        for _ in 0..2 {
            seen.clear();
            for (nth, reference) in (0..5000).map(|i| i * 37 % 3001).enumerate() {
                assert_eq!(seen.insert(reference), nth < 3001, "{nth}");
                assert!(!seen.insert(reference));
            }
            assert_eq!(seen.count, 3001);
        }
    }
}
