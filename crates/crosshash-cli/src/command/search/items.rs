//! Texts, files and fields of the items that a search finds.

use crosshash::RunDir;
use crosshash::payload::DisplayFields;
use crosshash_codes::Result;
use crosshash_codes::segments::{Found, Snapshot};

use crate::progress::say;
use crate::serve::content::DatasetContent;
use crate::serve::fields::ModalityFields;

/// The content of the items of one modality.
pub(in crate::command) struct Content {
    content: DatasetContent,
    modality: String,
}

impl Content {
    /// Items of an index: only what their payloads contain.
    pub(in crate::command) fn of_index() -> Content {
        Content { content: DatasetContent::Nothing, modality: String::new() }
    }

    /// Items of a modality of a run, from its data set if that is there.
    pub(in crate::command) fn of_run(run: &RunDir, modality: &str) -> Content {
        let report = run.report().ok().filter(|report| report.is_data_available());
        let opened =
            report.map(|report| DatasetContent::open(&report.data, report.root.as_deref()));
        let content = match opened {
            Some(Ok(content)) => content,
            Some(Err(err)) => {
                say(format!(
                    "the results have no texts, the data set cannot be opened: {err:#}"
                ));
                DatasetContent::Nothing
            }
            None => DatasetContent::Nothing,
        };
        Content { content, modality: modality.to_owned() }
    }

    /// The fields of the items.
    pub(in crate::command) fn fields(&self) -> ModalityFields<'_> {
        ModalityFields::new(&self.content, &self.modality)
    }

    /// The text of an item.
    pub(in crate::command) fn text(
        &self,
        snapshot: &Snapshot,
        found: &Found,
    ) -> Result<Option<String>> {
        let payload = snapshot.payload(found.hit.item)?;
        if payload.is_empty() {
            return Ok(self.content.text(&self.modality, &found.id.to_string()));
        }
        // payloads of other programs show nothing
        Ok(DisplayFields::decode(payload).ok().and_then(|(shown, _)| shown.text))
    }

    /// The picture file of an item.
    pub(in crate::command) fn file(&self, found: &Found) -> Option<String> {
        self.content.file(&self.modality, &found.id.to_string())
    }
}
