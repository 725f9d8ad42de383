//! Ids from a file: a `.npy` vector of whole numbers, or text with one id a line. Lines that are
//! all numbers make numbers, anything else makes names.

use std::path::Path;

use crate::format::Ids;
use crate::npy::Npy;
use crate::{Error, Result};

/// The largest whole number that survives the reader of arrays, which is made of doubles.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Reads ids, one an item.
pub fn read_ids(path: &Path) -> Result<Ids> {
    if path.extension().is_some_and(|ending| ending == "npy") {
        return from_npy(path).map_err(|err| err.at(path));
    }
    let text = fs_err::read_to_string(path)?;
    let numbers: Option<Vec<u64>> = text.lines().map(|line| line.parse().ok()).collect();
    Ok(match numbers {
        Some(numbers) => Ids::Numbers(numbers),
        None => Ids::Names(text.lines().map(str::to_owned).collect()),
    })
}

fn from_npy(path: &Path) -> Result<Ids> {
    let npy = Npy::open(path)?;
    if npy.shape().len() != 1 {
        return Err(Error::content("ids are a vector, one number an item"));
    }
    let mut numbers = Vec::new();
    npy.each(|row, _, value| {
        if value < 0.0 || value.fract() != 0.0 || value >= LARGEST {
            return Err(Error::BadValue {
                row,
                column: 0,
                value: value.to_string(),
                wanted: "is not an id: expected a whole number below 2^53, or text".into(),
            });
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        #[expect(clippy::cast_sign_loss, reason = "checked above")]
        numbers.push(value as u64);
        Ok(())
    })?;
    Ok(Ids::Numbers(numbers))
}
