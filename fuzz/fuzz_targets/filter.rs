//! Filter expressions: parsed within the budget, evaluated without a panic, and equal to their negation
//! twice.

#![no_main]

use std::sync::OnceLock;

use crosshash_codes::format::{Id, Ids};
use crosshash_codes::index::{FieldSource, FieldValue};
use crosshash_codes::segments::{ItemBatch, Snapshot};
use crosshash_codes::{Bits, Cancel, Codes, Labels};
use libfuzzer_sys::fuzz_target;

struct Fields;

impl FieldSource for Fields {
    fn version(&self) -> u64 {
        0
    }

    fn fields(
        &self,
        id: &Id,
        _: &[u8],
        visit: &mut dyn FnMut(&str, FieldValue),
    ) -> crosshash_codes::Result<()> {
        let length = id.to_string().len();
        visit("price", FieldValue::Number(length as f64 - 2.5));
        visit("name", FieldValue::Text(id.to_string()));
        visit("new", FieldValue::Bool(length % 2 == 0));
        visit("tags", FieldValue::List(vec![FieldValue::Text("a b".into())]));
        Ok(())
    }
}

fn snapshot() -> &'static Snapshot {
    static ITEMS: OnceLock<Snapshot> = OnceLock::new();
    ITEMS.get_or_init(|| {
        let bits = Bits::new(64).expect("bits");
        let names = (0..50).map(|k| "x".repeat(k) + &k.to_string());
        let items = ItemBatch {
            ids: Some(Ids::Names(names.collect())),
            labels: Some(
                Labels::from_indices(3, (0..50).map(|k| [k % 3])).expect("labels"),
            ),
            ..ItemBatch::new(Codes::from_words(bits, (0..50).collect()).expect("codes"))
        };
        let labels = ["animal", "it's", "with \"quotes\""].map(str::to_owned);
        Snapshot::in_memory(items, &labels).expect("a snapshot")
    })
}

fuzz_target!(|text: &str| {
    let cancel = Cancel::default();
    let Ok(set) = snapshot().filter_with(text, &Fields, &cancel) else { return };
    let twice = format!("not (not ({text}))");
    if let Ok(again) = snapshot().filter_with(&twice, &Fields, &cancel) {
        assert!(set.iter().eq(again.iter()), "{text}");
    }
});
