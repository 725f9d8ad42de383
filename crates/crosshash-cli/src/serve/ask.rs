//! A query: what was asked, in any form, and the code it becomes.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crosshash_codes::Codes;
use serde::{Deserialize, Serialize};

use super::brain::{Given, Thought, micros};
use super::drawing::Drawing;
use super::fault::{Answer, Fault};
use super::run::Generation;
use super::state::App;
use super::view::from_hex;

/// How many of the nearest centres are told.
const CENTRES: usize = 5;
/// Characters of a text, at most.
const LONGEST: usize = 100_000;

/// A query as it comes: exactly one form, and its modality where it is not plain.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    text: Option<String>,
    /// Base64.
    picture: Option<String>,
    drawing: Option<Drawing>,
    item: Option<AskItem>,
    code: Option<String>,
    features: Option<Vec<f32>>,
    modality: Option<String>,
    /// The file of a form.
    #[serde(skip)]
    pub(crate) upload: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskItem {
    id: ItemId,
    modality: String,
}

/// An id in JSON: a text or a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ItemId {
    Number(u64),
    Name(String),
}

impl ItemId {
    pub(crate) fn text(self) -> String {
        match self {
            ItemId::Number(number) => number.to_string(),
            ItemId::Name(name) => name,
        }
    }
}

/// A query as a code.
pub(crate) struct Asked {
    pub(crate) modality: Option<String>,
    pub(crate) code: Vec<u64>,
    pub(crate) outputs: Option<Vec<f32>>,
    /// The labels of an item that asks.
    pub(crate) labels: Option<Vec<String>>,
    /// Labels of the nearest centres, and their distances.
    pub(crate) centres: Vec<Centre>,
    pub(crate) times: Times,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Centre {
    pub(crate) label: String,
    pub(crate) distance: u32,
}

/// Microseconds by stage.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Times {
    pub(crate) decode: u64,
    pub(crate) features: u64,
    pub(crate) encode: u64,
    pub(crate) search: u64,
    pub(crate) total: u64,
}

impl Ask {
    /// Exactly one form.
    fn check(&self) -> Answer<()> {
        let forms = [
            ("text", self.text.is_some()),
            ("picture", self.picture.is_some() || self.upload.is_some()),
            ("drawing", self.drawing.is_some()),
            ("item", self.item.is_some()),
            ("code", self.code.is_some()),
            ("features", self.features.is_some()),
        ];
        let given: Vec<&str> = forms.iter().filter(|f| f.1).map(|f| f.0).collect();
        match given[..] {
            [_] => Ok(()),
            [] => Err(Fault::bad(
                "an empty query; give one of text, picture, drawing, item, code or features",
            )
            .at("query")),
            _ => Err(Fault::bad(format!(
                "{} at once; a query is one of them",
                given.join(" and ")
            ))
            .at("query")),
        }
    }

    /// The code of the query.
    pub(crate) async fn resolve(self, app: &App, model: &Arc<Generation>) -> Answer<Asked> {
        self.check()?;
        let started = Instant::now();
        let bits = model.bits;
        if let Some(code) = &self.code {
            let code = from_hex(bits, code).map_err(|fault| fault.at("query.code"))?;
            return Ok(asked(model, self.modality, code, None, None, started));
        }
        if let Some(AskItem { id, modality }) = self.item {
            let id = id.text();
            let shelf = shelf(model, &modality, "query.item.modality")?;
            let view = shelf.view();
            let item = view.find(&id)?.ok_or_else(|| {
                Fault::missing(format!("{modality} has no item {id:?}")).at("query.item.id")
            })?;
            let code = view.snapshot.code(item).to_vec();
            let labels = Some(view.label_names(item));
            return Ok(asked(model, Some(modality), code, None, labels, started));
        }
        let Some(brain) = &model.brain else {
            return Err(Fault::bad(format!(
                "{} is an index without a model: ask by code or by item",
                model.name
            ))
            .at("query"));
        };
        let form = if self.drawing.is_some() {
            "drawing"
        } else if self.text.is_some() {
            "text"
        } else if self.features.is_some() {
            "features"
        } else {
            "picture"
        };
        let modality = brain.modality(self.modality.as_deref(), form)?.to_owned();
        let (worker, name) = (Arc::clone(model), modality.clone());
        let work = move || -> Answer<(u64, Thought)> {
            let started = Instant::now();
            let given = self.given()?;
            let decode = micros(started);
            let brain =
                worker.brain.as_ref().ok_or_else(|| Fault::ours("the model is gone"))?;
            Ok((decode, brain.think(&name, given)?))
        };
        let (decode, thought) = app.workers.run(work).await??;
        let codes = Codes::from_signs(bits, &thought.outputs).map_err(Fault::ours)?;
        let code = codes.words().to_vec();
        let outputs = Some(thought.outputs);
        let mut asked = asked(model, Some(modality), code, outputs, None, started);
        asked.times.decode = decode;
        asked.times.features = thought.features_us;
        asked.times.encode = thought.encode_us;
        Ok(asked)
    }

