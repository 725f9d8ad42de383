//! Authorisation: the bearer token, and protection against pages of other sites.
//!
//! Without a token the server accepts local requests only. A page of another site could still reach
//! a loopback address through its own host name (DNS rebinding), so the Host header must name this
//! machine. Requests that change data are JSON, which browsers send across sites only after a CORS
//! preflight; it is rejected unless the origin is allowed.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::error::{ApiError, ApiResult};

/// The environment variable of the token.
pub(crate) const VARIABLE: &str = "CROSSHASH_TOKEN";
/// Shorter tokens are too easy to guess.
const MIN_LENGTH: usize = 16;

/// Checks the bearer token of a request.
pub(crate) struct Guard {
    token: Option<String>,
    /// An allowed origin of other pages.
    pub(crate) cors: Option<String>,
}

impl Guard {
    /// Other addresses than loopback require a token.
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
            Some(token) if token.len() < MIN_LENGTH => {
                bail!(
                    "the token has {} characters; the minimum is {MIN_LENGTH}, e.g. `openssl rand -hex \
                     32`",
                    token.len()
                );
            }
            None if !loopback => bail!(
                "--addr is reachable from other machines, so a token is required: --token-file \
                 FILE, or the variable {VARIABLE} (e.g. from `openssl rand -hex 32`)"
            ),
            _ => {}
        }
        if let Some(origin) = &cors
            && (!origin.starts_with("http")
                || origin.parse::<axum::http::HeaderValue>().is_err())
        {
            bail!("--cors {origin}: expected one origin, e.g. https://example.org");
        }
        Ok(Guard { token, cors })
    }

    /// Whether a token is required.
    pub(crate) fn requires_token(&self) -> bool {
        self.token.is_some()
    }

    /// Accepts or rejects a request; `open` paths need no token.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        host: Option<&str>,
        open: bool,
    ) -> ApiResult<()> {
        let Some(token) = &self.token else {
            let host = host.or_else(|| headers.get(header::HOST)?.to_str().ok());
            if host.is_none_or(is_this_machine) {
                return Ok(());
            }
            return Err(ApiError::forbidden(
                "the server accepts only the hosts 127.0.0.1 and localhost; start it with a \
                 token for other names",
            )
            .at("header Host"));
        };
        if open {
            return Ok(());
        }
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| {
            let (scheme, rest) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
        });
        // Constant time: the duration does not reveal how much of the token is correct.
        if given.is_some_and(|given| bool::from(given.ct_eq(token.as_bytes()))) {
            Ok(())
        } else {
            Err(ApiError::unauthorised().at("header Authorization"))
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
    fn only_the_token_is_accepted() {
        let guard = Guard { token: Some("0123456789abcdef".into()), cors: None };
        let check =
            |value: &str| guard.admit(&headers(&[("authorization", value)]), None, false);
        assert!(check("Bearer 0123456789abcdef").is_ok());
        assert!(check("bearer 0123456789abcdef").is_ok());
        for wrong in
            ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Basic x", "Bearer", ""]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        assert!(guard.admit(&headers(&[]), Some("any.example"), true).is_ok());
    }
}
