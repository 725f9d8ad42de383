//! The built-in data set: counts, pictures, labels, pairs, and splits that keep families together.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crosshash::backbone;
use crosshash::data::emoji::{self, Hand};
use crosshash::data::{
    Dataset, Features, Modality, Part, Selection, SplitSpec, descriptor,
};
use crosshash::picture::{Limits, Picture, decode};

static EMOJI: LazyLock<Dataset> = LazyLock::new(|| emoji::dataset().unwrap());

fn modality(name: &str) -> &'static Modality {
    EMOJI.modality(name).unwrap()
}

fn ids(name: &str) -> HashSet<&'static str> {
    modality(name).ids().iter().map(String::as_str).collect()
}

fn item_of(name: &str, id: &str) -> usize {
    modality(name).ids().iter().position(|other| other == id).unwrap()
}

#[test]
fn counts_are_stable() {
    let sizes: Vec<(&str, usize)> =
        EMOJI.modalities().iter().map(|m| (m.name(), m.len())).collect();
    assert_eq!(sizes, [("picture", 1812), ("drawing", 1197), ("words", 1812)]);
    assert_eq!(EMOJI.label_names().len(), 102);
    let dropped: Vec<usize> = EMOJI.dropped().iter().map(|l| l.items).collect();
    assert_eq!(dropped, [1690, 9]);
}

#[test]
fn modalities_are_partly_paired() {
    let (picture, drawing, words) = (ids("picture"), ids("drawing"), ids("words"));
    assert_eq!(picture, words);
    assert_eq!(drawing.intersection(&picture).count(), 822, "drawn by Noto");
    assert!(drawing.contains("1f408") && drawing.contains("1f408-icon"), "two cats");
}

#[test]
fn labels_are_multi_hot_and_agree_between_modalities() {
    for modality in EMOJI.modalities() {
        let labels = modality.labels();
        assert_eq!(labels.unlabelled(), 0);
        let total: usize = labels.histogram().iter().sum();
        assert!(total > 2 * modality.len(), "more than two labels an emoji");
    }
    let named = |name: &str, id: &str| -> Vec<&str> {
        let labels = modality(name).labels().indices(item_of(name, id));
        labels.map(|label| EMOJI.label_names()[label].as_str()).collect()
    };
    let crocodile = ["group Animals & Nature", "subgroup animal-reptile"];
    assert_eq!(named("picture", "1f40a"), crocodile);
    assert_eq!(
        named("words", "264b"),
        ["group Symbols", "subgroup zodiac", "keyword zodiac"]
    );
    for id in ids("drawing").intersection(&ids("picture")) {
        assert_eq!(named("drawing", id), named("words", id));
    }
}

#[test]
fn words_are_names_and_keywords() {
    let Features::Text(texts) = modality("words").features() else { panic!("not text") };
    assert_eq!(texts.get(item_of("words", "1f408")), "cat, pet");
    assert_eq!(texts.get(item_of("words", "1f1e9-1f1ea")), "flag: Germany");
    assert!((0..texts.len()).all(|item| !texts.get(item).is_empty()));
}

#[test]
fn rasters_are_not_blank() {
    let (items, _, _) = emoji::catalogue();
    for item in &items {
        let picture = emoji::picture(item.glyph).unwrap().unwrap();
        assert_eq!((picture.size(), picture.channels()), (emoji::PICTURE_SIZE, 3));
        let coloured = picture.pixels().iter().filter(|&&value| value < 250).count();
        assert!(coloured > 20, "{}: {coloured} values are not white", item.name);
        for hand in [Hand::Noto, Hand::Icon] {
            let Some(drawing) = emoji::drawing(item.glyph, hand).unwrap() else { continue };
            let ink = drawing.channel(0, 1)[0];
            assert!((0.02..0.995).contains(&ink), "{} by {hand:?}: {ink} white", item.name);
            assert!(
                drawing.pixels()[..emoji::DRAWING_SIZE].iter().all(|&white| white == 255)
            );
        }
    }
}

