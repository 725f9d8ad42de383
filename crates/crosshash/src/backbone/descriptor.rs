//! The hand-made features of the emoji data set (`data/descriptor.rs`) for any picture: no
//! weights, and the same kind of row as the data set's own.

use std::path::PathBuf;

use super::{About, Backbone, Takes, Weights};
use crate::Result;
use crate::data::emoji::{DRAWING_MARGIN, DRAWING_SIZE, PICTURE_SIZE};
use crate::data::{Raster, descriptor};
use crate::picture::{Filter, Picture, fit, grey};

/// Edges and colours of a picture.
pub(super) static PICTURES: About = About {
    name: "descriptor",
    drawings: false,
    width: descriptor::PICTURE,
    what: "gradients and colours, made by hand; of the picture fitted into a square",
    open: |_, _| Ok(Box::new(Descriptor { drawings: false })),
    ..BUILT_IN
};

/// Edges and ink of a drawing.
pub(super) static DRAWINGS: About = About {
    name: "descriptor-drawing",
    drawings: true,
    width: descriptor::DRAWING,
    what: "gradients and ink, made by hand; of dark strokes on white, cut out and centred",
    open: |_, _| Ok(Box::new(Descriptor { drawings: true })),
    ..BUILT_IN
};

const BUILT_IN: About = About {
    name: "",
    takes: Takes::Pictures,
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
    fn takes(&self) -> Takes {
        Takes::Pictures
    }

    fn width(&self) -> usize {
        match self.drawings {
            true => descriptor::DRAWING,
            false => descriptor::PICTURE,
        }
    }

    fn pictures(&self, batch: &[Picture]) -> Result<Vec<f32>> {
        let row = |picture: &Picture| match self.drawings {
            true => descriptor::drawing(&drawing(picture)),
            false => descriptor::picture(&square(picture)),
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

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;
    use crate::data::emoji;
    use crate::picture::{Limits, decode};

    fn rows(name: &str, file: &[u8]) -> Vec<f32> {
        let picture = decode(file, &Limits::default()).unwrap();
        let loaded = open(name, &Weights::default()).unwrap();
        loaded.backbone().pictures(&[picture]).unwrap()
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    #[test]
    fn files_get_the_rows_of_the_data_set() {
        for glyph in ["😀", "🐈", "🚲", "🌷"] {
            let raster = emoji::picture(glyph).unwrap().unwrap();
            let row = rows("descriptor", &raster.to_png().unwrap());
            assert_eq!(row, descriptor::picture(&raster), "{glyph}");
            let raster = emoji::drawing(glyph, emoji::Hand::Noto).unwrap().unwrap();
            let row = rows("descriptor-drawing", &raster.to_png().unwrap());
            let near = cosine(&row, &descriptor::drawing(&raster));
            assert!(near > 0.97, "{glyph}: {near}");
        }
    }

    #[test]
    fn where_and_how_large_a_drawing_is_does_not_matter() {
        let raster = emoji::drawing("🏠", emoji::Hand::Noto).unwrap().unwrap();
        let wanted = descriptor::drawing(&raster);
        // on a canvas of 300 x 200, twice as large, in a corner
        let (width, height, size) = (300, 200, raster.size());
        let mut rgb = vec![255_u8; width * height * 3];
        for y in 0..2 * size {
            for x in 0..2 * size {
                let value = raster.pixels()[y / 2 * size + x / 2];
                let at = ((y + 50) * width + x + 150) * 3;
                rgb[at..at + 3].fill(value);
            }
        }
        let canvas = Picture::new(width, height, rgb);
        let loaded = open("descriptor-drawing", &Weights::default()).unwrap();
        let row = loaded.backbone().pictures(&[canvas]).unwrap();
        let near = cosine(&row, &wanted);
        assert!(near > 0.97, "{near}");
    }
}
