//! Shapes that people draw, as strokes in a square of side 1, y downwards.

use std::f64::consts::TAU;

pub(crate) type Stroke = Vec<(f64, f64)>;

/// Points on an arc; angles in turns, clockwise from the right.
pub(crate) fn arc((x, y): (f64, f64), radius: f64, from: f64, to: f64) -> Stroke {
    let point = |step: u32| {
        let turn = TAU * (from + (to - from) * f64::from(step) / 24.0);
        (x + radius * turn.cos(), y + radius * turn.sin())
    };
    (0..=24).map(point).collect()
}

/// Points on lines through corners.
fn line(corners: &[(f64, f64)]) -> Stroke {
    let mut stroke = Vec::new();
    for pair in corners.windows(2) {
        let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
        let between = |step: u32| {
            let share = f64::from(step) / 6.0;
            (ax + (bx - ax) * share, ay + (by - ay) * share)
        };
        stroke.extend((0..=6).map(between));
    }
    stroke
}

pub(crate) fn face() -> Vec<Stroke> {
    vec![
        arc((0.5, 0.5), 0.4, 0.0, 1.0),
        arc((0.36, 0.4), 0.035, 0.0, 1.0),
        arc((0.64, 0.4), 0.035, 0.0, 1.0),
        arc((0.5, 0.5), 0.22, 0.06, 0.44),
    ]
}

pub(crate) fn heart() -> Vec<Stroke> {
    let point = |step: u32| {
        let t = TAU * f64::from(step) / 40.0;
        let x = 16.0 * t.sin().powi(3);
        let y = 13.0 * t.cos()
            - 5.0 * (2.0 * t).cos()
            - 2.0 * (3.0 * t).cos()
            - (4.0 * t).cos();
        (0.5 + 0.4 * x / 17.0, 0.5 - 0.4 * y / 17.0)
    };
    vec![(0..=40).map(point).collect()]
}

pub(crate) fn house() -> Vec<Stroke> {
    vec![
        line(&[(0.2, 0.45), (0.2, 0.85), (0.8, 0.85), (0.8, 0.45)]),
        line(&[(0.12, 0.5), (0.5, 0.15), (0.88, 0.5)]),
        line(&[(0.43, 0.85), (0.43, 0.62), (0.57, 0.62), (0.57, 0.85)]),
    ]
}

pub(crate) fn arrow() -> Vec<Stroke> {
    vec![
        line(&[(0.12, 0.5), (0.88, 0.5)]),
        line(&[(0.62, 0.25), (0.88, 0.5), (0.62, 0.75)]),
    ]
}

pub(crate) fn umbrella() -> Vec<Stroke> {
    let mut handle = line(&[(0.5, 0.5), (0.5, 0.82)]);
    handle.extend(arc((0.43, 0.82), 0.07, 0.0, 0.5));
    vec![arc((0.5, 0.5), 0.38, 0.5, 1.0), line(&[(0.12, 0.5), (0.88, 0.5)]), handle]
}
