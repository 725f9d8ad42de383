//! Folders, zips and tars of pictures; pictures are listed, not decoded.
//!
//! The id of a picture is its path below the folder without the extension; its class is the first folder
//! of that path. Pictures are sorted by name, so that the order does not depend on the file system.
//! Names that point outside an archive and links that point outside a folder are rejected.

use std::path::{Component, Path};

use crosshash_features::pictures::{not_a_tar, open_tar, open_zip, plain_name};

use crate::data::{PicturePlace, Pictures};
use crate::{Error, Result};

/// File extensions of pictures, in lower case.
const ENDINGS: [&str; 9] =
    ["jpg", "jpeg", "png", "gif", "webp", "bmp", "tif", "tiff", "svg"];

/// The pictures of a folder or archive.
pub(crate) struct Listing {
    /// The pictures, sorted by name.
    pub(crate) pictures: Pictures,
    /// Their ids, in the same order.
    pub(crate) ids: Vec<String>,
    /// Number of files that are not pictures.
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
            return Err(Error::content(format!("there are no files under {before:?}")));
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
    let inside = fs_err::canonicalize(path)?;
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
            let kind = entry.file_type()?;
            if kind.is_symlink()
                && !fs_err::canonicalize(entry.path())?.starts_with(&inside)
            {
                return Err(Error::content(format!(
                    "{name:?} is a link to something outside the folder; such links are not \
                     followed: copy what it points to, or remove it"
                )));
            }
            if kind.is_dir() {
                open.push((entry.path(), name));
            } else if !(kind.is_symlink() && entry.path().is_dir()) {
                // The content of a linked folder is listed at its original path.
                names.push(name);
            }
        }
    }
    Listing::of(PicturePlace::Folder(path.to_owned()), under, names)
}

pub(super) fn zip(path: &Path, under: &str) -> Result<Listing> {
    let archive = open_zip(path)?;
    let mut names = Vec::new();
    for name in archive.file_names() {
        let name =
            name.map_err(|err| Error::content(format!("not a readable zip: {err}")))?;
        if !name.ends_with('/') {
            names.push(checked(&name)?);
        }
    }
    Listing::of(PicturePlace::Zip(path.to_owned()), under, names)
}

pub(super) fn tar(path: &Path, under: &str) -> Result<Listing> {
    let fault = |err: std::io::Error| not_a_tar(&err);
    let mut names = Vec::new();
    for entry in open_tar(path)?.entries().map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.path_bytes();
        let name = std::str::from_utf8(&name).map_err(|_| {
            Error::content(format!("entry {} is not UTF-8", name.escape_ascii()))
        })?;
        let kind = entry.header().entry_type();
        if kind.is_symlink() || kind.is_hard_link() {
            return Err(Error::content(format!(
                "entry {name:?} is a link; archives with links are rejected"
            )));
        }
        if kind.is_file() {
            names.push(checked(plain_name(name))?);
        }
    }
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
        return Err(Error::content(format!("entry {:?} occurs twice", twice[0])));
    }
    Listing::of(PicturePlace::Tar(path.to_owned()), under, names)
}

/// Checks that a name does not point outside the archive.
fn checked(name: &str) -> Result<String> {
    if !stays_below(name) {
        return Err(Error::content(format!(
            "entry {name:?} points outside the archive; such archives are rejected"
        )));
    }
    Ok(name.to_owned())
}

/// Whether a name is that of a picture, and not hidden.
pub(crate) fn is_picture(name: &str) -> bool {
    let hidden = name.split('/').any(|part| part.starts_with('.') || part == "__MACOSX");
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    !hidden && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Whether a name is a relative path without `..`, on any system.
fn stays_below(name: &str) -> bool {
    let plain =
        Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    plain && !name.contains('\\') && !name.contains(':') && !name.contains('\0')
}
