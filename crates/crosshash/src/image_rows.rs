//! Pictures as inputs of a fine-tuned network: decoded on first use, cached in memory up to a limit,
//! preprocessed batch by batch; for training with random crops and flips.
//!
//! The random crop is torchvision's `RandomResizedCrop`: a fraction of the area, an aspect ratio
//! between 3:4 and 4:3, a centre crop if ten attempts fail. Each item has its own generator (seed,
//! epoch, step, position), so that resumed training uses the same crops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crosshash_codes::Cancel;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::data::Pictures;
use crate::isolate::Decoder;
use crate::network::{Activation, Network};
use crate::picture::{Limits, Picture, Preprocessing, Resize};
use crate::tower::Pixels;
use crate::{Error, Result};

/// Maximum bytes of cached decoded pictures; others are read again each time.
const ROOM: u64 = 2 << 30;
/// Maximum bytes of cached outputs of frozen layers.
const ROOM_KEPT: usize = 2 << 30;
/// Batch size for frozen layers.
const BLOCK: usize = 64;
/// Minimum aspect ratio of a crop, width to height.
const NARROWEST: f64 = 3.0 / 4.0;
/// Attempts at a random crop before the centre crop.
const TRIES: usize = 10;

/// Augmentation of training pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Augment {
    /// Minimum area fraction of a random crop; 1 disables cropping.
    pub(crate) crop: f64,
    /// Flip pictures horizontally with probability 0.5.
    pub(crate) flip: bool,
}

/// Seed of the augmentation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AugmentSeed {
    /// Seed of the run and modality.
    pub(crate) seed: u64,
    /// The epoch, from 0.
    pub(crate) epoch: usize,
    /// The step in the epoch, from 0.
    pub(crate) step: usize,
}

/// Pictures of one modality as network inputs.
#[derive(Debug, Clone)]
pub(crate) struct PixelRows {
    pictures: Pictures,
    preprocessing: Preprocessing,
    decoded: Arc<Decoded>,
    kept: Option<Arc<Pixels>>, // outputs of frozen layers for all pictures
}

#[derive(Debug)]
struct Decoded {
    slots: Vec<OnceLock<Picture>>,
    bytes: AtomicU64,
}

impl PixelRows {
    pub(crate) fn new(pictures: Pictures, preprocessing: Preprocessing) -> PixelRows {
        let slots = (0..pictures.len()).map(|_| OnceLock::new()).collect();
        let decoded = Arc::new(Decoded { slots, bytes: AtomicU64::new(0) });
        PixelRows { pictures, preprocessing, decoded, kept: None }
    }

    /// Number of pictures.
    pub(crate) fn len(&self) -> usize {
        self.pictures.len()
    }

    /// Network inputs of the given items; augmented if a seed is given.
    pub(crate) fn batch(
        &self,
        items: &[usize],
        look: Option<(AugmentSeed, Augment)>,
    ) -> Result<Pixels> {
        if let Some(kept) = &self.kept {
            let each: usize = kept.shape.iter().product();
            let rows =
                items.iter().flat_map(|&item| &kept.values[item * each..(item + 1) * each]);
            return Ok(Pixels { values: rows.copied().collect(), ..**kept });
        }
        let fresh = self.read(items)?;
        let each = self.preprocessing.values();
        let mut values = vec![0.0; items.len() * each];
        let all = values.par_chunks_exact_mut(each).zip(items).zip(&fresh).enumerate();
        all.try_for_each(|(at, ((out, &item), fresh))| {
            let Some(picture) = fresh.as_ref().or_else(|| self.decoded.slots[item].get())
            else {
                return Err(
                    Error::content("picture not found").at(&self.pictures.path(item))
                );
            };
            match look {
                None => self.preprocessing.apply(picture, out),
                Some((look, augment)) => {
                    augment.apply(&self.preprocessing, picture, &mut look.rng(at), out);
                }
            }
            Ok(())
        })?;
        let (channels, size) =
            (self.preprocessing.channels.count(), self.preprocessing.size);
        Ok(Pixels { values, shape: [channels, size, size], layer: 0 })
    }

    /// Decodes pictures that are not cached. Caches them while there is room and returns the others.
    fn read(&self, items: &[usize]) -> Result<Vec<Option<Picture>>> {
        let slots = &self.decoded.slots;
        let missing: Vec<usize> =
            (0..items.len()).filter(|&at| slots[items[at]].get().is_none()).collect();
        let mut fresh: Vec<Option<Picture>> = vec![None; items.len()];
        if missing.is_empty() {
            return Ok(fresh);
        }
        let (limits, decoder, cancel) =
            (Limits::default(), Decoder::default(), Cancel::default());
        let wanted: Vec<usize> = missing.iter().map(|&at| items[at]).collect();
        let mut files = Vec::new();
        self.pictures.select(&wanted).visit(limits.bytes, |k, bytes| {
            let bytes = bytes.map_err(|err| err.at(&self.pictures.path(wanted[k])))?;
            files.push((missing[k], bytes));
            Ok::<(), Error>(())
        })?;
        let found: Vec<(usize, Picture)> = files
            .into_par_iter()
            .map(|(at, bytes)| {
                let picture = decoder.decode(&bytes, &limits, &cancel);
                Ok((at, picture.map_err(|err| err.at(&self.pictures.path(items[at])))?))
            })
            .collect::<Result<_>>()?;
        for (at, picture) in found {
            let bytes = picture.rgb().len() as u64;
            let before = self.decoded.bytes.fetch_add(bytes, Ordering::Relaxed);
            if before + bytes <= ROOM {
                // A batch may contain a picture twice: ignore the second.
                drop(slots[items[at]].set(picture));
            } else {
                self.decoded.bytes.fetch_sub(bytes, Ordering::Relaxed);
                fresh[at] = Some(picture);
            }
        }
        Ok(fresh)
    }

