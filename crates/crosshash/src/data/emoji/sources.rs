//! Sources of the emoji: crates with pictures and fonts, and a table of words.
//!
//! | what | crate | licence |
//! |---|---|---|
//! | colour pictures, 72 x 72 | `twemoji-assets` (Twemoji) | code MIT, graphics CC-BY 4.0: Copyright Twitter, Inc and other contributors |
//! | drawings | `epaint_default_fonts`: Noto Emoji, and `emoji-icon-font` as a second font | OFL 1.1; MIT |
//! | names, keywords, groups, subgroups | `table.tsv` beside this file (Unicode CLDR 38) | Unicode licence |

use ab_glyph::{Font as _, FontRef, Glyph, PxScale};
pub use crosshash_features::backbone::{DRAWING_MARGIN, DRAWING_SIZE, PICTURE_SIZE};
use twemoji_assets::png::PngTwemojiAsset;

use crate::data::Raster;
use crate::{Error, Result, picture};

/// Selects the presentation as a picture; an emoji with and without it is the same.
const PRESENTATION: char = '\u{fe0f}';

/// A font of black drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// Noto Emoji.
    Noto,
    /// `emoji-icon-font`.
    Icon,
}

/// One row of the table.
pub(super) struct Emoji {
    pub(super) glyph: &'static str,
    pub(super) group: &'static str,
    pub(super) subgroup: &'static str,
    pub(super) name: &'static str,
    pub(super) keywords: Vec<&'static str>,
}

/// All emoji once each, in the order of their code points, without [`PRESENTATION`].
pub(super) fn all() -> impl Iterator<Item = Emoji> {
    let rows = include_str!("table.tsv").lines().filter(|line| !line.starts_with("# "));
    rows.map(|row| {
        let mut fields = row.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (glyph, group, subgroup, name) = (next(), next(), next(), next());
        let keywords = next().split('|').filter(|keyword| !keyword.is_empty()).collect();
        Emoji { glyph, group, subgroup, name, keywords }
    })
}

/// The colour picture of an emoji on white, if there is one.
pub fn picture(glyph: &str) -> Result<Option<Raster>> {
    let asset = PngTwemojiAsset::from_emoji(glyph)
        .or_else(|| PngTwemojiAsset::from_emoji(&plain(glyph)));
    asset.map(|asset| decode(asset, glyph)).transpose()
}

/// The drawing of an emoji in a font, black on white, if there is one; only emoji of a single code point
/// have drawings.
pub fn drawing(glyph: &str, hand: Hand) -> Result<Option<Raster>> {
    let plain = plain(glyph);
    let mut code_points = plain.chars();
    let (Some(code_point), None) = (code_points.next(), code_points.next()) else {
        return Ok(None);
    };
    let bytes = match hand {
        Hand::Noto => epaint_default_fonts::NOTO_EMOJI_REGULAR,
        Hand::Icon => epaint_default_fonts::EMOJI_ICON,
    };
    let font = FontRef::try_from_slice(bytes)
        .map_err(|err| Error::content(format!("the built-in emoji font: {err}")))?;
    Ok(rasterise(&font, code_point))
}

/// An emoji without [`PRESENTATION`].
pub(super) fn plain(glyph: &str) -> String {
    glyph.chars().filter(|&c| c != PRESENTATION).collect()
}

fn decode(bytes: &[u8], glyph: &str) -> Result<Raster> {
    let wrong =
        |err: String| Error::content(format!("the built-in picture of {glyph}: {err}"));
    let picture = picture::decode(bytes, &picture::Limits::default())
        .map_err(|err| wrong(err.to_string()))?;
    match (picture.width(), picture.height()) {
        (PICTURE_SIZE, PICTURE_SIZE) => {
            Ok(Raster::new(PICTURE_SIZE, 3, picture.rgb().to_vec()))
        }
        (width, height) => Err(wrong(format!("{width} x {height} pixels"))),
    }
}

/// A glyph, scaled and centred to fill the square except for the margin.
fn rasterise(font: &FontRef<'_>, code_point: char) -> Option<Raster> {
    const TRIAL: f32 = 1000.0;
    let id = font.glyph_id(code_point);
    if id.0 == 0 {
        return None;
    }
    let outline = |scale: f32| {
        let glyph: Glyph = id.with_scale(PxScale::from(scale));
        font.outline_glyph(glyph)
    };
    let bounds = outline(TRIAL)?.px_bounds();
    let room = (DRAWING_SIZE - 2 * DRAWING_MARGIN) as f32;
    let outlined = outline(TRIAL * room / bounds.width().max(bounds.height()))?;
    let bounds = outlined.px_bounds();
    let mut pixels = vec![255_u8; DRAWING_SIZE * DRAWING_SIZE];
    let start = |extent: f32| (DRAWING_SIZE as f32 - extent).max(0.0) / 2.0;
    #[expect(clippy::cast_possible_truncation, reason = "both are between 0 and 255")]
    #[expect(clippy::cast_sign_loss, reason = "both are between 0 and 255")]
    let (left, top, grey) =
        (start(bounds.width()) as usize, start(bounds.height()) as usize, |ink: f32| {
            (255.0 * (1.0 - ink.clamp(0.0, 1.0))) as u8
        });
    outlined.draw(|x, y, ink| {
        let (x, y) = (left + x as usize, top + y as usize);
        if x < DRAWING_SIZE && y < DRAWING_SIZE {
            pixels[y * DRAWING_SIZE + x] = grey(ink);
        }
    });
    Some(Raster::new(DRAWING_SIZE, 1, pixels))
}
