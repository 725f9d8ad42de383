//! Pictures without a table: folders are classes, modalities or parts of a split, or say nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use super::found::{Found, PictureSource};
use super::generated::{Generated, ITEMS};
use super::{Certainty, Place, Report, plain, shown};
use crate::data::Selection;
use crate::data::manifest::{
    Items, LabelSource, Manifest, Many, ModalitySource, SplitSource,
};
use crate::data::read::{self, Listing};
use crate::{Error, Result};

/// Captions beside pictures, in the report.
pub(super) const SIDECARS: &str = "text files of the same name";

const TRAIN: [&str; 2] = ["train", "training"];
const TEST: [&str; 3] = ["test", "testing", "query"];
const VALIDATION: [&str; 4] = ["validation", "valid", "val", "dev"];

pub(super) fn propose(
    found: &Found,
    place: &Place,
    report: &mut Report,
) -> Result<Manifest> {
    let most = found.pictures.iter().max_by_key(|source| source.listing.ids.len());
    let source = most.ok_or_else(|| Error::content("there are no pictures"))?;
    for other in found.pictures.iter().filter(|other| other.path != source.path) {
        let why = "other pictures are used; a table that names these would include them";
        report.unused(shown(found, &other.path), why);
    }
    let (below, listing) = descend(source)?;
    report.items = listing.ids.len();
    let pictures = format!("pictures in {}", shown(found, &source.path.join(&below)));
    let layout = Layout {
        place,
        source,
        below: Some(below).filter(|below| !below.is_empty()),
        subject: pictures,
        listing: &listing,
    };
    if let Some(manifest) = layout.captions(report)? {
        return Ok(manifest);
    }
    layout.by_folders(report)
}

/// Goes down while all pictures are in one folder.
fn descend(source: &PictureSource) -> Result<(String, Listing)> {
    let mut below = String::new();
    loop {
        let listing = read::pictures(&source.path, &below)?;
        let tops: BTreeSet<Option<&str>> =
            listing.ids.iter().map(|id| id.split_once('/').map(|(top, _)| top)).collect();
        let only = match tops.iter().next() {
            Some(Some(top)) if tops.len() == 1 => (*top).to_owned(),
            _ => return Ok((below, listing)),
        };
        // A single class folder is no class, but the only folder of class folders is below.
        below = if below.is_empty() { only } else { format!("{below}/{only}") };
    }
}

struct Layout<'a> {
    place: &'a Place,
    source: &'a PictureSource,
    below: Option<String>,
    subject: String,
    listing: &'a Listing,
}

