//! Fields of items: filters over them, and counts of their values.
//!
//! The columns of a part are built when they are first needed and kept as long as the part is in
//! use. The content of payloads is unknown here: a [`FieldSource`] reads it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::part::{LabelRows, Source, each_label};
use super::snapshot::Snapshot;
use crate::index::{
    Columns, ColumnsBuilder, FieldSource, FieldTest, FieldValue, Filter, ItemSet, Subjects,
    check_fields,
};
use crate::{Cancel, Result};

/// How many items have each label and each value of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// Number of items.
    pub items: usize,
    /// Items of each label.
    pub labels: Vec<usize>,
    /// The fields, by name.
    pub fields: Vec<FieldCounts>,
}

/// The values of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldCounts {
    /// The name.
    pub name: String,
    /// Number of distinct values; the elements of lists are values.
    pub distinct: usize,
    /// The most frequent values with the number of items, most frequent first.
    pub values: Vec<(FieldValue, usize)>,
    /// The smallest and the largest number, if there are numbers.
    pub range: Option<(f64, f64)>,
}

impl Source {
    /// The columns of all rows.
    fn columns(&self, from: &dyn FieldSource) -> Result<Arc<Columns>> {
        let mut cached = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, columns)) = &*cached
            && *version == from.version()
        {
            return Ok(Arc::clone(columns));
        }
        let mut builder = ColumnsBuilder::default();
        for row in 0..u32::try_from(self.rows()).unwrap_or(u32::MAX) {
            let (id, payload) = (self.id(row as usize)?, self.payload(row as usize)?.0);
            from.fields(&id, payload, &mut |name, value| builder.add(row, name, value))?;
        }
        let columns = Arc::new(builder.finish());
        *cached = Some((from.version(), Arc::clone(&columns)));
        Ok(columns)
    }
}

impl Snapshot {
    /// The items for which a filter expression over labels and ids holds.
    pub fn filter(&self, text: &str) -> Result<ItemSet> {
        struct NoFields;
        impl FieldSource for NoFields {
            fn version(&self) -> u64 {
                0
            }

            fn fields(
                &self,
                _: &crate::format::Id,
                _: &[u8],
                _: &mut dyn FnMut(&str, FieldValue),
            ) -> Result<()> {
                Ok(())
            }
        }
        let filter = self.parse_filter(text)?;
        check_fields(&filter, &[])?;
        self.matching(&filter, &NoFields, &Cancel::default())
    }

    /// The items for which a filter expression over labels, ids and fields holds. A field that no
    /// item has is an error.
    pub fn filter_with(
        &self,
        text: &str,
        from: &dyn FieldSource,
        cancel: &Cancel,
    ) -> Result<ItemSet> {
        let filter = self.parse_filter(text)?;
        if filter.has_fields() && !self.is_empty() {
            let names = self.field_names(from)?;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            check_fields(&filter, &names)?;
        }
        self.matching(&filter, from, cancel)
    }

    fn parse_filter(&self, text: &str) -> Result<Filter> {
        Filter::parse(text, self.manifest.classes, &self.manifest.label_names)
    }

