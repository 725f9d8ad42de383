//! The HTML report of the demo: the table and example searches with pictures, and a folder of PNG
//! files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use crosshash::data::emoji::{Hand, Item, drawing, picture};
use crosshash_codes::write::atomically;

use super::Found;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#222}
pre{background:#f4f4f4;padding:1rem;overflow-x:auto}
.row{display:flex;gap:.5rem;align-items:stretch;margin:.5rem 0;flex-wrap:wrap}
.item{width:6rem;padding:.4rem;border:2px solid #ddd;border-radius:.5rem;text-align:center;
font-size:.75rem;line-height:1.2}
.item img{width:64px;height:64px;object-fit:contain}
.query{border-color:#222}.right{border-color:#009e73}.wrong{border-color:#d55e00}";

/// Writes `report.html` and its pictures; returns the path of the report.
pub(super) fn write(
    folder: &Path,
    items: &[Item],
    table: &str,
    found: &[Found],
) -> Result<PathBuf> {
    let mut pictures = BTreeSet::new();
    let mut body = String::new();
    let mut heading = String::new();
    for Found { from, to, query, hits } in found {
        let now = format!("Query: {from}, database: {to}");
        if now != heading {
            let _ = write!(body, "<h2>{now}</h2>");
            heading = now;
        }
        body += "<div class=\"row\">";
        body += &shown(items, from, query, "query", "query", &mut pictures);
        for (id, far, right) in hits {
            let class = if *right { "right" } else { "wrong" };
            let note = format!("distance {far}");
            body += &shown(items, to, id, class, &note, &mut pictures);
        }
        body += "</div>\n";
    }
    let place = folder.join("pictures");
    fs_err::create_dir_all(&place)?;
    for (modality, id) in &pictures {
        let Some(item) = item(items, id) else { continue };
        let hand = if id.ends_with("-icon") { Hand::Icon } else { Hand::Noto };
        let raster = match modality.as_str() {
            "drawing" => drawing(item.glyph, hand)?,
            _ => picture(item.glyph)?,
        };
        if let Some(raster) = raster {
            let png = raster.to_png()?;
            let path = place.join(format!("{modality}-{id}.png"));
            atomically(&path, |out| Ok(out.write_all(&png)?))?;
        }
    }
    let html = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>crosshash demo</title><style>{STYLE}</style>\n\
         <h1>Emoji as pictures, drawings and words</h1>\n\
         <p>Each item is a binary code, trained so that items of all three modalities that share \
         a label are close. The queries were not used in training. Green: the result shares a \
         label with the query; red: it does not.</p>\n<pre>{}</pre>\n{body}\
         <p>Pictures: Twemoji, CC-BY 4.0, copyright Twitter, Inc and other contributors. \
         Drawings: Noto Emoji, OFL 1.1, and emoji-icon-font, MIT. Words: Unicode CLDR.</p></html>\n",
        escaped(table)
    );
    let page = folder.join("report.html");
    atomically(&page, |out| Ok(out.write_all(html.as_bytes())?))?;
    Ok(page)
}

/// The emoji with this id, in any drawing style.
pub(super) fn item<'a>(items: &'a [Item], id: &str) -> Option<&'a Item> {
    let id = id.strip_suffix("-icon").unwrap_or(id);
    items.iter().find(|item| item.id == id)
}

fn shown(
    items: &[Item],
    modality: &str,
    id: &str,
    class: &str,
    note: &str,
    pictures: &mut BTreeSet<(String, String)>,
) -> String {
    let item = item(items, id);
    let name = escaped(item.map_or(id, |item| item.name));
    let content = match modality {
        "words" => escaped(&item.map_or(String::new(), Item::words)),
        _ => {
            pictures.insert((modality.to_owned(), id.to_owned()));
            format!("<img src=\"pictures/{modality}-{id}.png\" alt=\"{name}\"><br>{name}")
        }
    };
    format!("<div class=\"item {class}\">{content}<br><small>{note}</small></div>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
