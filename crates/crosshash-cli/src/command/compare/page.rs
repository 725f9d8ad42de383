//! The comparison as a self-contained HTML page: table and figures.

use std::path::PathBuf;

use anyhow::Result;

use super::Table;
use crate::grid::{self, escaped};

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:1400px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse}th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}tbody tr:hover{background:#f4f4f4}\
svg{max-width:100%;height:auto}code{background:#f4f4f4;padding:.2em .4em}";

/// The page; `figures` are SVG files.
pub(super) fn page(
    data: &str,
    command: &str,
    table: &Table,
    figures: &[PathBuf],
) -> Result<String> {
    let mut body = format!("<h1>Methods on {}</h1>\n", escaped(data));
    body += &grid::html(&table.lines(grid::marked));
    for note in table.notes() {
        body += &format!("<p>{}</p>\n", escaped(&note));
    }
    for figure in figures {
        body += &format!("<figure>{}</figure>\n", fs_err::read_to_string(figure)?);
    }
    body += &format!("<p>Created by <code>{}</code></p>\n", escaped(command));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Methods on {}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escaped(data)
    ))
}
