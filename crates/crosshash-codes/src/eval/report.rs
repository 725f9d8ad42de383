//! The whole judgement: every metric, every tie rule, both curves, code health, and the
//! protocol card that says what the numbers mean.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use super::health::tie_rate;
use super::radius::RadiusSums;
use super::tally::Scratch;
use super::{
    ApDenominator, AtRadius, Context, Discounts, Health, METRICS, RadiusCurve, Ranking,
    Ties, average_precision, health, precision_at_recall, recall_levels, top_n_curve,
};
use crate::kernel::Kernel;
use crate::{Codes, Error, Labels, Result};

/// What to report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ranks at which metrics are cut.
    pub cutoffs: Vec<usize>,
    /// What AP@K is divided by.
    pub denominator: ApDenominator,
    /// What a query without any relevant item contributes.
    pub empty_queries: EmptyQueries,
    /// Hamming radii reported on their own; the curve has them all.
    pub radii: Vec<usize>,
    /// How far the top-N precision curve goes.
    pub curve_to: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cutoffs: Vec::new(),
            denominator: ApDenominator::default(),
            empty_queries: EmptyQueries::default(),
            radii: vec![2],
            curve_to: 1000,
        }
    }
}

/// What a query without any relevant item contributes to the means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyQueries {
    /// It counts as 0 (DCMH, SSAH, GDH).
    #[default]
    Zero,
    /// It is left out (SePH, DeepHash).
    Skip,
}

/// One metric under each tie rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// Expectation over all orders of tied items: the headline.
    pub tie_aware: f64,
    /// Tied items with the most shared labels first.
    pub optimistic: f64,
    /// Tied items with the fewest shared labels first.
    pub pessimistic: f64,
    /// Tied items in database order.
    pub stable: f64,
}

/// The judgement of one set of query codes against one database.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// MAP over the whole ranking.
    pub map: Bounds,
    /// Each of [`METRICS`] at each cutoff.
    pub at: BTreeMap<&'static str, BTreeMap<usize, Bounds>>,
    /// Hash look-up at the radii asked for.
    pub radius: BTreeMap<usize, AtRadius>,
    /// What a random ranking would reach: the mean share of relevant items.
    pub chance: f64,
    /// All queries.
    pub queries: usize,
    /// Queries for which no database item is relevant.
    pub queries_without_relevant: usize,
    /// Share of neighbouring ranks that are tied, mean over queries.
    pub tie_rate: f64,
    /// Health of the database codes.
    pub database_health: Health,
    /// Health of the query codes.
    pub query_health: Health,
    /// The curves.
    pub curves: Curves,
    /// What the numbers mean.
    pub protocol: Protocol,
}

/// Means over queries, tie-aware.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// The ranks of the top-N precision curve.
    pub top_n: Vec<usize>,
    /// P@N at those ranks.
    pub top_n_precision: Vec<f64>,
    /// Recall levels of the precision-recall curve by ranking.
    pub recall: Vec<f64>,
    /// Interpolated precision at those levels.
    pub precision: Vec<f64>,
    /// Precision and recall by Hamming radius.
    pub radius: RadiusCurve,
}

/// What stands beside every published number.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// How many queries.
    pub queries: usize,
    /// How many database items.
    pub database: usize,
    /// Code length.
    pub bits: usize,
    /// How many labels.
    pub labels: usize,
    /// When an item is relevant.
    pub relevance: &'static str,
    /// What the headline does with ties.
    pub tie_rule: &'static str,
    /// What AP@K is divided by; MAP over the whole ranking is always divided by R.
    pub ap_denominator: ApDenominator,
    /// What queries without relevant items contribute.
    pub empty_queries: EmptyQueries,
    /// Which kernel counted.
    pub kernel: &'static str,
    /// Which program judged.
    pub judged_by: &'static str,
}

