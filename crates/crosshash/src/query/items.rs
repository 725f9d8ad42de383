//! Items of a file as input of a modality: features, texts or pictures.

use std::path::Path;

use super::{QueryEncoder, QueryKind};
use crate::backbone::InputKind;
use crate::data::{self, Dense, Features, PicturePlace, Pictures};
use crate::featurize::FeatureExtractor;
use crate::picture;
use crate::{Error, Result};

/// The items of a file.
#[derive(Debug, Clone)]
pub struct QueryItems {
    /// Their features, as the model expects them.
    pub features: Features,
    /// Their ids, for pictures that have a path.
    pub ids: Option<Vec<String>>,
}

impl QueryEncoder {
    /// Reads the items of a file for a modality: an array of features, texts (one per line), or,
    /// for modalities of pictures, a picture, a folder, a zip, a tar, or a list of pictures (.txt,
    /// one path per line, relative to the list).
    pub fn items(
        &self,
        modality: &str,
        path: &Path,
        extractor: &FeatureExtractor<'_>,
    ) -> Result<QueryItems> {
        let takes = self.backbone_input_kind(modality)?;
        if self.missing_backbone(modality).is_some() && holds_pictures(path) {
            return Err(self.refuse(modality, QueryKind::Picture));
        }
        let is_list = path.extension().is_some_and(|ending| ending == "txt");
        let (raw, ids) = match takes {
            Some(InputKind::Texts) if is_list => (data::items(path, true)?, None),
            Some(InputKind::Pictures) if is_list => {
                let (pictures, names) = listed(path)?;
                (Features::Pictures(pictures), Some(names))
            }
            Some(InputKind::Pictures) if holds_pictures(path) => {
                let (pictures, ids) = data::pictures(path, "")?;
                (Features::Pictures(pictures), Some(ids))
            }
            Some(InputKind::Pictures) if is_picture(path)? => {
                let file = fs_err::read(path)?;
                let features = self.pictures(modality, vec![file])?;
                return Ok(QueryItems { features, ids: None });
            }
            _ => {
                let is_text = self.model().preparation(modality)?.is_text();
                return Ok(QueryItems { features: data::items(path, is_text)?, ids: None });
            }
        };
        let Some(loaded) = self.external_backbone(modality)? else {
            return Ok(QueryItems { features: raw, ids });
        };
        let given = extractor.extract(loaded, &raw, modality)?;
        let ids = ids.map(|ids| given.kept.iter().map(|&k| ids[k].clone()).collect());
        let rows = Dense::from_floats(given.rows.width(), given.rows.into_values())?;
        Ok(QueryItems { features: Features::Dense(rows), ids })
    }
}

/// The pictures of a list and their names in it.
fn listed(path: &Path) -> Result<(Pictures, Vec<String>)> {
    let list = fs_err::read_to_string(path)?;
    let names: Vec<String> = list
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        return Err(Error::content("the list is empty; write one path per line").at(path));
    }
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok((Pictures::new(PicturePlace::Folder(folder), names.clone()), names))
}

/// Whether a path is a folder or an archive.
fn holds_pictures(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let archive = ["zip", "tar", "tgz", "gz"];
    path.is_dir() || ending.is_some_and(|ending| archive.contains(&ending.as_str()))
}

/// Whether the first bytes of a file are those of a picture.
fn is_picture(path: &Path) -> Result<bool> {
    use std::io::Read as _;
    let mut start = Vec::new();
    fs_err::File::open(path)?.take(4096).read_to_end(&mut start)?;
    Ok(picture::Format::of(&start).is_ok())
}
