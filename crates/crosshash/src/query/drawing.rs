//! `Drawing`: strokes, rasterised to a picture: black lines with round ends on white, as thick as
//! the lines of the training drawings, scaled to fill the square except for a margin.
//!
//! A pixel is as dark as the share of it that the line covers (anti-aliasing by `tiny_skia`).

use serde::{Deserialize, Serialize};
use tiny_skia::{FillRule, LineCap, LineJoin, Mask, PathBuilder, Stroke, Transform};

use crosshash_codes::Cancel;

use crate::data::Raster;
use crate::{Error, Result};

/// Width and height in pixels.
const SIDE: usize = 256;
/// Margin in pixels, in proportion that of the emoji drawings (2 of 64).
const MARGIN: f32 = 8.0;
/// Half the width of a line.
const HALF: f32 = 5.0;
/// Segments of a stroke that are drawn together.
const PIECE: usize = 64;
/// The most points of a drawing.
const MAX_POINTS: usize = 20_000;

/// Strokes of a drawing on a canvas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawing {
    /// The points (x, y) of each stroke, y downwards.
    pub strokes: Vec<Vec<[f32; 2]>>,
    /// Width of the canvas.
    pub width: f32,
    /// Height of the canvas.
    pub height: f32,
}

impl Drawing {
    /// The drawing as a PNG file.
    pub fn to_png(&self, cancel: &Cancel) -> Result<Vec<u8>> {
        self.check()?;
        Ok(Raster::new(SIDE, 1, self.draw(cancel)?).to_png()?)
    }

    fn check(&self) -> Result<()> {
        let points: usize = self.strokes.iter().map(Vec::len).sum();
        let finite = |p: &[f32; 2]| p.iter().all(|v| v.is_finite() && v.abs() < 1e7);
        if points == 0 {
            return Err(Error::content("the drawing has no strokes"));
        }
        if points > MAX_POINTS {
            return Err(Error::content(format!(
                "the drawing has {points} points; the limit is {MAX_POINTS}"
            )));
        }
        let frame = [self.width, self.height];
        if !frame.iter().all(|v| v.is_finite() && (1.0..=1e7).contains(v)) {
            return Err(Error::content(
                "width and height of the canvas must be at least 1",
            ));
        }
        if !self.strokes.iter().flatten().all(finite) {
            return Err(Error::content("a point is far outside of the canvas"));
        }
        Ok(())
    }

    fn draw(&self, cancel: &Cancel) -> Result<Vec<u8>> {
        let points = || self.strokes.iter().flatten();
        let bound = |axis: usize| {
            points().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), p| {
                (low.min(p[axis]), high.max(p[axis]))
            })
        };
        let (x, y) = (bound(0), bound(1));
        // A dot is not enlarged: its extent counts as a tenth of the canvas.
        let extent = (x.1 - x.0).max(y.1 - y.0).max(self.width.max(self.height) / 10.0);
        let scale = (SIDE as f32 - 2.0 * (MARGIN + HALF)) / extent;
        let middle = SIDE as f32 / 2.0;
        let place = |p: &[f32; 2]| {
            [
                (p[0] - f32::midpoint(x.0, x.1)) * scale + middle,
                (p[1] - f32::midpoint(y.0, y.1)) * scale + middle,
            ]
        };
        let strokes = self.strokes.iter().map(|stroke| stroke.iter().map(place).collect());
        rasterise(strokes, cancel)
    }
}

/// Black lines with round ends on white; a stroke of one point is a dot. A long stroke is drawn in
/// pieces that overlap in a point: the time for an outline grows with the square of its length.
fn rasterise(
    strokes: impl Iterator<Item = Vec<[f32; 2]>>,
    cancel: &Cancel,
) -> Result<Vec<u8>> {
    let pen = Stroke {
        width: 2.0 * HALF,
        line_cap: LineCap::Round,
        line_join: LineJoin::Round,
        ..Stroke::default()
    };
    #[expect(clippy::cast_possible_truncation, reason = "a small constant")]
    let ink = Mask::new(SIDE as u32, SIDE as u32);
    let Some(mut ink) = ink else { return Ok(vec![255; SIDE * SIDE]) };
    let strokes: Vec<Vec<[f32; 2]>> = strokes.collect();
    for piece in strokes.iter().flat_map(|stroke| pieces(stroke)) {
        let [first, rest @ ..] = piece else { continue };
        cancel.check()?;
        let mut line = PathBuilder::new();
        line.move_to(first[0], first[1]);
        rest.iter().for_each(|point| line.line_to(point[0], point[1]));
        // A path without extent has no outline.
        let outline = line.finish().and_then(|line| line.stroke(&pen, 1.0));
        let outline =
            outline.or_else(|| PathBuilder::from_circle(first[0], first[1], HALF));
        if let Some(outline) = outline {
            ink.fill_path(&outline, FillRule::Winding, true, Transform::identity());
        }
    }
    Ok(ink.data().iter().map(|cover| 255 - cover).collect())
}

