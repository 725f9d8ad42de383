//! Addresses of stores: `scheme://user:password@host:port/database?table=NAME&sslmode=MODE`.
//!
//! Parts can be percent-encoded. A password is never shown: [`StoreUrl`] prints itself without.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// The table, if the address names none.
const TABLE: &str = "crosshash";

/// A parsed address.
#[derive(Clone)]
pub struct StoreUrl {
    /// In lower case.
    pub scheme: String,
    /// User name.
    pub user: Option<String>,
    /// Password.
    password: Option<String>,
    /// Host name, address, or folder of a Unix socket.
    pub host: String,
    /// Port.
    pub port: Option<u16>,
    /// Database.
    pub database: Option<String>,
    /// Table, with a schema if it contains a dot.
    pub table: String,
    /// Whether the connection is encrypted and the certificate of the server verified.
    pub tls: bool,
    /// A file with certificates to trust besides those of the system.
    pub root_cert: Option<PathBuf>,
    /// Time limit of connecting and of every statement; not a part of the address.
    pub limit: Option<Duration>,
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if let Some(database) = &self.database {
            write!(f, "/{database}")?;
        }
        write!(f, ", table {}", self.table)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StoreUrl {
    /// Parses an address. Errors do not repeat it, because it may contain a password.
    pub fn parse(text: &str) -> Result<StoreUrl> {
        let (scheme, rest) = text.split_once("://").context(
            "the address of a store is scheme://user@host:port/database?table=NAME, for example \
             postgresql://localhost/photos",
        )?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = match rest.split_once('/') {
            Some((place, database)) => (place, Some(database)),
            None => (rest, None),
        };
        // a password may contain an @ that was not encoded
        let (login, place) = match place.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, place),
        };
        let (user, password) = match login.map(|login| login.split_once(':')) {
            Some(Some((user, password))) => (Some(user), Some(decode(password)?)),
            Some(None) => (login, None),
            None => (None, None),
        };
        let (host, port) = split_port(place)?;
        let mut url = StoreUrl {
            scheme: scheme.to_ascii_lowercase(),
            user: user.filter(|user| !user.is_empty()).map(decode).transpose()?,
            password: password.filter(|password| !password.is_empty()),
            host: decode(host)?,
            port,
            database: database.filter(|name| !name.is_empty()).map(decode).transpose()?,
            table: TABLE.to_owned(),
            tls: false,
            root_cert: None,
            limit: None,
        };
        let mut mode = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)?;
            match name {
                "table" => url.table = value,
                "host" => url.host = value,
                "sslmode" => mode = Some(value),
                "sslrootcert" => url.root_cert = Some(PathBuf::from(value)),
                other => bail!(
                    "the address has the unknown setting {other:?}; known are table, host, sslmode \
                     and sslrootcert"
                ),
            }
        }
        if url.host.is_empty() {
            url.host = "localhost".into();
        }
        check_table(&url.table)?;
        url.tls = match mode.as_deref() {
            None => !url.is_local(),
            Some("disable") => false,
            Some("verify-full") => true,
            Some(other) => bail!(
                "sslmode={other} is not supported: use verify-full, with sslrootcert=FILE for the \
                 certificate of a private authority, or disable"
            ),
        };
        Ok(url)
    }

    /// The password: of the address, or of an environment variable.
    pub fn password(&self, variable: &str) -> Option<String> {
        self.password.clone().or_else(|| std::env::var(variable).ok())
    }

    /// The user: of the address, or of an environment variable.
    pub fn user(&self, variable: &str) -> Option<String> {
        self.user.clone().or_else(|| std::env::var(variable).ok())
    }

    /// The quoted table, with its schema if there is one.
    pub fn quoted_table(&self) -> String {
        let quoted = self.table.split('.').map(|part| format!("\"{part}\""));
        quoted.collect::<Vec<_>>().join(".")
    }

    /// The name of the table without its schema, for the names of indexes.
    pub fn bare_table(&self) -> &str {
        self.table.rsplit('.').next().unwrap_or(&self.table)
    }

    /// Whether the server is on this machine.
    fn is_local(&self) -> bool {
        self.host.starts_with('/')
            || ["localhost", "127.0.0.1", "::1"].contains(&&*self.host)
    }
}

fn split_port(place: &str) -> Result<(&str, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map(|port| port.parse::<u16>().context("the port of the address"));
    Ok((host, port.transpose()?))
}

fn decode(text: &str) -> Result<String> {
    let bytes = percent_encoding::percent_decode_str(text);
    let decoded = bytes.decode_utf8().context("the address is not UTF-8")?;
    Ok(decoded.into_owned())
}

fn check_table(table: &str) -> Result<()> {
    let is_plain = |part: &str| {
        let first = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        first && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let parts: Vec<&str> = table.split('.').collect();
    if table.len() > 48 || parts.len() > 2 || !parts.into_iter().all(is_plain) {
        bail!(
            "table={table}: a table is named by letters, digits and underscores, at most 48, with a \
             schema before a dot"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let url = StoreUrl::parse(
            "PostgreSQL://ana:p%40ss:w@rd@example.org:6543/ph%20otos?table=a.b&sslrootcert=/x.pem",
        )
        .unwrap();
        assert_eq!(url.scheme, "postgresql");
        assert_eq!(url.user.as_deref(), Some("ana"));
        assert_eq!(url.password("NONE").as_deref(), Some("p@ss:w@rd"));
        assert_eq!((url.host.as_str(), url.port), ("example.org", Some(6543)));
        assert_eq!(url.database.as_deref(), Some("ph otos"));
        assert_eq!(url.quoted_table(), "\"a\".\"b\"");
        assert_eq!(url.bare_table(), "b");
        assert!(url.tls && url.root_cert.is_some());
        let shown = format!("{url} {url:?}");
        assert!(!shown.contains("p@ss"), "{shown}");
        let local = StoreUrl::parse("clickhouse://[::1]:8123").unwrap();
        assert_eq!((local.host.as_str(), local.port), ("::1", Some(8123)));
        assert!(!local.tls && local.database.is_none());
        assert_eq!(local.table, "crosshash");
        let socket = StoreUrl::parse("postgresql:///db?host=/run/pg").unwrap();
        assert_eq!((socket.host.as_str(), socket.tls), ("/run/pg", false));
    }

    #[test]
    fn bad_addresses_say_why_without_the_password() {
        for (address, why) in [
            ("host/db", "scheme://"),
            ("postgresql://u:secret@h:port/db", "port"),
            ("postgresql://u:secret@h/db?tabel=x", "unknown setting \"tabel\""),
            ("postgresql://u:secret@h/db?table=a;b", "table=a;b"),
            ("postgresql://u:secret@h/db?sslmode=require", "verify-full"),
        ] {
            let err = format!("{:#}", StoreUrl::parse(address).unwrap_err());
            assert!(err.contains(why) && !err.contains("secret"), "{address}: {err}");
        }
    }
}
