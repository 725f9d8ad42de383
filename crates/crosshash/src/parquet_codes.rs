//! Codes in Parquet files: encoding of tables that are larger than memory, row group by row group, and
//! reading of the codes.
//!
//! An encoded file has the columns `id` (text), `code` (bytes, eight bits each, bit 0 of the code in the
//! lowest place of the first byte) and, if they are wanted, `outputs` (one signed byte per bit). It has the
//! row groups of its source, compressed by zstd. The entry `crosshash` of its metadata names code length,
//! modality and model.

use std::path::Path;
use std::sync::Arc;

use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{BitOrder, Bits, Codes, Outputs, write};
use parquet::basic::{Compression, Type, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::{Deserialize, Serialize};

use crate::data::limits::Budget;
use crate::data::read::{ColumnSpec, RowGroups, Table};
use crate::data::{Features, Texts};
use crate::encode::{Encoder as _, signs};
use crate::{Error, QueryEncoder, Result};

/// Items whose real outputs are in memory at the same time.
const BLOCK: usize = 1 << 14;
/// The entry of the metadata.
const KEY: &str = "crosshash";

/// What an encoded file contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParquetInfo {
    /// Code length.
    pub bits: usize,
    /// The encoded modality.
    pub modality: String,
    /// Checksum of the outputs of the model for the first items: another model gives another one.
    pub model: String,
    /// Whether there is a column of outputs.
    pub outputs: bool,
    /// Number of rows.
    pub rows: usize,
}

/// How files are encoded.
#[derive(Debug)]
pub struct ParquetEncoding<'a> {
    /// The model with its backbones.
    pub encoder: &'a QueryEncoder,
    /// The modality of the items.
    pub modality: &'a str,
    /// The column of the items: texts, or lists of numbers.
    pub column: &'a str,
    /// The column of the ids.
    pub id: Option<&'a str>,
    /// Without ids, items are named by this text and their row, beginning with 0: `part-0:17`.
    pub prefix: &'a str,
    /// Whether the outputs of the model are written.
    pub outputs: bool,
}

impl ParquetEncoding<'_> {
    /// Encodes one file into another. `progress` is called with the number of rows done. A file that exists
    /// and contains all rows by the same model is left as it is: then the result is `None`.
    pub fn encode_file(
        &self,
        from: &Path,
        to: &Path,
        progress: &dyn Fn(usize),
    ) -> Result<Option<ParquetInfo>> {
        let source = self.open(from)?;
        let budget = Budget::default();
        let is_text = self.takes_texts()?;
        let mut info = ParquetInfo {
            bits: self.encoder.model().bits().get(),
            modality: self.modality.to_owned(),
            model: String::new(),
            outputs: self.outputs,
            rows: source.rows(),
        };
        let mut written = 0;
        if source.len() > 0 {
            // the first rows tell whether an existing file was made by this model
            let table = source.read(0, &budget)?;
            let first = self.features(&table, is_text)?;
            let few: Vec<usize> = (0..first.len().min(16)).collect();
            let reals = self.outputs_of(first.select(&few))?;
            let rounded = Outputs::from_reals(self.encoder.model().bits(), &reals)?;
            let bytes: Vec<u8> =
                rounded.values().iter().map(|value| value.to_le_bytes()[0]).collect();
            info.model = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
        }
        if to.exists() && read_info(to)?.as_ref() == Some(&info) {
            return Ok(None);
        }
        write::atomically(to, |out| {
            let encode = || -> Result<()> {
                let mut writer = self.writer(out, &info)?;
                for group in 0..source.len() {
                    let table = source.read(group, &budget)?;
                    let rows = self.group(&table, is_text, written, &|done| {
                        progress(written + done);
                    })?;
                    rows.write(&mut writer)?;
                    written += table.len();
                    progress(written);
                }
                writer.close().map_err(fault)?;
                Ok(())
            };
            encode().map_err(|err| crosshash_codes::Error::content(err.to_string()))
        })?;
        Ok(Some(info))
    }

    /// Number of rows of a file, as it declares.
    pub fn rows(&self, from: &Path) -> Result<usize> {
        Ok(self.open(from)?.rows())
    }

    fn open(&self, from: &Path) -> Result<RowGroups> {
        let column = self.column.to_owned();
        let mut wanted = vec![if self.takes_texts()? {
            ColumnSpec::Cells(column)
        } else {
            ColumnSpec::Numbers(column)
        }];
        wanted.extend(self.id.map(|id| ColumnSpec::Cells(id.to_owned())));
        RowGroups::open(from, &wanted)
    }

    /// Whether items are texts, or else lists of numbers.
    fn takes_texts(&self) -> Result<bool> {
        let kinds = self.encoder.kinds(self.modality);
        if kinds.contains(&crate::QueryKind::Text) {
            return Ok(true);
        }
        if kinds.contains(&crate::QueryKind::Features) || kinds.is_empty() {
            self.encoder.model().preparation(self.modality)?; // an unknown modality is an error
            return Ok(false);
        }
        Err(Error::content(format!(
            "modality {} takes pictures: extract their features first (`crosshash features`), or encode \
             a folder of them",
            self.modality
        )))
    }

    fn features(&self, table: &Table, is_text: bool) -> Result<Features> {
        if !is_text {
            return Ok(table.numbers(self.column)?.clone());
        }
        let texts: Texts =
            table.cells(self.column)?.iter().map(|cell| cell.text()).collect();
        Ok(Features::Text(texts))
    }

    fn outputs_of(&self, features: Features) -> Result<Vec<f32>> {
        let model = self.encoder.model();
        let features = match features {
            // the texts of a modality with a backbone
            Features::Text(texts) if !model.preparation(self.modality)?.is_text() => {
                let texts: Vec<String> =
                    (0..texts.len()).map(|at| texts.get(at).to_owned()).collect();
                self.encoder.texts(self.modality, &texts)?
            }
            other => other,
        };
        model.outputs(self.modality, features, &|_| ())
    }

    fn group(
        &self,
        table: &Table,
        is_text: bool,
        first: usize,
        progress: &dyn Fn(usize),
    ) -> Result<EncodedRows> {
        let bits = self.encoder.model().bits();
        let features = self.features(table, is_text)?;
        let ids: Vec<String> = match self.id {
            Some(id) => table.cells(id)?.iter().map(|cell| cell.text()).collect(),
            None => (first..first + table.len())
                .map(|row| format!("{}:{row}", self.prefix))
                .collect(),
        };
        let (mut codes, mut outputs) = (Codes::new(bits), Outputs::new(bits));
        for start in (0..table.len()).step_by(BLOCK) {
            let items: Vec<usize> = (start..table.len().min(start + BLOCK)).collect();
            let reals = self.outputs_of(features.select(&items))?;
            codes.append(&signs(bits, &reals)?)?;
            if self.outputs {
                outputs.append(&Outputs::from_reals(bits, &reals)?)?;
            }
            progress(start + items.len());
        }
        Ok(EncodedRows { ids, codes, outputs: self.outputs.then_some(outputs) })
    }

    fn writer<W: std::io::Write + Send>(
        &self,
        out: W,
        info: &ParquetInfo,
    ) -> Result<SerializedFileWriter<W>> {
        let bits = self.encoder.model().bits();
        let outputs = if self.outputs {
            format!(" required fixed_len_byte_array({}) outputs;", bits.get())
        } else {
            String::new()
        };
        let schema = format!(
            "message codes {{ required binary id (UTF8); required fixed_len_byte_array({}) code;{outputs} }}",
            bits.bytes()
        );
        let schema = Arc::new(parse_message_type(&schema).map_err(fault)?);
        let text = serde_json::to_string(info).map_err(std::io::Error::from)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_owned(), text)]))
            .build();
        SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(fault)
    }
}

