//! The items to push or to compare: of an index, or of a modality of a run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use crosshash::parquet_codes::read_codes;
use crosshash::{Encoder as _, Model, RunDir};
use crosshash_codes::format::Ids;
use crosshash_codes::segments::{ItemBatch, Snapshot, is_index};

use crate::command::search::items::Content;

#[derive(clap::Args)]
pub(super) struct PlaceArgs {
    /// Folder of an index, of a run created by `train`, or of Parquet files by `encode`; or one such file.
    pub(super) place: PathBuf,

    /// Modality of the run whose items are stored [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub(super) modality: Option<String>,
}

impl PlaceArgs {
    /// Opens the items.
    pub(super) fn open(&self) -> Result<(Snapshot, Content)> {
        if is_index(&self.place) {
            if self.modality.is_some() {
                bail!("--modality is for runs; {} is an index", self.place.display());
            }
            return Ok((Snapshot::open(&self.place)?, Content::of_index()));
        }
        let tables = tables(&self.place)?;
        if !tables.is_empty() {
            return of_tables(&tables);
        }
        if !RunDir::is_run(&self.place) {
            bail!(
                "{} is neither the folder of an index (`crosshash index build`), nor of a finished \
                 run (`crosshash train`), nor of Parquet files of codes (`crosshash encode`)",
                self.place.display()
            );
        }
        of_run(&self.place, self.modality.as_deref())
    }
}

/// The Parquet files of a folder by name, or one file; none if it is something else.
fn tables(place: &Path) -> Result<Vec<PathBuf>> {
    let is_table = |path: &Path| path.extension().is_some_and(|ending| ending == "parquet");
    if place.is_file() && is_table(place) {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    if place.is_dir() {
        for entry in fs_err::read_dir(place)? {
            let path = entry?.path();
            if is_table(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The codes of Parquet files, one after the other.
fn of_tables(paths: &[PathBuf]) -> Result<(Snapshot, Content)> {
    let mut all: Option<ItemBatch> = None;
    for path in paths {
        let (file, outputs) = read_codes(path)?;
        let Some(items) = &mut all else {
            all = Some(ItemBatch { outputs, ..file.into() });
            continue;
        };
        items.codes.append(&file.codes).with_context(|| path.display().to_string())?;
        match (&mut items.ids, file.ids) {
            (Some(Ids::Names(all)), Some(Ids::Names(own))) => all.extend(own),
            (Some(Ids::Numbers(all)), Some(Ids::Numbers(own))) => all.extend(own),
            _ => bail!(
                "{}: ids are texts in one file and numbers in another",
                path.display()
            ),
        }
        items.outputs = match (items.outputs.take(), outputs) {
            (Some(mut all), Some(own)) => {
                all.append(&own)?;
                Some(all)
            }
            _ => None,
        };
    }
    let items = all.context("no Parquet files")?;
    Ok((Snapshot::in_memory(items, &[])?, Content::of_index()))
}

fn of_run(place: &Path, modality: Option<&str>) -> Result<(Snapshot, Content)> {
    let run = RunDir::open(place)?;
    let model = run.model()?;
    let modality = select(&model, modality)?;
    let (file, outputs) = run.items(&modality)?;
    let items = ItemBatch { outputs, ..file.into() };
    let content = Content::of_run(&run, &modality);
    Ok((Snapshot::in_memory(items, model.labels())?, content))
}

fn select(model: &Model, named: Option<&str>) -> Result<String> {
    match (named, &model.modalities()[..]) {
        (Some(name), _) => {
            model.preparation(name).context("--modality")?;
            Ok(name.to_owned())
        }
        (None, [one]) => Ok((*one).to_owned()),
        (None, all) => {
            bail!("--modality: specify the modality to store: {}", all.join(", "))
        }
    }
}
