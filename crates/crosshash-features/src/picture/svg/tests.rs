//! Tests of SVG budgets: small files that ask for a lot.

use super::render;

fn document(body: &str) -> Vec<u8> {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"1000\" \
         viewBox=\"0 0 100 100\">{body}</svg>"
    )
    .into_bytes()
}

/// Renders with the stack of a worker.
fn refusal(body: &str) -> String {
    let file = document(body);
    let thread = std::thread::Builder::new().stack_size(32 << 20);
    let result = thread.spawn(move || render(&file)).unwrap().join().unwrap();
    result.unwrap_err().to_string()
}

/// A chain of definitions, each of which uses the next.
fn chain(levels: usize, one: impl Fn(usize) -> String) -> String {
    (0..levels).map(one).collect()
}

#[test]
fn nested_paint_servers_are_refused() {
    let patterns = chain(400, |k| {
        format!(
            "<pattern id=\"m{k}\" width=\"1\" height=\"1\"><rect width=\"9\" height=\"9\" \
             fill=\"url(#m{})\"/></pattern>",
            k + 1
        )
    });
    let err =
        refusal(&format!("{patterns}<rect width=\"9\" height=\"9\" fill=\"url(#m0)\"/>"));
    assert!(err.contains("nested more than 256 levels"), "{err}");
    let masks = chain(400, |k| {
        format!(
            "<mask id=\"m{k}\"><rect width=\"9\" height=\"9\" mask='url( \"#m{}\" )'/></mask>",
            k + 1
        )
    });
    let err =
        refusal(&format!("{masks}<rect width=\"9\" height=\"9\" mask=\"url(#m0)\"/>"));
    assert!(err.contains("nested more than"), "{err}");
    let images = chain(400, |k| {
        format!(
            "<filter id=\"f{k}\"><feImage href=\"#r{k}\"/></filter><rect id=\"r{k}\" width=\"9\" \
             height=\"9\" filter=\"url(#f{})\"/>",
            k + 1
        )
    });
    let err =
        refusal(&format!("{images}<rect width=\"9\" height=\"9\" filter=\"url(#f0)\"/>"));
    assert!(err.contains("nested more than"), "{err}");
    // The same through a style sheet, which only the converted tree shows.
    let styles = chain(100, |k| format!(".c{k}{{fill:url(#m{})}}", k + 1));
    let patterns = chain(100, |k| {
        format!(
            "<pattern id=\"m{k}\" width=\"1\" height=\"1\"><rect width=\"9\" height=\"9\" \
             class=\"c{k}\"/></pattern>"
        )
    });
    let err = refusal(&format!(
        "<style>{styles}</style>{patterns}<rect width=\"9\" height=\"9\" fill=\"url(#m0)\"/>"
    ));
    assert!(err.contains("nested more than 64 levels"), "{err}");
}

#[test]
fn parts_that_double_are_refused() {
    let patterns = chain(40, |k| {
        let uses =
            format!("<rect width=\"9\" height=\"9\" fill=\"url(#m{})\"/>", k + 1).repeat(2);
        format!("<pattern id=\"m{k}\" width=\"9\" height=\"9\">{uses}</pattern>")
    });
    let err =
        refusal(&format!("{patterns}<rect width=\"9\" height=\"9\" fill=\"url(#m0)\"/>"));
    assert!(err.contains("too complex"), "{err}");
}

#[test]
fn expensive_filters_are_refused() {
    for filter in [
        "<feMorphology radius=\"500\"/>",
        "<feTurbulence numOctaves=\"1000000\" baseFrequency=\"0.1\"/>",
        &"<feGaussianBlur stdDeviation=\"5\"/>".repeat(500),
    ] {
        let err = refusal(&format!(
            "<filter id=\"f\">{filter}</filter><rect width=\"90\" height=\"90\" \
             filter=\"url(#f)\"/>"
        ));
        assert!(err.contains("too complex"), "{filter}: {err}");
    }
}

#[test]
fn layers_are_bounded() {
    let clips = chain(200, |k| {
        format!(
            "<clipPath id=\"c{k}\" clip-path=\"url(#c{})\"><rect width=\"90\" height=\"90\"/></clipPath>",
            k + 1
        )
    });
    let err = refusal(&format!(
        "{clips}<rect width=\"90\" height=\"90\" clip-path=\"url(#c0)\"/>"
    ));
    assert!(err.contains("too complex"), "{err}");
    let rect = "<rect x=\"-900\" y=\"-900\" width=\"2000\" height=\"2000\"/>";
    let groups =
        format!("{}{rect}{rect}{}", "<g opacity=\".9\">".repeat(200), "</g>".repeat(200));
    let err = refusal(&groups);
    assert!(err.contains("too complex"), "{err}");
}

#[test]
fn ordinary_effects_are_rendered() {
    let body = "<defs><linearGradient id=\"a\"><stop stop-color=\"red\"/></linearGradient>\
        <pattern id=\"p\" width=\"10\" height=\"10\" patternUnits=\"userSpaceOnUse\"><rect width=\"5\" \
        height=\"5\" fill=\"url(#a)\"/></pattern><filter id=\"f\"><feGaussianBlur \
        stdDeviation=\"3\"/><feMorphology radius=\"1\"/></filter><mask id=\"m\"><rect \
        width=\"80\" height=\"80\" fill=\"white\"/></mask><clipPath id=\"c\"><circle cx=\"50\" \
        cy=\"50\" r=\"40\"/></clipPath></defs><g opacity=\".5\"><g clip-path=\"url(#c)\"><rect \
        width=\"90\" height=\"90\" fill=\"url(#p)\" filter=\"url(#f)\" mask=\"url(#m)\"/></g></g>";
    let small = String::from_utf8(document(body)).unwrap().replace("\"1000\"", "\"100\"");
    let picture = render(small.as_bytes()).unwrap();
    assert!(picture.rgb().iter().any(|&value| value != 255));
}
