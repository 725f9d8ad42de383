//! The payload of an inserted item in its index: fields for display, and the source of its code.
//!
//! ```text
//! length of the first JSON u32, length of the second JSON u32 (little-endian)
//! JSON: text and meta
//! JSON: features, code and names of the labels, to encode the item again by another model
//! the picture file, if there is one
//! ```

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an item shows, apart from its picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DisplayFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) meta: Map<String, Value>,
}

/// The source of an item's code, besides its text and picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) features: Option<Vec<f32>>,
    /// The code in hexadecimal, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) labels: Vec<String>,
}

/// A payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Payload {
    pub(crate) shown: DisplayFields,
    pub(crate) source: Source,
    pub(crate) picture: Option<Vec<u8>>,
}

impl Payload {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let shown = serde_json::to_vec(&self.shown)?;
        let source = serde_json::to_vec(&self.source)?;
        let mut bytes = Vec::new();
        bytes.extend(u32::try_from(shown.len())?.to_le_bytes());
        bytes.extend(u32::try_from(source.len())?.to_le_bytes());
        bytes.extend(shown);
        bytes.extend(source);
        bytes.extend(self.picture.as_deref().unwrap_or_default());
        Ok(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Payload> {
        let [shown, source, picture] = parts(bytes)?;
        let picture = (!picture.is_empty()).then(|| picture.to_vec());
        Ok(Payload {
            shown: serde_json::from_slice(shown)?,
            source: serde_json::from_slice(source)?,
            picture,
        })
    }
}

impl DisplayFields {
    /// What an item shows, and whether it has a picture.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(DisplayFields, bool)> {
        let [shown, _, picture] = parts(bytes)?;
        Ok((serde_json::from_slice(shown)?, !picture.is_empty()))
    }
}

/// Bytes of the fields for display.
pub(crate) fn shown_bytes(bytes: &[u8]) -> Result<usize> {
    let [shown, ..] = parts(bytes)?;
    Ok(shown.len())
}

/// The picture file of a payload.
pub(crate) fn picture(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let [_, _, picture] = parts(bytes)?;
    Ok((!picture.is_empty()).then_some(picture))
}

fn parts(bytes: &[u8]) -> Result<[&[u8]; 3]> {
    let length = |at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let split = || {
        let (shown, rest) = bytes.get(8..)?.split_at_checked(length(0)?)?;
        let (source, picture) = rest.split_at_checked(length(4)?)?;
        Some([shown, source, picture])
    };
    split().context("an item's payload cannot be decoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_decoded_as_they_were_encoded() {
        let mut payload = Payload::default();
        payload.shown.text = Some("a grey cat".into());
        payload.shown.meta.insert("price".into(), 3.into());
        payload.source.features = Some(vec![1.0, -2.5]);
        payload.source.labels = vec!["animal".into()];
        for file in [None, Some(vec![1, 2, 3])] {
            payload.picture = file;
            let bytes = payload.encode().unwrap();
            assert_eq!(Payload::decode(&bytes).unwrap(), payload);
            let (shown, has_picture) = DisplayFields::decode(&bytes).unwrap();
            assert_eq!((&shown, has_picture), (&payload.shown, payload.picture.is_some()));
            assert_eq!(picture(&bytes).unwrap(), payload.picture.as_deref());
            for cut in 0..bytes.len() - 3 {
                let _ = Payload::decode(&bytes[..cut]);
            }
            assert!(Payload::decode(&bytes[..7]).is_err());
        }
    }
}
