//! Budgets of an SVG, checked before it is rendered: a few hundred bytes can ask for hours of work or
//! gigabytes of memory.
//!
//! The document is checked before it is converted: elements, and the longest path through children
//! and references (`url(#id)`, `href`), which the converter follows recursively. The converted tree
//! is then walked as the renderer walks it, shared parts as often as they are drawn, and the pixels
//! that it writes are added up.

use std::collections::HashMap;

use resvg::tiny_skia::{Rect, Transform};
use resvg::usvg::filter::{Filter, Kind};
use resvg::usvg::{ClipPath, Group, Mask, Node, Paint, Path, Tree, roxmltree};

use crate::{Error, Result};

/// The most nodes of the document.
pub(super) const MAX_NODES: u32 = 250_000;
/// The longest path through children and references in the document.
const MAX_PATH: u32 = 256;
/// The most elements when every reference is replaced by a copy: the converter copies.
const MAX_EXPANDED: u64 = 1_000_000;
/// The deepest nesting of groups, patterns, masks, clip paths and filters while rendering.
const MAX_DEPTH: usize = 64;
/// The most nodes that are drawn.
const MAX_DRAWN: usize = 500_000;
/// The most operations on pixels, several seconds of work.
const MAX_WORK: f64 = 4e9;
/// The most memory of nested layers in bytes.
const MAX_LAYERS: f64 = 160e6;
/// Layers reach at most this far beyond the picture on each side (`resvg` limits them so).
const REACH: f32 = 2.0;

fn refused(what: &str) -> Error {
    Error::content(format!("the SVG is too complex: {what}; simplify it"))
}

