//! `crosshash encode`: codes of any items, computed by a trained model. Parquet tables are encoded row
//! group by row group into Parquet files, so that they may be larger than memory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::parquet_codes::ParquetEncoding;
use crosshash::{QueryEncoder, RunDir, encode};
use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{BitOrder, npy};

use crate::data_args::ExtractArgs;
use crate::progress::{Progress, say};
use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
  Features from a network, one row per item, to packed codes for NumPy and FAISS:
    crosshash encode run --modality image --input features.npy --out codes.npy

  Pictures of a folder, a zip, a tar or a list of paths (.txt), with the backbone of the run:
    crosshash encode run --modality image --input photos/ --weights PATH --out photos.codes

  Texts, one per line, to a code file:
    crosshash encode run --modality words --input texts.txt --out codes.codes

  Parquet tables of any size, file by file; a second worker takes the other half of the files:
    crosshash encode run --modality image --input part-*.parquet --column embedding --id sku \\
        --out codes/ --shard 0/2

Codes in .npy are uint8, eight bits per byte, lowest bit first. A .codes file of pictures contains
their paths as ids. Parquet files are encoded one row group at a time; the output has the columns
`id`, `code` (bytes, lowest bit first) and, with --outputs, `outputs` (int8), compressed by zstd. Files
that are complete already are skipped, so an interrupted command can be repeated.";

/// Encode items of one modality with a trained model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// Modality of the items.
    #[arg(long, value_name = "NAME")]
    modality: String,

    /// The items: features (.npy, .npz, .mat, .csv, ...), texts (one per line), or pictures (a
    /// folder, a zip, a tar, or a list of paths in a .txt file). Several files if they are Parquet.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    input: Vec<PathBuf>,

    /// Output file: .npy (packed bits), .codes or .parquet; for several Parquet files a folder.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Column of the items in Parquet files: texts, or lists of numbers.
    #[arg(long, value_name = "NAME", help_heading = "Parquet")]
    column: Option<String>,

    /// Column of the ids [default: the name of the file and the number of the row].
    #[arg(long, value_name = "NAME", help_heading = "Parquet")]
    id: Option<String>,

    /// Write the outputs of the model, too: one byte per bit.
    #[arg(long, help_heading = "Parquet")]
    outputs: bool,

    /// Encode only every N-th file, beginning with file I: for N workers.
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Parquet")]
    shard: Option<(usize, usize)>,

    #[command(flatten)]
    weight_paths: WeightPaths,

    #[command(flatten)]
    extract_args: ExtractArgs,
}

