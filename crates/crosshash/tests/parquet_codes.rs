//! Parquet tables in several row groups, encoded file by file, equal to codes computed in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use crosshash::backbone::Weights;
use crosshash::codes::format::Ids;
use crosshash::codes::{Labels, Outputs};
use crosshash::data::{Dense, Selection, SplitSpec};
use crosshash::parquet_codes::{ParquetEncoding, read_codes, read_info};
use crosshash::{Config, Dataset, Encoder as _, Features, Model, QueryEncoder, encode};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const ITEMS: usize = 300;
const WIDTH: usize = 20;

fn values(phase: usize) -> Vec<f32> {
    let value = |i: usize| {
        let (item, k) = (i / WIDTH, i % WIDTH);
        let shift = if k % 5 == item % 5 { 1.5 } else { 0.0 };
        shift + (((item + phase) * 37 + k * 101) as f32 * 12.9898).sin()
    };
    (0..ITEMS * WIDTH).map(value).collect()
}

fn dense(phase: usize) -> Features {
    Features::Dense(Dense::from_floats(WIDTH, values(phase)).unwrap())
}

fn model(bits: usize) -> Model {
    let labels =
        Labels::from_indices(5, (0..ITEMS).map(|item| [u32::try_from(item % 5).unwrap()]));
    let modalities = [("image", dense(0)), ("text", dense(7))];
    let dataset = Dataset::from_arrays(&labels.unwrap(), modalities).unwrap();
    let split = SplitSpec { query: Some(Selection::Share(0.1)), ..SplitSpec::default() };
    let split = split.draw(&dataset).unwrap();
    let config = format!("bits = {bits}\nmethod = \"cca\"");
    let config = Config::parse(&config, &[]).unwrap();
    config.fit(&dataset.training(&split), &mut ()).unwrap().unwrap().model
}

/// A table with ids and vectors in row groups of different sizes.
fn write(path: &Path, values: &[f32]) {
    let schema = "message t { required binary sku (UTF8);
        required group v (LIST) { repeated group list { required float element; } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let file = fs_err::File::create(path).unwrap().into_file();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut first = 0;
    for rows in [100, 1, 150, 49] {
        let mut group = writer.next_row_group().unwrap();
        let ids: Vec<ByteArray> = (first..first + rows)
            .map(|row| ByteArray::from(format!("sku{row}").as_str()))
            .collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let own = &values[first * WIDTH..(first + rows) * WIDTH];
        let repeated: Vec<i16> =
            (0..own.len()).map(|at| i16::from(at % WIDTH > 0)).collect();
        let present = vec![1_i16; own.len()];
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<FloatType>();
        typed.write_batch(own, Some(&present), Some(&repeated)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        first += rows;
    }
    assert_eq!(first, ITEMS);
    writer.close().unwrap();
}

fn encoding(encoder: &QueryEncoder) -> ParquetEncoding<'_> {
    ParquetEncoding {
        encoder,
        modality: "image",
        column: "v",
        id: Some("sku"),
        prefix: "part",
        outputs: true,
    }
}

#[test]
fn files_are_encoded_by_row_group_and_skipped_when_complete() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.parquet"), dir.path().join("out.parquet"));
    write(&from, &values(0));
    let encoder = QueryEncoder::new(model(12), &Weights::default()).unwrap();
    let seen = Cell::new(0);
    let info = encoding(&encoder)
        .encode_file(&from, &to, &|done| {
            assert!(done >= seen.get(), "progress goes forward");
            seen.set(done);
        })
        .unwrap()
        .unwrap();
    assert_eq!((info.rows, info.bits, seen.get()), (ITEMS, 12, ITEMS));
    assert_eq!(read_info(&to).unwrap().unwrap(), info);

    let (file, outputs) = read_codes(&to).unwrap();
    let model = encoder.model();
    let wanted = encode(model, "image", dense(0), &|_| ()).unwrap();
    assert_eq!(file.codes, wanted);
    let names = (0..ITEMS).map(|row| format!("sku{row}")).collect();
    assert_eq!(file.ids, Some(Ids::Names(names)));
    let reals = model.outputs("image", dense(0), &|_| ()).unwrap();
    assert_eq!(outputs.unwrap(), Outputs::from_reals(model.bits(), &reals).unwrap());

    // complete: nothing is done; by another model, or incomplete: encoded again
    assert_eq!(encoding(&encoder).encode_file(&from, &to, &|_| ()).unwrap(), None);
    let other = QueryEncoder::new(self::model(10), &Weights::default()).unwrap();
    let info = encoding(&other).encode_file(&from, &to, &|_| ()).unwrap();
    assert_eq!(info.unwrap().bits, 10);
    let without = ParquetEncoding { id: None, outputs: false, ..encoding(&other) };
    assert!(without.encode_file(&from, &to, &|_| ()).unwrap().is_some());
    let (file, outputs) = read_codes(&to).unwrap();
    assert_eq!(file.ids.unwrap().get(17).to_string(), "part:17");
    assert_eq!(outputs, None);
    let left = fs_err::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2, "no temporary files are left");
}

#[test]
fn wrong_columns_and_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.parquet"), dir.path().join("out.parquet"));
    write(&from, &values(0));
    let encoder = QueryEncoder::new(model(10), &Weights::default()).unwrap();
    let wrong = ParquetEncoding { column: "w", ..encoding(&encoder) };
    let err = wrong.encode_file(&from, &to, &|_| ()).unwrap_err().to_string();
    assert!(
        err.contains("in.parquet") && err.contains("w") && err.contains("sku"),
        "{err}"
    );
    let wrong = ParquetEncoding { column: "sku", ..encoding(&encoder) };
    assert!(wrong.encode_file(&from, &to, &|_| ()).is_err());
    assert!(!to.exists(), "a failed encoding leaves no file");
    let err = read_codes(&from).unwrap_err().to_string();
    assert!(err.contains("code"), "{err}");
    let bytes = fs_err::read(&from).unwrap();
    fs_err::write(&from, &bytes[..bytes.len() / 2]).unwrap();
    assert!(encoding(&encoder).encode_file(&from, &to, &|_| ()).is_err());
}
