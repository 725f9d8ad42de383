//! One column of a Parquet file: its type, and its rows from definition and repetition levels.
//!
//! A level of a value says how much of its path is there (Dremel; Melnik et al., VLDB 2010). A column
//! holds single values or lists of them. In a list, an item exists from the definition level of
//! the repeated node on; one level below, the list is empty, and further below it is null.

use std::ops::Range;

use half::f16;
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType,
    Int32Type, Int64Type,
};
use parquet::file::reader::FileReader as _;
use parquet::schema::types::{ColumnDescriptor, Type};

use super::{Building, CELL, Cell, ColumnKind, File, fault};
use crate::{Error, Place, Result};

/// Rows read at a time.
const BATCH: usize = 4096;

/// Type of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Text,
    Boolean,
    Byte,
    Signed32,
    Unsigned32,
    Signed64,
    Unsigned64,
    Half,
    Float,
    Double,
    /// Anything else, by name.
    Other(String),
}

impl Kind {
    fn name(&self) -> &str {
        match self {
            Kind::Text => "texts",
            Kind::Boolean => "booleans",
            Kind::Byte => "bytes",
            Kind::Signed32 | Kind::Unsigned32 => "32-bit integers",
            Kind::Signed64 | Kind::Unsigned64 => "64-bit integers",
            Kind::Half => "16-bit numbers",
            Kind::Float => "32-bit numbers",
            Kind::Double => "64-bit numbers",
            Kind::Other(name) => name,
        }
    }
}

/// A column of the table.
pub(super) struct Column {
    kind: Kind,
    leaf: usize,
    present: i16,
    /// Definition level from which on an item of a list exists; `None`: no list.
    item: Option<i16>,
}

/// Where rows are appended.
pub(super) struct Sink<'a> {
    pub(super) name: &'a str,
    pub(super) building: Building,
    pub(super) rows: usize,
    /// Called with the memory of new rows in bytes before they are appended.
    pub(super) grow: &'a mut dyn FnMut(u64) -> Result<()>,
}

