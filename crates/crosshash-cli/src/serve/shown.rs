//! What the items of a run's data set show: their texts and pictures.

use std::collections::HashMap;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use crosshash::data::{Dataset, Features, PicturePlace, emoji};

/// Larger files are not taken for pictures of a data set.
const LARGEST: u64 = 64 << 20;

/// Texts and pictures by modality and id.
pub(crate) enum Shown {
    /// The run's data are not known or not there.
    Nothing,
    /// The built-in data set.
    Emoji { items: Vec<emoji::Item>, by_id: HashMap<String, usize> },
    /// A data set of a manifest.
    Data(Box<Data>),
}

pub(crate) struct Data {
    dataset: Dataset,
    /// By modality, then id.
    by_id: Vec<HashMap<String, usize>>,
    /// Opened archives.
    archives: Mutex<HashMap<PathBuf, zip::ZipArchive<BufReader<std::fs::File>>>>,
}

impl Shown {
    /// Opens the data set at a place; the built-in one by its name.
    pub(crate) fn open(path: &Path, root: Option<&Path>) -> Result<Shown> {
        if path == Path::new(emoji::NAME) && !path.exists() {
            let items = emoji::catalogue().0;
            let by_id = items.iter().enumerate().map(|(k, item)| (item.id.clone(), k));
            return Ok(Shown::Emoji { by_id: by_id.collect(), items });
        }
        let dataset = crate::opening::open_within_limits(path, root)?.dataset;
        let numbered = |ids: &[String]| ids.iter().cloned().zip(0..).collect();
        let by_id = dataset.modalities().iter().map(|m| numbered(m.ids())).collect();
        let archives = Mutex::default();
        Ok(Shown::Data(Box::new(Data { dataset, by_id, archives })))
    }

    /// What items of a modality show: picture, text or none.
    pub(crate) fn form(&self, modality: &str) -> &'static str {
        match self {
            Shown::Nothing => "none",
            Shown::Emoji { .. } if modality == "words" => "text",
            Shown::Emoji { .. } => "picture",
            Shown::Data(data) => data.form(modality),
        }
    }

    /// The text of an item: its own, or what its pair in a text modality says of it.
    pub(crate) fn text(&self, modality: &str, id: &str) -> Option<String> {
        match self {
            Shown::Nothing => None,
            Shown::Emoji { items, by_id } => {
                let plain = id.strip_suffix("-icon").unwrap_or(id);
                Some(items[*by_id.get(plain)?].words())
            }
            Shown::Data(data) => data.text(modality, id),
        }
    }

    /// The file of an item's picture, if it has one.
    pub(crate) fn picture(&self, modality: &str, id: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Shown::Nothing => Ok(None),
            Shown::Emoji { items, by_id } => {
                let plain = id.strip_suffix("-icon").unwrap_or(id);
                let Some(&k) = by_id.get(plain) else { return Ok(None) };
                let glyph = items[k].glyph;
                let raster = match (modality, plain == id) {
                    ("picture", _) => emoji::picture(glyph)?,
                    ("drawing", true) => emoji::drawing(glyph, emoji::Hand::Noto)?,
                    ("drawing", false) => emoji::drawing(glyph, emoji::Hand::Icon)?,
                    _ => None,
                };
                Ok(raster.map(|raster| raster.to_png()).transpose()?)
            }
            Shown::Data(data) => data.picture(modality, id),
        }
    }

    /// Whether an item of the data set has a picture, as far as is known without reading it.
    pub(crate) fn has_picture(&self, modality: &str, id: &str) -> bool {
        match self {
            Shown::Nothing => false,
            Shown::Emoji { by_id, .. } => {
                modality != "words"
                    && by_id.contains_key(id.strip_suffix("-icon").unwrap_or(id))
            }
            Shown::Data(data) => {
                data.form(modality) == "picture" && data.knows(modality, id)
            }
        }
    }
}

impl Data {
    fn place(&self, modality: &str, id: &str) -> Option<(&Features, usize)> {
        let nth = self.dataset.modality_idx(modality).ok()?;
        let item = *self.by_id[nth].get(id)?;
        Some((self.dataset.modalities()[nth].features(), item))
    }

    fn knows(&self, modality: &str, id: &str) -> bool {
        self.place(modality, id).is_some()
    }

    fn form(&self, modality: &str) -> &'static str {
        match self.dataset.modality(modality).map(|m| m.features().form()) {
            Ok("text") => "text",
            Ok("pictures") => "picture",
            _ => "none",
        }
    }

    fn text(&self, modality: &str, id: &str) -> Option<String> {
        let own = |modality: &str| match self.place(modality, id)? {
            (Features::Text(texts), item) => Some(texts.get(item).to_owned()),
            _ => None,
        };
        let mut others = self.dataset.modalities().iter();
        own(modality).or_else(|| others.find_map(|other| own(other.name())))
    }

    fn picture(&self, modality: &str, id: &str) -> Result<Option<Vec<u8>>> {
        let Some((Features::Pictures(pictures), item)) = self.place(modality, id) else {
            return Ok(None);
        };
        let name = pictures.name(item);
        match pictures.place() {
            PicturePlace::Folder(folder) => Ok(Some(fs_err::read(folder.join(name))?)),
            PicturePlace::Zip(path) => Ok(Some(self.unpack(path, name)?)),
            // without a table of contents every picture costs a pass
            PicturePlace::Tar(_) | PicturePlace::Memory(_) => {
                let mut file = None;
                pictures.select(&[item]).visit(LARGEST, |_, bytes| {
                    file = Some(bytes?);
                    Ok::<(), crosshash::Error>(())
                })?;
                Ok(file)
            }
        }
    }

    fn unpack(&self, path: &Path, name: &str) -> Result<Vec<u8>> {
        let mut archives = self.archives.lock().unwrap_or_else(PoisonError::into_inner);
        if !archives.contains_key(path) {
            let file = BufReader::new(fs_err::File::open(path)?.into_file());
            let archive = zip::ZipArchive::new(file);
            let archive = archive.with_context(|| path.display().to_string())?;
            archives.insert(path.to_owned(), archive);
        }
        let archive = archives.get_mut(path).context("just put there")?;
        let entry = archive
            .by_name(name)
            .with_context(|| format!("{name} in {}", path.display()))?;
        let mut bytes = Vec::new();
        entry.take(LARGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