/// Checks the document.
pub(super) fn check_document(document: &roxmltree::Document<'_>) -> Result<()> {
    let nodes: Vec<roxmltree::Node<'_, '_>> = document.descendants().collect();
    // Ids of a document count in order: a node's number is its place in `nodes`.
    let number = |node: &roxmltree::Node<'_, '_>| node.id().get_usize();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    for node in &nodes {
        if let Some(id) = node.attribute("id") {
            by_id.entry(id).or_insert(number(node));
        }
    }
    let next = |node: &roxmltree::Node<'_, '_>| -> Vec<usize> {
        let children = node.children().filter(|child| child.is_element());
        let mut all: Vec<usize> = children.map(|child| number(&child)).collect();
        for attribute in node.attributes() {
            let value = attribute.value();
            let own = (attribute.name() == "href").then(|| value.trim().strip_prefix('#'));
            let links = value.split("url(").skip(1).filter_map(|rest| {
                let end = rest.find(')')?;
                rest[..end].trim().trim_matches(['"', '\'']).strip_prefix('#')
            });
            let targets = links.chain(own.flatten());
            all.extend(targets.filter_map(|id| by_id.get(id).copied()));
        }
        all
    };
    // Depth-first without recursion; the longest path from a node is known when it is left. A
    // reference to a node that is still open is a cycle, which the converter breaks.
    const NEW: u32 = 0;
    const OPEN: u32 = u32::MAX;
    let mut longest = vec![NEW; nodes.len()];
    let mut expanded = vec![1_u64; nodes.len()];
    let root = number(&document.root_element());
    let mut open = vec![(root, next(&nodes[root]), 1)];
    longest[root] = OPEN;
    while let Some((node, left, best)) = open.last_mut() {
        match left.pop() {
            Some(target) => match longest[target] {
                NEW => {
                    longest[target] = OPEN;
                    open.push((target, next(&nodes[target]), 1));
                }
                OPEN => {}
                known => {
                    *best = (*best).max(known + 1);
                    expanded[*node] = expanded[*node].saturating_add(expanded[target]);
                }
            },
            None => {
                let (node, best) = (*node, *best);
                longest[node] = best;
                open.pop();
                if let Some((parent, _, above)) = open.last_mut() {
                    *above = (*above).max(best + 1);
                    expanded[*parent] = expanded[*parent].saturating_add(expanded[node]);
                }
                if expanded[node] > MAX_EXPANDED {
                    return Err(refused(&format!(
                        "it has more than {MAX_EXPANDED} elements with all references"
                    )));
                }
                if best > MAX_PATH {
                    return Err(refused(&format!(
                        "elements and references are nested more than {MAX_PATH} levels deep"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Checks what rendering costs.
pub(super) fn check_tree(
    tree: &Tree,
    fit: Transform,
    [width, height]: [u32; 2],
) -> Result<()> {
    let (width, height) = (width as f32, height as f32);
    let room = Rect::from_xywh(
        -REACH * width,
        -REACH * height,
        (2.0 * REACH + 1.0) * width,
        (2.0 * REACH + 1.0) * height,
    );
    let canvas = Rect::from_xywh(0.0, 0.0, width, height);
    let (Some(room), Some(canvas)) = (room, canvas) else {
        return Err(refused("its size"));
    };
    let mut meter = Meter { room, canvas, drawn: 0, work: 0.0, layers: 0.0, depth: 0 };
    meter.nodes(tree.root(), fit)
}

/// Adds up what rendering costs.
struct Meter {
    /// The largest area of a layer.
    room: Rect,
    canvas: Rect,
    drawn: usize,
    work: f64,
    /// Bytes of the layers that are open.
    layers: f64,
    depth: usize,
}

impl Meter {
    fn spend(&mut self, work: f64) -> Result<()> {
        self.work += work;
        if self.work > MAX_WORK {
            return Err(refused("filters, patterns and layers take too much time"));
        }
        Ok(())
    }

    /// Measures a nested part.
    fn nested(&mut self, measure: impl FnOnce(&mut Meter) -> Result<()>) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(refused(&format!(
                "groups, patterns, masks and clip paths are nested more than {MAX_DEPTH} levels \
                 deep"
            )));
        }
        measure(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Measures what is drawn while a layer of this many pixels is open.
    fn layer(
        &mut self,
        pixels: f64,
        measure: impl FnOnce(&mut Meter) -> Result<()>,
    ) -> Result<()> {
        let bytes = pixels * 4.0;
        self.layers += bytes;
        if self.layers > MAX_LAYERS {
            return Err(refused("nested layers take too much memory"));
        }
        self.spend(pixels * 4.0)?;
        self.nested(measure)?;
        self.layers -= bytes;
        Ok(())
    }

    fn nodes(&mut self, group: &Group, transform: Transform) -> Result<()> {
        for node in group.children() {
            self.drawn += 1;
            if self.drawn > MAX_DRAWN {
                return Err(refused(&format!("more than {MAX_DRAWN} elements are drawn")));
            }
            match node {
                Node::Group(group) => self.group(group, transform)?,
                Node::Path(path) => self.path(path, transform)?,
                Node::Text(text) => self.group(text.flattened(), transform)?,
                Node::Image(_) => {}
            }
        }
        Ok(())
    }

    fn group(&mut self, group: &Group, transform: Transform) -> Result<()> {
        let transform = transform.pre_concat(group.transform());
        if !group.should_isolate() {
            return self.nested(|meter| meter.nodes(group, transform));
        }
        let bounds = group.layer_bounding_box().to_rect();
        let pixels = area(bounds, transform, self.room);
        self.layer(pixels, |meter| {
            meter.nodes(group, transform)?;
            for filter in group.filters() {
                meter.filter(filter, transform, pixels)?;
            }
            if let Some(clip) = group.clip_path() {
                meter.clip(clip, transform, pixels)?;
            }
            if let Some(mask) = group.mask() {
                meter.mask(mask, transform, pixels)?;
            }
            Ok(())
        })
    }

    fn clip(&mut self, clip: &ClipPath, transform: Transform, pixels: f64) -> Result<()> {
        self.layer(pixels, |meter| {
            meter.nodes(clip.root(), transform.pre_concat(clip.transform()))?;
            clip.clip_path().map_or(Ok(()), |inner| meter.clip(inner, transform, pixels))
        })
    }

    fn mask(&mut self, mask: &Mask, transform: Transform, pixels: f64) -> Result<()> {
        // its pixels and the mask made of them
        self.layer(pixels * 1.5, |meter| {
            meter.nodes(mask.root(), transform)?;
            mask.mask().map_or(Ok(()), |inner| meter.mask(inner, transform, pixels))
        })
    }

    fn path(&mut self, path: &Path, transform: Transform) -> Result<()> {
        let bounds = path.stroke_bounding_box();
        let pixels = area(bounds, transform, self.canvas);
        let segments = path.data().len() as f64;
        let fill = path.fill().map(resvg::usvg::Fill::paint);
        let stroke = path.stroke().map(resvg::usvg::Stroke::paint);
        for paint in [fill, stroke].into_iter().flatten() {
            self.spend(pixels + segments * 50.0)?;
            if let Paint::Pattern(pattern) = paint {
                let inner = transform.pre_concat(pattern.transform());
                let (sx, sy) = scales(inner);
                let rect = pattern.rect();
                let size = f64::from(rect.width() * sx) * f64::from(rect.height() * sy);
                let most = f64::from(self.room.width()) * f64::from(self.room.height());
                if !size.is_finite() || size > most {
                    return Err(refused("the tile of a pattern is too large"));
                }
                self.layer(size, |meter| {
                    meter.nodes(pattern.root(), Transform::from_scale(sx, sy))
                })?;
            }
        }
        Ok(())
    }

    fn filter(&mut self, filter: &Filter, transform: Transform, layer: f64) -> Result<()> {
        let (sx, sy) = scales(transform);
        let pixels =
            layer.min(area(filter.rect().to_rect(), transform, self.room)).max(1.0);
        for primitive in filter.primitives() {
            let side = f64::from(self.room.width().max(self.room.height()));
            let across =
                |radius: f32, scale: f32| (2.0 * f64::from(radius * scale) + 1.0).min(side);
            let each = match primitive.kind() {
                Kind::Morphology(one) => {
                    across(one.radius_x().get(), sx) * across(one.radius_y().get(), sy)
                }
                Kind::Turbulence(one) => 100.0 * f64::from(one.num_octaves()),
                Kind::ConvolveMatrix(one) => {
                    8.0 * f64::from(one.matrix().columns()) * f64::from(one.matrix().rows())
                }
                Kind::DiffuseLighting(_) | Kind::SpecularLighting(_) => 60.0,
                Kind::GaussianBlur(_) | Kind::DropShadow(_) => 60.0,
                Kind::Merge(one) => 8.0 * one.inputs().len() as f64,
                Kind::Image(one) => {
                    self.layer(pixels, |meter| meter.nodes(one.root(), transform))?;
                    8.0
                }
                _ => 16.0,
            };
            // Results of primitives are kept until the filter is complete.
            self.spend(pixels * each)?;
        }
        let results = pixels * 4.0 * filter.primitives().len() as f64;
        if self.layers + results > MAX_LAYERS {
            return Err(refused("filters take too much memory"));
        }
        Ok(())
    }
}

/// Factors by which a transform scales both directions.
fn scales(transform: Transform) -> (f32, f32) {
    (transform.sx.hypot(transform.ky), transform.kx.hypot(transform.sy))
}

/// Pixels of a rectangle after a transform, within some room.
fn area(bounds: Rect, transform: Transform, room: Rect) -> f64 {
    let bounds = bounds.transform(transform).and_then(|bounds| bounds.intersect(&room));
    bounds.map_or(0.0, |bounds| f64::from(bounds.width()) * f64::from(bounds.height()))
}
