//! How this program is started again, for work in a process of its own.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result};

static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command that starts this program, if it is not the executable of this process: the
/// Python package runs inside of an interpreter. Only the first call has an effect.
pub fn set(command: Vec<OsString>) {
    let _ = COMMAND.set(command);
}

/// The command that was set.
pub(crate) fn given() -> Option<&'static [OsString]> {
    COMMAND.get().map(Vec::as_slice)
}

/// The command that starts this program, without arguments.
pub(crate) fn command() -> Result<Command> {
    match COMMAND.get().and_then(|command| command.split_first()) {
        Some((program, arguments)) => {
            let mut child = Command::new(program);
            child.args(arguments);
            Ok(child)
        }
        None => {
            let own =
                std::env::current_exe().context("finding the path of this program")?;
            Ok(Command::new(own))
        }
    }
}