impl Layout<'_> {
    /// Folder or archive and subfolder of the pictures.
    fn at(&self, under: Option<&str>) -> (PathBuf, Option<String>) {
        if self.source.path.is_dir() {
            let folder = self.below.as_ref().map(|below| self.source.path.join(below));
            let folder = folder.unwrap_or_else(|| self.source.path.clone());
            return (self.place.name(&folder), under.map(str::to_owned));
        }
        let under = match (&self.below, under) {
            (Some(below), Some(under)) => Some(format!("{below}/{under}")),
            (below, under) => below.clone().or(under.map(str::to_owned)),
        };
        (self.place.name(&self.source.path), under)
    }

    fn pictures(&self, under: Option<&str>) -> ModalitySource {
        let (path, under) = self.at(under);
        ModalitySource { pictures: Some(path), under, ..ModalitySource::default() }
    }

    fn class_names(&self, under: Option<&str>) -> ModalitySource {
        let (path, under) = self.at(under);
        ModalitySource { class_names: Some(path), under, ..ModalitySource::default() }
    }

    /// A text file beside most pictures, with the same name: their captions.
    fn captions(&self, report: &mut Report) -> Result<Option<Manifest>> {
        if !self.source.path.is_dir() {
            return Ok(None);
        }
        let folder = match &self.below {
            Some(below) => self.source.path.join(below),
            None => self.source.path.clone(),
        };
        let caption = |id: &String| {
            let text = fs_err::read(folder.join(format!("{id}.txt"))).ok()?;
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            Some(text).filter(|text| !text.is_empty() && text.len() < 1 << 16)
        };
        let texts: Vec<Option<String>> = self.listing.ids.iter().map(caption).collect();
        let there = texts.iter().flatten().count();
        if there * 2 < texts.len() || there == 0 {
            return Ok(None);
        }
        let rows = self.listing.ids.iter().zip(&texts).map(|(id, text)| {
            let mut row = Map::new();
            row.insert("id".into(), json!(id));
            row.insert("text".into(), json!(text.as_deref().unwrap_or_default()));
            row
        });
        report.generated.push(Generated::Items(rows.collect()));
        report.used(&self.subject, format!("{} pictures", texts.len()), Certainty::Certain);
        let role =
            format!("captions of {there} of {} pictures; written to {ITEMS}", texts.len());
        report.used(SIDECARS, role, Certainty::Certain);
        let text = Some(Many::One("text".to_owned()));
        let modality = BTreeMap::from([
            ("image".to_owned(), self.pictures(None)),
            ("text".to_owned(), ModalitySource { text, ..ModalitySource::default() }),
        ]);
        let mut manifest =
            Manifest { items: Some(items()), modality, ..Manifest::default() };
        let texts: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
        super::stem_texts(&mut manifest, &texts, report);
        Ok(Some(manifest))
    }

    fn by_folders(&self, report: &mut Report) -> Result<Manifest> {
        let ids = &self.listing.ids;
        let depth = |id: &String| id.matches('/').count();
        let least = ids.iter().map(depth).min().unwrap_or(0);
        let tops: BTreeSet<&str> =
            ids.iter().filter_map(|id| id.split_once('/').map(|(top, _)| top)).collect();
        let n = ids.len();
        let parts =
            tops.len() > 1 && least > 0 && tops.iter().all(|top| part(top).is_some());
        if parts {
            return Ok(self.split_folders(least, report));
        }
        if least >= 2 && alike(ids, &tops) {
            let names: Vec<&str> = tops.iter().copied().collect();
            let classes: BTreeSet<&str> =
                ids.iter().filter_map(|id| id.split('/').nth(1)).collect();
            let role = format!("modalities, each with class folders: {}", names.join(", "));
            report.used(&self.subject, role, Certainty::Likely);
            let role = format!("labels and texts: {}", examples(&classes));
            report.used("folders below them", role, Certainty::Likely);
            let mut modality: BTreeMap<String, ModalitySource> =
                tops.iter().map(|&top| (plain(top), self.pictures(Some(top)))).collect();
            // The texts belong to the modality with the most pictures.
            let count = |top: &&&str| {
                let before = format!("{top}/");
                ids.iter().filter(|id| id.starts_with(&before)).count()
            };
            if let Some(top) = tops.iter().max_by_key(count) {
                modality
                    .entry("text".into())
                    .or_insert_with(|| self.class_names(Some(top)));
            }
            let labels = Some(LabelSource { folder: true, ..LabelSource::default() });
            return Ok(Manifest { labels, modality, ..Manifest::default() });
        }
        let image = BTreeMap::from([("image".to_owned(), self.pictures(None))]);
        let in_folders = ids.iter().filter(|id| id.contains('/')).count();
        match no_classes(&tops, in_folders, n) {
            Some(why) => {
                report.used(&self.subject, format!("{n} pictures"), Certainty::Certain);
                if !tops.is_empty() {
                    report.unused(format!("the names of {} folders", tops.len()), why);
                }
                Ok(Manifest { modality: image, ..Manifest::default() })
            }
            None if least == 0 => Ok(self.mixed(&tops, report)),
            None => {
                let role = format!("{n} pictures in {} class folders", tops.len());
                report.used(&self.subject, role, Certainty::Certain);
                let role = format!("labels and texts: {}", examples(&tops));
                report.used("folder names", role, Certainty::Likely);
                let mut modality = image;
                modality.insert("text".into(), self.class_names(None));
                let labels = Some(LabelSource { folder: true, ..LabelSource::default() });
                Ok(Manifest { labels, modality, ..Manifest::default() })
            }
        }
    }

    /// Class folders, and pictures beside them that have no class.
    fn mixed(&self, tops: &BTreeSet<&str>, report: &mut Report) -> Manifest {
        let ids = &self.listing.ids;
        let outside = ids.iter().filter(|id| !id.contains('/')).count();
        let role = format!("{} pictures, {outside} of them in no class folder", ids.len());
        report.used(&self.subject, role, Certainty::Certain);
        let role = format!("labels and texts: {}; written to {ITEMS}", examples(tops));
        report.used("folder names", role, Certainty::Guess);
        self.generated(|id| id.split_once('/').map(|(class, _)| class), report)
    }

    /// `train/cat/1.jpg`, `test/dog/2.jpg`.
    fn split_folders(&self, least: usize, report: &mut Report) -> Manifest {
        let ids = &self.listing.ids;
        report.used(&self.subject, format!("{} pictures", ids.len()), Certainty::Certain);
        let tops: BTreeSet<&str> =
            ids.iter().filter_map(|id| id.split('/').next()).collect();
        let names: Vec<&str> = tops.iter().copied().collect();
        report.used(
            format!("folders {}", names.join(", ")),
            "parts of the split",
            Certainty::Certain,
        );
        let mut manifest = if least >= 2 {
            let classes: BTreeSet<&str> =
                ids.iter().filter_map(|id| id.split('/').nth(1)).collect();
            let role =
                format!("labels and texts: {}; written to {ITEMS}", examples(&classes));
            report.used("folders below them", role, Certainty::Likely);
            self.generated(|id| id.split('/').nth(1), report)
        } else {
            let mut manifest = self.generated(|_| None, report);
            manifest.modality.remove("text");
            manifest.labels = None;
            manifest
        };
        let one = |names: &[&str]| {
            let found =
                tops.iter().filter(|top| names.contains(&top.to_lowercase().as_str()));
            let found: Vec<String> = found.map(|top| (*top).to_owned()).collect();
            (!found.is_empty()).then_some(Selection::Marked(found))
        };
        let (train, query, validation) = (one(&TRAIN), one(&TEST), one(&VALIDATION));
        // Without a test part, the validation part is the queries.
        let (query, validation) =
            if query.is_some() { (query, validation) } else { (validation, None) };
        manifest.split = (train.is_some() && query.is_some()).then(|| SplitSource {
            column: Some("part".into()),
            query,
            validation,
            database: train.clone(),
            train,
            ..SplitSource::default()
        });
        manifest
    }

    /// A table of the pictures with their class, and the top folder as part.
    fn generated(
        &self,
        class: impl Fn(&str) -> Option<&str>,
        report: &mut Report,
    ) -> Manifest {
        let rows = self.listing.ids.iter().map(|id| {
            let class = class(id);
            let mut row = Map::new();
            row.insert("id".into(), json!(id));
            row.insert("part".into(), json!(id.split('/').next().unwrap_or_default()));
            row.insert("class".into(), json!(class.unwrap_or_default()));
            let words = class.map(|class| class.replace(['_', '-', '.', '+'], " "));
            row.insert("text".into(), json!(words.unwrap_or_default()));
            row
        });
        report.generated.push(Generated::Items(rows.collect()));
        let column = Some(Many::One("class".to_owned()));
        let text = Some(Many::One("text".to_owned()));
        Manifest {
            items: Some(items()),
            labels: Some(LabelSource { column, ..LabelSource::default() }),
            modality: BTreeMap::from([
                ("image".to_owned(), self.pictures(None)),
                ("text".to_owned(), ModalitySource { text, ..ModalitySource::default() }),
            ]),
            ..Manifest::default()
        }
    }
}

