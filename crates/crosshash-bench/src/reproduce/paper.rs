//! `crosshash-bench reproduce table1 | table2 | ...`: the experiments of the paper with its settings
//! (`configs/paper`), on its data set or another one, with the published numbers beside the results.
//!
//! An experiment is a call of the program: `compare` for tables and the figure on convergence, `sweep` for
//! figures on settings, `train` and `embed-plot` for the figure of outputs. Published numbers are in
//! `published.csv`, copied from the tables of the paper.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crosshash_cli::file;
use crosshash_cli::progress::say;

const PUBLISHED: &str = include_str!("published.csv");

/// A data set of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Set {
    /// MIRFlickr-25K, 24 labels.
    Mirflickr25k,
    /// NUS-WIDE, 21 most frequent concepts.
    Nuswide,
    /// IAPR TC-12, 255 labels.
    Iaprtc12,
    /// TU-Berlin Extension, 250 categories.
    Tuberlin,
    /// Sketchy Extension, 125 categories.
    Sketchy,
}

impl Set {
    fn name(self) -> &'static str {
        match self {
            Set::Mirflickr25k => "mirflickr25k",
            Set::Nuswide => "nuswide",
            Set::Iaprtc12 => "iaprtc12",
            Set::Tuberlin => "tuberlin",
            Set::Sketchy => "sketchy",
        }
    }

    /// The settings of the paper.
    fn config(self) -> &'static str {
        match self {
            Set::Mirflickr25k => {
                include_str!("../../../../configs/paper/mirflickr25k.toml")
            }
            Set::Nuswide => include_str!("../../../../configs/paper/nuswide.toml"),
            Set::Iaprtc12 => include_str!("../../../../configs/paper/iaprtc12.toml"),
            Set::Tuberlin => include_str!("../../../../configs/paper/tuberlin.toml"),
            Set::Sketchy => include_str!("../../../../configs/paper/sketchy.toml"),
        }
    }

    /// Where the data come from, and the layout that a manifest describes.
    fn source(self) -> &'static str {
        match self {
            Set::Mirflickr25k => {
                "MIRFlickr-25K as prepared for DCMH: FLICKR-25K.mat (MATLAB 7.3; YAll: 20,015 x 1,386 \
                 tags, LAll: 20,015 x 24 labels) from the repository of DCMH, and features of the \
                 pictures (crosshash features); configs/data/mirflickr25k.toml reads tags and labels"
            }
            Set::Nuswide => {
                "NUS-WIDE of the National University of Singapore: tags (195,834 x 1,000), labels of the \
                 21 most frequent concepts, and features of the pictures; .mat, .npy or Parquet"
            }
            Set::Iaprtc12 => {
                "IAPR TC-12 of ImageCLEF with the segmentation labels of SAIAPR TC-12: pictures, \
                 captions and 255 labels; configs/data/iaprtc12.toml and iaprtc12-raw.toml"
            }
            Set::Tuberlin => {
                "TU-Berlin Extension: 20,000 sketches and 204,489 photos of 250 categories, in folders \
                 sketches/CATEGORY/ and photos/CATEGORY/"
            }
            Set::Sketchy => {
                "Sketchy Extension: 75,471 sketches and 73,002 photos of 125 categories, in folders \
                 sketch/CATEGORY/ and photo/CATEGORY/; configs/data/sketchy125.toml is a part of it"
            }
        }
    }
}

/// Arguments of an experiment.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Manifest of the data set, as for `crosshash train`; without it, the command says which data the
    /// experiment needs.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,

    /// Folder of the files that the manifest names.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    /// The data set of the paper whose settings and published numbers are used; for other data, the
    /// nearest one.
    #[arg(long, value_enum)]
    set: Option<Set>,

    /// Modalities in the order of the paper's first direction, e.g. image,text.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    modalities: Vec<String>,

    /// The data are not those of the paper: says so in the result.
    #[arg(long)]
    nearest: bool,

    /// Output folder; created if missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Trainings per method and length (paper: 5).
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u64,

    /// Code lengths [default: those of the experiment].
    #[arg(long, value_name = "R,..", value_delimiter = ',')]
    bits: Vec<usize>,

    /// Methods [default: those of the experiment].
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    methods: Vec<String>,

    /// Further settings, as for `crosshash compare`.
    #[arg(long = "setting", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// An experiment of the paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Experiment {
    name: &'static str,
    what: &'static str,
    sets: &'static [Set],
    work: Work,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// Methods at code lengths.
    Compare { methods: &'static str, bits: &'static str, table: bool },
    /// Settings of JCCH at 64 bits.
    Sweep(&'static [&'static str]),
    /// A map of the outputs.
    Map,
}

