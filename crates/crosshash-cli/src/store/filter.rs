//! Filters as SQL conditions. A condition is true or false, never unknown, so that `NOT` means
//! the same as in our own index.

use crosshash_codes::index::{Filter, PlainTest};

use super::{StoreError, StoreResult};

/// How a database writes the tests of a filter.
pub(super) trait Dialect {
    /// The item has at least one of these labels.
    fn labels(&mut self, any: &[usize]) -> String;

    /// The item has one of these ids.
    fn ids(&mut self, any: &[String]) -> StoreResult<String>;

    /// A field passes a test.
    fn field(&mut self, name: &str, test: &PlainTest) -> StoreResult<String>;
}

/// The condition of a filter.
pub(super) fn condition(filter: &Filter, dialect: &mut dyn Dialect) -> StoreResult<String> {
    match filter {
        Filter::Label(any) => Ok(dialect.labels(any)),
        Filter::Id(ids) => dialect.ids(ids),
        Filter::Field(name, test) => {
            let tests = test.plain();
            let tests = tests.iter().map(|test| dialect.field(name, test));
            Ok(join(tests.collect::<StoreResult<_>>()?, " OR "))
        }
        Filter::Not(inner) => Ok(format!("(NOT {})", condition(inner, dialect)?)),
        Filter::And(all) => joined(all, " AND ", dialect),
        Filter::Or(any) => joined(any, " OR ", dialect),
    }
}

fn joined(
    filters: &[Filter],
    operator: &str,
    dialect: &mut dyn Dialect,
) -> StoreResult<String> {
    let parts = filters.iter().map(|filter| condition(filter, dialect));
    Ok(join(parts.collect::<StoreResult<_>>()?, operator))
}

/// Without parts nothing matches.
fn join(parts: Vec<String>, operator: &str) -> String {
    if parts.is_empty() {
        return "(1 = 0)".into();
    }
    format!("({})", parts.join(operator))
}

/// A finite number; others cannot be compared by every database.
pub(super) fn finite(number: f64) -> StoreResult<f64> {
    if number.is_finite() {
        return Ok(number);
    }
    Err(StoreError::Rejected(format!("filter: {number} cannot be compared in a store")))
}
