//! Renders SVG with `resvg` on a white background.
//!
//! Nothing outside the file is read: no fonts (text is not drawn) and no linked or embedded
//! pictures. The longer side is rendered with the size declared in the file, between [`SMALLEST`]
//! and [`LARGEST`] pixels. What rendering may cost is limited before it begins (`svg/budget.rs`).

mod budget;

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{ImageHrefResolver, Options, Tree, roxmltree};

use super::Picture;
use crate::{Error, Result};

const SMALLEST: f32 = 256.0;
const LARGEST: f32 = 1024.0;

pub(super) fn render(bytes: &[u8]) -> Result<Picture> {
    let invalid = |err: &dyn std::fmt::Display| {
        Error::content(format!("damaged or invalid SVG: {err}"))
    };
    let options = Options {
        resources_dir: None,
        image_href_resolver: ImageHrefResolver {
            resolve_data: Box::new(|_, _, _| None),
            resolve_string: Box::new(|_, _| None),
        },
        ..Options::default()
    };
    let text = std::str::from_utf8(bytes).map_err(|err| invalid(&err))?;
    let parsing = roxmltree::ParsingOptions {
        allow_dtd: true,
        nodes_limit: budget::MAX_NODES,
        ..roxmltree::ParsingOptions::default()
    };
    let document = roxmltree::Document::parse_with_options(text, parsing);
    let document = document.map_err(|err| invalid(&err))?;
    budget::check_document(&document)?;
    let tree = Tree::from_xmltree(&document, &options).map_err(|err| invalid(&err))?;
    drop(document);
    let (width, height) = (tree.size().width(), tree.size().height());
    let longer = width.max(height);
    let scale = longer.clamp(SMALLEST, LARGEST) / longer;
    #[expect(clippy::cast_possible_truncation, reason = "between 1 and LARGEST")]
    #[expect(clippy::cast_sign_loss, reason = "between 1 and LARGEST")]
    let pixels = |side: f32| (side * scale).round().clamp(1.0, LARGEST) as u32;
    let (across, down) = (pixels(width), pixels(height));
    let mut map = Pixmap::new(across, down)
        .ok_or_else(|| Error::content(format!("invalid SVG size {width} x {height}")))?;
    map.fill(Color::WHITE);
    let fit = Transform::from_scale(across as f32 / width, down as f32 / height);
    budget::check_tree(&tree, fit, [across, down])?;
    resvg::render(&tree, fit, &mut map.as_mut());
    let rgb = map.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    Ok(Picture::new(across as usize, down as usize, rgb.collect()))
}

#[cfg(test)]
mod tests;
