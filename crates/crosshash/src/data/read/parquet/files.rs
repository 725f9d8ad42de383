//! Files in a column of a Parquet file: a column of bytes, or a group with a field `bytes`.

use parquet::basic::{Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::ByteArrayType;
use parquet::file::reader::FileReader as _;

use super::{File, TakeFile, fault};
use crate::{Error, Place, Result};

/// Rows read at a time; pictures are large.
const BATCH: usize = 16;
/// The largest file that is read.
const LARGEST: usize = 256 << 20;

/// The leaf with the bytes of a column, if it contains files.
pub(super) fn leaf(file: &File, place: usize) -> Option<usize> {
    let schema = file.metadata().file_metadata().schema_descr();
    let root = &schema.root_schema().get_fields()[place];
    let fits = |leaf: &usize| {
        let column = schema.column(*leaf);
        let own = schema.get_column_root_idx(*leaf) == place;
        let path = column.path().parts();
        let named = match path.len() {
            1 => root.is_primitive(),
            2 => path[1] == "bytes",
            _ => false,
        };
        own && named
            && column.physical_type() == Physical::BYTE_ARRAY
            && column.max_rep_level() == 0
    };
    (0..schema.num_columns()).find(fits)
}

/// Calls `take` for every row.
pub(super) fn read(file: &File, place: usize, take: TakeFile<'_>) -> Result<()> {
    let Some(leaf) = leaf(file, place) else {
        return Err(Error::content("the column contains no files"));
    };
    let column = file.metadata().file_metadata().schema_descr().column(leaf);
    let required = column.self_type().get_basic_info().repetition() == Repetition::REQUIRED;
    let most = column.max_def_level();
    let always = required && most == 0;
    let (mut values, mut present) = (Vec::new(), Vec::new());
    let mut row = 0;
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(fault)?;
        let reader = group.get_column_reader(leaf).map_err(fault)?;
        let mut reader = get_typed_column_reader::<ByteArrayType>(reader);
        loop {
            values.clear();
            present.clear();
            let read = reader.read_records(BATCH, Some(&mut present), None, &mut values);
            let read = read.map_err(|_| fault("the file is damaged"))?.0;
            if read == 0 {
                break;
            }
            let mut next = values.iter();
            for at in 0..read {
                let filled = always || present.get(at) == Some(&most);
                let value = if filled { next.next() } else { None };
                let bytes = value.map(parquet::data_type::ByteArray::data);
                if bytes.is_some_and(|bytes| bytes.len() > LARGEST) {
                    let what = format!("the file is larger than {LARGEST} bytes");
                    return Err(Error::row(Place::Row(row), what));
                }
                take(row, bytes.filter(|bytes| !bytes.is_empty()))?;
                row += 1;
            }
        }
    }
    Ok(())
}