const TEXTS: &[Set] = &[Set::Mirflickr25k, Set::Nuswide, Set::Iaprtc12];
const SKETCHES: &[Set] = &[Set::Tuberlin, Set::Sketchy];

pub(crate) const TABLE1: Experiment = Experiment {
    name: "table1",
    what: "category-level sketch-to-image retrieval",
    sets: SKETCHES,
    work: Work::Compare {
        methods: "cvh-pairs,seph-km,cca,dcmh,dsh,gdh,jcch",
        bits: "32,64,128",
        table: true,
    },
};
pub(crate) const TABLE2: Experiment = Experiment {
    name: "table2",
    what: "text-image retrieval",
    sets: TEXTS,
    work: Work::Compare {
        methods: "dcmh,prdh,ssah,adah,jcch,jcch+dcmh",
        bits: "16,32,64",
        table: true,
    },
};
pub(crate) const TABLE3: Experiment = Experiment {
    name: "table3",
    what: "JCCH with the coefficients of SCDH (JCCH-B)",
    sets: TEXTS,
    work: Work::Compare { methods: "jcch-b,jcch", bits: "32,64", table: true },
};
pub(crate) const FIGURE2: Experiment = Experiment {
    name: "figure2",
    what: "t-SNE of the outputs of both modalities with the centres, 64 bits",
    sets: SKETCHES,
    work: Work::Map,
};
pub(crate) const FIGURE4: Experiment = Experiment {
    name: "figure4",
    what: "MAP while training, 64 bits",
    sets: TEXTS,
    work: Work::Compare { methods: "jcch,dcmh,jcch+dcmh", bits: "64", table: false },
};
pub(crate) const FIGURE5: Experiment = Experiment {
    name: "figure5",
    what: "number of anchors of the coefficients, 64 bits",
    sets: TEXTS,
    work: Work::Sweep(&["jcch.anchors=100,200,500,1000,2000,5000"]),
};
pub(crate) const FIGURE6: Experiment = Experiment {
    name: "figure6",
    what: "lambda and beta on texts and pictures, 64 bits",
    sets: TEXTS,
    work: Work::Sweep(&[
        "jcch.lambda=0.0002,0.001,0.002,0.01,0.04,0.1",
        "jcch.beta=0.0,0.05,0.1,0.2,0.5,1.0",
    ]),
};
pub(crate) const FIGURE7: Experiment = Experiment {
    name: "figure7",
    what: "lambda on sketches and photos, 64 bits",
    sets: SKETCHES,
    work: Work::Sweep(&["jcch.lambda=0.0001,0.0005,0.001,0.005,0.01,0.05"]),
};

