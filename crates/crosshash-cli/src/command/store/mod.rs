//! `crosshash store`: items in a database: push, search, verify, info, delete, drop.

mod change;
mod info;
mod place;
mod push;
mod search;
mod verify;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;

use crate::store::{self, Description, Store};

const ADDRESSES: &str = "\
Addresses:
    postgresql://USER@HOST:5432/DATABASE?table=NAME    PostgreSQL 14 or newer
    clickhouse://USER@HOST:8123/DATABASE?table=NAME    ClickHouse, HTTP interface

The table is `crosshash` if the address names none. Passwords: in the address (USER:PASSWORD@HOST), or
in PGPASSWORD or CLICKHOUSE_PASSWORD, which other users of the machine cannot see; they are never
printed. Connections to other machines are encrypted and certificates are verified; sslrootcert=FILE
adds the certificate of a private authority, sslmode=disable turns encryption off.";

/// Keep and search items in a database: PostgreSQL or ClickHouse.
#[derive(clap::Args)]
#[command(after_help = ADDRESSES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Push(push::Args),
    Search(search::Args),
    Verify(verify::Args),
    Info(info::Args),
    Delete(change::DeleteArgs),
    Drop(change::DropArgs),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Push(args) => push::run(args),
        What::Search(args) => search::run(args),
        What::Verify(args) => verify::run(args),
        What::Info(args) => info::run(args),
        What::Delete(args) => change::delete(args),
        What::Drop(args) => change::drop_table(args),
    }
}

/// Connects to a store that contains items.
fn open_filled(address: &str) -> Result<(Box<dyn Store>, Description)> {
    let mut store = store::open(address)?;
    let description = store.description().with_context(|| store.place().to_owned())?;
    let Some(description) = description else {
        bail!(
            "{}: there is no such table; `crosshash store push` creates it",
            store.place()
        );
    };
    Ok((store, description))
}

/// The same, for searches: all items must be there.
fn open_complete(address: &str) -> Result<(Box<dyn Store>, Description)> {
    let (store, description) = open_filled(address)?;
    if !description.complete {
        bail!(
            "{}: a push of {} items was interrupted; repeat it to continue",
            store.place(),
            description.items
        );
    }
    Ok((store, description))
}
