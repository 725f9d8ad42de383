//! Features and labels as NumPy arrays or in MATLAB files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::found::Found;
use super::{Certainty, Place, Report, shown, stem};
use crate::data::limits::Budget;
use crate::data::manifest::{
    ArrayFile, KeyedArray, LabelSource, Manifest, Many, ModalitySource,
};
use crate::data::{Features, Names, read};
use crate::{Error, Result};

pub(super) fn propose(
    found: &Found,
    place: &Place,
    report: &mut Report,
) -> Result<Manifest> {
    let is_labels = |path: &&PathBuf| stem(path).to_lowercase().starts_with("label");
    let labels = found.arrays.iter().find(is_labels);
    let features: Vec<&PathBuf> =
        found.arrays.iter().filter(|path| !is_labels(path)).collect();
    if features.is_empty() {
        return Err(Error::content("there are labels but no features"));
    }
    for path in &features {
        let role = format!("features of modality {}", stem(path));
        report.used(shown(found, path), role, Certainty::Certain);
    }
    let rows = read::array(features[0], None, false, &Budget::default())?.len();
    report.items = rows;
    let source = |path: &&PathBuf| {
        let features = Some(Many::One(ArrayFile::File(place.name(path))));
        (stem(path), ModalitySource { features, ..ModalitySource::default() })
    };
    let labels = match labels {
        None => None,
        Some(path) => {
            report.used(shown(found, path), "labels", Certainty::Certain);
            let names = found.source.join("labels.txt");
            let names = names.is_file().then(|| Names::File(place.name(&names)));
            let matrix = Some(Many::One(ArrayFile::File(place.name(path))));
            let numbers = one_wide(&read::array(path, None, true, &Budget::default())?);
            Some(LabelSource { matrix, names, numbers, ..LabelSource::default() })
        }
    };
    let modality = features.iter().map(source).collect();
    Ok(Manifest { labels, modality, ..Manifest::default() })
}

fn one_wide(features: &Features) -> bool {
    features.width() == Some(1)
}

/// Guesses the role of variables by name: labels L.., texts Y.. or T.., pictures I.., X.. or V..
pub(super) fn propose_mat(
    found: &Found,
    place: &Place,
    report: &mut Report,
) -> Result<Manifest> {
    let mut all: Vec<(PathBuf, String)> = Vec::new();
    for path in &found.mats {
        all.extend(read::names(path)?.into_iter().map(|name| (path.clone(), name)));
    }
    let role = |name: &str| match name.to_lowercase() {
        n if n.starts_with('l') => Some("labels"),
        n if n.starts_with('y') || n.starts_with('t') => Some("text"),
        n if n.starts_with('i') || n.starts_with('x') || n.starts_with('v') => {
            Some("image")
        }
        _ => None,
    };
    let mut parts: BTreeMap<&str, Vec<(PathBuf, String)>> = BTreeMap::new();
    for (path, name) in &all {
        match role(name) {
            Some(role) => parts.entry(role).or_default().push((path.clone(), name.clone())),
            None => report.unused(
                format!("variable {name}"),
                "its name is not like labels (L..), texts (Y.., T..) or pictures (I.., X.., V..)",
            ),
        }
    }
    let mut files = |role: &str| {
        let mut found = parts.remove(role)?;
        // Training rows before test rows, in the same order for all roles.
        found.sort_by_key(|(_, name)| (!name.ends_with("tr"), name.clone()));
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        report.used(format!("variable {}", names.join(" then ")), role, Certainty::Likely);
        let array = |(path, name): &(PathBuf, String)| {
            let (file, key) = (place.name(path), Some(name.clone()));
            ArrayFile::Keyed(KeyedArray { file, key, transpose: false })
        };
        Some(Many::Several(found.iter().map(array).collect()))
    };
    let matrix = files("labels");
    let mut modality = BTreeMap::new();
    for name in ["image", "text"] {
        if let Some(features) = files(name) {
            let features = Some(features);
            modality.insert(
                name.into(),
                ModalitySource { features, ..ModalitySource::default() },
            );
        }
    }
    if modality.is_empty() {
        let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
        return Err(Error::content(format!(
            "no variable looks like texts (Y.., T..) or pictures (I.., X.., V..); there are: {}",
            names.join(", ")
        )));
    }
    let labels =
        matrix.map(|matrix| LabelSource { matrix: Some(matrix), ..LabelSource::default() });
    Ok(Manifest { labels, modality, ..Manifest::default() })
}
