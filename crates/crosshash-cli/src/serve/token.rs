//! Who may ask: the token, and the guard against pages of other sites.
//!
//! Without a token only this machine is served. A page of another site could still reach a
//! loopback address through a name of its own (DNS rebinding), so the host that is asked for must
//! be this machine by name. Requests that change something are JSON, which browsers do not send
//! across sites without asking first (CORS), and that is refused unless an origin is named.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::fault::{Answer, Fault};

/// The variable that may hold the token.
pub(crate) const VARIABLE: &str = "CROSSHASH_TOKEN";
/// Shorter tokens are guessed.
const SHORTEST: usize = 16;

/// What the server asks of who asks.
pub(crate) struct Guard {
    token: Option<String>,
    /// An origin whose pages may ask.
    pub(crate) cors: Option<String>,
}

impl Guard {
    /// Refuses to be open to other machines without a token.
    pub(crate) fn new(
        loopback: bool,
        token_file: Option<&Path>,
        cors: Option<String>,
    ) -> Result<Guard> {
        let token = match token_file {
            Some(path) => Some(fs_err::read_to_string(path).context("--token-file")?),
            None => std::env::var(VARIABLE).ok(),
        };
        let token = token.map(|text| text.trim().to_owned()).filter(|t| !t.is_empty());
        match &token {
            Some(token) if token.len() < SHORTEST => {
                bail!(
                    "the token has {} characters; take at least {SHORTEST}, e.g. of `openssl rand \
                     -hex 32`",
                    token.len()
                );
            }
            None if !loopback => bail!(
                "--addr is open to other machines, so a token is needed: --token-file FILE, or \
                 the variable {VARIABLE} (e.g. from `openssl rand -hex 32`)"
            ),
            _ => {}
        }
        if let Some(origin) = &cors
            && (!origin.starts_with("http")
                || origin.parse::<axum::http::HeaderValue>().is_err())
        {
            bail!("--cors {origin}: name one origin, e.g. https://example.org");
        }
        Ok(Guard { token, cors })
    }

    /// Whether a token is asked for.
    pub(crate) fn is_closed(&self) -> bool {
        self.token.is_some()
    }

    /// Lets a request in or not; `open` paths need no token.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        host: Option<&str>,
        open: bool,
    ) -> Answer<()> {
        let Some(token) = &self.token else {
            let host = host.or_else(|| headers.get(header::HOST)?.to_str().ok());
            return match host.is_none_or(is_this_machine) {
                true => Ok(()),
                false => Err(Fault::forbidden(
                    "the server answers to 127.0.0.1 and localhost only; for other names start \
                     it with a token",
                )
                .at("header Host")),
            };
        };
        if open {
            return Ok(());
        }
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| {
            let (scheme, rest) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
        });
        // Takes as long for a token that is nearly right as for any other of its length.
        match given.is_some_and(|given| bool::from(given.ct_eq(token.as_bytes()))) {
            true => Ok(()),
            false => Err(Fault::unauthorised().at("header Authorization")),
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect()
    }

    #[test]
    fn names_of_this_machine() {
        for host in
            ["127.0.0.1", "127.0.0.1:7878", "localhost:1", "[::1]:7878", "LOCALHOST"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "192.168.0.1", "", "[::1"]
        {
            assert_eq!(is_this_machine(host), host == "[::1", "{host}");
        }
    }

    #[test]
    fn only_the_token_opens() {
        let guard = Guard { token: Some("0123456789abcdef".into()), cors: None };
        let ask =
            |value: &str| guard.admit(&headers(&[("authorization", value)]), None, false);
        assert!(ask("Bearer 0123456789abcdef").is_ok());
        assert!(ask("bearer 0123456789abcdef").is_ok());
        for wrong in
            ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Basic x", "Bearer", ""]
        {
            assert!(ask(wrong).is_err(), "{wrong}");
        }
        assert!(guard.admit(&headers(&[]), Some("any.example"), true).is_ok());
    }
}
