//! The indexes of a run on disk: one folder per modality, in it one folder per fingerprint of the
//! model and its codes.
//!
//! An index contains the codes of the run (flag [`SEED`]) and the inserted items with their
//! payloads; and the outputs of all of them, if the run has outputs. When the model has changed, a
//! new index is built: from the codes of the run without those that were replaced or deleted, and
//! from the inserted items, encoded again by the new model. Items that it cannot encode are kept
//! hidden, with their payloads. Commit numbers continue, so the newest index is the one with the
//! highest number, whatever model comes back.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use crosshash::{Encoder as _, QueryEncoder, QueryInput, QueryKind, RunDir};
use crosshash_codes::format::{CodeFile, Id, Ids};
use crosshash_codes::segments::{
    HIDDEN, ItemBatch, NewIndex, SEED, Snapshot, Writer, is_index,
};
use crosshash_codes::{Bits, Codes, Labels, Outputs};

use super::item_view::from_hex;
use super::modality_index::ModalityIndex;
use crate::progress::say;
use crosshash::payload::Payload;

/// Where earlier versions kept inserted items.
const OLD_RECORDS: &str = "records.log";
/// Inserted items that are encoded and written together.
const CHUNK: usize = 1024;

/// Opens the indexes of all modalities; builds those that are missing or not the newest.
pub(super) fn open(
    run: &RunDir,
    modalities: &[String],
    encoder: &QueryEncoder,
    fingerprint: &str,
) -> Result<Vec<Arc<ModalityIndex>>> {
    let mut built = Vec::new();
    for modality in modalities {
        let own = run.service_path().join(modality);
        fs_err::create_dir_all(&own)?;
        let folder = own.join(fingerprint);
        let newest = newest(&own)?;
        if newest.as_ref() == Some(&folder) {
            continue;
        }
        let aside = own.join(format!("{fingerprint}.new"));
        if aside.exists() {
            fs_err::remove_dir_all(&aside)?;
        }
        build(run, modality, encoder, &aside, newest.as_deref())
            .with_context(|| format!("building the index of modality {modality}"))?;
        built.push((aside, folder));
    }
    let put_in_place = || -> Result<Vec<Arc<ModalityIndex>>> {
        for (aside, folder) in &built {
            if folder.exists() {
                fs_err::remove_dir_all(folder)?; // of an earlier time, and not the newest
            }
            fs_err::rename(aside, folder)?;
            if let Some(own) = folder.parent() {
                fs_err::File::open(own)?.sync_all()?;
            }
        }
        let open = |modality: &String| -> Result<Arc<ModalityIndex>> {
            let folder = run.service_path().join(modality).join(fingerprint);
            let index = ModalityIndex::open(modality, &folder);
            Ok(Arc::new(
                index.with_context(|| format!("the index of modality {modality}"))?,
            ))
        };
        modalities.iter().map(open).collect()
    };
    let opened = put_in_place();
    if opened.is_err() {
        // The old indexes are used further; they must be the newest again.
        for (_, folder) in built.iter().filter(|(_, folder)| folder.exists()) {
            fs_err::remove_dir_all(folder)?;
        }
    }
    opened
}