#[test]
fn splits_keep_families_together() {
    let plan = SplitSpec {
        query: Some(Selection::Share(0.2)),
        stratify: true,
        ..SplitSpec::default()
    };
    let split = plan.draw(&EMOJI).unwrap();
    let mut part_of: HashMap<&str, Part> = HashMap::new();
    for (k, modality) in EMOJI.modalities().iter().enumerate() {
        for part in [Part::Train, Part::Query] {
            let items = split.items(k, part);
            assert!(items.len() > 150, "{}: {} in {part:?}", modality.name(), items.len());
            for &item in items {
                let family = modality.groups().unwrap()[item].as_str();
                assert_eq!(*part_of.entry(family).or_insert(part), part, "{family}");
            }
        }
    }
    let family = |id: &str| &modality("picture").groups().unwrap()[item_of("picture", id)];
    assert_eq!(family("1f468-200d-1f33e"), family("1f469-200d-1f33e"), "farmers");
    assert_eq!(family("1f550"), family("1f567"), "hours");
    assert_eq!(family("1f1f3-1f1f4"), family("1f1e7-1f1fb"), "Norway, Bouvet Island");
    assert_ne!(family("1f408"), family("1f415"), "cat and dog");
}

#[test]
fn opens_by_name_unless_a_folder_has_that_name() {
    let opened = crosshash::data::open("emoji".as_ref(), None).unwrap();
    assert_eq!(opened.dataset.name(), "emoji");
    let split = opened.split().unwrap();
    assert_eq!(split, opened.split().unwrap());
    assert!(split.items(0, Part::Query).len() > 300);
    let err = crosshash::data::open("./emoji".as_ref(), None).unwrap_err().to_string();
    assert!(err.contains("./emoji"), "{err}");
}

#[test]
fn is_deterministic() {
    let again = emoji::dataset().unwrap();
    for (a, b) in EMOJI.modalities().iter().zip(again.modalities()) {
        assert_eq!((a.ids(), a.labels(), a.groups()), (b.ids(), b.labels(), b.groups()));
        if let (Features::Dense(x), Features::Dense(y)) = (a.features(), b.features()) {
            let mut values = [vec![0.0; x.width() * 50], vec![0.0; x.width() * 50]];
            x.read(600..650, &mut values[0]).unwrap();
            y.read(600..650, &mut values[1]).unwrap();
            assert_eq!(values[0], values[1]);
            assert!(values[0].iter().any(|&value| value != 0.0));
        }
    }
}

fn rows(name: &str, file: &[u8]) -> Vec<f32> {
    let picture = decode(file, &Limits::default()).unwrap();
    let loaded = backbone::open(name, &backbone::Weights::default()).unwrap();
    loaded.backbone().pictures(&[picture]).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn files_have_the_features_of_the_data_set() {
    for glyph in ["😀", "🐈", "🚲", "🌷"] {
        let raster = emoji::picture(glyph).unwrap().unwrap();
        let row = rows("descriptor", &raster.to_png().unwrap());
        assert_eq!(row, descriptor::picture(&raster), "{glyph}");
        let raster = emoji::drawing(glyph, emoji::Hand::Noto).unwrap().unwrap();
        let row = rows("descriptor-drawing", &raster.to_png().unwrap());
        let near = cosine(&row, &descriptor::drawing(&raster));
        assert!(near > 0.97, "{glyph}: {near}");
    }
}

#[test]
fn features_of_drawings_ignore_position_and_size() {
    let raster = emoji::drawing("🏠", emoji::Hand::Noto).unwrap().unwrap();
    let expected = descriptor::drawing(&raster);
    // on a canvas of 300 x 200, twice as large, in a corner
    let (width, height, size) = (300, 200, raster.size());
    let mut rgb = vec![255_u8; width * height * 3];
    for y in 0..2 * size {
        for x in 0..2 * size {
            let value = raster.pixels()[y / 2 * size + x / 2];
            let at = ((y + 50) * width + x + 150) * 3;
            rgb[at..at + 3].fill(value);
        }
    }
    let canvas = Picture::new(width, height, rgb);
    let loaded =
        backbone::open("descriptor-drawing", &backbone::Weights::default()).unwrap();
    let row = loaded.backbone().pictures(&[canvas]).unwrap();
    let near = cosine(&row, &expected);
    assert!(near > 0.97, "{near}");
}
