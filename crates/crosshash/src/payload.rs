//! The payload of an inserted item in its index: fields for display, and the source of its code.
//! The HTTP service and the Python package write it; filters read its `meta` ([`PayloadFields`]).
//!
//! ```text
//! length of the first JSON u32, length of the second JSON u32 (little-endian)
//! JSON: text and meta
//! JSON: features, code and names of the labels, to encode the item again by another model
//! the picture file, if there is one
//! ```

use crosshash_codes::format::Id;
use crosshash_codes::index::{FieldSource, FieldValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// What an item shows, apart from its picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisplayFields {
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Fields of any kind, for filters.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// The source of an item's code, besides its text and picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// A feature vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<f32>>,
    /// The code in hexadecimal, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The names of its labels.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// A payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Payload {
    /// What it shows.
    pub shown: DisplayFields,
    /// The source of its code.
    pub source: Source,
    /// A picture file.
    pub picture: Option<Vec<u8>>,
}

impl Payload {
    /// As bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let shown = serde_json::to_vec(&self.shown).map_err(std::io::Error::from)?;
        let source = serde_json::to_vec(&self.source).map_err(std::io::Error::from)?;
        let length = |part: &[u8]| {
            let length = u32::try_from(part.len());
            length.map_err(|_| Error::content("the fields of an item exceed 4 GiB"))
        };
        let mut bytes = Vec::new();
        bytes.extend(length(&shown)?.to_le_bytes());
        bytes.extend(length(&source)?.to_le_bytes());
        bytes.extend(shown);
        bytes.extend(source);
        bytes.extend(self.picture.as_deref().unwrap_or_default());
        Ok(bytes)
    }

    /// From bytes of [`Payload::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Payload> {
        let [shown, source, picture] = parts(bytes)?;
        let picture = (!picture.is_empty()).then(|| picture.to_vec());
        Ok(Payload {
            shown: serde_json::from_slice(shown).map_err(damaged)?,
            source: serde_json::from_slice(source).map_err(damaged)?,
            picture,
        })
    }
}

impl DisplayFields {
    /// What an item shows, and whether it has a picture.
    pub fn decode(bytes: &[u8]) -> Result<(DisplayFields, bool)> {
        let [shown, _, picture] = parts(bytes)?;
        Ok((serde_json::from_slice(shown).map_err(damaged)?, !picture.is_empty()))
    }
}

/// Bytes of the fields for display.
pub fn shown_bytes(bytes: &[u8]) -> Result<usize> {
    let [shown, ..] = parts(bytes)?;
    Ok(shown.len())
}

/// The picture file of a payload.
pub fn picture(bytes: &[u8]) -> Result<Option<&[u8]>> {
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
    split().ok_or_else(|| Error::content("an item's payload cannot be decoded"))
}

fn damaged(err: serde_json::Error) -> Error {
    Error::content(format!("an item's payload cannot be decoded: {err}"))
}

/// The fields of inserted items: their `meta`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PayloadFields;

impl FieldSource for PayloadFields {
    fn version(&self) -> u64 {
        0
    }

    fn fields(
        &self,
        _: &Id,
        payload: &[u8],
        visit: &mut dyn FnMut(&str, FieldValue),
    ) -> crosshash_codes::Result<()> {
        if payload.is_empty() {
            return Ok(());
        }
        let (shown, _) = DisplayFields::decode(payload)
            .map_err(|err| crosshash_codes::Error::content(err.to_string()))?;
        flatten("", &shown.meta, visit);
        Ok(())
    }
}

/// The fields of a JSON object; those of an object in it have names like `size.width`.
fn flatten(
    prefix: &str,
    object: &Map<String, Value>,
    visit: &mut dyn FnMut(&str, FieldValue),
) {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, visit),
            value => {
                if let Some(value) = field_from_json(value) {
                    visit(&name, value);
                }
            }
        }
    }
}

/// A value as JSON; whole numbers without a decimal point.
pub fn field_to_json(value: &FieldValue) -> Value {
    match value {
        FieldValue::Text(text) => Value::from(text.clone()),
        FieldValue::Bool(value) => Value::from(*value),
        FieldValue::List(list) => list.iter().map(field_to_json).collect(),
        FieldValue::Number(number) => {
            whole(*number).map_or(Value::from(*number), Value::from)
        }
    }
}

/// A whole number without a decimal point.
fn whole(number: f64) -> Option<i64> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    (number.fract() == 0.0 && number.abs() < LARGEST).then_some(number as i64)
}

/// The value of a field; `None` for null and for objects in lists.
pub fn field_from_json(value: &Value) -> Option<FieldValue> {
    match value {
        Value::Null | Value::Object(_) => None,
        Value::Bool(value) => Some(FieldValue::Bool(*value)),
        Value::Number(number) => number.as_f64().map(FieldValue::Number),
        Value::String(text) => Some(FieldValue::Text(text.clone())),
        Value::Array(list) => {
            Some(FieldValue::List(list.iter().filter_map(field_from_json).collect()))
        }
    }
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
