//! A ranking as metrics see it: a sequence of tie classes.
//!
//! Items at one Hamming distance are tied. Every metric is written once, as an expectation
//! over all orders inside a class; the tie rule decides only how classes are cut:
//!
//! | rule        | classes                                                       |
//! |-------------|---------------------------------------------------------------|
//! | expected    | one per distance: the tie-aware value (He et al., CVPR 2018)  |
//! | optimistic  | each distance cut by shared labels, most first                |
//! | pessimistic | each distance cut by shared labels, fewest first              |
//! | stable      | one per item, ties in database order, as old papers sort      |
//!
//! Symbols as in the metric files: a class has n items, n+ of them relevant; N and N+ count
//! what stands before it; R is the number of relevant items in the whole database.

use serde::Serialize;

use super::tally::Tally;

/// How equal distances are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The expectation over all orders: independent of the order of the database.
    #[default]
    Expected,
    /// The best order.
    Optimistic,
    /// The worst order.
    Pessimistic,
    /// Database order.
    Stable,
}

/// Items whose order is not known, or does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TieClass {
    /// n, how many items.
    pub items: u64,
    /// n+, the number of them that share a label with the query.
    pub relevant: u64,
    /// Sum of the numbers of shared labels.
    pub shared: u64,
    /// Sum of the gains, see `gain`.
    pub gain: f64,
}

impl TieClass {
    /// `items` items that each share `shared` labels, where no item shares more than `most`.
    pub(super) fn alike(items: u64, shared: usize, most: usize) -> TieClass {
        TieClass {
            items,
            relevant: if shared > 0 { items } else { 0 },
            shared: items * shared as u64,
            gain: items as f64 * gain(shared, most),
        }
    }

    fn absorb(&mut self, other: &TieClass) {
        self.items += other.items;
        self.relevant += other.relevant;
        self.shared += other.shared;
        self.gain += other.gain;
    }
}

/// The gain 2^s - 1 of an item with `s` shared labels, divided by 2^most, the most that any
/// item shares: so it neither overflows nor vanishes, and the factor cancels in NDCG.
fn gain(shared: usize, most: usize) -> f64 {
    (shared as f64 - most as f64).exp2() - (-(most as f64)).exp2()
}

/// One query's ranking, and what metrics need to know about the whole database.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// The classes, nearest first; a stable ranking may stop after the requested ranks.
    pub classes: Vec<TieClass>,
    /// The classes of the best possible ranking: by shared labels, most first.
    pub ideal: Vec<TieClass>,
    /// R, the relevant items in the whole database.
    pub relevant: u64,
}

impl Ranking {
    /// Cuts a tally into classes by a rule that needs no item order.
    ///
    /// # Panics
    /// With [`Ties::Stable`], which needs the items: see [`Ranking::stable`].
    pub(super) fn from_tally(tally: &Tally, ties: Ties) -> Ranking {
        let most = tally.largest_shared();
        let mut classes = Vec::new();
        for distance in 0..=tally.max_distance() {
            let cell = |shared: usize| {
                let items = u64::from(tally.items(distance, shared));
                TieClass::alike(items, shared, most)
            };
            let cells = (0..=most).map(cell).filter(|class| class.items > 0);
            match ties {
                Ties::Expected => {
                    let mut class = TieClass::default();
                    cells.for_each(|cell| class.absorb(&cell));
                    classes.extend((class.items > 0).then_some(class));
                }
                Ties::Pessimistic => classes.extend(cells),
                Ties::Optimistic => {
                    let start = classes.len();
                    classes.extend(cells);
                    classes[start..].reverse();
                }
                Ties::Stable => {
                    unreachable!("a tally does not know the order of the items")
                }
            }
        }
        Self::with_ideal(classes, tally)
    }

    /// One class per item, given the number of shared labels at each rank.
    pub(super) fn stable(shared_by_rank: &[u16], tally: &Tally) -> Ranking {
        let most = tally.largest_shared();
        let by_rank = shared_by_rank.iter();
        let classes = by_rank.map(|&s| TieClass::alike(1, usize::from(s), most)).collect();
        Self::with_ideal(classes, tally)
    }

    fn with_ideal(classes: Vec<TieClass>, tally: &Tally) -> Ranking {
        let most = tally.largest_shared();
        let ideal = (0..=most)
            .rev()
            .map(|shared| {
                let items = (0..=tally.max_distance()).map(|d| tally.items(d, shared));
                TieClass::alike(items.map(u64::from).sum(), shared, most)
            })
            .filter(|class| class.items > 0)
            .collect();
        Ranking { classes, ideal, relevant: tally.relevant() }
    }

    /// Expected number of relevant items among the first `k`, for ascending cutoffs.
    pub(super) fn hits_at(&self, cutoffs: &[usize]) -> Vec<f64> {
        let mut hits = Vec::with_capacity(cutoffs.len());
        let mut classes = self.classes.iter().peekable();
        let (mut before, mut relevant_before) = (0, 0);
        for &k in cutoffs {
            let k = k as u64;
            while let Some(class) = classes.next_if(|class| before + class.items <= k) {
                before += class.items;
                relevant_before += class.relevant;
            }
            let part = classes.peek().map_or(0.0, |class| {
                (k - before) as f64 * class.relevant as f64 / class.items as f64
            });
            hits.push(relevant_before as f64 + part);
        }
        hits
    }
}
