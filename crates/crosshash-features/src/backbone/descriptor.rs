//! The hand-made features of `descriptor.rs` for any picture: no weights, and the same kind of row
//! as in the built-in emoji data set.

use std::path::PathBuf;

use super::{Backbone, BackboneInfo, InputKind, Weights};
use crate::Result;
use crate::descriptor;
use crate::picture::{Filter, Picture, Raster, fit, grey};

/// Side of the square that a picture is fitted into.
pub const PICTURE_SIZE: usize = 72;
/// Side of the square that a drawing is fitted into.
pub const DRAWING_SIZE: usize = 64;
/// White around a drawing, in pixels.
pub const DRAWING_MARGIN: usize = 2;

/// Edges and colours of a picture.
pub(super) static PICTURES: BackboneInfo = BackboneInfo {
    name: "descriptor",
    drawings: false,
    width: descriptor::PICTURE,
    what: "gradients and colours, made by hand; of the picture fitted into a square",
    open: |_, _| Ok(Box::new(Descriptor { drawings: false })),
    ..BUILT_IN
};

/// Edges and ink of a drawing.
pub(super) static DRAWINGS: BackboneInfo = BackboneInfo {
    name: "descriptor-drawing",
    drawings: true,
    width: descriptor::DRAWING,
    what: "gradients and ink, made by hand; of dark strokes on white, cut out and centred",
    open: |_, _| Ok(Box::new(Descriptor { drawings: true })),
    ..BUILT_IN
};

const BUILT_IN: BackboneInfo = BackboneInfo {
    name: "",
    input_kind: InputKind::Pictures,
    drawings: false,
    width: 0,
    what: "",
    licence: "none needed",
    files: &[],
    get: "",
    revision: 1,
    open: nothing,
};

fn nothing(_: &[PathBuf], _: &Weights) -> Result<Box<dyn Backbone>> {
    Err(crate::Error::content("a backbone without a name"))
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
        let row = |picture: &Picture| {
            if self.drawings {
                descriptor::drawing(&drawing(picture))
            } else {
                descriptor::picture(&square(picture))
            }
        };
        Ok(batch.iter().flat_map(row).collect())
    }
}

fn square(picture: &Picture) -> Raster {
    let square = fit(picture, PICTURE_SIZE, 0, Filter::Area);
    Raster::new(PICTURE_SIZE, 3, square.rgb().to_vec())
}

/// As the data set's drawings are: the strokes fill the square but for a margin.
fn drawing(picture: &Picture) -> Raster {
    let square = fit(&picture.trimmed(), DRAWING_SIZE, DRAWING_MARGIN, Filter::Area);
    Raster::new(DRAWING_SIZE, 1, square.rgb().chunks_exact(3).map(grey).collect())
}
