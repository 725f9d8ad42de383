//! Barnes-Hut t-SNE (cargo feature `tsne`) over the tree of the crate `barnes-hut-tree`, with the
//! usual schedule (as in scikit-learn): exaggeration and a small momentum first, gains per
//! coordinate. A point sums its forces in a fixed order, so that the number of threads does not
//! change the result.

use barnes_hut_tree::{BarnesHutTree, Dim, Morton};
use rayon::prelude::*;

use super::Options;
use crate::{Error, Result};

/// Accuracy of the approximation: half the width of a cell by its distance (the usual 0.5 is of the
/// whole width); smaller is more accurate.
const THETA: f32 = 0.25;
/// Iterations with exaggerated attraction and a small momentum.
const EARLY: usize = 250;
const EXAGGERATION: f32 = 12.0;
const MOMENTUM: [f32; 2] = [0.5, 0.8];
const SMALLEST_GAIN: f32 = 0.01;
/// Steps of the bisection for the perplexity.
const BISECTIONS: usize = 60;

/// A nearby point and its squared distance.
type Neighbour = (usize, f32);
/// Attraction of each point: sparse, symmetric, of sum 1.
type Affinities = Vec<Vec<(usize, f32)>>;

/// Two-dimensional positions of all rows, from the initial positions `start`.
pub(super) fn places(
    rows: &[f32],
    width: usize,
    start: Vec<f32>,
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<f32>> {
    let points: Vec<&[f32]> = rows.chunks_exact(width).collect();
    let suits = |perplexity: f32| (points.len() as f32) > 3.0 * perplexity + 2.0;
    let mut perplexity = options.perplexity;
    while options.fewer && perplexity > 3.0 && !suits(perplexity) {
        perplexity /= 2.0;
    }
    if !(perplexity >= 1.0 && suits(perplexity)) {
        return Err(Error::content(format!(
            "perplexity {perplexity} does not suit {} points: it must be 1 or more, and below a \
             third of the points; use more items or a smaller perplexity",
            points.len()
        )));
    }
    let affinities = affinities(&neighbours(&points, perplexity), perplexity);
    Ok(descend(&affinities, start, options.iterations, progress))
}

/// The nearest points of each point (three times the perplexity), by distance and then by index.
fn neighbours(points: &[&[f32]], perplexity: f32) -> Vec<Vec<Neighbour>> {
    #[expect(clippy::cast_possible_truncation, reason = "below the number of points")]
    #[expect(clippy::cast_sign_loss, reason = "positive")]
    let count = (3.0 * perplexity) as usize;
    let of = |(i, a): (usize, &&[f32])| {
        let others = points.iter().enumerate().filter(|(j, _)| *j != i);
        let mut all: Vec<Neighbour> = others
            .map(|(j, b)| (j, a.iter().zip(*b).map(|(x, y)| (x - y).powi(2)).sum::<f32>()))
            .collect();
        let order = |a: &Neighbour, b: &Neighbour| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0));
        all.select_nth_unstable_by(count, order);
        all.truncate(count);
        all.sort_unstable_by(order);
        all
    };
    points.par_iter().enumerate().map(of).collect()
}

/// `p_ij = (p_j|i + p_i|j) / 2n` over the neighbours.
fn affinities(near: &[Vec<Neighbour>], perplexity: f32) -> Affinities {
    let n = near.len() as f32;
    let conditional: Vec<Vec<f32>> =
        near.par_iter().map(|near| conditional(near, perplexity)).collect();
    let mut all: Affinities = vec![Vec::new(); near.len()];
    for (i, (near, shares)) in near.iter().zip(&conditional).enumerate() {
        for (&(j, _), share) in near.iter().zip(shares) {
            all[i].push((j, share / (2.0 * n)));
            all[j].push((i, share / (2.0 * n)));
        }
    }
    all.par_iter_mut().for_each(|row| {
        row.sort_by_key(|&(j, _)| j);
        row.dedup_by(|from, to| {
            let is_same = from.0 == to.0;
            if is_same {
                to.1 += from.1;
            }
            is_same
        });
    });
    all
}

