//! Texts, pictures and fields of the items of a data set.

use std::collections::HashMap;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use crosshash::data::{
    Dataset, Features, ItemMeta, Modality, PicturePlace, emoji, whole_file,
};
use crosshash_codes::index::FieldValue;

/// Maximum size of a picture file in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Texts and pictures by modality and id.
pub(crate) enum DatasetContent {
    /// The data set is unknown or missing.
    Nothing,
    /// The built-in data set.
    Emoji { items: Vec<emoji::Item>, by_id: HashMap<String, usize> },
    /// A data set with a manifest.
    Data(Box<Data>),
}

pub(crate) struct Data {
    dataset: Dataset,
    /// By modality, then id.
    by_id: Vec<HashMap<String, usize>>,
    /// By modality: the first item of every pair key.
    by_key: Vec<HashMap<String, usize>>,
    /// The other columns of the item tables, by modality.
    meta: HashMap<String, ItemMeta>,
    /// LoadedDataset archives.
    archives: Mutex<HashMap<PathBuf, zip::ZipArchive<BufReader<std::fs::File>>>>,
}

impl DatasetContent {
    /// Opens a data set by path, or the built-in one by name.
    pub(crate) fn open(path: &Path, root: Option<&Path>) -> Result<DatasetContent> {
        if path == Path::new(emoji::NAME) && !path.exists() {
            let items = emoji::catalogue().0;
            let by_id = items.iter().enumerate().map(|(k, item)| (item.id.clone(), k));
            return Ok(DatasetContent::Emoji { by_id: by_id.collect(), items });
        }
        let dataset = crate::data_args::open_within_limits(path, root)?.dataset;
        let meta = crate::data_args::meta_within_limits(path, root)?.into_iter().collect();
        let numbered = |ids: &[String]| ids.iter().cloned().zip(0..).collect();
        let by_id = dataset.modalities().iter().map(|m| numbered(m.ids())).collect();
        let by_key = dataset.modalities().iter().map(first_of_keys).collect();
        let archives = Mutex::default();
        Ok(DatasetContent::Data(Box::new(Data { dataset, by_id, by_key, meta, archives })))
    }

