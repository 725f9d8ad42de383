//! `crosshash serve`: search over HTTP, and a page to search with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::places::Places;
use crate::serve::{DataPlace, Limits, Options, logs, serve};

const EXAMPLES: &str = "\
Examples:
  A run that `train` or `demo` made, and its page at http://127.0.0.1:7878/:
    crosshash serve crosshash-demo

  All runs in a folder at once; requests name one by \"model\":
    crosshash serve runs --default photos

  Ask it:
    curl -s http://127.0.0.1:7878/v1/search -H 'content-type: application/json' \\
      -d '{\"query\":{\"text\":\"cat\"},\"target\":\"picture\",\"k\":5}'

  For other machines, with a token:
    openssl rand -hex 32 > token
    crosshash serve runs --addr 0.0.0.0:7878 --token-file token

  Take over a run that was trained anew (it is also noticed by itself):
    kill -HUP $(pidof crosshash)

Searched are all items that the run coded, database and queries. What is inserted and deleted is
kept in RUN/serve. The reference is docs/serve.md; the description for machines /openapi.json.";

/// Serve search over HTTP, with a page: words, pictures, drawings, live inserts.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder of a run, of an index, or a folder of such.
    place: PathBuf,

    #[command(flatten)]
    pub(crate) how: How,

    /// The model that answers where none is named (default: the first by name).
    #[arg(long, value_name = "NAME")]
    default: Option<String>,

    /// The data set of the run, if it is not where it was when it was trained on.
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,

    /// Where the files of the manifest are, if not where they were.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    #[command(flatten)]
    weights: Places,
}

/// How to serve; `demo` takes this too.
#[derive(clap::Args, Clone)]
pub(crate) struct How {
    /// Where to listen. Anything but this machine needs a token.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7878")]
    addr: String,

    /// Open the page in the browser.
    #[arg(long)]
    open: bool,

    /// A file with the token that requests must carry (or the variable CROSSHASH_TOKEN).
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// An origin whose pages may ask (none unless told).
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<String>,

    /// The largest body of a request, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_body: u16,

    /// The most hits of one answer.
    #[arg(long, value_name = "K", default_value_t = 1000)]
    max_k: usize,

    /// The most items of one insert or delete.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_items: usize,

    /// Seconds that a request may take.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    max_seconds: u16,

    /// The most connections at once.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,

    /// The form of the log on stderr.
    #[arg(long, value_enum, default_value_t = logs::Form::Text)]
    log: logs::Form,

    /// What is logged.
    #[arg(long, value_enum, default_value_t = logs::Detail::Info)]
    log_level: logs::Detail,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let data = DataPlace { data: args.data.clone(), root: args.root.clone() };
    args.how.serve(args.place.clone(), args.default.clone(), data, args.weights.clone())
}

impl How {
    /// Serves a folder until asked to stop.
    pub(crate) fn serve(
        &self,
        place: PathBuf,
        default: Option<String>,
        data: DataPlace,
        weights: Places,
    ) -> Result<ExitCode> {
        logs::start(self.log, self.log_level);
        let addr = self.address()?;
        let limits = Limits {
            body: usize::from(self.max_body) << 20,
            k: self.max_k,
            items: self.max_items,
            time: Duration::from_secs(self.max_seconds.into()),
            connections: self.max_connections.into(),
        };
        serve(Options {
            place,
            addr,
            default,
            data,
            weights,
            limits,
            token_file: self.token_file.clone(),
            cors: self.cors.clone(),
            open: self.open,
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Where to listen; names are looked up.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        use std::net::ToSocketAddrs as _;
        let text = &self.addr;
        let what = || format!("--addr {text}: write HOST:PORT, e.g. 127.0.0.1:7878");
        text.to_socket_addrs().with_context(what)?.next().with_context(what)
    }
}
