//! Success at k, and the rank of the first relevant item, for users who look for one item.
//!
//! Of the first class that has relevant items, n items, m of them relevant, N items before it:
//!
//! ```text
//! S@k        = P(at least one relevant item among the first k)
//!            = 0                                        k <= N
//!            = 1 - prod_{i=0}^{m-1} (n - T - i)/(n - i)  T = k - N < n
//!            = 1                                        k >= N + n
//! first rank = N + (n + 1)/(m + 1)                      its expectation
//! ```

use super::ranking::Ranking;

/// Where the first relevant item of a query may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRelevant {
    /// N, the number of items that are certainly before its class.
    pub before: u64,
    /// n, the items of its class.
    pub tied: u64,
    /// m, the relevant items of its class, at least 1.
    pub relevant: u64,
}

impl FirstRelevant {
    /// From a ranking; nothing if no item is relevant.
    pub fn of(ranking: &Ranking) -> Option<FirstRelevant> {
        let mut before = 0;
        for class in &ranking.classes {
            if class.relevant > 0 {
                let (tied, relevant) = (class.items, class.relevant);
                return Some(FirstRelevant { before, tied, relevant });
            }
            before += class.items;
        }
        None
    }

    /// The probability that it stands among the first `k`.
    pub fn success(&self, k: usize) -> f64 {
        let above = (k as u64).saturating_sub(self.before);
        let irrelevant = self.tied - self.relevant;
        if above == 0 {
            return 0.0;
        }
        if above > irrelevant {
            return 1.0;
        }
        // P(all of the m relevant items stand below the cut), or that the `above` items above it
        // are all irrelevant: the shorter product.
        let missed: f64 = if self.relevant <= above {
            (0..self.relevant)
                .map(|i| (self.tied - above - i) as f64 / (self.tied - i) as f64)
                .product()
        } else {
            (0..above).map(|t| (irrelevant - t) as f64 / (self.tied - t) as f64).product()
        };
        1.0 - missed
    }

    /// The expected rank, from 1.
    pub fn mean_rank(&self) -> f64 {
        self.before as f64 + (self.tied + 1) as f64 / (self.relevant + 1) as f64
    }
}

/// S@k of one query; 0 if no item is relevant.
pub fn success(ranking: &Ranking, k: usize) -> f64 {
    FirstRelevant::of(ranking).map_or(0.0, |first| first.success(k))
}
