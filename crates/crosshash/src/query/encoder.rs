//! `QueryEncoder`: a model with the backbones that its modalities were trained with.

use std::sync::OnceLock;

use crosshash_codes::{Cancel, Codes};
use rayon::prelude::*;

use super::spelling::Spelling;
use super::{QueryInput, QueryKind};
use crate::backbone::{self, FeatureSource, InputKind, Loaded, Weights};
use crate::data::{Dense, Features, Pictures, Sparse};
use crate::encode::{Encoder as _, signs};
use crate::isolate::Decoder;
use crate::picture::Limits;
use crate::{Error, Model, Result, RunDir};

/// Encodes queries with a trained model: texts, pictures, drawings and feature vectors.
///
/// It owns its model and backbones and can be shared between threads.
///
/// ```no_run
/// use crosshash::{QueryEncoder, QueryInput, RunDir};
/// use crosshash::backbone::Weights;
///
/// let run = RunDir::open("run")?;
/// let encoder = QueryEncoder::open(&run, &Weights::default())?;
/// let query = encoder.encode(None, QueryInput::Text("a dog on the beach".into()))?;
/// for centre in encoder.nearest_centres(query.code.words(), Some(&query.outputs), 3) {
///     println!("{} at distance {}", encoder.model().labels()[centre.label], centre.distance);
/// }
/// # Ok::<(), crosshash::Error>(())
/// ```
#[derive(Debug)]
pub struct QueryEncoder {
    model: Model,
    modalities: Vec<ModalityInput>,
    pub(super) centres: Option<Codes>,
    limits: Limits,
    decoder: Decoder,
}

/// How the queries of one modality become features.
#[derive(Debug)]
struct ModalityInput {
    name: String,
    kinds: Vec<QueryKind>,
    backbone: InputBackbone,
    spelling: OnceLock<Spelling>, // built for the first text
}

/// The backbone of a modality.
#[derive(Debug)]
enum InputBackbone {
    /// None is known: texts of a vocabulary, or features from elsewhere.
    None,
    /// The network of the model itself, which takes pictures.
    Own,
    /// Its weights were not found, for this reason.
    Missing(String),
    Loaded(Loaded),
}

/// An encoded query.
#[derive(Debug, Clone)]
pub struct EncodedQuery {
    /// The modality that encoded it.
    pub modality: String,
    /// Real outputs, one per bit.
    pub outputs: Vec<f32>,
    /// Its code: the signs of the outputs.
    pub code: Codes,
}

impl QueryEncoder {
    /// Opens the model of a run and the backbones that extracted its features. Missing weights
    /// are an error only for queries that need them.
    pub fn open(run: &RunDir, weights: &Weights) -> Result<QueryEncoder> {
        QueryEncoder::new(run.model()?, weights)
    }

    /// An encoder for a model.
    pub fn new(model: Model, weights: &Weights) -> Result<QueryEncoder> {
        let mut modalities = Vec::new();
        for name in model.modalities() {
            let is_text = model.preparation(name)?.is_text();
            let backbone = match model.feature_source(name) {
                None if model.preparation(name)?.network().is_some() => InputBackbone::Own,
                None => InputBackbone::None,
                Some(feature_source) => match reopen(feature_source, weights) {
                    Ok(loaded) => InputBackbone::Loaded(loaded),
                    Err(err) => InputBackbone::Missing(err.to_string()),
                },
            };
            let kinds = backbone.kinds(is_text);
            let (name, spelling) = (name.to_owned(), OnceLock::new());
            modalities.push(ModalityInput { name, kinds, backbone, spelling });
        }
        let centres = match model.centres() {
            [] => None,
            values => Some(signs(model.bits(), values)?),
        };
        let (limits, decoder) = (Limits::default(), Decoder::default());
        Ok(QueryEncoder { model, modalities, centres, limits, decoder })
    }

    /// With another decoder of pictures than the default one.
    #[must_use]
    pub fn with_decoder(mut self, decoder: Decoder) -> QueryEncoder {
        self.decoder = decoder;
        self
    }