/// The index with the highest commit number.
fn newest(own: &Path) -> Result<Option<PathBuf>> {
    let lost = || {
        format!(
            "the inserted items in {} cannot be read; remove this folder to build the index from \
             the run again, without them",
            own.display()
        )
    };
    if own.join(OLD_RECORDS).exists() {
        bail!("written by an earlier version: {}", lost());
    }
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs_err::read_dir(own)? {
        let path = entry?.path();
        let unfinished = path.extension().is_some_and(|ending| ending == "new");
        if unfinished || !is_index(&path) {
            continue;
        }
        let commit = Snapshot::open(&path).with_context(lost)?.commit();
        if newest.as_ref().is_none_or(|(highest, _)| commit > *highest) {
            newest = Some((commit, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Builds the index of a modality from the codes of the run and from an earlier index.
fn build(
    run: &RunDir,
    modality: &str,
    encoder: &QueryEncoder,
    folder: &Path,
    earlier: Option<&Path>,
) -> Result<()> {
    let model = encoder.model();
    let (items, outputs) = run.items(modality)?;
    say(format!("{modality}: indexing {} items", items.codes.len()));
    let earlier = earlier.map(Snapshot::open).transpose()?;
    let commit = earlier.as_ref().map_or(0, |earlier| earlier.commit() + 1);
    let mut writer = Writer::create_with(
        folder,
        NewIndex {
            bits: model.bits(),
            label_names: model.labels(),
            outputs: outputs.is_some(),
            after_commit: commit,
        },
    )?;
    let has_outputs = outputs.is_some();
    let superseded = earlier.as_ref().map_or(Vec::new(), Snapshot::superseded);
    writer.insert(seeds(items, outputs, &superseded)?)?;
    writer.delete(&superseded)?;
    let Some(earlier) = earlier else { return Ok(writer.flush()?) };
    let inserted = earlier.items().chain(earlier.hidden_items());
    let inserted: Vec<u32> =
        inserted.filter(|&item| earlier.flags(item) & SEED == 0).collect();
    for chunk in inserted.chunks(CHUNK) {
        let (mut words, mut ids, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let (mut payloads, mut flags) = (Vec::new(), Vec::new());
        let mut outputs = Outputs::new(model.bits());
        for &item in chunk {
            let (id, payload) = (earlier.id(item)?.to_string(), earlier.payload(item)?);
            let decoded = Payload::decode(payload)?;
            labels.push(label_numbers(model.labels(), &decoded.source.labels));
            match encode(encoder, modality, decoded) {
                Ok((code, stored)) => {
                    words.extend(code);
                    outputs.append(&stored)?;
                    flags.push(0);
                }
                Err(err) => {
                    tracing::warn!(
                        modality,
                        id,
                        error = err,
                        "an inserted item cannot be encoded by this model; it is kept, but not found"
                    );
                    let nothing = nothing(model.bits(), 1)?;
                    words.extend(nothing.words());
                    outputs.append(&Outputs::from_codes(&nothing))?;
                    flags.push(HIDDEN);
                }
            }
            ids.push(id);
            payloads.push(payload.into());
        }
        writer.upsert(ItemBatch {
            codes: Codes::from_words(model.bits(), words)?,
            ids: Some(Ids::Names(ids)),
            labels: Some(Labels::from_indices(model.labels().len(), labels)?),
            payloads: Some(payloads),
            flags: Some(flags),
            outputs: has_outputs.then_some(outputs),
        })?;
        writer.maintain()?;
    }
    Ok(writer.flush()?)
}

/// The codes of the run as seeds. Superseded ids that the run does not contain are added hidden:
/// deleting them records that they are superseded, for a run that contains them again.
fn seeds(
    items: CodeFile,
    outputs: Option<Outputs>,
    superseded: &[Id],
) -> Result<ItemBatch> {
    let CodeFile { codes, ids, labels } = items;
    let Some(Ids::Names(mut names)) = ids else { bail!("the codes have no ids") };
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let absent: Vec<String> = superseded.iter().map(Id::to_string).collect();
    let absent: Vec<String> =
        absent.into_iter().filter(|id| !known.contains(id.as_str())).collect();
    let mut flags = vec![SEED; names.len()];
    flags.extend(absent.iter().map(|_| SEED | HIDDEN));
    let hidden = nothing(codes.bits(), absent.len())?;
    let mut words = codes.words().to_vec();
    words.extend(hidden.words());
    let outputs = outputs
        .map(|mut outputs| outputs.append(&Outputs::from_codes(&hidden)).map(|()| outputs));
    let labels = labels.map(|mut labels| {
        absent.iter().try_for_each(|_| labels.push(&[])).map(|()| labels)
    });
    names.extend(absent);
    Ok(ItemBatch {
        codes: Codes::from_words(codes.bits(), words)?,
        ids: Some(Ids::Names(names)),
        labels: labels.transpose()?,
        payloads: None,
        flags: Some(flags),
        outputs: outputs.transpose()?,
    })
}

/// The codes of items that have none.
fn nothing(bits: Bits, items: usize) -> Result<Codes> {
    Ok(Codes::from_words(bits, vec![0; items * bits.words()])?)
}

/// The numbers of those labels that the model knows.
fn label_numbers(names: &[String], labels: &[String]) -> Vec<u32> {
    let number = |label: &String| {
        names.iter().position(|name| name == label).and_then(|at| u32::try_from(at).ok())
    };
    labels.iter().filter_map(number).collect()
}

/// The code and outputs of an inserted item by this model; the outputs of a given code are its
/// signs.
fn encode(
    encoder: &QueryEncoder,
    modality: &str,
    item: Payload,
) -> Result<(Vec<u64>, Outputs), String> {
    let bits = encoder.model().bits();
    if let Some(code) = &item.source.code {
        let words = from_hex(bits, code).map_err(|_| "its code has another length");
        let codes = Codes::from_words(bits, words?).map_err(|err| err.to_string())?;
        return Ok((codes.words().to_vec(), Outputs::from_codes(&codes)));
    }
    let is_text = encoder.kinds(modality).contains(&QueryKind::Text);
    let input = match (item.source.features, item.shown.text, item.picture) {
        (Some(values), _, _) => QueryInput::Features(values),
        (_, Some(text), _) if is_text => QueryInput::Text(text),
        (_, _, Some(picture)) => QueryInput::Picture(picture),
        _ => return Err("it has nothing to encode".into()),
    };
    let encoded = encoder.encode(Some(modality), input).map_err(|err| err.to_string())?;
    let outputs = Outputs::from_reals(bits, &encoded.outputs);
    Ok((encoded.code.words().to_vec(), outputs.map_err(|err| err.to_string())?))
}
