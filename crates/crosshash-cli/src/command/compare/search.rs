//! The search of settings with an equal number of recorded trials for every method: random settings from
//! the ranges that a method declares, the best by validation.

use std::collections::HashMap;

use anyhow::Result;
use crosshash::Config;
use crosshash::method::{Entry, trial_settings};

use super::{Args, Job, Keys, Trial, result};
use crate::file;
use crate::progress::say;

/// Seed of the settings.
const SEED: u64 = 0;

/// One recorded trial of the search.
struct Recorded {
    method: &'static str,
    number: u64,
    settings: Vec<String>,
    trial: Trial,
}

/// The best settings of every method; `None` if the user interrupted it.
pub(super) fn run(
    args: &Args,
    bases: &[(&'static Entry, Config)],
    keys: &mut Keys,
) -> Result<Option<HashMap<&'static str, Vec<String>>>> {
    let folder = args.out.join("trials").join("search");
    fs_err::create_dir_all(&folder)?;
    let bits = args.bits.iter().max().copied().unwrap_or(64);
    let mut recorded: Vec<Recorded> = Vec::new();
    let mut chosen = HashMap::new();
    for (entry, base) in bases {
        let method = entry.info.name;
        // A method without ranges has nothing to search.
        let budget = if entry.search.is_empty() { 1 } else { args.budget };
        let start = recorded.len();
        for number in 0..budget {
            let settings = trial_settings(entry.search, number, SEED);
            let mut all = vec![format!("bits={bits}")];
            all.extend(settings.clone());
            let job = Job {
                config: base.with(&all)?,
                split: 0,
                validation_only: true,
                path: folder.join(format!("{method}_{number}.json")),
            };
            say(format!(
                "search: {method}, trial {} of {budget}: {}",
                number + 1,
                if settings.is_empty() { "defaults".into() } else { settings.join(" ") }
            ));
            let Some(trial) = result(args, &job, keys)? else { return Ok(None) };
            let is_unsuitable = trial.left_out.is_some();
            recorded.push(Recorded { method, number, settings, trial });
            file::write(&args.out.join("search.csv"), &to_csv(&recorded))?;
            if is_unsuitable {
                break;
            }
        }
        chosen.insert(method, best(&recorded[start..]));
    }
    Ok(Some(chosen))
}

/// The settings of the best validation result; the defaults if there is none.
fn best(recorded: &[Recorded]) -> Vec<String> {
    let scored = recorded.iter().filter_map(|one| Some((one.trial.validation?, one)));
    // The first of equal results.
    let best = scored.reduce(|best, other| if other.0 > best.0 { other } else { best });
    best.map(|(_, one)| one.settings.clone()).unwrap_or_default()
}

fn to_csv(recorded: &[Recorded]) -> String {
    let mut out = "method,trial,settings,validation,seconds,failed\n".to_owned();
    for Recorded { method, number, settings, trial } in recorded {
        let validation = trial.validation.map_or(String::new(), |v| v.to_string());
        let failed = trial.failed.as_ref().or(trial.left_out.as_ref());
        let failed = failed.map_or(String::new(), |why| why.replace('"', "'"));
        out += &format!(
            "{method},{number},\"{}\",{validation},{},\"{failed}\"\n",
            settings.join(" "),
            trial.seconds
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_validation_result_wins_and_failures_do_not() {
        let one = |number: u64, validation: Option<f64>| Recorded {
            method: "x",
            number,
            settings: vec![format!("a={number}")],
            trial: Trial {
                validation,
                ..Trial::new(&Config::default(), String::new()).unwrap()
            },
        };
        let recorded =
            [one(0, Some(0.4)), one(1, None), one(2, Some(0.6)), one(3, Some(0.6))];
        assert_eq!(best(&recorded), ["a=2"]);
        assert!(best(&[one(1, None)]).is_empty());
        let csv = to_csv(&recorded);
        assert!(csv.contains("x,2,\"a=2\",0.6,0,\"\""), "{csv}");
    }
}