    /// The names of all fields.
    pub fn field_names(&self, from: &dyn FieldSource) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for part in &self.parts {
            names.extend(part.source.columns(from)?.names().map(str::to_owned));
        }
        Ok(names)
    }

    fn matching(
        &self,
        filter: &Filter,
        from: &dyn FieldSource,
        cancel: &Cancel,
    ) -> Result<ItemSet> {
        let labels: Vec<LabelRows<'_>> =
            self.parts.iter().map(|part| part.source.labels()).collect::<Result<_>>()?;
        let columns: Vec<Arc<Columns>> = if filter.has_fields() {
            self.parts
                .iter()
                .map(|part| part.source.columns(from))
                .collect::<Result<_>>()?
        } else {
            Vec::new()
        };
        let carries = |item: u32, any: &[usize]| {
            let nth = self.bases.partition_point(|&base| base <= item) - 1;
            labels[nth].any((item - self.bases[nth]) as usize, any)
        };
        let damage = Mutex::new(None);
        let find = |id: &str| match self.find(&self.typed_id(id)?) {
            Ok(item) => item,
            Err(err) => {
                *damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
                None
            }
        };
        let field = |name: &str, test: &FieldTest| {
            let mut set = ItemSet::none(0);
            for (part, columns) in self.parts.iter().zip(&columns) {
                set.append(&columns.matching(part.rows(), name, test));
            }
            set
        };
        let len = self.rows();
        let subjects =
            Subjects { len, carries: &carries, find: &find, field: &field, cancel };
        let set = filter.items(&subjects);
        cancel.check()?;
        if let Some(err) = damage.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(err);
        }
        self.check_files()?;
        Ok(match self.live() {
            Some(live) => set.intersection(&live),
            None => set,
        })
    }

    /// A set of items of this snapshot without any.
    pub fn no_items(&self) -> ItemSet {
        ItemSet::none(self.rows())
    }

    /// The items that can be found; `None` if all rows can.
    pub(super) fn live(&self) -> Option<ItemSet> {
        if self.parts.iter().all(|part| part.live.is_none()) {
            return None;
        }
        let mut live = ItemSet::none(0);
        for part in &self.parts {
            match &part.live {
                Some(own) => live.append(own),
                None => live.append(&ItemSet::all(part.rows())),
            }
        }
        Some(live)
    }

    /// Counts labels and values of fields among some items ([`Snapshot::filter_with`]), or among
    /// all; of each field at most `most` values.
    pub fn counts(
        &self,
        items: Option<&ItemSet>,
        from: &dyn FieldSource,
        most: usize,
    ) -> Result<Counts> {
        let all;
        let set = match items {
            Some(items) => items,
            None => {
                all = self.live().unwrap_or_else(|| ItemSet::all(self.rows()));
                &all
            }
        };
        let mut labels = vec![0; self.manifest.classes];
        for (part, &base) in self.parts.iter().zip(&self.bases) {
            let rows = part.source.labels()?;
            for row in set.slice(base as usize, part.rows()).iter() {
                each_label(rows.row(row as usize), |label| {
                    if let Some(count) = labels.get_mut(label) {
                        *count += 1;
                    }
                });
            }
        }
        let mut fields = Vec::new();
        for name in self.field_names(from)? {
            let counts = self.count_field(&name, set, from, most)?;
            fields.extend(Some(counts).filter(|counts| counts.distinct > 0));
        }
        Ok(Counts { items: set.count(), labels, fields })
    }

    fn count_field(
        &self,
        name: &str,
        set: &ItemSet,
        from: &dyn FieldSource,
        most: usize,
    ) -> Result<FieldCounts> {
        let mut counted: HashMap<String, (FieldValue, usize)> = HashMap::new();
        let mut range: Option<(f64, f64)> = None;
        for (part, &base) in self.parts.iter().zip(&self.bases) {
            let columns = part.source.columns(from)?;
            columns.each(name, &|row| set.contains(base + row), &mut |value| {
                if let FieldValue::Number(number) = value {
                    let (low, high) = range.unwrap_or((*number, *number));
                    range = Some((low.min(*number), high.max(*number)));
                }
                counted.entry(value.key()).or_insert_with(|| (value.clone(), 0)).1 += 1;
            });
        }
        let distinct = counted.len();
        let mut sorted: Vec<(String, (FieldValue, usize))> = counted.into_iter().collect();
        sorted.sort_unstable_by(|a, b| b.1.1.cmp(&a.1.1).then_with(|| a.0.cmp(&b.0)));
        let values = sorted.into_iter().take(most).map(|counted| counted.1).collect();
        Ok(FieldCounts { name: name.to_owned(), distinct, values, range })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Id, Ids};
    use crate::segments::{ItemBatch, Writer};
    use crate::{Bits, Codes, Labels};

    /// Payloads are `name=value` lines, a list separated by commas.
    struct Lines(u64);

    impl FieldSource for Lines {
        fn version(&self) -> u64 {
            self.0
        }

        fn fields(
            &self,
            _: &Id,
            payload: &[u8],
            visit: &mut dyn FnMut(&str, FieldValue),
        ) -> Result<()> {
            for line in String::from_utf8_lossy(payload).lines() {
                let (name, value) = line.split_once('=').unwrap_or((line, ""));
                if value.contains(',') {
                    let list = value.split(',').map(FieldValue::from_cell).collect();
                    visit(name, FieldValue::List(list));
                } else {
                    visit(name, FieldValue::from_cell(value));
                }
            }
            Ok(())
        }
    }

    fn items(rows: &[(u64, &str)]) -> ItemBatch {
        let words = rows.iter().map(|row| row.0 % 16).collect();
        ItemBatch {
            ids: Some(Ids::Numbers(rows.iter().map(|row| row.0).collect())),
            labels: Some(
                Labels::from_indices(2, rows.iter().map(|row| [u32::from(row.0 % 2 == 1)]))
                    .unwrap(),
            ),
            payloads: Some(rows.iter().map(|row| row.1.as_bytes().into()).collect()),
            ..ItemBatch::new(Codes::from_words(Bits::new(8).unwrap(), words).unwrap())
        }
    }

    /// Fields of several segments, the log, replaced and deleted items.
    #[test]
    fn filters_and_counts_follow_the_items() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(dir.path(), Bits::new(8).unwrap(), &[]).unwrap();
        writer
            .insert(items(&[
                (1, "price=5\nbrand=x"),
                (2, "price=25\nbrand=y"),
                (3, "brand=x"),
            ]))
            .unwrap();
        writer.flush().unwrap();
        writer
            .insert(items(&[(4, "price=7\ntags=a,b"), (5, ""), (6, "price=30")]))
            .unwrap();
        writer.upsert(items(&[(2, "price=1\nbrand=z\ntags=b,c")])).unwrap();
        writer.delete(&[Id::Number(6)]).unwrap();
        let snapshot = writer.snapshot();
        let found = |text: &str| -> Vec<String> {
            let set = snapshot.filter_with(text, &Lines(1), &Cancel::default()).unwrap();
            set.iter().map(|item| snapshot.id(item).unwrap().to_string()).collect()
        };
        assert_eq!(found("price < 20"), ["1", "4", "2"]);
        assert_eq!(found("price < 20 and label = 0"), ["4", "2"]);
        assert_eq!(found("not exists(price)"), ["3", "5"]);
        assert_eq!(found("brand != x and id != 5"), ["4", "2"]);
        assert_eq!(found("tags contains b and not tags contains c"), ["4"]);
        let set =
            snapshot.filter_with("price < 20", &Lines(1), &Cancel::default()).unwrap();
        let counts = snapshot.counts(Some(&set), &Lines(1), 2).unwrap();
        assert_eq!((counts.items, &counts.labels[..]), (3, &[2, 1][..]));
        let [brand, price, tags] = &counts.fields[..] else { panic!("{counts:?}") };
        assert_eq!((brand.name.as_str(), brand.distinct), ("brand", 2));
        assert_eq!(
            (price.distinct, price.values.len(), price.range),
            (3, 2, Some((1.0, 7.0)))
        );
        assert_eq!(tags.values[0], (FieldValue::Text("b".into()), 2));
        let all = snapshot.counts(None, &Lines(1), 9).unwrap();
        assert_eq!((all.items, &all.labels[..]), (5, &[2, 3][..]));
        let err = snapshot
            .filter_with("prize < 20", &Lines(1), &Cancel::default())
            .unwrap_err()
            .to_string();
        assert_eq!(
            err,
            "filter: no item has the field \"prize\"; there are brand, price, tags"
        );
        let err = snapshot.filter("price < 20").unwrap_err().to_string();
        assert_eq!(
            err,
            "filter: no item has the field \"price\"; the items have no fields"
        );
        writer.compact().unwrap();
        let set = writer
            .snapshot()
            .filter_with("price < 20", &Lines(1), &Cancel::default())
            .unwrap();
        assert_eq!(set.count(), 3);
    }
}
