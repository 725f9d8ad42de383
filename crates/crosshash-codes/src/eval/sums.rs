//! Sums of every metric over queries, and the report made of them.

use std::collections::BTreeMap;

use super::health::{is_cut, tie_rate};
use super::idf::{self, IdfGains};
use super::radius::RadiusSums;
use super::report::{Bounds, Curves, EmptyQueries, Options, Protocol, Report, USER_RANKS};
use super::tally::{Scratch, Tally};
use super::{
    Context, Discounts, METRICS, Ranking, Ties, UserMetrics, average_precision, health,
    precision_at_recall, recall_levels, top_n_curve,
};
use crate::kernel::Kernel;
use crate::{Codes, Error, Labels, Result};

/// Data shared by all queries.
pub(super) struct Setup<'a> {
    options: &'a Options,
    context: Context,
    user_ranks: Vec<usize>,
    user_discounts: Discounts,
    idf: IdfGains,
    top_n: Vec<usize>,
    stable_ranks: usize,
    n_items: usize,
    n_labels: usize,
    bits: usize,
}

/// The note of a report without labels.
const UNLABELLED: &str = "map: the data set has no labels";

impl Setup<'_> {
    pub(super) fn new<'a>(
        database: &Codes,
        labels: &Labels,
        options: &'a Options,
    ) -> Setup<'a> {
        let mut user_ranks = [&USER_RANKS[..], &options.cutoffs].concat();
        user_ranks.sort_unstable();
        user_ranks.dedup();
        let user_deepest = user_ranks.last().copied().unwrap_or(0).min(database.len());
        let deepest = options.cutoffs.iter().copied().max().unwrap_or(0);
        let deepest = deepest.min(database.len());
        Setup {
            options,
            context: Context {
                denominator: options.denominator,
                discounts: Discounts::up_to(deepest),
            },
            user_ranks,
            user_discounts: Discounts::up_to(user_deepest),
            idf: IdfGains::new(labels),
            top_n: (1..=options.curve_to.min(database.len())).collect(),
            stable_ranks: deepest,
            n_items: database.len(),
            n_labels: labels.classes(),
            bits: database.bits().get(),
        }
    }

    /// Whether there are labels, which define what is relevant.
    pub(super) fn is_labelled(&self) -> bool {
        self.n_labels > 0
    }
}

/// Sums over queries, added up in query order.
pub(super) struct Sums {
    queries: usize,
    without_relevant: usize,
    map: [f64; 4],
    at: Vec<[f64; 4]>, // metrics x cutoffs
    top_n: Vec<f64>,
    precision: Vec<f64>,
    radius: RadiusSums,
    tie_rate: f64,
    cut: Vec<usize>,    // by user rank
    ndcg_idf: Vec<f64>, // by user rank
    chance: f64,
}

impl Sums {
    pub(super) fn new(setup: &Setup<'_>) -> Sums {
        Sums {
            queries: 0,
            without_relevant: 0,
            map: [0.0; 4],
            at: vec![[0.0; 4]; METRICS.len() * setup.options.cutoffs.len()],
            top_n: vec![0.0; setup.top_n.len()],
            precision: vec![0.0; recall_levels().len()],
            radius: RadiusSums::new(setup.bits),
            tie_rate: 0.0,
            cut: vec![0; setup.user_ranks.len()],
            ndcg_idf: vec![0.0; setup.user_ranks.len()],
            chance: 0.0,
        }
    }

    pub(super) fn add_query(&mut self, scratch: &Scratch, setup: &Setup<'_>) {
        let tally = &scratch.tally;
        let relevant = tally.relevant();
        self.queries += 1;
        if !setup.is_labelled() {
            self.add_ties(tally, setup);
            return;
        }
        self.without_relevant += usize::from(relevant == 0);
        if relevant == 0 && setup.options.empty_queries == EmptyQueries::Skip {
            return;
        }
        self.radius.add_query(tally);
        self.add_ties(tally, setup);
        self.chance += relevant as f64 / setup.n_items as f64;

        let [expected, optimistic, pessimistic] =
            [Ties::Expected, Ties::Optimistic, Ties::Pessimistic]
                .map(|ties| Ranking::from_tally(tally, ties));
        let (precisions, top) = scratch.stable(setup.stable_ranks);
        if relevant > 0 {
            self.map[3] += precisions / relevant as f64;
        }
        let stable = Ranking::stable(&top, &scratch.tally);
        let rankings = [expected, optimistic, pessimistic, stable];
        for rule in 0..3 {
            let ap = average_precision(&rankings[rule], None, setup.options.denominator);
            self.map[rule] += ap;
        }
        let mut cells = self.at.iter_mut();
        for metric in METRICS {
            for (&k, cell) in setup.options.cutoffs.iter().zip(&mut cells) {
                for (ranking, sum) in rankings.iter().zip(cell) {
                    *sum += (metric.value)(ranking, k, &setup.context);
                }
            }
        }
        add(&mut self.top_n, &top_n_curve(&rankings[0], &setup.top_n));
        add(&mut self.precision, &precision_at_recall(&rankings[0]));
    }