/// One row.
#[derive(Debug, PartialEq)]
enum Row<'a, V> {
    Null,
    One(&'a V),
    NullList,
    /// Items; `None` is a null item.
    List(Vec<Option<&'a V>>),
}

/// How values are converted.
struct Convert<V> {
    text: fn(&V) -> Result<String>,
    number: Option<fn(&V) -> f32>,
}

impl Column {
    /// The column at a place of the schema.
    pub(super) fn find(file: &File, place: usize) -> Column {
        let schema = file.metadata().file_metadata().schema_descr();
        let leaves: Vec<usize> = (0..schema.num_columns())
            .filter(|&leaf| schema.get_column_root_idx(leaf) == place)
            .collect();
        let root = &schema.root_schema().get_fields()[place];
        match (leaves[..].first(), shape(root)) {
            (Some(&leaf), Some(is_list)) => {
                let column = schema.column(leaf);
                let present = column.max_def_level();
                let repetition = column.self_type().get_basic_info().repetition();
                let optional = i16::from(repetition == Repetition::OPTIONAL);
                let item = is_list.then_some(present - optional);
                Column { kind: kind(&column), leaf, present, item }
            }
            _ => {
                let kind = Kind::Other("nested values".to_owned());
                Column { kind, leaf: 0, present: 0, item: None }
            }
        }
    }

    /// What the column contains, as far as its type says.
    pub(super) fn declared(&self) -> ColumnKind {
        match (&self.kind, self.item) {
            (Kind::Other(_), _) => ColumnKind::Other,
            (Kind::Half | Kind::Float | Kind::Double, Some(_)) => ColumnKind::Numbers,
            _ => ColumnKind::Cells,
        }
    }

    /// Appends all rows of some row groups.
    pub(super) fn read(
        &self,
        file: &File,
        groups: &Range<usize>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        match &self.kind {
            Kind::Text => {
                let text = |value: &parquet::data_type::ByteArray| {
                    value.as_utf8().map(str::to_owned).map_err(fault)
                };
                self.rows::<ByteArrayType>(
                    file,
                    groups,
                    sink,
                    &Convert { text, number: None },
                )
            }
            Kind::Boolean => {
                let text = |value: &bool| Ok(value.to_string());
                self.rows::<BoolType>(file, groups, sink, &Convert { text, number: None })
            }
            Kind::Byte => {
                let text = |value: &i32| Ok(byte(*value).to_string());
                let number: fn(&i32) -> f32 = |value| f32::from(byte(*value));
                let convert = Convert { text, number: Some(number) };
                self.rows::<Int32Type>(file, groups, sink, &convert)
            }
            Kind::Signed32 => {
                let text = |value: &i32| Ok(value.to_string());
                self.rows::<Int32Type>(file, groups, sink, &Convert { text, number: None })
            }
            Kind::Unsigned32 => {
                let text = |value: &i32| Ok(value.cast_unsigned().to_string());
                self.rows::<Int32Type>(file, groups, sink, &Convert { text, number: None })
            }
            Kind::Signed64 => {
                let text = |value: &i64| Ok(value.to_string());
                self.rows::<Int64Type>(file, groups, sink, &Convert { text, number: None })
            }
            Kind::Unsigned64 => {
                let text = |value: &i64| Ok(value.cast_unsigned().to_string());
                self.rows::<Int64Type>(file, groups, sink, &Convert { text, number: None })
            }
            Kind::Half => {
                let text = |value: &parquet::data_type::FixedLenByteArray| {
                    Ok(half(value).to_string())
                };
                let convert = Convert { text, number: Some(half) };
                self.rows::<FixedLenByteArrayType>(file, groups, sink, &convert)
            }
            Kind::Float => {
                let text = |value: &f32| Ok(value.to_string());
                let convert = Convert { text, number: Some(|value| *value) };
                self.rows::<FloatType>(file, groups, sink, &convert)
            }
            Kind::Double => {
                #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
                let number: fn(&f64) -> f32 = |value| *value as f32;
                let text = |value: &f64| Ok(value.to_string());
                let convert = Convert { text, number: Some(number) };
                self.rows::<DoubleType>(file, groups, sink, &convert)
            }
            Kind::Other(what) => {
                let what = format!(
                    "contains {what}: neither a text, a number nor a list of these"
                );
                Err(Error::cell(Place::Row(0), sink.name, what))
            }
        }
    }

    fn rows<T: DataType>(
        &self,
        file: &File,
        groups: &Range<usize>,
        sink: &mut Sink<'_>,
        convert: &Convert<T::T>,
    ) -> Result<()> {
        let (mut values, mut present, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups.clone() {
            let group = file.get_row_group(group).map_err(fault)?;
            let reader = group.get_column_reader(self.leaf).map_err(fault)?;
            let mut reader = get_typed_column_reader::<T>(reader);
            loop {
                values.clear();
                present.clear();
                repeated.clear();
                let read = reader.read_records(
                    BATCH,
                    Some(&mut present),
                    Some(&mut repeated),
                    &mut values,
                );
                // The crate's messages on inconsistent pages name internals.
                if read.map_err(|_| fault("the file is damaged"))?.0 == 0 {
                    break;
                }
                let bytes = values.len() * size_of::<T::T>();
                (sink.grow)(bytes as u64)?;
                let levels = Levels { present: &present, repeated: &repeated };
                self.each(levels, &values, |row| sink.push(self, convert, row))?;
            }
        }
        Ok(())
    }

    /// Assembles the rows of a batch.
    fn each<'v, V>(
        &self,
        levels: Levels<'_>,
        mut values: &'v [V],
        mut take: impl FnMut(Row<'v, V>) -> Result<()>,
    ) -> Result<()> {
        let damaged = || fault("the file is damaged");
        let mut next = || {
            let (first, rest) = values.split_first().ok_or_else(damaged)?;
            values = rest;
            Ok(first)
        };
        let Some(item) = self.item else {
            if self.present == 0 {
                return values.iter().try_for_each(|value| take(Row::One(value)));
            }
            return levels.present.iter().try_for_each(|&level| {
                take(if level == self.present { Row::One(next()?) } else { Row::Null })
            });
        };
        if levels.present.len() != levels.repeated.len() {
            return Err(damaged());
        }
        let mut at = 0;
        while at < levels.present.len() {
            let more = levels.repeated[at + 1..].iter().take_while(|&&level| level > 0);
            let end = at + 1 + more.count();
            let own = &levels.present[at..end];
            let row = match own {
                [level] if *level + 1 < item => Row::NullList,
                [level] if *level < item => Row::List(Vec::new()),
                _ => {
                    let items = own.iter().map(|&level| {
                        if level == self.present { next().map(Some) } else { Ok(None) }
                    });
                    Row::List(items.collect::<Result<_>>()?)
                }
            };
            take(row)?;
            at = end;
        }
        Ok(())
    }
}

/// Definition and repetition levels of a batch.
#[derive(Clone, Copy)]
struct Levels<'a> {
    present: &'a [i16],
    repeated: &'a [i16],
}

impl Sink<'_> {
    fn push<V>(
        &mut self,
        column: &Column,
        convert: &Convert<V>,
        row: Row<'_, V>,
    ) -> Result<()> {
        let place = Place::Row(self.rows);
        let refused = |what: &str| Err(Error::cell(place, self.name, what.to_owned()));
        match &mut self.building {
            Building::Cells(cells) => {
                // A null text is an empty text, a null list an empty list.
                let text =
                    |value: Option<&V>| value.map_or(Ok(String::new()), convert.text);
                let cell = match row {
                    Row::Null => Cell::Text(String::new()),
                    Row::One(value) => Cell::Text(text(Some(value))?),
                    Row::NullList => Cell::List(Vec::new()),
                    Row::List(items) => {
                        Cell::List(items.into_iter().map(text).collect::<Result<_>>()?)
                    }
                };
                (self.grow)(bytes(&cell))?;
                cells.push(cell);
            }
            Building::Numbers(rows) => {
                let items = match row {
                    Row::List(items) => items,
                    Row::NullList => return refused("does not contain a list"),
                    Row::Null | Row::One(_) => {
                        let what = format!(
                            "contains {}, not lists of numbers",
                            column.kind.name()
                        );
                        return refused(&what);
                    }
                };
                let Some(number) = convert.number else {
                    let what =
                        format!("contains lists of {}, not of numbers", column.kind.name());
                    return refused(&what);
                };
                let Some(items) = items.into_iter().collect::<Option<Vec<&V>>>() else {
                    return refused("contains a list with missing numbers");
                };
                let items: Vec<f32> = items.into_iter().map(number).collect();
                rows.push(place, &items)?;
            }
        }
        self.rows += 1;
        Ok(())
    }
}