/// The pieces of a stroke; each begins where the one before it ends.
fn pieces(stroke: &[[f32; 2]]) -> impl Iterator<Item = &[[f32; 2]]> {
    let starts = (0..stroke.len().saturating_sub(1).max(1)).step_by(PIECE);
    starts.filter_map(|start| stroke.get(start..(start + PIECE + 1).min(stroke.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(strokes: &[&[[f32; 2]]]) -> Drawing {
        let strokes = strokes.iter().map(|stroke| stroke.to_vec()).collect();
        Drawing { strokes, width: 300.0, height: 200.0 }
    }

    #[test]
    fn lines_are_scaled_to_the_full_width() {
        let at = |dx: f32, dy: f32| {
            drawing(&[&[[10.0 + dx, 20.0 + dy], [110.0 + dx, 20.0 + dy]]])
                .draw(&Cancel::default())
                .unwrap()
        };
        let pixels = at(0.0, 0.0);
        assert_eq!(pixels, at(150.0, 99.0), "the position on the canvas does not matter");
        let row = &pixels[128 * SIDE..129 * SIDE];
        assert_eq!((row[0], row[4], row[128], row[251], row[255]), (255, 255, 0, 255, 255));
        let dark = row.iter().filter(|&&p| p < 128).count();
        assert!((236..=242).contains(&dark), "{dark}");
        let column: Vec<u8> = (0..SIDE).map(|y| pixels[y * SIDE + 128]).collect();
        assert_eq!(column.iter().filter(|&&p| p < 128).count(), 10, "line width");
    }

    #[test]
    fn edges_are_smooth_and_dots_stay_small() {
        let pixels =
            drawing(&[&[[0.0, 0.0], [100.0, 71.0]]]).draw(&Cancel::default()).unwrap();
        assert!(pixels.iter().any(|&p| (20..235).contains(&p)), "grey pixels at the edges");
        let dot = drawing(&[&[[5.0, 5.0]]]).draw(&Cancel::default()).unwrap();
        let ink = dot.iter().filter(|&&p| p < 128).count();
        assert!((60..120).contains(&ink), "{ink}");
    }

    /// Pixels against the distance to the nearest segment, up to the accuracy of anti-aliasing.
    #[test]
    fn pixels_agree_with_distances() {
        let zigzag =
            [[30.0, 40.0], [200.0, 60.0], [60.0, 150.0], [60.0, 150.0], [220.0, 230.0]];
        let crossing = [[40.0, 200.0], [210.0, 30.0]];
        let strokes = [zigzag.to_vec(), crossing.to_vec(), vec![[128.0, 20.0]]];
        let pixels = rasterise(strokes.clone().into_iter(), &Cancel::default()).unwrap();
        let distance = |x: f32, y: f32, a: [f32; 2], b: [f32; 2]| {
            let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
            let square = (dx * dx + dy * dy).max(f32::MIN_POSITIVE);
            let along = (((x - a[0]) * dx + (y - a[1]) * dy) / square).clamp(0.0, 1.0);
            (x - a[0] - along * dx).hypot(y - a[1] - along * dy)
        };
        for (at, &pixel) in pixels.iter().enumerate() {
            let (x, y) = ((at % SIDE) as f32 + 0.5, (at / SIDE) as f32 + 0.5);
            let ends = |stroke: &Vec<[f32; 2]>| {
                let last = stroke[stroke.len() - 1];
                let pairs = stroke.windows(2).map(|pair| (pair[0], pair[1]));
                pairs.chain([(last, last)]).collect::<Vec<_>>()
            };
            let far = strokes.iter().flat_map(ends).map(|(a, b)| distance(x, y, a, b));
            let far = far.fold(f32::INFINITY, f32::min);
            let grey = f32::from(pixel);
            assert!(far > HALF - 1.0 || grey == 0.0, "({x}, {y}): {grey} at {far}");
            assert!(far < HALF + 1.0 || grey == 255.0, "({x}, {y}): {grey} at {far}");
        }
    }

    #[test]
    fn invalid_drawings_are_rejected() {
        assert!(drawing(&[]).to_png(&Cancel::default()).is_err());
        assert!(drawing(&[&[[f32::NAN, 0.0]]]).to_png(&Cancel::default()).is_err());
        assert!(drawing(&[&[[1e30, 0.0]]]).to_png(&Cancel::default()).is_err());
        assert!(
            drawing(&[&vec![[0.0, 0.0]; MAX_POINTS + 1]])
                .to_png(&Cancel::default())
                .is_err()
        );
        let flat = Drawing { width: 0.0, ..drawing(&[&[[0.0, 0.0]]]) };
        assert!(flat.to_png(&Cancel::default()).is_err());
    }

    /// Segments across the whole canvas, as many as are allowed: less than a second, where one
    /// outline took tens of seconds.
    #[test]
    fn the_largest_drawing_takes_little_time() {
        let point = |k: usize| [(k * 7919 % 1000) as f32, (k * 104_729 % 997) as f32];
        let wild: Vec<[f32; 2]> = (0..MAX_POINTS).map(point).collect();
        let started = std::time::Instant::now();
        let pixels = drawing(&[&wild]).draw(&Cancel::default()).unwrap();
        assert!(pixels.iter().filter(|&&p| p < 128).count() > SIDE * SIDE / 2);
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(drawing(&[&wild]).draw(&cancel).is_err());
    }

    #[test]
    fn pieces_of_a_stroke_overlap() {
        let stroke: Vec<[f32; 2]> = (0..=2 * PIECE).map(|k| [k as f32, 0.0]).collect();
        let lengths: Vec<usize> = pieces(&stroke).map(<[_]>::len).collect();
        assert_eq!(lengths, [PIECE + 1, PIECE + 1]);
        assert_eq!(pieces(&stroke).nth(1).unwrap()[0], stroke[PIECE]);
        assert_eq!(pieces(&stroke[..1]).count(), 1);
        assert_eq!(
            pieces(&stroke[..PIECE + 2]).map(<[_]>::len).collect::<Vec<_>>(),
            [PIECE + 1, 2]
        );
    }
}
