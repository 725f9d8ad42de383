//! The table of directions between modalities, and the codes of a run folder.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use crosshash::data::{Dataset, Split, View};
use crosshash::encode::{Encoder, encode};
use crosshash::evaluate::{Coded, Direction};
use crosshash_codes::format::{CodeFile, Ids};

use crate::progress::Progress;

/// The folder of codes in a run folder; files are `query.<modality>.codes` and
/// `database.<modality>.codes`, with ids and labels.
pub const CODES: &str = "codes";

/// Encodes queries and database of every modality an encoder knows.
pub fn encode_all(
    encoder: &dyn Encoder,
    dataset: &Dataset,
    split: &Split,
) -> Result<Vec<(Coded, [Ids; 2])>> {
    let mut all = Vec::new();
    for name in encoder.modalities() {
        let code = |view: &View<'_>| -> Result<_> {
            let progress = Progress::new(format!("encoding {name}"), view.len());
            let done = |done| progress.set(done);
            Ok(encode(encoder, name, view.features(), &done)?)
        };
        let ids = |view: &View<'_>| {
            Ids::Names((0..view.len()).map(|at| view.id(at).to_owned()).collect())
        };
        let (queries, database) =
            (dataset.queries(split, name)?, dataset.database(split, name)?);
        let coded = Coded {
            name: name.to_owned(),
            queries: code(&queries)?,
            query_labels: queries.labels(),
            database: code(&database)?,
            database_labels: database.labels(),
        };
        all.push((coded, [ids(&queries), ids(&database)]));
    }
    Ok(all)
}

/// Writes the codes of every modality into a run folder.
pub fn write_codes(run: &Path, all: &[(Coded, [Ids; 2])]) -> Result<()> {
    let folder = run.join(CODES);
    fs_err::create_dir_all(&folder)?;
    for (coded, [query_ids, database_ids]) in all {
        for (part, codes, labels, ids) in [
            ("query", &coded.queries, &coded.query_labels, query_ids),
            ("database", &coded.database, &coded.database_labels, database_ids),
        ] {
            let file = CodeFile {
                codes: codes.clone(),
                ids: Some(ids.clone()),
                labels: Some(labels.clone()),
            };
            file.write(&folder.join(format!("{part}.{}.codes", coded.name)))?;
        }
    }
    Ok(())
}

/// Reads the codes of every modality of a run folder, in the order of their names.
pub fn read_codes(run: &Path) -> Result<Vec<Coded>> {
    let folder = run.join(CODES);
    let listing = fs_err::read_dir(&folder).with_context(|| {
        format!("{} is not the folder of a finished run", run.display())
    })?;
    let mut names = Vec::new();
    for entry in listing {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let name = name.strip_prefix("query.").and_then(|n| n.strip_suffix(".codes"));
        names.extend(name.map(str::to_owned));
    }
    if names.is_empty() {
        bail!("{} holds no codes: train again", folder.display());
    }
    names.sort_unstable();
    let part = |part: &str, name: &str| -> Result<_> {
        let path = folder.join(format!("{part}.{name}.codes"));
        let file = CodeFile::read(&path)?;
        let labels = file.labels;
        let labels = labels.with_context(|| format!("{} has no labels", path.display()))?;
        Ok((file.codes, labels))
    };
    let coded = |name: String| -> Result<Coded> {
        let (queries, query_labels) = part("query", &name)?;
        let (database, database_labels) = part("database", &name)?;
        Ok(Coded { name, queries, query_labels, database, database_labels })
    };
    names.into_iter().map(coded).collect()
}

/// The table for people: one line per direction.
pub fn to_text(directions: &[Direction], at: &[usize]) -> String {
    let mut out = String::new();
    let widest = directions.iter().map(|d| d.query.len() + d.database.len() + 4).max();
    let width = widest.unwrap_or(0).max(9);
    let _ = write!(out, "{:<width$}  queries  database      MAP   chance", "direction");
    at.iter().for_each(|k| {
        let _ = write!(out, "{:>9}", format!("P@{k}"));
    });
    out.push('\n');
    for Direction { query, database, report } in directions {
        let _ = write!(
            out,
            "{:<width$}{:>9}{:>10}{:>9.4}{:>9.4}",
            format!("{query} -> {database}"),
            report.queries,
            report.protocol.database,
            report.map.tie_aware,
            report.chance
        );
        for k in at {
            let precision =
                report.at.get("precision_at").and_then(|by_rank| by_rank.get(k));
            let _ = write!(out, "{:>9.4}", precision.map_or(f64::NAN, |p| p.tie_aware));
        }
        out.push('\n');
    }
    out
}