    fn add_ties(&mut self, tally: &Tally, setup: &Setup<'_>) {
        self.tie_rate += tie_rate(tally);
        for (cut, &k) in self.cut.iter_mut().zip(&setup.user_ranks) {
            *cut += usize::from(is_cut(tally, k));
        }
    }

    /// NDCG with idf gains; a query without relevant items adds 0 or is left out.
    pub(super) fn add_graded(
        &mut self,
        scratch: &Scratch,
        graded: &mut idf::Scratch,
        labels: &[usize],
        setup: &Setup<'_>,
    ) {
        if scratch.tally.relevant() == 0 {
            return;
        }
        let values = graded.ndcg_at(
            &setup.idf,
            labels,
            (scratch.distances(), &scratch.tally),
            &setup.user_ranks,
            &setup.user_discounts,
        );
        add(&mut self.ndcg_idf, &values);
    }

    pub(super) fn add(&mut self, other: &Sums) {
        self.queries += other.queries;
        self.without_relevant += other.without_relevant;
        add(&mut self.map, &other.map);
        self.at.iter_mut().zip(&other.at).for_each(|(sum, part)| add(sum, part));
        add(&mut self.top_n, &other.top_n);
        add(&mut self.precision, &other.precision);
        self.radius.add(&other.radius);
        self.tie_rate += other.tie_rate;
        self.cut.iter_mut().zip(&other.cut).for_each(|(sum, part)| *sum += part);
        add(&mut self.ndcg_idf, &other.ndcg_idf);
        self.chance += other.chance;
    }

    pub(super) fn into_report(
        self,
        query: &Codes,
        database: &Codes,
        labels: &Labels,
        setup: &Setup<'_>,
    ) -> Result<Report> {
        let counted = match setup.options.empty_queries {
            EmptyQueries::Zero => self.queries,
            EmptyQueries::Skip => self.queries - self.without_relevant,
        };
        if counted == 0 {
            let what = "no query has a relevant item in the database; count such queries as 0 \
                        to get a number at all";
            return Err(Error::Empty { what: what.into() });
        }
        let n = counted as f64;
        let mean = |sums: &[f64]| sums.iter().map(|sum| sum / n).collect::<Vec<_>>();
        let curve = self.radius.means(counted);
        let radii = setup.options.radii.iter();
        let by_rank = |values: &mut dyn Iterator<Item = f64>| {
            setup.user_ranks.iter().copied().zip(values).collect::<BTreeMap<usize, f64>>()
        };
        let labelled = setup.is_labelled();
        let at = by_metric(&self.at, &setup.options.cutoffs, n);
        let ndcg_idf_at = by_rank(&mut self.ndcg_idf.iter().map(|sum| sum / n));
        let mut user = UserMetrics::default();
        if !labelled {
            user.note(UNLABELLED);
        }
        Ok(Report {
            map: labelled.then(|| bounds(self.map, n)),
            at: if labelled { at } else { BTreeMap::new() },
            radius: radii.filter(|_| labelled).map(|&t| (t, curve.at(t))).collect(),
            chance: labelled.then_some(self.chance / n),
            queries: self.queries,
            queries_without_relevant: labelled.then_some(self.without_relevant),
            tie_rate: self.tie_rate / n,
            tie_rate_at: by_rank(&mut self.cut.iter().map(|&cut| cut as f64 / n)),
            ndcg_idf_at: if labelled { ndcg_idf_at } else { BTreeMap::new() },
            database_health: health(database),
            query_health: health(query),
            curves: labelled.then(|| Curves {
                top_n: setup.top_n.clone(),
                top_n_precision: mean(&self.top_n),
                recall: recall_levels(),
                precision: mean(&self.precision),
                radius: curve,
            }),
            user,
            protocol: Protocol {
                queries: self.queries,
                database: database.len(),
                bits: setup.bits,
                labels: labels.classes(),
                relevance: "shares at least one label with the query",
                tie_rule: "expectation over all orders of items at one distance",
                ap_denominator: setup.options.denominator,
                empty_queries: setup.options.empty_queries,
                kernel: Kernel::best().name(),
                evaluated_by: concat!("crosshash ", env!("CARGO_PKG_VERSION")),
            },
        })
    }
}

fn by_metric(
    at: &[[f64; 4]],
    cutoffs: &[usize],
    n: f64,
) -> BTreeMap<&'static str, BTreeMap<usize, Bounds>> {
    let row = |m: usize| &at[m * cutoffs.len()..][..cutoffs.len()];
    let by_cutoff = |row: &[[f64; 4]]| {
        cutoffs.iter().zip(row).map(|(&k, sums)| (k, bounds(*sums, n))).collect()
    };
    METRICS.iter().enumerate().map(|(m, metric)| (metric.name, by_cutoff(row(m)))).collect()
}

fn bounds(sums: [f64; 4], n: f64) -> Bounds {
    let [tie_aware, optimistic, pessimistic, stable] = sums.map(|sum| sum / n);
    Bounds { tie_aware, optimistic, pessimistic, stable }
}

fn add(sums: &mut [f64], values: &[f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}
