//! Merges the families of emoji whose pictures look the same.

use super::Item;
use crate::data::Raster;

/// Side of the thumbnails that are compared.
const SIDE: usize = 16;
/// Pictures are alike if the mean difference of their thumbnails (values from 0 to 1) is below this.
const ALIKE: f32 = 0.02;

/// Merges the families of items with similar pictures, transitively.
pub(super) fn join(items: &mut [Item], pictures: &[Raster]) {
    let thumbnails: Vec<Vec<f32>> = pictures
        .iter()
        .map(|picture| (0..3).flat_map(|channel| picture.channel(channel, SIDE)).collect())
        .collect();
    for a in 0..items.len() {
        for b in 0..a {
            if items[a].family != items[b].family && alike(&thumbnails[a], &thumbnails[b]) {
                let (old, new) = (items[a].family.clone(), items[b].family.clone());
                let joined = items.iter_mut().filter(|item| item.family == old);
                joined.for_each(|item| item.family.clone_from(&new));
            }
        }
    }
}

/// Stops as soon as the difference is too large.
fn alike(a: &[f32], b: &[f32]) -> bool {
    let allowed = ALIKE * a.len() as f32;
    let mut difference = 0.0;
    for (a, b) in a.chunks(SIDE).zip(b.chunks(SIDE)) {
        difference += a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f32>();
        if difference >= allowed {
            return false;
        }
    }
    true
}