/// `p_j|i` of the neighbours of a point: a Gaussian whose entropy is `ln(perplexity)`.
fn conditional(near: &[Neighbour], perplexity: f32) -> Vec<f32> {
    let wanted = perplexity.ln();
    let nearest = near.first().map_or(0.0, |near| near.1);
    let (mut low, mut high, mut beta) = (0.0_f32, f32::INFINITY, 1.0_f32);
    let mut shares = Vec::new();
    for _ in 0..BISECTIONS {
        shares = near.iter().map(|near| (-(near.1 - nearest) * beta).exp()).collect();
        let sum: f32 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        let entropy: f32 = shares
            .iter()
            .filter(|&&share| share > 0.0)
            .map(|share| -share * share.ln())
            .sum();
        if (entropy - wanted).abs() < 1e-5 {
            break;
        }
        if entropy > wanted {
            low = beta;
            beta = if high.is_finite() { (low + high) / 2.0 } else { 2.0 * beta };
        } else {
            high = beta;
            beta = (low + high) / 2.0;
        }
    }
    shares
}

/// Gradient descent on the Kullback-Leibler divergence.
fn descend(
    affinities: &Affinities,
    start: Vec<f32>,
    iterations: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<f32> {
    let n = affinities.len();
    let rate = (n as f32 / EXAGGERATION / 4.0).max(50.0);
    let (mut places, mut steps, mut gains) =
        (start, vec![0.0_f32; 2 * n], vec![1.0_f32; 2 * n]);
    for iteration in 0..iterations {
        let is_early = iteration < EARLY;
        let exaggeration = if is_early { EXAGGERATION } else { 1.0 };
        let momentum = MOMENTUM[usize::from(!is_early)];
        let gradient = gradient(affinities, &places, exaggeration);
        for (((place, step), gain), slope) in
            places.iter_mut().zip(&mut steps).zip(&mut gains).zip(&gradient)
        {
            let turns = (*slope > 0.0) != (*step > 0.0);
            *gain = if turns { *gain + 0.2 } else { *gain * 0.8 }.max(SMALLEST_GAIN);
            *step = momentum * *step - rate * *gain * slope;
            *place += *step;
        }
        centre(&mut places);
        progress(iteration);
    }
    places
}

/// `4 sum_j (e p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2)` of every point, where `q` is
/// approximated by the tree.
fn gradient(affinities: &Affinities, places: &[f32], exaggeration: f32) -> Vec<f32> {
    let tree = BarnesHutTree::<f32, <Dim<2> as Morton<2>>::Word, 2>::new_uniform(places);
    let of = |(i, near): (usize, &Vec<(usize, f32)>)| {
        let mut attraction = [0.0_f32; 2];
        for &(j, p) in near {
            let apart = [0, 1].map(|axis| places[2 * i + axis] - places[2 * j + axis]);
            let scale = p / (1.0 + apart[0] * apart[0] + apart[1] * apart[1]);
            attraction.iter_mut().zip(apart).for_each(|(sum, x)| *sum += scale * x);
        }
        let (mut repulsion, mut sum) = ([0.0_f32; 2], 0.0_f32);
        let mut stack = <Dim<2> as Morton<2>>::empty_stack();
        tree.compute_non_edge_forces(
            i,
            THETA * THETA,
            places,
            &mut repulsion,
            &mut sum,
            stack.as_mut(),
        );
        (attraction, repulsion, sum)
    };
    let forces: Vec<_> = affinities.par_iter().enumerate().map(of).collect();
    let total: f64 = forces.iter().map(|force| f64::from(force.2)).sum();
    #[expect(clippy::cast_possible_truncation, reason = "single precision suffices")]
    let total = total.max(f64::MIN_POSITIVE) as f32;
    let slope = |(attraction, repulsion, _): &([f32; 2], [f32; 2], f32)| {
        [0, 1].map(|axis| 4.0 * (exaggeration * attraction[axis] - repulsion[axis] / total))
    };
    forces.iter().flat_map(slope).collect()
}

fn centre(places: &mut [f32]) {
    let n = (places.len() / 2).max(1) as f32;
    for axis in 0..2 {
        let mean = places.iter().skip(axis).step_by(2).sum::<f32>() / n;
        places.iter_mut().skip(axis).step_by(2).for_each(|place| *place -= mean);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::tower::normal;

    /// Three groups of 40 points in 8 dimensions, far apart.
    fn groups() -> (Vec<f32>, Vec<f32>) {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut rows = normal(120 * 8, 0.1, &mut rng);
        for (i, row) in rows.chunks_exact_mut(8).enumerate() {
            row[i % 3] += 5.0;
        }
        (rows, normal(240, 1e-4, &mut rng))
    }

    fn options() -> Options {
        Options { perplexity: 10.0, iterations: 400, ..Options::default() }
    }

    #[test]
    fn groups_stay_apart() {
        let (rows, start) = groups();
        let places = places(&rows, 8, start, &options(), &|_| {}).unwrap();
        let at = |i: usize| [places[2 * i], places[2 * i + 1]];
        for i in 0..120 {
            let distance = |j: &usize| (at(i)[0] - at(*j)[0]).hypot(at(i)[1] - at(*j)[1]);
            let mut others: Vec<usize> = (0..120).filter(|&j| j != i).collect();
            others.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
            assert!(others[..39].iter().all(|j| j % 3 == i % 3), "neighbours of {i}");
        }
    }

    #[test]
    fn threads_do_not_change_the_result() {
        let (rows, start) = groups();
        let run = |threads: usize| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| places(&rows, 8, start.clone(), &options(), &|_| {}).unwrap())
        };
        assert_eq!(run(1), run(4));
    }

    #[test]
    fn conditional_shares_have_the_perplexity() {
        let near: Vec<Neighbour> =
            (0_u16..30).map(|k| (k.into(), 0.1 * f32::from(k))).collect();
        let shares = conditional(&near, 8.0);
        let entropy: f32 = shares.iter().map(|share| -share * share.ln()).sum();
        assert!((entropy.exp() - 8.0).abs() < 0.01, "{}", entropy.exp());
        assert!((shares.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let all = affinities(&[vec![(1, 1.0)], vec![(0, 1.0)]], 1.0);
        assert_eq!(all, [vec![(1, 0.5)], vec![(0, 0.5)]]);
    }

    /// The gradient against the exact sums over all pairs, up to the approximation.
    #[test]
    fn gradient_agrees_with_all_pairs() {
        let (rows, _) = groups();
        let points: Vec<&[f32]> = rows.chunks_exact(8).collect();
        let affinities = affinities(&neighbours(&points, 10.0), 10.0);
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let places = normal(240, 3.0, &mut rng);
        let at = |i: usize| [f64::from(places[2 * i]), f64::from(places[2 * i + 1])];
        let apart = |i: usize, j: usize| [at(i)[0] - at(j)[0], at(i)[1] - at(j)[1]];
        let weight = |i: usize, j: usize| {
            let [x, y] = apart(i, j);
            1.0 / (1.0 + x * x + y * y)
        };
        let pairs = (0..120).flat_map(|i| (0..120).map(move |j| (i, j)));
        let total: f64 = pairs.filter(|(i, j)| i != j).map(|(i, j)| weight(i, j)).sum();
        let found = gradient(&affinities, &places, 1.0);
        let (mut off, mut size) = (0.0, 0.0);
        for i in 0..120 {
            for axis in 0..2 {
                let mut exact = 0.0;
                for j in (0..120).filter(|&j| j != i) {
                    let p = affinities[i].iter().find(|near| near.0 == j);
                    let p = p.map_or(0.0, |near| f64::from(near.1));
                    let q = weight(i, j) / total;
                    exact += 4.0 * (p - q) * weight(i, j) * apart(i, j)[axis];
                }
                off += (exact - f64::from(found[2 * i + axis])).powi(2);
                size += exact * exact;
            }
        }
        assert!((off / size).sqrt() < 0.02, "{}", (off / size).sqrt());
    }
}