/// The generated table.
fn items() -> Items {
    let table = Many::One(Path::new(ITEMS).to_owned());
    Items { table, id: Some("id".into()), ..Items::default() }
}

/// The part of a split that a folder names.
fn part(folder: &str) -> Option<()> {
    let folder = folder.to_lowercase();
    let names = TRAIN.iter().chain(&TEST).chain(&VALIDATION);
    names.copied().any(|name| name == folder).then_some(())
}

/// Whether the folders below different top folders have mostly the same names.
fn alike(ids: &[String], tops: &BTreeSet<&str>) -> bool {
    let mut below: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for id in ids {
        let mut parts = id.split('/');
        if let (Some(top), Some(next)) = (parts.next(), parts.next()) {
            below.entry(top).or_default().insert(next);
        }
    }
    let smallest = below.values().map(BTreeSet::len).min().unwrap_or(0);
    let mut all = below.values();
    let Some(first) = all.next() else { return false };
    let common = all.fold(first.clone(), |common, next| &common & next);
    tops.len() > 1 && tops.len() <= 10 && common.len() * 2 >= smallest
}

/// Why folder names are no classes; `None` if they are.
fn no_classes(tops: &BTreeSet<&str>, in_folders: usize, n: usize) -> Option<String> {
    let wordless = |top: &&&str| top.chars().filter(|c| c.is_alphabetic()).count() < 2;
    let dates = tops.iter().filter(wordless).count();
    if tops.len() < 2 {
        Some("a single folder is no class".into())
    } else if in_folders * 2 < n {
        Some("most pictures are in no folder".into())
    } else if dates * 2 > tops.len() {
        Some("numbers or dates, so they are no classes".into())
    } else if in_folders < 2 * tops.len() {
        Some("hardly two pictures per folder, so they are no classes".into())
    } else {
        None
    }
}

/// The first names and the number of all.
fn examples(names: &BTreeSet<&str>) -> String {
    let first: Vec<&str> = names.iter().copied().take(3).collect();
    let more = if names.len() > 3 { ", ..." } else { "" };
    format!("{} classes ({}{more})", names.len(), first.join(", "))
}
