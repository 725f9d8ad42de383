//! Fields of items for filters and counts: `meta` of inserted items, columns of the data set.

pub(crate) use crosshash::payload::{PayloadFields, field_to_json as to_json};
use crosshash_codes::Result;
use crosshash_codes::format::Id;
use crosshash_codes::index::{FieldSource, FieldValue};

use super::content::DatasetContent;
use super::run::ServedModel;

/// The fields of the items of one modality.
pub(crate) struct ModalityFields<'a> {
    content: &'a DatasetContent,
    modality: &'a str,
    version: u64,
}

impl<'a> ModalityFields<'a> {
    /// Fields of a data set that does not change.
    pub(crate) fn new(content: &'a DatasetContent, modality: &'a str) -> Self {
        ModalityFields { content, modality, version: 0 }
    }

    /// Fields of the data set of a model, which may change when the model is reloaded.
    pub(super) fn of(model: &'a ServedModel, modality: &'a str) -> Self {
        ModalityFields { content: &model.shown, modality, version: model.number }
    }
}

impl FieldSource for ModalityFields<'_> {
    fn version(&self) -> u64 {
        self.version
    }

    fn fields(
        &self,
        id: &Id,
        payload: &[u8],
        visit: &mut dyn FnMut(&str, FieldValue),
    ) -> Result<()> {
        if payload.is_empty() {
            let id = id.to_string();
            for (name, value) in self.content.fields(self.modality, &id) {
                visit(&name, value);
            }
            return Ok(());
        }
        PayloadFields.fields(id, payload, visit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crosshash::payload::Payload;

    #[test]
    fn meta_is_flattened() {
        let mut payload = Payload::default();
        let meta = json!({
            "price": 3, "none": null, "size": {"w": 2.5, "unit": "cm"},
            "tags": ["a", 1, null, {"x": 1}], "new": true,
        });
        payload.shown.meta = meta.as_object().cloned().unwrap_or_default();
        let bytes = payload.encode().unwrap();
        let mut seen = Vec::new();
        let visit = &mut |name: &str, value: FieldValue| {
            seen.push(format!("{name}={}", to_json(&value)));
        };
        PayloadFields.fields(&Id::Number(0), &bytes, visit).unwrap();
        seen.sort();
        assert_eq!(
            seen,
            ["new=true", "price=3", "size.unit=\"cm\"", "size.w=2.5", "tags=[\"a\",1]"]
        );
    }
}
