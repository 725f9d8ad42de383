//! `Asker`: what turns a user's query (a sentence, a picture, a drawing) into features for a
//! model; `search` and `serve` ask through it.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use crosshash::Model;
use crosshash::backbone::{self, Loaded, Origin, Takes, Weights};
use crosshash::data::{self, Dense, Features, PicturePlace, Pictures};
use crosshash::encode::Encoder as _;
use crosshash::picture::{self, Limits, Picture};
use rayon::prelude::*;

use crate::opening::Extracting;
use crate::places::Places;

/// What a modality can be asked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// Words.
    Text,
    /// Pictures of any kind.
    Picture,
    /// Line drawings.
    Drawing,
    /// Rows of numbers.
    Features,
}

/// A run's model with the backbones of its modalities.
pub(crate) struct Asker {
    model: Model,
    sides: Vec<Side>,
}

struct Side {
    name: String,
    forms: Vec<Form>,
    backbone: Opened,
}

/// The backbone of a modality: there may be none, and its weights may be missing.
enum Opened {
    None,
    /// The model's own network, which takes pictures as they are.
    Own,
    Missing(String),
    Loaded(Loaded),
}

impl Asker {
    /// Opens the model of a run and the backbones that made its features. One whose weights are
    /// missing is an error only when it is asked by.
    pub(crate) fn open(run: &Path, places: &Places) -> Result<Asker> {
        let model = Model::load(run)
            .with_context(|| format!("reading the model in {}", run.display()))?;
        Asker::new(model, &places.weights())
    }

