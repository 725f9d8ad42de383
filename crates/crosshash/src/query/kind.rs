//! The kinds of queries.

use serde::{Deserialize, Serialize};

use super::Drawing;

/// The kind of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKind {
    /// A sentence or some words.
    Text,
    /// A picture of any kind.
    Picture,
    /// A line drawing.
    Drawing,
    /// A feature vector.
    Features,
}

impl QueryKind {
    /// The name of the kind in requests and messages.
    pub fn name(self) -> &'static str {
        match self {
            QueryKind::Text => "text",
            QueryKind::Picture => "picture",
            QueryKind::Drawing => "drawing",
            QueryKind::Features => "features",
        }
    }
}

impl std::fmt::Display for QueryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The content of one query.
#[derive(Debug, Clone)]
pub enum QueryInput {
    /// A sentence or some words.
    Text(String),
    /// The bytes of a picture file (JPEG, PNG, WebP, GIF, BMP, TIFF, SVG).
    Picture(Vec<u8>),
    /// Strokes of a drawing.
    Drawing(Drawing),
    /// A feature vector.
    Features(Vec<f32>),
}

impl QueryInput {
    /// The kind of the query.
    pub fn kind(&self) -> QueryKind {
        match self {
            QueryInput::Text(_) => QueryKind::Text,
            QueryInput::Picture(_) => QueryKind::Picture,
            QueryInput::Drawing(_) => QueryKind::Drawing,
            QueryInput::Features(_) => QueryKind::Features,
        }
    }
}