    /// What is to be encoded; undoes base64, draws strokes.
    fn given(self) -> Answer<Given> {
        if let Some(text) = self.text {
            return match text.chars().count() {
                0 => Err(Fault::bad("an empty text").at("query.text")),
                n if n > LONGEST => {
                    let message = format!("a text of {n} characters; at most {LONGEST}");
                    Err(Fault::bad(message).at("query.text"))
                }
                _ => Ok(Given::Text(text)),
            };
        }
        if let Some(values) = self.features {
            return features(values).map_err(|fault| fault.at("query.features"));
        }
        if let Some(drawing) = self.drawing {
            let png = drawing.to_png().map_err(|fault| fault.at("query.drawing"))?;
            return Ok(Given::Picture(png));
        }
        if let Some(upload) = self.upload {
            return Ok(Given::Picture(upload));
        }
        let text = self.picture.unwrap_or_default();
        Ok(Given::Picture(picture(&text).map_err(|fault| fault.at("query.picture"))?))
    }
}

/// The file in base64.
pub(crate) fn picture(text: &str) -> Answer<Vec<u8>> {
    // Pages hand over data: addresses.
    let text = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map_or("", |(_, data)| data),
        None => text,
    };
    let bytes = STANDARD.decode(text).map_err(|err| {
        Fault::bad(format!("not base64: {err}; send the picture's file in base64"))
    })?;
    if bytes.is_empty() {
        return Err(Fault::bad("an empty picture; send the picture's file in base64"));
    }
    Ok(bytes)
}

/// A row of numbers.
pub(crate) fn features(values: Vec<f32>) -> Answer<Given> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => {
            Err(Fault::bad(format!("value {at} is too large for single precision")))
        }
        None if values.is_empty() => Err(Fault::bad("no values")),
        None => Ok(Given::Features(values)),
    }
}

/// The shelf of a modality, or a refusal.
pub(crate) fn shelf<'a>(
    model: &'a Generation,
    modality: &str,
    place: &str,
) -> Answer<&'a Arc<super::shelf::Shelf>> {
    model.shelf(modality).ok_or_else(|| {
        let known: Vec<&str> = model.shelves.iter().map(|s| s.modality.as_str()).collect();
        Fault::bad(format!(
            "no modality named {modality:?}; there are {}",
            known.join(", ")
        ))
        .at(place)
    })
}

fn asked(
    model: &Generation,
    modality: Option<String>,
    code: Vec<u64>,
    outputs: Option<Vec<f32>>,
    labels: Option<Vec<String>>,
    started: Instant,
) -> Asked {
    let centres = model.brain.as_ref().map_or(Vec::new(), |brain| {
        let near = brain.centres(&code, outputs.as_deref(), CENTRES);
        let named = |(label, distance): (usize, u32)| {
            Some(Centre { label: model.labels.get(label)?.clone(), distance })
        };
        near.into_iter().filter_map(named).collect()
    });
    let times = Times { decode: micros(started), ..Times::default() };
    Asked { modality, code, outputs, labels, centres, times }
}
