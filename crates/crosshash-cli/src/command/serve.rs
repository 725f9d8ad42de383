//! `crosshash serve`: an HTTP search service with a web page.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::serve::{DataLocation, Limits, Memory, Options, StoreOptions, logs, serve};
use crate::weight_paths::WeightPaths;

/// Bytes of all request bodies, their values, and responses together.
const MEMORY: usize = 192 << 20;

const EXAMPLES: &str = "\
Examples:
  Serve a run created by `train` or `demo`, with its page at http://127.0.0.1:7878/:
    crosshash serve crosshash-demo

  Serve all runs of a folder; requests select one by \"model\":
    crosshash serve runs --default photos

  Send a query:
    curl -s http://127.0.0.1:7878/v1/search -H 'content-type: application/json' \\
      -d '{\"query\":{\"text\":\"cat\"},\"target\":\"picture\",\"k\":5}'

  Accept requests from other machines, with a token:
    openssl rand -hex 32 > token
    crosshash serve runs --addr 0.0.0.0:7878 --token-file token

  Search pictures in a database; the model of the run encodes the queries:
    crosshash store push runs/photos --modality picture postgresql://db/shop?table=photos --outputs
    PGPASSWORD=... crosshash serve runs/photos --store picture=postgresql://db/shop?table=photos

  Reload after retraining (changes are also detected automatically):
    kill -HUP $(pidof crosshash)

The service searches all items of the run, database and queries. Inserted and deleted items are
stored in RUN/serve; items in a store are changed by `crosshash store`. Reference: docs/serve.md;
OpenAPI document: /openapi.json.";

/// Serve search over HTTP, with a web page; items can be inserted and deleted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of a run, of an index, or a folder of them.
    place: PathBuf,

    #[command(flatten)]
    pub(crate) serve_args: ServeArgs,

    /// Model for requests that do not name one [default: the first by name].
    #[arg(long, value_name = "NAME")]
    default: Option<String>,

    /// Data set of the run, if it has moved.
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,

    /// Folder of the files that the manifest names, if it has moved.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    #[command(flatten)]
    weights: WeightPaths,

    #[command(flatten)]
    stores: StoreArgs,
}

/// Stores of a run.
#[derive(clap::Args)]
#[command(next_help_heading = "Stores")]
struct StoreArgs {
    /// Search the items of a modality in this table, which `store push` filled; see `crosshash store --help`.
    /// Can be repeated. Items of other modalities are in the index of the run. MODALITY= can be omitted if
    /// the run has one modality.
    #[arg(long, value_name = "MODALITY=URL")]
    store: Vec<String>,

    /// Connections to each store; one more watches it.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    store_connections: u16,

    /// Time limit of a search of a store in seconds, repetitions included.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    store_seconds: u16,
}

impl StoreArgs {
    fn options(&self) -> StoreOptions {
        StoreOptions {
            places: self.store.clone(),
            connections: self.store_connections.into(),
            limit: Duration::from_secs(self.store_seconds.into()),
        }
    }
}

/// Options of the service, shared with `demo`.
#[derive(clap::Args, Clone)]
pub(crate) struct ServeArgs {
    /// Address to listen on. Addresses reachable from other machines require a token.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7878")]
    addr: String,

    /// Open the page in the browser.
    #[arg(long)]
    open: bool,

    /// File with the token that requests must send [default: $CROSSHASH_TOKEN].
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Origin of other web pages that may send requests [default: none].
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<String>,

    /// Maximum size of a request body in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_body: u16,

    /// Maximum results per response.
    #[arg(long, value_name = "K", default_value_t = 1000)]
    max_k: usize,

    /// Maximum items per insert or delete.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_items: u32,

    /// Time limit of a request in seconds.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    max_seconds: u16,

    /// Maximum concurrent connections.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,

    /// Format of the log on stderr.
    #[arg(long, value_enum, default_value_t = logs::Format::Text)]
    log: logs::Format,

    /// Level of the log.
    #[arg(long, value_enum, default_value_t = logs::LogLevel::Info)]
    log_level: logs::LogLevel,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let data = DataLocation { data: args.data.clone(), root: args.root.clone() };
    args.serve_args.serve(
        args.place.clone(),
        args.default.clone(),
        data,
        args.weights.clone(),
        args.stores.options(),
    )
}

impl ServeArgs {
    /// Serves a folder until the process is stopped.
    pub(crate) fn serve(
        &self,
        place: PathBuf,
        default: Option<String>,
        data: DataLocation,
        weights: WeightPaths,
        stores: StoreOptions,
    ) -> Result<ExitCode> {
        logs::start(self.log, self.log_level);
        let addr = self.address()?;
        let limits = Limits {
            body: usize::from(self.max_body) << 20,
            k: self.max_k,
            items: self.max_items as usize,
            time: Duration::from_secs(self.max_seconds.into()),
            connections: self.max_connections.into(),
            memory: Memory::new(MEMORY.max(2 * (usize::from(self.max_body) << 20))),
        };
        serve(Options {
            place,
            addr,
            default,
            data,
            weights,
            stores,
            limits,
            token_file: self.token_file.clone(),
            cors: self.cors.clone(),
            open: self.open,
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// The address to listen on; host names are resolved.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        use std::net::ToSocketAddrs as _;
        let text = &self.addr;
        let what = || format!("--addr {text}: expected HOST:PORT, e.g. 127.0.0.1:7878");
        text.to_socket_addrs().with_context(what)?.next().with_context(what)
    }
}