/// Memory of a cell.
fn bytes(cell: &Cell) -> u64 {
    let text = match cell {
        Cell::Text(text) => text.len(),
        Cell::List(items) => {
            items.iter().map(|item| item.len() + size_of::<String>()).sum()
        }
    };
    (CELL + text) as u64
}

/// Whether a column holds single values (`false`) or lists of them (`true`); `None`: neither.
fn shape(root: &Type) -> Option<bool> {
    let repeated =
        |field: &Type| field.get_basic_info().repetition() == Repetition::REPEATED;
    if root.is_primitive() {
        return Some(repeated(root));
    }
    let info = root.get_basic_info();
    let is_list = info.logical_type_ref() == Some(&LogicalType::List)
        || info.converted_type() == ConvertedType::LIST;
    let [inner] = root.get_fields() else { return None };
    if !is_list || repeated(root) || !repeated(inner) {
        return None;
    }
    if inner.is_primitive() {
        return Some(true);
    }
    let [item] = inner.get_fields() else { return None };
    (item.is_primitive() && !repeated(item)).then_some(true)
}

fn kind(column: &ColumnDescriptor) -> Kind {
    let (logical, converted) = (column.logical_type_ref(), column.converted_type());
    let integer = match logical {
        Some(LogicalType::Integer(kind)) => Some((kind.bit_width, kind.is_signed)),
        Some(_) => None,
        None => match converted {
            ConvertedType::NONE => Some((64, true)),
            ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32 => {
                Some((32, true))
            }
            ConvertedType::INT_64 => Some((64, true)),
            ConvertedType::UINT_8 => Some((8, false)),
            ConvertedType::UINT_16 | ConvertedType::UINT_32 => Some((32, false)),
            ConvertedType::UINT_64 => Some((64, false)),
            _ => None,
        },
    };
    let is_text = match logical {
        Some(kind) => matches!(kind, LogicalType::String | LogicalType::Json),
        None => matches!(converted, ConvertedType::UTF8 | ConvertedType::JSON),
    };
    match (column.physical_type(), integer) {
        (Physical::BOOLEAN, _) => Kind::Boolean,
        (Physical::INT32, Some((8, false))) => Kind::Byte,
        (Physical::INT32, Some((_, true))) => Kind::Signed32,
        (Physical::INT32, Some((_, false))) => Kind::Unsigned32,
        (Physical::INT64, Some((_, true))) => Kind::Signed64,
        (Physical::INT64, Some((_, false))) => Kind::Unsigned64,
        // Columns without any value are stored as integers of an unknown type.
        (Physical::INT32, None) if logical == Some(&LogicalType::Unknown) => Kind::Signed32,
        (Physical::FLOAT, _) => Kind::Float,
        (Physical::DOUBLE, _) => Kind::Double,
        (Physical::BYTE_ARRAY, _) if is_text => Kind::Text,
        (Physical::FIXED_LEN_BYTE_ARRAY, _) if logical == Some(&LogicalType::Float16) => {
            Kind::Half
        }
        (physical, _) => Kind::Other(match logical {
            Some(logical) => format!("{physical} ({logical:?})"),
            None => physical.to_string(),
        }),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a byte is stored in 32 bits")]
fn byte(value: i32) -> u8 {
    value.cast_unsigned() as u8
}

fn half(value: &parquet::data_type::FixedLenByteArray) -> f32 {
    let bytes = value.data();
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}
