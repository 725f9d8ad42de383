//! Sections of a configuration: each is parsed by the method that it belongs to.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// The settings of one section.
pub(crate) trait Settings: Serialize + DeserializeOwned + Default {
    /// The name of the section.
    const SECTION: &'static str;

    /// Checks every value.
    fn check(&self) -> Result<()>;
}

/// The sections of a configuration. Reading a section completes it with defaults.
pub(crate) struct Sections(toml::Table);

impl Sections {
    pub(super) fn new(given: toml::Table) -> Sections {
        Sections(given)
    }

    /// Parses and checks one section; a section that was not given has its defaults.
    pub(crate) fn read<T: Settings>(&mut self) -> Result<T> {
        self.read_or(T::default())
    }

    /// Like [`Sections::read`], with other defaults.
    pub(crate) fn read_or<T: Settings>(&mut self, default: T) -> Result<T> {
        let name = T::SECTION;
        let place = |err: &dyn std::fmt::Display| {
            Error::content(format!("[{name}]: {}", err.to_string().trim()))
        };
        let mut table = toml::Table::try_from(&default).map_err(|err| place(&err))?;
        match self.0.remove(name) {
            None => {}
            Some(toml::Value::Table(given)) => table.extend(given),
            Some(other) => {
                return Err(Error::content(format!(
                    "{name} = {other}: it must be a section, e.g. [{name}]"
                )));
            }
        }
        let settings: T = toml::Value::Table(table)
            .try_into()
            .map_err(|err: toml::de::Error| place(&err))?;
        settings.check()?;
        let complete = toml::Value::try_from(&settings).map_err(|err| place(&err))?;
        self.0.insert(name.to_owned(), complete);
        Ok(settings)
    }

    pub(super) fn into_table(self) -> toml::Table {
        self.0
    }
}

/// Checks of single values; errors name the key and the allowed range.
pub(crate) mod check {
    use std::fmt::Display;

    use crate::{Error, Result};

    pub(crate) fn fail<T>(key: &str, value: impl Display, allowed: &str) -> Result<T> {
        Err(Error::content(format!("{key} = {value}: it must be {allowed}")))
    }

    pub(crate) fn at_least_one(key: &str, value: usize) -> Result<()> {
        if value == 0 { fail(key, value, "at least 1") } else { Ok(()) }
    }

    pub(crate) fn at_most(key: &str, value: usize, most: usize) -> Result<()> {
        if value > most { fail(key, value, &format!("at most {most}")) } else { Ok(()) }
    }

    pub(crate) fn positive(key: &str, value: f64) -> Result<()> {
        if value > 0.0 && value.is_finite() { Ok(()) } else { fail(key, value, "above 0") }
    }

    pub(crate) fn not_negative(key: &str, value: f64) -> Result<()> {
        let fine = value >= 0.0 && value.is_finite();
        if fine { Ok(()) } else { fail(key, value, "0 or more") }
    }

    pub(crate) fn share(key: &str, value: f64) -> Result<()> {
        let fine = (0.0..1.0).contains(&value);
        if fine { Ok(()) } else { fail(key, value, "0 or more and below 1") }
    }
}
