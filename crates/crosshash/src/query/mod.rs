//! Query encoding: from a text, a picture, a drawing or a feature vector to the model's real
//! outputs, a binary code and the nearest centres.
//!
//! | file | contents |
//! |---|---|
//! | `encoder.rs` | [`QueryEncoder`]: a model with the backbones of its modalities |
//! | `kind.rs` | [`QueryKind`], [`QueryInput`] |
//! | `select.rs` | the rule that selects the modality of a query |
//! | `drawing.rs` | [`Drawing`]: strokes, rasterised to a picture |
//! | `items.rs` | items of a file (features, texts, pictures) as input of a modality |
//! | `centres.rs` | the centres nearest to a code |
//! | `words.rs`, `spelling.rs` | known and unknown words of a text; similar spellings |

mod centres;
mod drawing;
mod encoder;
mod items;
mod kind;
mod select;
mod spelling;
mod words;

pub use centres::NearCentre;
pub use drawing::Drawing;
pub use encoder::{EncodedQuery, QueryEncoder};
pub use items::QueryItems;
pub use kind::{QueryInput, QueryKind};
#[cfg(feature = "keywords")]
pub(crate) use spelling::Spelling;
pub use words::{QueryWords, UnknownWord};
