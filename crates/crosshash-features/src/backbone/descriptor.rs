//! The hand-crafted features of `descriptor.rs` for any picture. Needs no weights; the built-in
//! emoji data set uses the same features.

use std::path::PathBuf;

use crosshash_codes::Cancel;

use super::{Backbone, BackboneInfo, InputKind, Weights};
use crate::Result;
use crate::descriptor;
use crate::isolate::Decoder;
use crate::picture::{Limits, Picture, Raster, SquareFit, grey};

/// Side of the square that a picture is fitted into.
pub const PICTURE_SIZE: usize = 72;
/// Side of the square that a drawing is fitted into.
pub const DRAWING_SIZE: usize = 64;
/// White margin around a drawing, in pixels.
pub const DRAWING_MARGIN: usize = 2;

/// Edges and colours of a picture.
pub(super) static PICTURES: BackboneInfo = BackboneInfo {
    name: "descriptor",
    drawings: false,
    width: descriptor::PICTURE,
    what: "hand-crafted: gradients and colours of the picture, fitted into a square",
    open: |_, _| Ok(Box::new(Descriptor { drawings: false })),
    ..BUILT_IN
};

/// Edges and ink of a drawing.
pub(super) static DRAWINGS: BackboneInfo = BackboneInfo {
    name: "descriptor-drawing",
    drawings: true,
    width: descriptor::DRAWING,
    what: "hand-crafted: gradients and ink of dark strokes on white, trimmed and centred",
    open: |_, _| Ok(Box::new(Descriptor { drawings: true })),
    ..BUILT_IN
};

const BUILT_IN: BackboneInfo = BackboneInfo {
    name: "",
    input_kind: InputKind::Pictures,
    drawings: false,
    width: 0,
    what: "",
    licence: "none required",
    files: &[],
    get: "",
    revision: 1,
    open: nothing,
};

fn nothing(_: &[PathBuf], _: &Weights) -> Result<Box<dyn Backbone>> {
    Err(crate::Error::content("this backbone cannot be opened"))
}

struct Descriptor {
    drawings: bool,
}

impl Backbone for Descriptor {
    fn input_kind(&self) -> InputKind {
        InputKind::Pictures
    }

    fn width(&self) -> usize {
        if self.drawings { descriptor::DRAWING } else { descriptor::PICTURE }
    }

    fn pictures(&self, batch: &[Picture]) -> Result<Vec<f32>> {
        let fitting = self.fitting();
        let row = |picture: &Picture| self.features(&fitting.apply(picture));
        Ok(batch.iter().flat_map(row).collect())
    }

    /// The process that decodes also fits the picture: only a small square is sent.
    fn decoded(
        &self,
        decoder: &Decoder,
        file: &[u8],
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Vec<f32>> {
        let square = decoder.decode_fitted(file, limits, self.fitting(), cancel)?;
        Ok(self.features(&square))
    }
}

impl Descriptor {
    /// A drawing as in the emoji data set: the strokes fill the square except for a margin.
    fn fitting(&self) -> SquareFit {
        if self.drawings {
            SquareFit { size: DRAWING_SIZE, margin: DRAWING_MARGIN, trims: true }
        } else {
            SquareFit { size: PICTURE_SIZE, margin: 0, trims: false }
        }
    }

    /// The features of a fitted picture.
    fn features(&self, square: &Picture) -> Vec<f32> {
        if self.drawings {
            let ink = square.rgb().chunks_exact(3).map(grey).collect();
            descriptor::drawing(&Raster::new(DRAWING_SIZE, 1, ink))
        } else {
            descriptor::picture(&Raster::new(PICTURE_SIZE, 3, square.rgb().to_vec()))
        }
    }
}
