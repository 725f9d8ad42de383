//! Authorisation: the bearer token, and protection against pages of other sites.
//!
//! Without a token the server accepts local requests only. A page of another site could still reach
//! a loopback address through its own host name (DNS rebinding), so the Host header must name this
//! machine. Browsers also send some requests of other pages without asking (forms, pictures): the
//! API refuses requests whose `Origin` or `Sec-Fetch-Site` says that they come from another site,
//! unless its origin is allowed.

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
        let hosts = hosts(headers, host)?;
        if !open {
            self.check_origin(headers, &hosts)?;
        }
        let Some(token) = &self.token else {
            if hosts.iter().all(Host::is_this_machine) {
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

    /// Refuses requests that a browser sends for a page of another site.
    fn check_origin(&self, headers: &HeaderMap, hosts: &[Host<'_>]) -> ApiResult<()> {
        let foreign = |name: &str| {
            let message =
                "requests of pages of other sites are refused; allow an origin with --cors";
            Err(ApiError::forbidden(message).at(format!("header {name}")))
        };
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("");
            if self.cors.as_deref() == Some(origin) {
                return Ok(());
            }
            // The page of this server, at whatever name it is reached.
            let rest = origin.split_once("://").map_or("", |(_, rest)| rest);
            return match Host::parse(rest) {
                Some(own)
                    if !hosts.is_empty() && hosts.iter().all(|host| own.is_same(host)) =>
                {
                    Ok(())
                }
                _ => foreign("Origin"),
            };
        }
        match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => foreign("Sec-Fetch-Site"),
        }
    }
}

/// A host name or address and its port.
#[derive(Debug, PartialEq)]
struct Host<'a> {
    /// Without the brackets of an IPv6 address.
    name: &'a str,
    port: Option<u16>,
}

/// The hosts that a request names: in its address and its Host headers.
fn hosts<'a>(headers: &'a HeaderMap, address: Option<&'a str>) -> ApiResult<Vec<Host<'a>>> {
    let named = headers.get_all(header::HOST).iter();
    let named = named.map(|value| value.to_str().unwrap_or(""));
    let all: Option<Vec<Host<'_>>> = named.chain(address).map(Host::parse).collect();
    all.ok_or_else(|| {
        ApiError::bad_request("not a host name or address with an optional port")
            .at("header Host")
    })
}

impl<'a> Host<'a> {
    /// `name`, `name:port`, `[address]` or `[address]:port`; nothing else.
    fn parse(text: &'a str) -> Option<Host<'a>> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(inner) => {
                let (name, rest) = inner.split_once(']')?;
                name.parse::<std::net::Ipv6Addr>().ok()?;
                (name, rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                (
                    Some(name)
                        .filter(|name| !name.is_empty() && name.chars().all(is_name))?,
                    rest,
                )
            }
        };
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse().ok()?)
            }
            _ => return None,
        };
        Some(Host { name, port })
    }

    fn is_this_machine(&self) -> bool {
        let address = self.name.parse::<std::net::IpAddr>();
        self.name.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|ip| ip.is_loopback())
    }

    /// Whether both are the same; default ports may be omitted.
    fn is_same(&self, other: &Host<'_>) -> bool {
        let port = |host: &Host<'_>| host.port.filter(|port| ![80, 443].contains(port));
        self.name.eq_ignore_ascii_case(other.name) && port(self) == port(other)
    }
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
            assert!(Host::parse(host).unwrap().is_this_machine(), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "192.168.0.1"] {
            assert!(!Host::parse(host).unwrap().is_this_machine(), "{host}");
        }
        for host in [
            "",
            "[::1",
            "[::1]x",
            "localhost:evil.example",
            "localhost:",
            "localhost:+80",
            "localhost:80:80",
            "localhost:99999",
            "user@localhost",
            "evil.example@127.0.0.1",
            "localhost#evil.example",
            "[evil.example]",
            "::1",
        ] {
            assert_eq!(Host::parse(host), None, "{host}");
        }
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let check = |cors: Option<&str>, pairs: &[(&'static str, &str)]| {
            let guard = Guard { token: None, cors: cors.map(str::to_owned) };
            guard.admit(&headers(pairs), None, false).is_ok()
        };
        let host = ("host", "localhost:7878");
        assert!(check(None, &[host]));
        assert!(check(None, &[host, ("origin", "http://localhost:7878")]));
        assert!(check(None, &[host, ("sec-fetch-site", "same-origin")]));
        assert!(check(None, &[host, ("sec-fetch-site", "none")]));
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost:7879",
            "http://localhost",
            "http://127.0.0.1:7878",
            "localhost:7878",
            "",
        ] {
            assert!(!check(None, &[host, ("origin", origin)]), "{origin}");
        }
        assert!(!check(None, &[host, ("sec-fetch-site", "cross-site")]));
        assert!(!check(None, &[host, ("sec-fetch-site", "same-site")]));
        let cors = Some("https://example.org");
        assert!(check(cors, &[host, ("origin", "https://example.org")]));
        assert!(!check(cors, &[host, ("origin", "https://evil.example")]));
        assert!(!check(None, &[("host", "localhost:evil.example")]));
        assert!(!check(None, &[host, ("host", "evil.example")]));
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
