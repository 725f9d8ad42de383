//! `crosshash verify`: compares the files of a run or an index with their checksums.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::RunDir;
use crosshash_codes::segments::{self, is_index};
use serde_json::json;

/// Compare the files of runs and indexes with their checksums.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash verify run              the files of a run, and the indexes of its service
    crosshash verify photos.index     the files of an index
    crosshash verify run --json

Exit code 0: all files are as they were written. 2: some are damaged or missing; they are named.
`crosshash index rescue` copies the healthy items of a damaged index.")]
pub(crate) struct Args {
    /// Folder of a run or an index.
    path: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A file and what is wrong with it.
struct Checked {
    path: PathBuf,
    fault: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut files = Vec::new();
    let mut notes = Vec::new();
    if is_index(&args.path) {
        index(&args.path, &mut files);
    } else if RunDir::is_run(&args.path) {
        run_files(&args.path, &mut files, &mut notes)?;
    } else {
        bail!("{} is neither a run nor an index", args.path.display());
    }
    let damaged = files.iter().filter(|file| file.fault.is_some()).count();
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<_> = files
            .iter()
            .map(|file| json!({ "path": file.path, "fault": file.fault }))
            .collect();
        let value = json!({ "files": list, "damaged": damaged, "notes": notes });
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
    } else {
        for Checked { path, fault } in &files {
            match fault {
                None => writeln!(out, "ok       {}", path.display())?,
                Some(fault) => writeln!(out, "DAMAGED  {}: {fault}", path.display())?,
            }
        }
        for note in &notes {
            writeln!(out, "note     {note}")?;
        }
        writeln!(out, "{} files, {damaged} damaged", files.len())?;
    }
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The files of a run, and the indexes of its service.
fn run_files(path: &Path, files: &mut Vec<Checked>, notes: &mut Vec<String>) -> Result<()> {
    let run = RunDir::planned(path);
    if run.is_sealed() {
        match run.verify() {
            Ok(states) => {
                files.extend(states.into_iter().map(|state| Checked {
                    path: path.join(state.name),
                    fault: state.fault,
                }))
            }
            Err(err) => files.push(Checked {
                path: path.join("checksums.json"),
                fault: Some(err.to_string()),
            }),
        }
    } else {
        notes.push(
            "the run has no checksums: its training is not complete, or an earlier version \
             trained it"
                .to_owned(),
        );
    }
    for modality in folders(&run.service_path())? {
        for folder in folders(&modality)?.into_iter().filter(|folder| is_index(folder)) {
            index(&folder, files);
        }
    }
    Ok(())
}

/// The files of an index.
fn index(folder: &Path, files: &mut Vec<Checked>) {
    match segments::verify(folder) {
        Ok(states) => files.extend(
            states
                .into_iter()
                .map(|state| Checked { path: state.path, fault: state.fault }),
        ),
        Err(err) => {
            files.push(Checked {
                path: folder.join("manifest"),
                fault: Some(err.to_string()),
            });
        }
    }
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for entry in fs_err::read_dir(path)? {
        all.extend(Some(entry?.path()).filter(|path| path.is_dir()));
    }
    all.sort();
    Ok(all)
}