/// `I/N` with I below N.
fn shard(text: &str) -> Result<(usize, usize), String> {
    let parse = || {
        let (number, count) = text.split_once('/')?;
        let (number, count): (usize, usize) = (number.parse().ok()?, count.parse().ok()?);
        (number < count).then_some((number, count))
    };
    parse().ok_or_else(|| "I/N is needed, with I from 0 to N - 1".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ending = |path: &Path| {
        let ending = path.extension().and_then(|ext| ext.to_str()).unwrap_or("");
        ending.to_ascii_lowercase()
    };
    if args.input.iter().all(|path| ending(path) == "parquet") && args.column.is_some() {
        return tables(args);
    }
    if args.column.is_some() || args.id.is_some() || args.outputs || args.shard.is_some() {
        bail!(
            "--column, --id, --outputs and --shard are for Parquet files; --column is needed"
        );
    }
    let [input] = &args.input[..] else {
        bail!("--input: several files are encoded if they are Parquet, with --column");
    };
    let ending = ending(&args.out);
    if !["npy", "codes"].contains(&ending.as_str()) {
        bail!(
            "--out {}: the file name must end in .npy or .codes (or .parquet, for Parquet files with \
             --column)",
            args.out.display()
        );
    }
    let weights = args.weight_paths.weights();
    let encoder = QueryEncoder::open(&RunDir::open(&args.run)?, &weights)?;
    let model = encoder.model();
    model.preparation(&args.modality).context("--modality")?;
    let items = args.extract_args.with_extractor(weights, |extractor| {
        encoder.items(&args.modality, input, extractor)
    })?;
    let progress = Progress::new("encoding", items.features.len());
    let codes = encode(model, &args.modality, items.features, &|done| progress.set(done))
        .with_context(|| input.display().to_string())?;
    drop(progress);
    match ending.as_str() {
        "npy" => npy::write_packed(&args.out, &codes, BitOrder::Lsb)?,
        _ => {
            let ids = items.ids.map(Ids::Names);
            CodeFile { ids, ..CodeFile::new(codes.clone()) }.write(&args.out)?;
        }
    }
    say(format!("{} codes of {} bits", codes.len(), codes.bits().get()));
    Ok(ExitCode::SUCCESS)
}

/// Encodes Parquet files, each into one of its own.
fn tables(args: &Args) -> Result<ExitCode> {
    let to_file = args.out.extension().is_some_and(|ending| ending == "parquet");
    if to_file && args.input.len() > 1 {
        bail!("--out {}: name a folder for several files", args.out.display());
    }
    let weights = args.weight_paths.weights();
    let encoder = QueryEncoder::open(&RunDir::open(&args.run)?, &weights)?;
    encoder.model().preparation(&args.modality).context("--modality")?;
    let outputs = outputs_of(&args.input, &args.out, to_file)?;
    let (number, count) = args.shard.unwrap_or((0, 1));
    if !to_file {
        fs_err::create_dir_all(&args.out)?;
    }
    let (mut rows, mut files, mut skipped) = (0, 0, 0);
    let started = std::time::Instant::now();
    // by name, so that all workers see the same order
    let own = outputs.iter().enumerate().filter(|(at, _)| at % count == number);
    for (_, (from, to)) in own {
        let prefix = from.file_stem().and_then(|stem| stem.to_str()).unwrap_or("row");
        let encoding = ParquetEncoding {
            encoder: &encoder,
            modality: &args.modality,
            column: args.column.as_deref().unwrap_or_default(),
            id: args.id.as_deref(),
            prefix,
            outputs: args.outputs,
        };
        let total = encoding.rows(from)?;
        let progress = Progress::new(format!("encoding {}", from.display()), total);
        let done = |done| progress.set(done);
        match encoding.encode_file(from, to, &done)? {
            Some(info) => {
                rows += info.rows;
                files += 1;
            }
            None => skipped += 1,
        }
    }
    if skipped > 0 {
        say(format!("{skipped} files were encoded already"));
    }
    let seconds = started.elapsed().as_secs_f64();
    say(format!(
        "{rows} rows of {files} files in {seconds:.1} s, {:.0} rows/s",
        rows as f64 / seconds.max(1e-9)
    ));
    Ok(ExitCode::SUCCESS)
}

/// The output of every input, in the order of their names.
fn outputs_of(
    inputs: &[PathBuf],
    out: &Path,
    to_file: bool,
) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut pairs = Vec::new();
    for input in inputs {
        let name = input.file_name().context("--input: name files")?;
        let to = if to_file { out.to_owned() } else { out.join(name) };
        if to == *input {
            bail!("--out {}: the output would replace the input", out.display());
        }
        pairs.push((input.clone(), to));
    }
    pairs.sort();
    let twice = pairs.windows(2).find(|two| two[0].1 == two[1].1);
    if let Some([first, second]) = twice {
        bail!(
            "--input: {} and {} have the same name; encode them into different folders",
            first.0.display(),
            second.0.display()
        );
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbers_below_their_count() {
        assert_eq!(shard("0/2"), Ok((0, 2)));
        assert_eq!(shard("1/2"), Ok((1, 2)));
        for text in ["2/2", "1", "a/b", "-1/2", "0/0", ""] {
            assert!(shard(text).is_err(), "{text}");
        }
    }

    #[test]
    fn outputs_have_the_names_of_their_inputs() {
        let path = |text: &str| PathBuf::from(text);
        let inputs = [path("b/2.parquet"), path("a/1.parquet")];
        let pairs = outputs_of(&inputs, Path::new("codes"), false).unwrap();
        assert_eq!(pairs[0], (path("a/1.parquet"), path("codes/1.parquet")));
        let inputs = [path("b/1.parquet"), path("a/1.parquet")];
        let err = outputs_of(&inputs, Path::new("codes"), false).unwrap_err().to_string();
        assert!(err.contains("have the same name"), "{err}");
        assert!(outputs_of(&[path("a/1.parquet")], Path::new("a"), false).is_err());
    }
}