    /// With other limits for the size of pictures.
    #[must_use]
    pub fn with_picture_limits(mut self, limits: Limits) -> QueryEncoder {
        self.limits = limits;
        self
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The kinds of queries that a modality accepts, its main kind first; empty for an unknown
    /// modality.
    pub fn kinds(&self, modality: &str) -> &[QueryKind] {
        self.modality(modality).map_or(&[], |input| &input.kinds)
    }

    /// Encodes one query. `modality` may be omitted where one modality accepts the query
    /// ([`select_modality`](QueryEncoder::select_modality)).
    pub fn encode(
        &self,
        modality: Option<&str>,
        input: QueryInput,
    ) -> Result<EncodedQuery> {
        let modality = self.select_modality(modality, input.kind())?;
        let features = self.features(modality, input, &Cancel::default())?;
        self.encode_features(modality, features)
    }

    /// The features of one query: the first half of [`encode`](QueryEncoder::encode).
    pub fn features(
        &self,
        modality: &str,
        input: QueryInput,
        cancel: &Cancel,
    ) -> Result<Features> {
        if !self.accepts(modality, input.kind()) {
            return Err(self.refuse(modality, input.kind()));
        }
        match input {
            QueryInput::Text(text) => self.texts(modality, &[text]),
            QueryInput::Picture(file) => {
                self.decoded(modality, vec![file], &self.decoder, cancel)
            }
            QueryInput::Drawing(drawing) => {
                let file = drawing.to_png(cancel)?;
                self.decoded(modality, vec![file], &Decoder::in_process(), cancel)
            }
            QueryInput::Features(values) => self.vector(modality, values),
        }
    }

    /// Outputs and code of the features of one query: the second half of
    /// [`encode`](QueryEncoder::encode).
    pub fn encode_features(
        &self,
        modality: &str,
        features: Features,
    ) -> Result<EncodedQuery> {
        if features.len() != 1 {
            return Err(Error::content(format!(
                "{} items where one query is expected",
                features.len()
            )));
        }
        let outputs = self.model.outputs(modality, features, &|_| ())?;
        if outputs.iter().any(|value| value.is_nan()) {
            return Err(Error::content("the model returned NaN for this query"));
        }
        let code = signs(self.model.bits(), &outputs)?;
        Ok(EncodedQuery { modality: modality.to_owned(), outputs, code })
    }

    /// Texts as features of a modality.
    pub fn texts(&self, modality: &str, texts: &[String]) -> Result<Features> {
        if self.model.preparation(modality)?.is_text() {
            return Ok(Features::Text(texts.iter().collect()));
        }
        let loaded = self.loaded(modality, QueryKind::Text)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rows = loaded.backbone().texts(&texts)?;
        dense(loaded, rows)
    }

    /// Picture files as features of a modality.
    pub fn pictures(&self, modality: &str, files: Vec<Vec<u8>>) -> Result<Features> {
        self.decoded(modality, files, &self.decoder, &Cancel::default())
    }

    fn decoded(
        &self,
        modality: &str,
        files: Vec<Vec<u8>>,
        decoder: &Decoder,
        cancel: &Cancel,
    ) -> Result<Features> {
        if matches!(self.modality(modality)?.backbone, InputBackbone::Own) {
            return Ok(Features::Pictures(Pictures::in_memory(files)));
        }
        let loaded = self.loaded(modality, QueryKind::Picture)?;
        let (backbone, limits) = (loaded.backbone(), &self.limits);
        let each = |(k, file): (usize, &Vec<u8>)| -> Result<Vec<f32>> {
            let values = backbone.decoded(decoder, file, limits, cancel);
            values.map_err(|err| Error::content(format!("picture {}: {err}", k + 1)))
        };
        let values: Vec<Vec<f32>> =
            files.par_iter().enumerate().map(each).collect::<Result<_>>()?;
        let values = values.concat();
        let rows = match backbone.preprocessing() {
            Some(_) => backbone.inputs(&values, files.len())?,
            None => values,
        };
        dense(loaded, rows)
    }

    /// A feature vector as features of a modality.
    fn vector(&self, modality: &str, values: Vec<f32>) -> Result<Features> {
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::content(format!("value {at} is not a finite number")));
        }
        if values.is_empty() {
            return Err(Error::content("no values"));
        }
        if self.model.preparation(modality)?.is_sparse() {
            let mut cells: Vec<(u32, f32)> =
                (0..).zip(values.iter().copied()).filter(|cell| cell.1 != 0.0).collect();
            let mut rows = Sparse::new(values.len());
            rows.push(&mut cells)?;
            return Ok(Features::Sparse(rows));
        }
        Ok(Features::Dense(Dense::from_floats(values.len(), values)?))
    }

    /// What a backbone takes, if the modality has one and its weights were found.
    pub(super) fn backbone_input_kind(&self, modality: &str) -> Result<Option<InputKind>> {
        Ok(match &self.modality(modality)?.backbone {
            InputBackbone::Loaded(loaded) => Some(loaded.backbone().input_kind()),
            InputBackbone::Own => Some(InputKind::Pictures),
            InputBackbone::None | InputBackbone::Missing(_) => None,
        })
    }

    /// The backbone outside of the model, if there is one.
    pub(super) fn external_backbone(&self, modality: &str) -> Result<Option<&Loaded>> {
        Ok(match &self.modality(modality)?.backbone {
            InputBackbone::Loaded(loaded) => Some(loaded),
            _ => None,
        })
    }

    /// Why the backbone of a modality is missing, if it is.
    pub(super) fn missing_backbone(&self, modality: &str) -> Option<&str> {
        match &self.modality(modality).ok()?.backbone {
            InputBackbone::Missing(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether a modality has a backbone or a vocabulary of its own.
    pub(super) fn has_backbone(&self, modality: &str) -> bool {
        let found = self.modality(modality);
        found.is_ok_and(|input| {
            !matches!(input.backbone, InputBackbone::None)
                || input.kinds.contains(&QueryKind::Text)
        })
    }

    /// The known words of a modality, if there is one of this name.
    pub(super) fn spelling(&self, modality: &str) -> Option<&OnceLock<Spelling>> {
        Some(&self.modality(modality).ok()?.spelling)
    }

    fn modality(&self, modality: &str) -> Result<&ModalityInput> {
        let known = || self.modalities.iter().map(|input| input.name.as_str());
        let found = self.modalities.iter().find(|input| input.name == modality);
        found.ok_or_else(|| Error::unknown("modality", modality, known()))
    }

    /// The backbone of a modality, for queries of a kind.
    fn loaded(&self, modality: &str, kind: QueryKind) -> Result<&Loaded> {
        let wanted =
            if kind == QueryKind::Text { InputKind::Texts } else { InputKind::Pictures };
        match &self.modality(modality)?.backbone {
            InputBackbone::Loaded(loaded) if loaded.backbone().input_kind() == wanted => {
                Ok(loaded)
            }
            _ => Err(self.refuse(modality, kind)),
        }
    }
}

impl InputBackbone {
    fn kinds(&self, is_text: bool) -> Vec<QueryKind> {
        use QueryKind::{Drawing, Features, Picture, Text};
        let mut kinds = match self {
            InputBackbone::None | InputBackbone::Missing(_) if is_text => vec![Text],
            InputBackbone::None | InputBackbone::Missing(_) => Vec::new(),
            InputBackbone::Own => vec![Picture, Drawing],
            InputBackbone::Loaded(loaded) => match loaded.backbone().input_kind() {
                InputKind::Texts => vec![Text],
                InputKind::Pictures if loaded.is_for_drawings() => vec![Drawing, Picture],
                InputKind::Pictures => vec![Picture],
            },
        };
        if !is_text && !matches!(self, InputBackbone::Own) {
            kinds.push(Features);
        }
        kinds
    }
}

/// Opens the backbone of a feature source; rejects other weights.
fn reopen(feature_source: &FeatureSource, weights: &Weights) -> Result<Loaded> {
    let loaded = backbone::open(&feature_source.backbone, weights)?;
    let now = loaded.feature_source();
    if now.digest != feature_source.digest {
        return Err(Error::content(format!(
            "the run was trained on features of {} with other weights or preprocessing (digest \
             {}, found {}): pass the folder of the weights it was trained with by --weights, or \
             train again",
            feature_source.backbone, feature_source.digest, now.digest
        )));
    }
    Ok(loaded)
}

fn dense(loaded: &Loaded, rows: Vec<f32>) -> Result<Features> {
    Ok(Features::Dense(Dense::from_floats(loaded.backbone().width(), rows)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_encoder_is_shareable_and_owned() {
        fn shareable<T: Send + Sync + 'static>() {}
        shareable::<QueryEncoder>();
        shareable::<EncodedQuery>();
    }
}
