//! Validation: the held-out items as queries, some training items as the database.

use crosshash_codes::eval::Options;
use crosshash_codes::{Bits, Codes};

use crate::Result;
use crate::evaluate::{Coded, every_direction, mean_map};
use crate::method::ModalityData;
use crate::model::outputs;
use crate::prepare::Rows;
use crate::tower::Tower;

/// The mean MAP of the validation items over all directions, with these towers; `None` without
/// validation items. A modality without any still belongs to the database of the others.
pub(crate) fn validate(
    bits: Bits,
    modalities: &[(&ModalityData, &Tower)],
) -> Result<Option<f64>> {
    if modalities.iter().all(|(data, _)| data.validation.is_empty()) {
        return Ok(None);
    }
    let mut coded = Vec::new();
    for (data, tower) in modalities {
        let codes = |rows: &Rows, items: &[usize]| -> Result<Codes> {
            Ok(Codes::from_signs(bits, &outputs(tower, rows, items, &|_| {})?)?)
        };
        let held_out: Vec<usize> = (0..data.validation.len()).collect();
        coded.push(Coded {
            name: data.name.clone(),
            queries: codes(&data.validation, &held_out)?,
            query_labels: data.validation_labels.clone(),
            database: codes(&data.rows, &data.validation_database)?,
            database_labels: data.labels.select(&data.validation_database),
        });
    }
    Ok(mean_map(&every_direction(&coded, &Options::default(), &|_| {})?))
}
