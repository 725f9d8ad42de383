//! The built-in data set: emoji as colour pictures, drawings and words.
//!
//! The content is part of crates (`sources.rs`), so no files are needed. There are three modalities,
//! paired by emoji: every emoji has a picture and words; those of one code point that are in Noto Emoji
//! also have a drawing. A second font adds a second drawing of some emoji, which has its own id and thus
//! no pair, but belongs to the same family. Labels are groups, subgroups and frequent keywords.
//! Families, and pictures that look the same (the flags of Norway and Bouvet Island), stay together in
//! every split.

mod alike;
mod catalogue;
mod sources;

pub use catalogue::{Item, catalogue};
pub use sources::{DRAWING_MARGIN, DRAWING_SIZE, Hand, PICTURE_SIZE, drawing, picture};

use crosshash_codes::Labels;
use crosshash_features::backbone::{self, FeatureSource, Weights};
use rayon::prelude::*;

use super::{
    Dataset, Dense, Dropped, Features, LoadedDataset, Manifest, Modality, Raster,
    Selection, SplitSpec, Texts, descriptor,
};
use crate::{Error, Result};

/// The name of this data set in commands.
pub const NAME: &str = "emoji";

/// The source of features that a built-in backbone extracted.
fn built_in(name: &str) -> Result<FeatureSource> {
    Ok(backbone::open(name, &Weights::default())?.feature_source().clone())
}

/// Pictures and drawings as descriptors (`descriptor.rs`), words as text.
pub fn dataset() -> Result<Dataset> {
    let (mut items, tones, components) = catalogue();
    let pictures = pictures(&items)?;
    alike::join(&mut items, &pictures);
    let (names, rows) = catalogue::labels(&items);
    let everyone: Members =
        items.iter().enumerate().map(|(k, item)| (k, item.id.clone())).collect();

    let picture_features = pictures.par_iter().flat_map_iter(descriptor::picture).collect();
    let picture = modality("picture", &everyone, &items, &rows, &names, {
        Features::Dense(Dense::from_floats(descriptor::PICTURE, picture_features)?)
    })?
    .with_feature_source(built_in("descriptor")?);
    let (drawn, drawing_features) = drawings(&items)?;
    let drawing = modality("drawing", &drawn, &items, &rows, &names, {
        Features::Dense(Dense::from_floats(descriptor::DRAWING, drawing_features)?)
    })?
    .with_feature_source(built_in("descriptor-drawing")?);
    let texts: Texts = items.iter().map(Item::words).collect();
    let words = modality("words", &everyone, &items, &rows, &names, Features::Text(texts))?;

    let dropped = |reason: &str, items: usize| Dropped {
        modality: "all".into(),
        reason: reason.into(),
        items,
    };
    Ok(Dataset::new(NAME, names, vec![picture, drawing, words])?.with_dropped(vec![
        dropped("variant of an emoji in another skin tone", tones),
        dropped("component (hair or skin sample), not an emoji of its own", components),
    ]))
}

/// The data set with a manifest: 20 % of the families are queries, the rest is training set and
/// database.
pub fn open() -> Result<LoadedDataset> {
    let manifest = Manifest {
        name: Some(NAME.into()),
        licence: Some(
            "pictures CC-BY 4.0 (Copyright Twitter, Inc and other contributors), drawings \
             OFL 1.1 and MIT, words Unicode licence"
                .into(),
        ),
        source: Some(
            "crates twemoji-assets and epaint_default_fonts, Unicode CLDR 38".into(),
        ),
        ..Manifest::default()
    };
    let spec = SplitSpec {
        query: Some(Selection::Share(0.2)),
        stratify: true,
        ..SplitSpec::default()
    };
    let backbones = std::collections::BTreeMap::new();
    Ok(LoadedDataset { dataset: dataset()?, split_spec: Some(spec), backbones, manifest })
}

/// The pictures of all items, in order.
fn pictures(items: &[Item]) -> Result<Vec<Raster>> {
    let one = |item: &Item| {
        picture(item.glyph)?.ok_or_else(|| {
            Error::content(format!("emoji {} ({}) has no picture", item.id, item.name))
        })
    };
    items.par_iter().map(one).collect()
}

/// Items of a modality: the number of the emoji, and the id.
type Members = Vec<(usize, String)>;

/// All drawings of both fonts, and their descriptors.
fn drawings(items: &[Item]) -> Result<(Members, Vec<f32>)> {
    let hands = [(Hand::Noto, ""), (Hand::Icon, "-icon")];
    let places: Vec<_> =
        (0..items.len()).flat_map(|k| hands.map(|hand| (k, hand))).collect();
    let drawn = |&(k, (hand, suffix)): &(usize, (Hand, &str))| -> Result<_> {
        let raster = drawing(items[k].glyph, hand)?;
        let id = format!("{}{suffix}", items[k].id);
        Ok(raster.map(|raster| ((k, id), descriptor::drawing(&raster))))
    };
    let found: Vec<_> = places.par_iter().map(drawn).collect::<Result<_>>()?;
    let (ids, rows): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
    Ok((ids, rows.concat()))
}

/// A modality from item numbers with their ids.
fn modality(
    name: &str,
    members: &[(usize, String)],
    items: &[Item],
    rows: &[Vec<u32>],
    names: &[String],
    features: Features,
) -> Result<Modality> {
    let ids = members.iter().map(|(_, id)| id.clone()).collect();
    let labels = Labels::from_indices(names.len(), members.iter().map(|&(k, _)| &rows[k]))?;
    let families = members.iter().map(|&(k, _)| items[k].family.clone()).collect();
    Modality::new(name, ids, features, labels)?.with_groups(families)
}