pub(crate) fn run(experiment: Experiment, args: &Args) -> Result<ExitCode> {
    let set = args.set.unwrap_or(experiment.sets[0]);
    let Some(data) = &args.data else {
        let mut text = format!(
            "{}: {}. --data names a manifest of one of its data sets (docs/data.md), --set which one:\n",
            experiment.name, experiment.what
        );
        for set in experiment.sets {
            let _ = writeln!(text, "  --set {}: {}", set.name(), set.source());
        }
        text += "With other data, add --nearest: the result then says that they are not the paper's.";
        bail!(text);
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(experiment.name));
    fs_err::create_dir_all(&out)?;
    let config = out.join("paper.toml");
    file::write(&config, set.config())?;
    if args.nearest {
        say(format!(
            "{} are not the data of the paper; settings and published numbers are those of {}",
            data.display(),
            set.name()
        ));
    }
    let program = Program { args, data, config: &config };
    match experiment.work {
        Work::Compare { methods, bits, table } => {
            let own: Vec<String> = args.bits.iter().map(ToString::to_string).collect();
            let bits = if own.is_empty() { bits.to_owned() } else { own.join(",") };
            let methods = if args.methods.is_empty() {
                methods.to_owned()
            } else {
                args.methods.join(",")
            };
            let runs = args.runs.to_string();
            let more = ["--methods", &methods, "--bits", &bits, "--seeds", &runs];
            if !program.call("compare", &out, &more)? {
                return Ok(ExitCode::FAILURE);
            }
            if table {
                let text = beside(experiment, set, args, &out)?;
                file::write(&out.join("published.md"), &text)?;
                std::io::stdout().lock().write_all(text.as_bytes())?;
            }
        }
        Work::Sweep(varied) => {
            for vary in varied {
                let key = vary.split('=').next().unwrap_or(vary);
                let folder = out.join(key);
                let runs = args.runs.to_string();
                let more = ["--vary", vary, "--seeds", &runs, "--set", "bits=64"];
                if !program.call("sweep", &folder, &more)? {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        Work::Map => {
            let run = out.join("run");
            if !program.call("train", &run, &["--bits", "64"])? {
                return Ok(ExitCode::FAILURE);
            }
            let status = Command::new(std::env::current_exe()?)
                .args(["program", "embed-plot"])
                .arg(&run)
                .arg("--out")
                .arg(out.join("figure2.svg"))
                .status()?;
            return Ok(if status.success() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A call of the program on the data of an experiment.
struct Program<'a> {
    args: &'a Args,
    data: &'a Path,
    config: &'a Path,
}

impl Program<'_> {
    fn call(&self, command: &str, out: &Path, more: &[&str]) -> Result<bool> {
        let mut child = Command::new(std::env::current_exe()?);
        child.args(["program", command]).arg(self.data).arg("--out").arg(out);
        child.arg("--config").arg(self.config).args(more);
        if let Some(root) = &self.args.root {
            child.arg("--root").arg(root);
        }
        if !self.args.modalities.is_empty() {
            let names: Vec<String> =
                self.args.modalities.iter().map(|name| format!("{name:?}")).collect();
            child.args(["--set", &format!("modalities=[{}]", names.join(", "))]);
        }
        for setting in &self.args.settings {
            child.args(["--set", setting]);
        }
        Ok(child.status().context("starting the program")?.success())
    }
}

/// One published number.
#[derive(Debug, PartialEq)]
struct Published {
    direction: &'static str,
    network: &'static str,
    method: &'static str,
    bits: usize,
    value: f64,
}

/// The published MAP of an experiment and a data set.
fn published(table: &str, set: &str) -> Vec<Published> {
    let line = |line: &'static str| {
        let cells: Vec<&'static str> = line.split(',').collect();
        let &[of, data, direction, metric, network, method, bits, value] = &cells[..]
        else {
            return None;
        };
        let fits = of == table && data == set && metric == "map";
        let (bits, value) = (bits.parse().ok()?, value.parse().ok()?);
        fits.then_some(Published { direction, network, method, bits, value })
    };
    PUBLISHED.lines().skip(1).filter_map(line).collect()
}

/// The published numbers beside those of a comparison, as Markdown.
fn beside(experiment: Experiment, set: Set, args: &Args, out: &Path) -> Result<String> {
    let path = out.join("comparison.json");
    let found: Value = serde_json::from_slice(&fs_err::read(&path)?)
        .with_context(|| path.display().to_string())?;
    // MAP by method, bits and direction; the first direction of the table is the paper's first.
    let mut ours: BTreeMap<(String, usize, usize), f64> = BTreeMap::new();
    for row in found["rows"].as_array().into_iter().flatten() {
        let method = row["method"].as_str().unwrap_or_default().to_owned();
        let bits = row["bits"].as_u64().and_then(|bits| usize::try_from(bits).ok());
        let directions = row["directions"].as_array().into_iter().flatten();
        for (at, direction) in directions.enumerate() {
            if let (Some(bits), Some(map)) = (bits, direction["map"]["mean"].as_f64()) {
                ours.insert((method.clone(), bits, at), map);
            }
        }
    }
    let mut text = format!("# {} of the paper: {}\n\n", experiment.name, experiment.what);
    if args.nearest {
        text += "The data are not those of the paper: differences show the order of methods, not a \
                 reproduction.\n\n";
    }
    text += "Published: end-to-end networks as named; ours: networks on fixed features.\n\n\
             | direction | method | network | bits | published | ours | difference |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n";
    for one in published(experiment.name, set.name()) {
        let at = usize::from(one.direction == "text-image");
        let own = ours.get(&(one.method.to_owned(), one.bits, at));
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.3} | {} | {} |",
            one.direction,
            one.method,
            one.network,
            one.bits,
            one.value,
            cell(own.map(|map| format!("{map:.3}"))),
            cell(own.map(|map| format!("{:+.3}", map - one.value)))
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_numbers_are_those_of_the_paper() {
        let all = published("table2", "iaprtc12");
        let jcch = all.iter().find(|one| {
            (one.direction, one.method, one.network, one.bits)
                == ("image-text", "jcch", "AlexNet", 64)
        });
        assert_eq!(jcch.unwrap().value, 0.552);
        assert_eq!(published("table1", "sketchy").len(), 9 * 3);
        // SSAH has no numbers on IAPR TC-12.
        assert!(all.iter().all(|one| one.method != "ssah"));
        for line in PUBLISHED.lines().skip(1) {
            let method = line.split(',').nth(5).unwrap();
            crosshash::method::find(method).unwrap();
        }
    }
}
