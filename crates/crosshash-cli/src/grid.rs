//! Tables (the first line is the header) as text, Markdown, HTML and LaTeX.

use std::fmt::Write as _;

/// As text, columns aligned to the right.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    };
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(out, "{cell:>width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// As Markdown.
pub(crate) fn markdown(lines: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let Some((heads, rows)) = lines.split_first() else { return String::new() };
    let mut out = line(heads) + &line(&vec!["---".to_owned(); heads.len()]);
    rows.iter().for_each(|row| out += &line(row));
    out
}

/// As HTML.
pub(crate) fn html(lines: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| {
            let cell = escaped(cell).replace(BOLD, "<b>").replace(PLAIN, "</b>");
            format!("<{tag}>{cell}</{tag}>")
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let Some((heads, rows)) = lines.split_first() else { return String::new() };
    let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!(
        "<table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table>\n",
        row(heads, "th")
    )
}

/// As LaTeX, for the package booktabs.
pub(crate) fn latex(lines: &[Vec<String>]) -> String {
    let cell = |cell: &String| {
        let mut out = String::new();
        for c in cell.chars() {
            match c {
                '%' | '&' | '#' | '_' | '$' | '{' | '}' => out.extend(['\\', c]),
                '\\' => out.push_str("\\textbackslash{}"),
                '±' => out.push_str("$\\pm$"),
                BOLD => out.push_str("\\textbf{"),
                PLAIN => out.push('}'),
                c => out.push(c),
            }
        }
        out.replace(" -> ", " $\\to$ ").replace('<', "$<$")
    };
    let line = |cells: &[String]| {
        cells.iter().map(cell).collect::<Vec<_>>().join(" & ") + " \\\\\n"
    };
    let Some((heads, rows)) = lines.split_first() else { return String::new() };
    let body: String = rows.iter().map(|cells| line(cells)).collect();
    format!(
        "\\begin{{tabular}}{{l{}}}\n\\toprule\n{}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n",
        "r".repeat(heads.len().saturating_sub(1)),
        line(heads)
    )
}

/// Marks of bold text, which [`html`] and [`latex`] translate.
const BOLD: char = '\u{1}';
const PLAIN: char = '\u{2}';

/// Text that is bold in HTML and LaTeX.
pub(crate) fn marked(text: &str) -> String {
    format!("{BOLD}{text}{PLAIN}")
}

/// Text escaped for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_three_forms() {
        let lines = [vec!["a".to_owned(), "long".into()], vec!["x<y".into(), "1".into()]];
        assert_eq!(aligned(&lines), "  a  long\nx<y     1\n");
        assert_eq!(markdown(&lines), "| a | long |\n| --- | --- |\n| x<y | 1 |\n");
        assert!(html(&lines).contains("<td>x&lt;y</td><td>1</td>"));
        let best = [vec!["a_b".to_owned()], vec![marked("0.5 ± 0.1")]];
        assert!(html(&best).contains("<td><b>0.5 ± 0.1</b></td>"));
        let tex = latex(&best);
        assert!(
            tex.contains("a\\_b \\\\\n") && tex.contains("\\textbf{0.5 $\\pm$ 0.1} \\\\"),
            "{tex}"
        );
        assert!(tex.starts_with("\\begin{tabular}{l}\n\\toprule"), "{tex}");
    }
}