/// One row group of codes.
struct EncodedRows {
    ids: Vec<String>,
    codes: Codes,
    outputs: Option<Outputs>,
}

impl EncodedRows {
    fn write<W: std::io::Write + Send>(
        &self,
        writer: &mut SerializedFileWriter<W>,
    ) -> Result<()> {
        let mut group = writer.next_row_group().map_err(fault)?;
        let mut column = |kind: Values| -> Result<()> {
            let Some(mut column) = group.next_column().map_err(fault)? else {
                return Err(fault("a column is missing"));
            };
            let written = match kind {
                Values::Texts(values) => {
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)
                }
                Values::Fixed(values) => {
                    let values: Vec<_> = values.into_iter().map(Into::into).collect();
                    column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)
                }
            };
            written.map_err(fault)?;
            column.close().map_err(fault)
        };
        column(Values::Texts(
            self.ids.iter().map(|id| ByteArray::from(id.as_str())).collect(),
        ))?;
        let bits = self.codes.bits();
        column(Values::fixed(&self.codes.to_packed(BitOrder::Lsb), bits.bytes()))?;
        if let Some(outputs) = &self.outputs {
            let bytes: Vec<u8> =
                outputs.values().iter().map(|value| value.to_le_bytes()[0]).collect();
            column(Values::fixed(&bytes, bits.get()))?;
        }
        group.close().map_err(fault)?;
        Ok(())
    }
}

/// The values of a column.
enum Values {
    Texts(Vec<ByteArray>),
    Fixed(Vec<ByteArray>),
}

impl Values {
    fn fixed(bytes: &[u8], width: usize) -> Values {
        Values::Fixed(
            bytes.chunks_exact(width).map(|row| ByteArray::from(row.to_vec())).collect(),
        )
    }
}

/// What an encoded file contains, by its metadata; `None` for a file of another program.
pub fn read_info(path: &Path) -> Result<Option<ParquetInfo>> {
    open(path).and_then(|file| info_of(&file)).map_err(|err| err.at(path))
}

fn open(path: &Path) -> Result<SerializedFileReader<std::fs::File>> {
    SerializedFileReader::new(fs_err::File::open(path)?.into_file()).map_err(fault)
}

