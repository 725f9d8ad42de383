//! From strokes to a picture: black round lines on white, as thick as the lines of the drawings
//! that models have seen, the drawing scaled to fill the square but for a margin.
//!
//! A pixel is as dark as the line covers it, by its distance from the line: no jagged edges.

use crosshash::data::Raster;
use serde::Deserialize;

use super::fault::{Answer, Fault};

/// Pixels a side.
const SIDE: usize = 256;
/// White around the drawing, as around the drawings of emoji: 2 of 64.
const MARGIN: f32 = 8.0;
/// Half the thickness of a line.
const HALF: f32 = 5.0;
/// Points of a drawing, at most.
const MOST: usize = 20_000;

/// Strokes in the frame they were drawn in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drawing {
    strokes: Vec<Vec<[f32; 2]>>,
    width: f32,
    height: f32,
}

impl Drawing {
    /// The drawing as the file of a picture.
    pub(crate) fn to_png(&self) -> Answer<Vec<u8>> {
        self.check()?;
        let raster = Raster::new(SIDE, 1, self.draw());
        raster.to_png().map_err(Fault::ours)
    }

    fn check(&self) -> Answer<()> {
        let points: usize = self.strokes.iter().map(Vec::len).sum();
        let finite = |p: &[f32; 2]| p.iter().all(|v| v.is_finite() && v.abs() < 1e7);
        if points == 0 {
            return Err(Fault::bad("no strokes; draw something"));
        }
        if points > MOST {
            return Err(Fault::bad(format!("{points} points; at most {MOST}")));
        }
        let frame = [self.width, self.height];
        if !frame.iter().all(|v| v.is_finite() && (1.0..=1e7).contains(v)) {
            return Err(Fault::bad("width and height are those of the canvas, 1 or more"));
        }
        if !self.strokes.iter().flatten().all(finite) {
            return Err(Fault::bad("a point far outside of any canvas"));
        }
        Ok(())
    }

    fn draw(&self) -> Vec<u8> {
        let points = || self.strokes.iter().flatten();
        let bound = |axis: usize| {
            points().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), p| {
                (low.min(p[axis]), high.max(p[axis]))
            })
        };
        let (x, y) = (bound(0), bound(1));
        // A dot does not become a blot: it is taken for a tenth of the canvas.
        let extent = (x.1 - x.0).max(y.1 - y.0).max(self.width.max(self.height) / 10.0);
        let scale = (SIDE as f32 - 2.0 * (MARGIN + HALF)) / extent;
        let middle = SIDE as f32 / 2.0;
        let place = |p: &[f32; 2]| {
            [
                (p[0] - f32::midpoint(x.0, x.1)) * scale + middle,
                (p[1] - f32::midpoint(y.0, y.1)) * scale + middle,
            ]
        };
        let mut ink = vec![0.0_f32; SIDE * SIDE];
        for stroke in &self.strokes {
            let stroke: Vec<[f32; 2]> = stroke.iter().map(place).collect();
            match stroke[..] {
                [] => {}
                [dot] => line(&mut ink, dot, dot),
                _ => stroke.windows(2).for_each(|pair| line(&mut ink, pair[0], pair[1])),
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "0 to 255")]
        #[expect(clippy::cast_sign_loss, reason = "0 to 255")]
        let grey = |ink: &f32| (255.0 * (1.0 - ink)).round() as u8;
        ink.iter().map(grey).collect()
    }
}

/// Draws a line with round ends; where lines cross, the darker counts.
fn line(ink: &mut [f32], a: [f32; 2], b: [f32; 2]) {
    let reach = HALF + 1.0;
    let span = |axis: usize| {
        let low = (a[axis].min(b[axis]) - reach).max(0.0);
        let high = (a[axis].max(b[axis]) + reach).clamp(0.0, (SIDE - 1) as f32);
        #[expect(clippy::cast_possible_truncation, reason = "within the square")]
        #[expect(clippy::cast_sign_loss, reason = "within the square")]
        (low as usize..=high as usize)
    };
    let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
    let square = dx * dx + dy * dy;
    for y in span(1) {
        for x in span(0) {
            let (px, py) = (x as f32 + 0.5 - a[0], y as f32 + 0.5 - a[1]);
            let along = if square > 0.0 {
                ((px * dx + py * dy) / square).clamp(0.0, 1.0)
            } else {
                0.0
            };
            let far = (px - along * dx).hypot(py - along * dy);
            let cover = (HALF + 0.5 - far).clamp(0.0, 1.0);
            let pixel = &mut ink[y * SIDE + x];
            *pixel = pixel.max(cover);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(strokes: &[&[[f32; 2]]]) -> Drawing {
        let strokes = strokes.iter().map(|stroke| stroke.to_vec()).collect();
        Drawing { strokes, width: 300.0, height: 200.0 }
    }

    #[test]
    fn a_line_fills_the_width_wherever_it_was_drawn() {
        let at = |dx: f32, dy: f32| {
            drawing(&[&[[10.0 + dx, 20.0 + dy], [110.0 + dx, 20.0 + dy]]]).draw()
        };
        let pixels = at(0.0, 0.0);
        assert_eq!(pixels, at(150.0, 99.0), "where it was drawn does not matter");
        let row = &pixels[128 * SIDE..129 * SIDE];
        assert_eq!((row[0], row[4], row[128], row[251], row[255]), (255, 255, 0, 255, 255));
        let dark = row.iter().filter(|&&p| p < 128).count();
        assert!((236..=242).contains(&dark), "{dark}");
        let column: Vec<u8> = (0..SIDE).map(|y| pixels[y * SIDE + 128]).collect();
        assert_eq!(
            column.iter().filter(|&&p| p < 128).count(),
            10,
            "as thick as it should be"
        );
    }

    #[test]
    fn edges_are_smooth_and_dots_are_dots() {
        let pixels = drawing(&[&[[0.0, 0.0], [100.0, 71.0]]]).draw();
        assert!(pixels.iter().any(|&p| (20..235).contains(&p)), "grey pixels at the edges");
        let dot = drawing(&[&[[5.0, 5.0]]]).draw();
        let ink = dot.iter().filter(|&&p| p < 128).count();
        assert!((60..120).contains(&ink), "{ink}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(drawing(&[]).to_png().is_err());
        assert!(drawing(&[&[[f32::NAN, 0.0]]]).to_png().is_err());
        assert!(drawing(&[&[[1e30, 0.0]]]).to_png().is_err());
        assert!(drawing(&[&vec![[0.0, 0.0]; MOST + 1]]).to_png().is_err());
        let flat = Drawing { width: 0.0, ..drawing(&[&[[0.0, 0.0]]]) };
        assert!(flat.to_png().is_err());
    }
}