    /// The same for a model that is open.
    pub(crate) fn new(model: Model, weights: &Weights) -> Result<Asker> {
        let mut sides = Vec::new();
        for name in model.modalities() {
            let opened = match model.origin(name) {
                None if model.preparation(name)?.network().is_some() => Opened::Own,
                None => Opened::None,
                Some(origin) => match reopen(origin, weights) {
                    Ok(loaded) => Opened::Loaded(loaded),
                    Err(err) => Opened::Missing(format!("{err:#}")),
                },
            };
            let mut forms = Vec::new();
            let is_text = model.preparation(name)?.is_text();
            match &opened {
                Opened::None | Opened::Missing(_) if is_text => forms.push(Form::Text),
                Opened::None | Opened::Missing(_) => {}
                Opened::Own => forms.extend([Form::Picture, Form::Drawing]),
                Opened::Loaded(loaded) => forms.push(match loaded.backbone().takes() {
                    Takes::Texts => Form::Text,
                    Takes::Pictures if loaded.is_for_drawings() => Form::Drawing,
                    Takes::Pictures => Form::Picture,
                }),
            }
            if !is_text && !matches!(opened, Opened::Own) {
                forms.push(Form::Features);
            }
            sides.push(Side { name: name.to_owned(), forms, backbone: opened });
        }
        Ok(Asker { model, sides })
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// What a modality can be asked by; nothing for one that is not there.
    pub(crate) fn asks_by(&self, modality: &str) -> &[Form] {
        self.side(modality).map_or(&[], |side| &side.forms)
    }

    /// Texts as features of a modality.
    pub(crate) fn text(&self, modality: &str, texts: &[String]) -> Result<Features> {
        let side = self.side(modality)?;
        if self.model.preparation(modality)?.is_text() {
            return Ok(Features::Text(texts.iter().collect()));
        }
        let loaded = side.loaded(Takes::Texts)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rows = loaded.backbone().texts(&texts)?;
        dense(loaded, rows)
    }

    /// Files of pictures as features of a modality.
    pub(crate) fn pictures(&self, modality: &str, files: Vec<Vec<u8>>) -> Result<Features> {
        let side = self.side(modality)?;
        if matches!(side.backbone, Opened::Own) {
            return Ok(Features::Pictures(Pictures::in_memory(files)));
        }
        let loaded = side.loaded(Takes::Pictures)?;
        let limits = Limits::default();
        let decode = |(k, file): (usize, &Vec<u8>)| -> Result<Picture> {
            picture::decode(file, &limits).with_context(|| format!("picture {}", k + 1))
        };
        let pictures: Vec<Picture> =
            files.par_iter().enumerate().map(decode).collect::<Result<_>>()?;
        let rows = loaded.backbone().pictures(&pictures)?;
        dense(loaded, rows)
    }

    /// The items of a file as features of a modality, with their ids where they have any: rows
    /// of numbers, texts (one a line), or, for a backbone of pictures, a picture, a folder, a
    /// zip, a tar, or a list of pictures (.txt, one path a line).
    pub(crate) fn input(
        &self,
        modality: &str,
        path: &Path,
        how: &Extracting,
    ) -> Result<(Features, Option<Vec<String>>)> {
        let side = self.side(modality)?;
        let is_text = self.model.preparation(modality)?.is_text();
        let takes = match &side.backbone {
            Opened::Loaded(loaded) => Some(loaded.backbone().takes()),
            Opened::Own => Some(Takes::Pictures),
            Opened::None => None,
            Opened::Missing(why) if holds_pictures(path) => {
                bail!("modality {modality}: {why}")
            }
            Opened::Missing(_) => None,
        };
        let is_list = path.extension().is_some_and(|ending| ending == "txt");
        let (raw, ids) = match takes {
            Some(Takes::Texts) if is_list => (data::items(path, true)?, None),
            Some(Takes::Pictures) if is_list => {
                let list = fs_err::read_to_string(path)?;
                let names: Vec<String> = list
                    .lines()
                    .map(str::trim_end)
                    .filter(|line| !line.is_empty())
                    .map(str::to_owned)
                    .collect();
                let beside = path.parent().unwrap_or(Path::new("")).to_owned();
                let place = PicturePlace::Folder(beside);
                (Features::Pictures(Pictures::new(place, names.clone())), Some(names))
            }
            Some(Takes::Pictures) if holds_pictures(path) => {
                let (pictures, ids) = data::pictures(path, "")?;
                (Features::Pictures(pictures), Some(ids))
            }
            Some(Takes::Pictures) if is_picture(path)? => {
                let file = fs_err::read(path)?;
                return Ok((self.pictures(modality, vec![file])?, None));
            }
            _ => return Ok((data::items(path, is_text)?, None)),
        };
        if matches!(side.backbone, Opened::Own) {
            return Ok((raw, ids));
        }
        let loaded = side.loaded(takes.unwrap_or(Takes::Pictures))?;
        let given = how.extract(loaded, &raw, modality)?;
        let ids = ids.map(|ids| given.kept.iter().map(|&k| ids[k].clone()).collect());
        let rows = Dense::from_floats(given.rows.width(), given.rows.into_values())?;
        Ok((Features::Dense(rows), ids))
    }

    fn side(&self, modality: &str) -> Result<&Side> {
        let found = self.sides.iter().find(|side| side.name == modality);
        found.with_context(|| {
            let known = self.model.modalities().join(", ");
            format!("no modality named {modality:?}; there are: {known}")
        })
    }
}

impl Side {
    fn loaded(&self, takes: Takes) -> Result<&Loaded> {
        let what = match takes {
            Takes::Pictures => "pictures",
            Takes::Texts => "texts",
        };
        match &self.backbone {
            Opened::Loaded(loaded) if loaded.backbone().takes() == takes => Ok(loaded),
            Opened::Missing(why) => Err(anyhow!("modality {}: {why}", self.name)),
            Opened::Loaded(loaded) => bail!(
                "modality {} is not asked by {what}: its backbone is {}",
                self.name,
                loaded.origin().backbone
            ),
            Opened::Own => bail!(
                "modality {} is not asked by {what}: its network takes pictures",
                self.name
            ),
            Opened::None => bail!(
                "modality {} is not asked by {what}: the model was trained on features whose \
                 backbone is not known; make features of the query and give them by --input, or \
                 train with a backbone (docs/pictures.md)",
                self.name
            ),
        }
    }
}

/// Whether a path is a folder or an archive.
fn holds_pictures(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let archive = ["zip", "tar", "tgz", "gz"];
    path.is_dir() || ending.is_some_and(|ending| archive.contains(&ending.as_str()))
}

/// Whether a file begins as a picture does.
fn is_picture(path: &Path) -> Result<bool> {
    use std::io::Read as _;
    let mut start = Vec::new();
    fs_err::File::open(path)?.take(4096).read_to_end(&mut start)?;
    Ok(picture::Format::of(&start).is_ok())
}

/// Opens the backbone of an origin; refuses other weights.
fn reopen(origin: &Origin, weights: &Weights) -> Result<Loaded> {
    let loaded = backbone::open(&origin.backbone, weights)?;
    let now = loaded.origin();
    if now.digest != origin.digest {
        bail!(
            "the run was trained on rows of {} with other weights or another recipe (digest {}, \
             the one found has {}): give the folder of the weights it was trained with by \
             --weights, or train again",
            origin.backbone,
            origin.digest,
            now.digest
        );
    }
    Ok(loaded)
}

fn dense(loaded: &Loaded, rows: Vec<f32>) -> Result<Features> {
    Ok(Features::Dense(Dense::from_floats(loaded.backbone().width(), rows)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server shares one between its threads.
    #[test]
    fn an_asker_goes_to_any_thread() {
        fn shared<T: Send + Sync>() {}
        shared::<Asker>();
    }
}