    /// What the items of a modality contain: picture, text or none.
    pub(crate) fn form(&self, modality: &str) -> &'static str {
        match self {
            DatasetContent::Nothing => "none",
            DatasetContent::Emoji { .. } if modality == "words" => "text",
            DatasetContent::Emoji { .. } => "picture",
            DatasetContent::Data(data) => data.form(modality),
        }
    }

    /// The text of an item: its own, or the first text of its pair key in a text modality.
    pub(crate) fn text(&self, modality: &str, id: &str) -> Option<String> {
        match self {
            DatasetContent::Nothing => None,
            DatasetContent::Emoji { items, by_id } => {
                let plain = id.strip_suffix("-icon").unwrap_or(id);
                Some(items[*by_id.get(plain)?].words())
            }
            DatasetContent::Data(data) => data.text(modality, id),
        }
    }

    /// The name of an item, if it has one besides its text.
    pub(crate) fn name(&self, id: &str) -> Option<&str> {
        match self {
            DatasetContent::Emoji { items, by_id } => {
                let plain = id.strip_suffix("-icon").unwrap_or(id);
                Some(items[*by_id.get(plain)?].name)
            }
            DatasetContent::Nothing | DatasetContent::Data(_) => None,
        }
    }

    /// The fields of an item: the other columns of its table.
    pub(crate) fn fields(&self, modality: &str, id: &str) -> Vec<(String, FieldValue)> {
        match self {
            DatasetContent::Nothing => Vec::new(),
            DatasetContent::Emoji { items, by_id } => {
                let plain = id.strip_suffix("-icon").unwrap_or(id);
                let Some(&k) = by_id.get(plain) else { return Vec::new() };
                let fields = [("group", items[k].group), ("subgroup", items[k].subgroup)];
                let field = |(name, text): (&str, &str)| {
                    (name.to_owned(), FieldValue::Text(text.to_owned()))
                };
                fields.map(field).to_vec()
            }
            DatasetContent::Data(data) => {
                let fields = data.meta.get(modality).map(|meta| meta.fields(id));
                let owned =
                    |(name, value): (&str, &FieldValue)| (name.to_owned(), value.clone());
                fields.into_iter().flatten().map(owned).collect()
            }
        }
    }

    /// The file of an item's picture, if it has one.
    pub(crate) fn picture(&self, modality: &str, id: &str) -> Result<Option<Vec<u8>>> {
        match self {
            DatasetContent::Nothing => Ok(None),
            DatasetContent::Emoji { items, by_id } => {
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
            DatasetContent::Data(data) => data.picture(modality, id),
        }
    }

    /// Where the picture of an item is; `None` if it has no file.
    pub(crate) fn file(&self, modality: &str, id: &str) -> Option<String> {
        let DatasetContent::Data(data) = self else { return None };
        let (Features::Pictures(pictures), item) = data.place(modality, id)? else {
            return None;
        };
        let name = pictures.name(item);
        match pictures.place() {
            PicturePlace::Folder(folder) => Some(folder.join(name).display().to_string()),
            PicturePlace::Zip(path) | PicturePlace::Tar(path) => {
                Some(format!("{}: {name}", path.display()))
            }
            PicturePlace::Memory(_) => None,
        }
    }

    /// Whether an item has a picture, without reading it.
    pub(crate) fn has_picture(&self, modality: &str, id: &str) -> bool {
        match self {
            DatasetContent::Nothing => false,
            DatasetContent::Emoji { by_id, .. } => {
                modality != "words"
                    && by_id.contains_key(id.strip_suffix("-icon").unwrap_or(id))
            }
            DatasetContent::Data(data) => {
                data.form(modality) == "picture" && data.knows(modality, id)
            }
        }
    }
}

/// The first item of every pair key.
fn first_of_keys(modality: &Modality) -> HashMap<String, usize> {
    let mut first = HashMap::new();
    for item in 0..modality.len() {
        first.entry(modality.pair_key(item).to_owned()).or_insert(item);
    }
    first
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
        let text = |features: &Features, item: usize| match features {
            Features::Text(texts) => Some(texts.get(item).to_owned()),
            _ => None,
        };
        let nth = self.dataset.modality_idx(modality).ok()?;
        let modalities = self.dataset.modalities();
        let item = self.by_id[nth].get(id);
        let own = item.and_then(|&item| text(modalities[nth].features(), item));
        let key = item.map_or(id, |&item| modalities[nth].pair_key(item));
        let paired = |(other, keys): (&Modality, &HashMap<String, usize>)| {
            keys.get(key).and_then(|&item| text(other.features(), item))
        };
        own.or_else(|| modalities.iter().zip(&self.by_key).find_map(paired))
    }

    fn picture(&self, modality: &str, id: &str) -> Result<Option<Vec<u8>>> {
        let Some((Features::Pictures(pictures), item)) = self.place(modality, id) else {
            return Ok(None);
        };
        let name = pictures.name(item);
        match pictures.place() {
            PicturePlace::Folder(folder) => {
                Ok(Some(whole_file(&folder.join(name), MAX_BYTES)?))
            }
            PicturePlace::Zip(path) => Ok(Some(self.unpack(path, name)?)),
            // without a table of contents the whole archive must be read
            PicturePlace::Tar(_) | PicturePlace::Memory(_) => {
                let mut file = None;
                pictures.select(&[item]).visit(MAX_BYTES, |_, bytes| {
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
        let archive = archives.get_mut(path).context("the archive was just opened")?;
        let entry = archive
            .by_name(name)
            .with_context(|| format!("{name} in {}", path.display()))?;
        let mut bytes = Vec::new();
        entry.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
