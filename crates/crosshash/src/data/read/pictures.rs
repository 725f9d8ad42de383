//! Folders and zips of pictures: listed, not decoded.
//!
//! A picture's id is its path below the folder without the ending; its class is the first
//! folder of that path. Listings are sorted by name, so that they do not depend on the disk.

use std::io::BufReader;
use std::path::{Component, Path};

use crate::data::{PicturePlace, Pictures};
use crate::{Error, Result};

/// Endings of pictures, in lower case.
const ENDINGS: [&str; 7] = ["jpg", "jpeg", "png", "gif", "webp", "bmp", "tiff"];

/// The pictures of one place.
pub(crate) struct Listing {
    /// The pictures, sorted by name.
    pub(crate) pictures: Pictures,
    /// Their ids, in the same order.
    pub(crate) ids: Vec<String>,
    /// How many files were no pictures.
    pub(crate) others: usize,
}

impl Listing {
    fn of(place: PicturePlace, under: &str, mut names: Vec<String>) -> Result<Listing> {
        let before = match under.trim_matches('/') {
            "" => String::new(),
            under => format!("{under}/"),
        };
        names.retain(|name| name.starts_with(&before));
        if names.is_empty() && !before.is_empty() {
            return Err(Error::content(format!("there is nothing under {before:?}")));
        }
        let all = names.len();
        names.retain(|name| is_picture(name));
        if names.is_empty() {
            let endings = ENDINGS.join(", ");
            return Err(Error::content(format!("there are no pictures here ({endings})")));
        }
        names.sort_unstable();
        let ids: Vec<String> = names
            .iter()
            .map(|name| {
                let below = &name[before.len()..];
                below.rsplit_once('.').map_or(below, |(stem, _)| stem).to_owned()
            })
            .collect();
        let others = all - names.len();
        Ok(Listing { pictures: Pictures::new(place, names), ids, others })
    }
}

pub(super) fn folder(path: &Path, under: &str) -> Result<Listing> {
    let mut names = Vec::new();
    let mut open = vec![(path.join(under), under.trim_matches('/').to_owned())];
    while let Some((folder, below)) = open.pop() {
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            let file = entry.file_name();
            let file = file.to_str().ok_or_else(|| {
                Error::content(format!("{} is not UTF-8", entry.path().display()))
            })?;
            let name =
                if below.is_empty() { file.into() } else { format!("{below}/{file}") };
            match entry.path().is_dir() {
                true => open.push((entry.path(), name)),
                false => names.push(name),
            }
        }
    }
    Listing::of(PicturePlace::Folder(path.to_owned()), under, names)
}

pub(super) fn zip(path: &Path, under: &str) -> Result<Listing> {
    let file = BufReader::new(fs_err::File::open(path)?);
    let archive = zip::ZipArchive::new(file).map_err(not_a_zip)?;
    let mut names = Vec::new();
    for name in archive.file_names() {
        let name = name.map_err(not_a_zip)?;
        if name.ends_with('/') {
            continue;
        }
        if !stays_below(&name) {
            return Err(Error::content(format!(
                "entry {name:?} points outside the archive; such a zip is not to be trusted"
            )));
        }
        names.push(name.into_owned());
    }
    Listing::of(PicturePlace::Zip(path.to_owned()), under, names)
}

fn not_a_zip(err: zip::result::ZipError) -> Error {
    Error::content(format!("not a readable zip: {err}"))
}

fn is_picture(name: &str) -> bool {
    let hidden = name.split('/').any(|part| part.starts_with('.') || part == "__MACOSX");
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    !hidden && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Whether a name is a plain path downwards, on any system.
fn stays_below(name: &str) -> bool {
    let plain =
        Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    plain && !name.contains('\\') && !name.contains(':') && !name.contains('\0')
}