    /// Computes and caches the output of the first layers of a network for all pictures, if it is not
    /// too large. The layers must be frozen, and pictures must not be augmented.
    pub(crate) fn keep(&mut self, network: &Network, layers: usize) -> Result<()> {
        if layers == 0 || self.len() == 0 {
            return Ok(());
        }
        let all: Vec<usize> = (0..self.len()).collect();
        let mut kept = Pixels { values: Vec::new(), shape: [0; 3], layer: layers };
        for block in all.chunks(BLOCK) {
            let pixels = self.batch(block, None)?;
            let input = Activation::new(&pixels.values, pixels.shape);
            let (values, shape) = network.kept(&(0..layers), input);
            if values.len() / block.len() * self.len() * size_of::<f32>() > ROOM_KEPT {
                return Ok(());
            }
            kept.shape = shape;
            kept.values.extend(values);
        }
        self.kept = Some(Arc::new(kept));
        Ok(())
    }
}

impl AugmentSeed {
    /// Random generator of one item of the batch.
    fn rng(self, at: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(
            ((self.epoch as u64) << 40) ^ ((self.step as u64) << 20) ^ at as u64,
        );
        rng
    }
}

impl Augment {
    /// Augments and preprocesses a picture.
    fn apply(
        self,
        preprocessing: &Preprocessing,
        picture: &Picture,
        rng: &mut ChaCha8Rng,
        out: &mut [f32],
    ) {
        if self.crop < 1.0 {
            let (width, height) = (picture.width(), picture.height());
            let [left, top, across, down] = self.part(width, height, rng);
            let part = picture.crop(left, top, across, down);
            let squash = Preprocessing { resize: Resize::Squash, ..preprocessing.clone() };
            squash.apply(&part, out);
        } else {
            preprocessing.apply(picture, out);
        }
        if self.flip && rng.random_bool(0.5) {
            out.chunks_exact_mut(preprocessing.size).for_each(<[f32]>::reverse);
        }
    }

    /// A random crop: left, top, width, height.
    fn part(self, width: usize, height: usize, rng: &mut ChaCha8Rng) -> [usize; 4] {
        #[expect(clippy::cast_possible_truncation, reason = "sides of a picture")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        let whole = |side: f64| side.round() as usize;
        let (w, h) = (width as f64, height as f64);
        for _ in 0..TRIES {
            let area = w * h * rng.random_range(self.crop..=1.0);
            let ratio = rng.random_range(NARROWEST.ln()..=-NARROWEST.ln()).exp();
            let (across, down) =
                (whole((area * ratio).sqrt()), whole((area / ratio).sqrt()));
            if (1..=width).contains(&across) && (1..=height).contains(&down) {
                let left = rng.random_range(0..=width - across);
                return [left, rng.random_range(0..=height - down), across, down];
            }
        }
        let (across, down) = match w / h {
            narrow if narrow < NARROWEST => (width, whole(w / NARROWEST).clamp(1, height)),
            wide if wide > 1.0 / NARROWEST => {
                (whole(h / NARROWEST).clamp(1, width), height)
            }
            _ => (width, height),
        };
        [(width - across) / 2, (height - down) / 2, across, down]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crops_are_inside_and_have_the_requested_area() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let augment = Augment { crop: 0.4, flip: true };
        for [width, height] in [[128, 128], [300, 40], [7, 90], [1, 1], [2, 1]] {
            for _ in 0..200 {
                let [left, top, across, down] = augment.part(width, height, &mut rng);
                assert!(across > 0 && down > 0);
                assert!(left + across <= width && top + down <= height);
                if width == height && width > 1 {
                    let share = (across * down) as f64 / (width * height) as f64;
                    assert!((0.38..=1.0).contains(&share), "{share}");
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_picture() {
        let rgb: Vec<u8> = (0..64 * 48 * 3).map(|k| (k * 7 % 251) as u8).collect();
        let picture = Picture::new(64, 48, rgb);
        let preprocessing = Preprocessing::squash(16);
        let seen = |step: usize, at: usize| {
            let look = AugmentSeed { seed: 3, epoch: 1, step };
            let mut out = vec![0.0; preprocessing.values()];
            let augment = Augment { crop: 0.3, flip: true };
            augment.apply(&preprocessing, &picture, &mut look.rng(at), &mut out);
            out
        };
        assert_eq!(seen(4, 2), seen(4, 2));
        assert_ne!(seen(4, 2), seen(4, 3));
        assert_ne!(seen(4, 2), seen(5, 2));
    }
}