fn info_of(file: &SerializedFileReader<std::fs::File>) -> Result<Option<ParquetInfo>> {
    let all = file.metadata().file_metadata().key_value_metadata();
    let text = all.into_iter().flatten().find(|entry| entry.key == KEY);
    let text = text.and_then(|entry| entry.value.as_deref());
    text.map(|text| serde_json::from_str(text).map_err(fault)).transpose()
}

/// The ids, codes and outputs of a file that `crosshash encode` wrote, or another program (Spark, Ray) with the
/// columns `id` (texts or integers) and `code` (bytes, lowest bit first). Without our metadata, a code has
/// eight bits per byte.
pub fn read_codes(path: &Path) -> Result<(CodeFile, Option<Outputs>)> {
    let read = || -> Result<(CodeFile, Option<Outputs>)> {
        let file = open(path)?;
        let info = info_of(&file)?;
        let rows = usize::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
        let (mut packed, mut width) = (Vec::new(), 0);
        bytes(&file, "code", rows, &mut |row| {
            if width != 0 && row.len() != width {
                return Err(fault("the codes have different lengths"));
            }
            width = row.len();
            packed.extend(row);
            Ok(())
        })?;
        let bits = Bits::new(info.as_ref().map_or(width * 8, |info| info.bits))?;
        let codes = Codes::from_packed(bits, &packed, BitOrder::Lsb)?;
        let ids = ids(&file, rows)?;
        let mut outputs = None;
        if info.is_some_and(|info| info.outputs) {
            let mut values = Vec::new();
            bytes(&file, "outputs", rows, &mut |row| {
                values.extend(row.iter().map(|byte| i8::from_le_bytes([*byte])));
                Ok(())
            })?;
            outputs = Some(Outputs::from_bytes(bits, values)?);
        }
        Ok((CodeFile { codes, ids: Some(ids), labels: None }, outputs))
    };
    read().map_err(|err| err.at(path))
}

/// The place and type of a column.
fn find(file: &SerializedFileReader<std::fs::File>, name: &str) -> Result<(usize, Type)> {
    let schema = file.metadata().file_metadata().schema_descr();
    let columns = schema.columns();
    let at = columns.iter().position(|column| column.path().string() == name);
    let names = || columns.iter().map(|column| column.name());
    let at = at.ok_or_else(|| Error::unknown("column", name, names()))?;
    Ok((at, columns[at].physical_type()))
}

fn ids(file: &SerializedFileReader<std::fs::File>, rows: usize) -> Result<Ids> {
    let (place, kind) = find(file, "id")?;
    let mut numbers = Vec::with_capacity(rows);
    let mut number = |value: i64| {
        numbers.push(u64::try_from(value).map_err(|_| fault("an id is negative"))?);
        Ok(())
    };
    match kind {
        Type::INT64 => column::<Int64Type>(file, place, "id", rows, &mut |id| number(*id))?,
        Type::INT32 => {
            column::<Int32Type>(file, place, "id", rows, &mut |id| number(i64::from(*id)))?;
        }
        _ => {
            let mut names = Vec::with_capacity(rows);
            bytes(file, "id", rows, &mut |row| {
                names.push(std::str::from_utf8(row).map_err(fault)?.to_owned());
                Ok(())
            })?;
            return Ok(Ids::Names(names));
        }
    }
    Ok(Ids::Numbers(numbers))
}

/// A column of bytes, of fixed length or not.
fn bytes(
    file: &SerializedFileReader<std::fs::File>,
    name: &str,
    rows: usize,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (place, kind) = find(file, name)?;
    match kind {
        Type::BYTE_ARRAY => {
            column::<ByteArrayType>(file, place, name, rows, &mut |value| {
                take(value.data())
            })
        }
        Type::FIXED_LEN_BYTE_ARRAY => {
            column::<FixedLenByteArrayType>(file, place, name, rows, &mut |value| {
                take(value.data())
            })
        }
        other => Err(fault(format!("column {name} contains {other}, not bytes"))),
    }
}

fn column<T: DataType>(
    file: &SerializedFileReader<std::fs::File>,
    place: usize,
    name: &str,
    rows: usize,
    take: &mut dyn FnMut(&T::T) -> Result<()>,
) -> Result<()> {
    let (mut values, mut levels, mut found) = (Vec::new(), Vec::new(), 0);
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(fault)?;
        let reader = group.get_column_reader(place).map_err(fault)?;
        let mut reader = get_typed_column_reader::<T>(reader);
        loop {
            values.clear();
            levels.clear();
            let read = reader.read_records(BLOCK, Some(&mut levels), None, &mut values);
            if read.map_err(fault)?.0 == 0 {
                break;
            }
            found += values.len();
            values.iter().try_for_each(&mut *take)?;
        }
    }
    if found == rows {
        return Ok(());
    }
    Err(fault(format!("column {name} has {found} values in {rows} rows")))
}

fn fault(err: impl std::fmt::Display) -> Error {
    Error::content(format!("Parquet: {err}"))
}
