//! The settings of a sweep.

use anyhow::{Result, bail};

/// The settings that the paper varies (sensitivity and sample-size figures), and the code length.
pub(super) const PAPER: [&str; 4] = [
    "jcch.lambda=0,0.0002,0.002,0.02,0.2",
    "jcch.beta=0,0.05,0.1,0.2,0.5,1",
    "jcch.anchors=500,1000,2000,none",
    "bits=16,32,64,128",
];

/// The settings of a sweep.
pub(super) struct Plan {
    /// The varied keys, with their values.
    pub(super) keys: Vec<(String, Vec<String>)>,
    /// The settings to train.
    pub(super) points: Vec<Point>,
}

/// One setting of some varied keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point(pub(crate) Vec<(String, String)>);

impl Plan {
    /// From `key=value,value,..`, one at a time or in every combination.
    pub(super) fn parse(vary: &[String], grid: bool) -> Result<Plan> {
        let mut keys: Vec<(String, Vec<String>)> = Vec::new();
        for text in vary {
            let Some((key, values)) = text.split_once('=') else {
                bail!(
                    "--vary {text:?}: expected key=value,value, e.g. jcch.lambda=0,0.002,0.02"
                );
            };
            let values: Vec<String> =
                values.split(',').map(|v| v.trim().to_owned()).collect();
            let key = key.trim().to_owned();
            if values.iter().any(String::is_empty) {
                bail!("--vary {text:?}: a value is missing");
            }
            if let Some(value) =
                values.iter().find(|v| values.iter().filter(|w| w == v).count() > 1)
            {
                bail!("--vary {key}: {value} occurs twice");
            }
            if keys.iter().any(|(known, _)| *known == key) {
                bail!("--vary {key} occurs twice; list all its values in one option");
            }
            keys.push((key, values));
        }
        let mut points = Vec::new();
        if grid {
            points.push(Point(Vec::new()));
            for (key, values) in &keys {
                let more = |point: &Point, value: &String| {
                    let mut all = point.0.clone();
                    all.push((key.clone(), value.clone()));
                    Point(all)
                };
                points = points
                    .iter()
                    .flat_map(|point| values.iter().map(|value| more(point, value)))
                    .collect();
            }
        } else {
            for (key, values) in &keys {
                points.extend(values.iter().map(|v| Point(vec![(key.clone(), v.clone())])));
            }
        }
        Ok(Plan { keys, points })
    }
}

impl Point {
    /// As settings of a training; `none` keeps the configured value.
    pub(super) fn settings(&self) -> Vec<String> {
        let set = self.0.iter().filter(|(_, value)| value != "none");
        set.map(|(key, value)| format!("{key}={value}")).collect()
    }

    fn pairs(&self) -> Vec<String> {
        self.0.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        if self.0.is_empty() { "as configured".into() } else { self.pairs().join(", ") }
    }

    /// As part of a file name.
    pub(super) fn file(&self, seed: u64) -> String {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || "=.-_".contains(c) { c } else { '_' };
        let name: String = self.pairs().join("_").chars().map(plain).collect();
        format!("{name}_seed={seed}").trim_start_matches('_').to_owned()
    }

    /// The value of a key, if it is varied here.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(vary: &[&str], grid: bool) -> Result<Plan> {
        let vary: Vec<String> = vary.iter().map(|&v| v.to_owned()).collect();
        Plan::parse(&vary, grid)
    }

    #[test]
    fn one_at_a_time_or_all_together() {
        let vary = ["bits=16,32", "jcch.beta=0, 0.1,1"];
        let texts = |grid| -> Vec<String> {
            plan(&vary, grid).unwrap().points.iter().map(Point::text).collect()
        };
        assert_eq!(
            texts(false),
            ["bits=16", "bits=32", "jcch.beta=0", "jcch.beta=0.1", "jcch.beta=1"]
        );
        assert_eq!(texts(true).len(), 6);
        assert_eq!(texts(true)[1], "bits=16, jcch.beta=0.1");
        assert_eq!(
            plan(&vary, true).unwrap().points[1].file(3),
            "bits=16_jcch.beta=0.1_seed=3"
        );
        assert_eq!(plan(&[], true).unwrap().points[0].file(0), "seed=0");
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let error = |vary: &[&str]| plan(vary, false).err().unwrap().to_string();
        assert!(error(&["bits"]).contains("expected key=value,value"));
        assert!(error(&["bits=16,"]).contains("a value is missing"));
        assert!(error(&["bits=16,8,16"]).contains("16 occurs twice"));
        assert!(error(&["bits=16", "bits=32"]).contains("occurs twice"));
    }
}