/// Judges query codes against a database. `progress` is told how many queries are done.
///
/// Time O(queries x database), memory O(database); the result depends neither on the
/// number of threads nor, but for the `stable` values, on the order of the database.
pub fn evaluate(
    query: &Codes,
    database: &Codes,
    query_labels: &Labels,
    database_labels: &Labels,
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Report> {
    check(query, database, query_labels, database_labels, options)?;
    let plan = Plan::new(database, options);
    let done = AtomicUsize::new(0);
    // Chunks depend on the number of queries only, so the sums do not depend on threads.
    let chunk = query.len().div_ceil(256).max(1);
    let chunks: Vec<usize> = (0..query.len()).step_by(chunk).collect();
    let sums: Vec<Sums> = chunks
        .into_par_iter()
        .map_init(Scratch::default, |scratch, start| {
            let mut sums = Sums::new(&plan);
            for q in start..query.len().min(start + chunk) {
                scratch.count(
                    query.code(q),
                    query_labels.row(q),
                    database,
                    database_labels,
                );
                sums.add_query(scratch, &plan);
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
            sums
        })
        .collect();
    let mut total = Sums::new(&plan);
    sums.iter().for_each(|part| total.add(part));
    total.into_report(query, database, query_labels, &plan)
}

fn check(
    query: &Codes,
    database: &Codes,
    query_labels: &Labels,
    database_labels: &Labels,
    options: &Options,
) -> Result<()> {
    let same = |left: &str, left_size, right: &str, right_size, unit, remedy| {
        let (left, right) = (left.to_owned(), right.to_owned());
        if left_size == right_size {
            return Ok(());
        }
        Err(Error::Mismatch { left, left_size, right, right_size, unit, remedy })
    };
    let empty = |what: &str| Err(Error::Empty { what: what.into() });
    let (q_bits, d_bits) = (query.bits().get(), database.bits().get());
    let one_length = "both need codes of one length";
    same("the query set", q_bits, "the database", d_bits, "bits a code", one_length)?;
    let row = "there must be one row of labels per code";
    let (codes, labels) = ("the query codes", "the query labels");
    same(codes, query.len(), labels, query_labels.len(), "rows", row)?;
    let (codes, labels) = ("the database codes", "the database labels");
    same(codes, database.len(), labels, database_labels.len(), "rows", row)?;
    let (q_classes, d_classes) = (query_labels.classes(), database_labels.classes());
    let one_vocabulary = "both need the same label columns";
    let (left, right) = ("the query label matrix", "the database label matrix");
    same(left, q_classes, right, d_classes, "labels", one_vocabulary)?;
    if query.is_empty() {
        return empty("the query set is empty: there is nothing to judge");
    }
    if database.is_empty() {
        return empty("the database is empty: there is nothing to rank");
    }
    if database.len() >= 1 << 31 {
        return Err(Error::content(format!(
            "{} database items; at most 2^31 - 1 are judged at once",
            database.len()
        )));
    }
    if query_labels.unlabelled() == query_labels.len() {
        return empty("no query has any label: every value would be 0");
    }
    if database_labels.unlabelled() == database_labels.len() {
        return empty("no database item has any label: every value would be 0");
    }
    if options.cutoffs.contains(&0) {
        return Err(Error::content("cutoff 0: ranks are counted from 1"));
    }
    Ok(())
}

/// What is the same for all queries.
struct Plan<'a> {
    options: &'a Options,
    context: Context,
    top_n: Vec<usize>,
    stable_ranks: usize,
    n_items: usize,
    bits: usize,
}

impl Plan<'_> {
    fn new<'a>(database: &Codes, options: &'a Options) -> Plan<'a> {
        let deepest = options.cutoffs.iter().copied().max().unwrap_or(0);
        let deepest = deepest.min(database.len());
        Plan {
            options,
            context: Context {
                denominator: options.denominator,
                discounts: Discounts::up_to(deepest),
            },
            top_n: (1..=options.curve_to.min(database.len())).collect(),
            stable_ranks: deepest,
            n_items: database.len(),
            bits: database.bits().get(),
        }
    }
}

/// Sums over queries, added up in query order.
struct Sums {
    queries: usize,
    without_relevant: usize,
    map: [f64; 4],
    at: Vec<[f64; 4]>, // metrics x cutoffs
    top_n: Vec<f64>,
    precision: Vec<f64>,
    radius: RadiusSums,
    tie_rate: f64,
    chance: f64,
}

