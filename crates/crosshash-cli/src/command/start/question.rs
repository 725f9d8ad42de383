//! Questions to the user, on the terminal.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Result, bail};

use crate::progress::say;

/// Asks a question; enter means yes. With `yes` it is not asked.
pub(super) fn ask(question: &str, yes: bool) -> Result<bool> {
    if yes {
        say(format!("{question} yes (--yes)"));
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("{question} There is no terminal to answer on; use --yes to answer yes");
    }
    loop {
        let mut out = std::io::stderr();
        write!(out, "{question} [Y/n] ")?;
        out.flush()?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            bail!("no answer");
        }
        match line.trim().to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => say("please answer y or n"),
        }
    }
}
