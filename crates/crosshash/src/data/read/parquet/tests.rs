//! Tables written with levels, in several row groups and small pages, and read back.

use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::{Cell, ColumnSpec, table};
use crate::Result;
use crate::data::ReadLimits;
use crate::data::limits::Budget;
use crate::proptests::fixed;

/// Values, definition levels and repetition levels of a column.
type Levels<V> = (Vec<V>, Vec<i16>, Vec<i16>);
/// A list with null items; `None` is a null list.
type List = Option<Vec<Option<u8>>>;

/// Writes a column, one row group per entry.
fn write<T: DataType>(path: &std::path::Path, schema: &str, groups: &[Levels<T::T>]) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let small = WriterProperties::builder().set_data_page_row_count_limit(3);
    let small = small.set_write_batch_size(2).build();
    let file = fs_err::File::create(path).unwrap().into_file();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(small)).unwrap();
    for (values, present, repeated) in groups {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<T>();
        typed.write_batch(values, Some(present), Some(repeated)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn cells(path: &std::path::Path) -> Result<Vec<Cell>> {
    let budget = Budget::new(ReadLimits::default());
    let found = table(path, &[ColumnSpec::Cells("a".to_owned())], &budget)?;
    Ok(found.cells("a")?.to_vec())
}

/// Levels of lists in an optional group with optional items.
fn levels<V>(lists: &[List], value: impl Fn(u8) -> V) -> Levels<V> {
    let (mut values, mut present, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        let items = list.as_deref().unwrap_or_default();
        if items.is_empty() {
            present.push(i16::from(list.is_some()));
            repeated.push(0);
        }
        for (at, item) in items.iter().enumerate() {
            present.push(if item.is_some() { 3 } else { 2 });
            repeated.push(i16::from(at > 0));
            values.extend(item.map(&value));
        }
    }
    (values, present, repeated)
}

fn lists() -> impl Strategy<Value = Vec<Vec<List>>> {
    let list = prop::option::of(prop::collection::vec(prop::option::of(any::<u8>()), 0..5));
    prop::collection::vec(prop::collection::vec(list, 1..12), 1..4)
}

proptest! {
    #![proptest_config(fixed(200))]

    #[test]
    fn lists_are_read_as_written(groups in lists()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let wanted: Vec<Cell> = groups
            .iter()
            .flatten()
            .map(|list| {
                let items = list.iter().flatten();
                Cell::List(items.map(|x| x.map_or(String::new(), |x| x.to_string())).collect())
            })
            .collect();
        let schema = "message m { OPTIONAL GROUP a (LIST) { REPEATED GROUP list {
            OPTIONAL BYTE_ARRAY element (UTF8); } } }";
        let texts: Vec<Levels<ByteArray>> = groups
            .iter()
            .map(|lists| levels(lists, |x| x.to_string().into_bytes().into()))
            .collect();
        write::<ByteArrayType>(&path, schema, &texts);
        prop_assert_eq!(&cells(&path).unwrap(), &wanted);
        let schema = schema.replace("BYTE_ARRAY element (UTF8)", "INT32 element");
        let numbers: Vec<Levels<i32>> =
            groups.iter().map(|lists| levels(lists, i32::from)).collect();
        write::<Int32Type>(&path, &schema, &numbers);
        prop_assert_eq!(&cells(&path).unwrap(), &wanted);
    }

    #[test]
    fn single_values_are_read_as_written(
        groups in prop::collection::vec(prop::collection::vec(any::<Option<i32>>(), 1..9), 1..4)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let levels: Vec<Levels<i32>> = groups
            .iter()
            .map(|rows| {
                let present = rows.iter().map(|row| i16::from(row.is_some())).collect();
                (rows.iter().flatten().copied().collect(), present, vec![0; rows.len()])
            })
            .collect();
        for (kind, unsigned) in [("INT32 a", false), ("INT32 a (UINT_32)", true)] {
            let schema = format!("message m {{ OPTIONAL {kind}; }}");
            write::<Int32Type>(&path, &schema, &levels);
            let text = |row: &Option<i32>| match row {
                None => String::new(),
                Some(x) if unsigned => x.cast_unsigned().to_string(),
                Some(x) => x.to_string(),
            };
            let wanted: Vec<Cell> =
                groups.iter().flatten().map(|row| Cell::Text(text(row))).collect();
            prop_assert_eq!(cells(&path).unwrap(), wanted);
        }
    }
}

#[test]
fn columns_of_other_types_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let rows: Levels<f32> = (vec![1.0, 2.0, 3.0], vec![1, 1, 1], vec![0, 1, 0]);
    // a repeated value is a list without null
    write::<FloatType>(&path, "message m { REPEATED FLOAT a; }", &[rows]);
    let lists = [&["1", "2"][..], &["3"]];
    let wanted =
        lists.map(|list| Cell::List(list.iter().map(ToString::to_string).collect()));
    assert_eq!(cells(&path).unwrap(), wanted);
    let error_of = |schema: &str, requested: ColumnSpec| {
        let one = (vec![1], vec![1], vec![0]);
        write::<Int32Type>(&path, schema, &[one]);
        let budget = Budget::new(ReadLimits::default());
        table(&path, &[requested], &budget).err().unwrap().to_string()
    };
    let cells = || ColumnSpec::Cells("a".to_owned());
    let numbers = || ColumnSpec::Numbers("a".to_owned());
    let text = error_of("message m { OPTIONAL INT32 a (DATE); }", cells());
    assert!(text.contains("neither a text, a number nor a list of these"), "{text}");
    let text = error_of("message m { OPTIONAL GROUP a { REQUIRED INT32 b; } }", cells());
    assert!(text.contains("contains nested values"), "{text}");
    let text = error_of("message m { OPTIONAL INT32 a; }", numbers());
    assert!(text.contains("contains 32-bit integers, not lists of numbers"), "{text}");
    let text = error_of("message m { REPEATED INT32 a; }", numbers());
    assert!(text.contains("contains lists of 32-bit integers, not of numbers"), "{text}");
}