impl Sums {
    fn new(plan: &Plan<'_>) -> Sums {
        Sums {
            queries: 0,
            without_relevant: 0,
            map: [0.0; 4],
            at: vec![[0.0; 4]; METRICS.len() * plan.options.cutoffs.len()],
            top_n: vec![0.0; plan.top_n.len()],
            precision: vec![0.0; recall_levels().len()],
            radius: RadiusSums::new(plan.bits),
            tie_rate: 0.0,
            chance: 0.0,
        }
    }

    fn add_query(&mut self, scratch: &Scratch, plan: &Plan<'_>) {
        let tally = &scratch.tally;
        let relevant = tally.relevant();
        self.queries += 1;
        self.without_relevant += usize::from(relevant == 0);
        if relevant == 0 && plan.options.empty_queries == EmptyQueries::Skip {
            return;
        }
        self.radius.add_query(tally);
        self.tie_rate += tie_rate(tally);
        self.chance += relevant as f64 / plan.n_items as f64;

        let [expected, optimistic, pessimistic] =
            [Ties::Expected, Ties::Optimistic, Ties::Pessimistic]
                .map(|ties| Ranking::from_tally(tally, ties));
        let (precisions, top) = scratch.stable(plan.stable_ranks);
        if relevant > 0 {
            self.map[3] += precisions / relevant as f64;
        }
        let stable = Ranking::stable(&top, &scratch.tally);
        let rankings = [expected, optimistic, pessimistic, stable];
        for rule in 0..3 {
            let ap = average_precision(&rankings[rule], None, plan.options.denominator);
            self.map[rule] += ap;
        }
        let mut cells = self.at.iter_mut();
        for metric in METRICS {
            for (&k, cell) in plan.options.cutoffs.iter().zip(&mut cells) {
                for (ranking, sum) in rankings.iter().zip(cell) {
                    *sum += (metric.value)(ranking, k, &plan.context);
                }
            }
        }
        add(&mut self.top_n, &top_n_curve(&rankings[0], &plan.top_n));
        add(&mut self.precision, &precision_at_recall(&rankings[0]));
    }

    fn add(&mut self, other: &Sums) {
        self.queries += other.queries;
        self.without_relevant += other.without_relevant;
        add(&mut self.map, &other.map);
        self.at.iter_mut().zip(&other.at).for_each(|(sum, part)| add(sum, part));
        add(&mut self.top_n, &other.top_n);
        add(&mut self.precision, &other.precision);
        self.radius.add(&other.radius);
        self.tie_rate += other.tie_rate;
        self.chance += other.chance;
    }

    fn into_report(
        self,
        query: &Codes,
        database: &Codes,
        labels: &Labels,
        plan: &Plan<'_>,
    ) -> Result<Report> {
        let counted = match plan.options.empty_queries {
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
        let radii = plan.options.radii.iter();
        Ok(Report {
            map: bounds(self.map, n),
            at: by_metric(&self.at, &plan.options.cutoffs, n),
            radius: radii.map(|&t| (t, curve.at(t))).collect(),
            chance: self.chance / n,
            queries: self.queries,
            queries_without_relevant: self.without_relevant,
            tie_rate: self.tie_rate / n,
            database_health: health(database),
            query_health: health(query),
            curves: Curves {
                top_n: plan.top_n.clone(),
                top_n_precision: mean(&self.top_n),
                recall: recall_levels(),
                precision: mean(&self.precision),
                radius: curve,
            },
            protocol: Protocol {
                queries: self.queries,
                database: database.len(),
                bits: plan.bits,
                labels: labels.classes(),
                relevance: "shares at least one label with the query",
                tie_rule: "expectation over all orders of items at one distance",
                ap_denominator: plan.options.denominator,
                empty_queries: plan.options.empty_queries,
                kernel: Kernel::best().name(),
                judged_by: concat!("crosshash ", env!("CARGO_PKG_VERSION")),
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
