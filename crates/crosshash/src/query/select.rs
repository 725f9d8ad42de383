//! The rule that selects the modality of a query.

use super::{QueryEncoder, QueryKind};
use crate::encode::Encoder as _;
use crate::{Error, Result};

impl QueryEncoder {
    /// The modality that encodes a query of this kind.
    ///
    /// A named modality must accept the kind. Without a name it is the only modality whose main
    /// kind this is; if there is none, the only one that accepts the kind at all. Modalities of
    /// drawings accept pictures and modalities of pictures accept drawings.
    pub fn select_modality(&self, named: Option<&str>, kind: QueryKind) -> Result<&str> {
        if let Some(named) = named {
            let mut all = self.model().modalities().into_iter();
            let name = all.find(|name| *name == named).ok_or_else(|| {
                Error::unknown("modality", named, self.model().modalities())
            })?;
            if self.accepts(name, kind) {
                return Ok(name);
            }
            return Err(self.refuse(name, kind));
        }
        let all = self.model().modalities();
        let main = |name: &&str| self.kinds(name).first() == Some(&kind);
        let mut fit: Vec<&str> = all.iter().copied().filter(main).collect();
        if fit.is_empty() {
            fit = all.iter().copied().filter(|name| self.accepts(name, kind)).collect();
        }
        match fit[..] {
            [one] => Ok(one),
            [] => Err(self.refuse_all(kind)),
            _ => Err(Error::content(format!(
                "several modalities accept {kind} queries; name the modality of the query: {}",
                fit.join(", ")
            ))),
        }
    }

    /// Whether a modality accepts queries of a kind.
    pub fn accepts(&self, modality: &str, kind: QueryKind) -> bool {
        let kinds = self.kinds(modality);
        let is_drawing_for_pictures =
            kind == QueryKind::Drawing && kinds.contains(&QueryKind::Picture);
        kinds.contains(&kind) || is_drawing_for_pictures
    }

    /// The error for a modality that does not accept a kind.
    pub(super) fn refuse(&self, modality: &str, kind: QueryKind) -> Error {
        if let Some(reason) = self.missing_backbone(modality)
            && kind != QueryKind::Features
        {
            return Error::content(format!("modality {modality}: {reason}"));
        }
        let accepted = match self.kinds(modality) {
            [] => "no queries".to_owned(),
            kinds => names(kinds),
        };
        let advice = match kind {
            QueryKind::Text | QueryKind::Picture | QueryKind::Drawing
                if !self.has_backbone(modality) =>
            {
                ". The model was trained on features of an unknown backbone: extract features of \
                 the query and pass these, or train with a backbone (docs/pictures.md)"
            }
            _ => "",
        };
        Error::content(format!(
            "modality {modality} does not accept {kind} queries; it accepts {accepted}{advice}"
        ))
    }

    fn refuse_all(&self, kind: QueryKind) -> Error {
        let all = self.model().modalities();
        // Missing weights are the likely reason.
        let mut missing =
            all.iter().filter_map(|name| Some((name, self.missing_backbone(name)?)));
        if let Some((name, reason)) = missing.next()
            && kind != QueryKind::Features
        {
            return Error::content(format!("modality {name}: {reason}"));
        }
        let described: Vec<String> = all
            .iter()
            .map(|name| format!("{name} ({})", names(self.kinds(name))))
            .collect();
        Error::content(format!(
            "no modality of the model accepts {kind} queries; the modalities are {}",
            described.join(", ")
        ))
    }
}

fn names(kinds: &[QueryKind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}
