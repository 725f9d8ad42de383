//! Trees in files: equal to those in memory, refused if they belong to other codes, no panic and
//! no undetected damage.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use crosshash_codes::index::{BitTree, Index as _, LeafForm, Query, Scan};
use crosshash_codes::segments::{ItemBatch, Snapshot, Writer};
use crosshash_codes::{Bits, Codes};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Skewed bits, many duplicates.
fn codes(bits: usize, n: usize, seed: u64) -> Codes {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bools: Vec<bool> = (0..n)
        .flat_map(|_| {
            let mut group = ChaCha8Rng::seed_from_u64(rng.random_range(0..40));
            let flips = rng.random_range(0..3);
            let mut code: Vec<bool> = (0..bits).map(|_| group.random_bool(0.3)).collect();
            for _ in 0..flips {
                code[rng.random_range(0..bits)] ^= true;
            }
            code
        })
        .collect();
    Codes::from_bools(Bits::new(bits).unwrap(), &bools).unwrap()
}

#[test]
fn a_mapped_tree_answers_as_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.tree");
    for (bits, n) in [(64, 5000), (128, 3000), (200, 2000), (24, 0), (24, 1), (24, 700)] {
        for form in [LeafForm::Fast, LeafForm::Compact] {
            let (database, queries) = (codes(bits, n, 1), codes(bits, 9, 2));
            BitTree::new(database.clone(), form, &|_| ()).unwrap().save(&path).unwrap();
            let tree = BitTree::open(&path, database.clone()).unwrap();
            tree.verify().unwrap();
            let scan = Scan::new(database).unwrap();
            for query in [Query::nearest(10), Query::within(2)] {
                let found = tree.search(&queries, &query, &|_| ()).unwrap();
                assert_eq!(found, scan.search(&queries, &query, &|_| ()).unwrap());
            }
        }
    }
}

#[test]
fn a_tree_of_other_codes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.tree");
    BitTree::new(codes(64, 500, 1), LeafForm::Fast, &|_| ()).unwrap().save(&path).unwrap();
    for other in [codes(64, 500, 2), codes(64, 499, 1), codes(32, 500, 1)] {
        let err = BitTree::open(&path, other).err().unwrap().to_string();
        assert!(err.contains("built for other codes; build it again"), "{err}");
        assert!(err.contains("codes.tree"), "{err}");
    }
}

#[test]
fn damage_is_detected_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let (path, broken) = (folder.path().join("codes.tree"), folder.path().join("broken"));
    let (database, queries) = (codes(64, 3000, 1).shared(), codes(64, 50, 2));
    BitTree::new(database.clone(), LeafForm::Fast, &|_| ()).unwrap().save(&path).unwrap();
    let bytes = fs_err::read(&path).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut noticed = 0;
    for round in 0..300 {
        let mut copy = bytes.clone();
        if round % 10 == 0 {
            copy.truncate(rng.random_range(0..copy.len()));
        } else {
            let at = rng.random_range(0..copy.len());
            copy[at] ^= 1 << rng.random_range(0..8);
        }
        fs_err::write(&broken, &copy).unwrap();
        let Ok(tree) = BitTree::open(&broken, database.clone()) else {
            noticed += 1;
            continue;
        };
        // padding between sections belongs to none
        noticed += usize::from(tree.verify().is_err());
        let _ = tree.search(&queries, &Query::nearest(10), &|_| ());
        let _ = tree.search(&queries, &Query::within(3), &|_| ());
    }
    assert!(noticed >= 290, "{noticed} of 300");
}

#[test]
fn an_index_on_disk_is_searched_by_its_stored_trees() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (codes(64, 9000, 1), codes(64, 8500, 3));
    let queries = codes(64, 20, 2);
    let mut writer = Writer::create(folder.path(), first.bits(), &[]).unwrap();
    writer.apply(ItemBatch::new(first.clone()), Vec::new()).unwrap();
    let trees = || {
        let names = fs_err::read_dir(folder.path()).unwrap();
        let name = |entry: std::io::Result<fs_err::DirEntry>| entry.unwrap().file_name();
        names.map(name).filter(|name| name.to_string_lossy().ends_with(".tree")).count()
    };
    let snapshot = Snapshot::open(folder.path()).unwrap();
    assert_eq!(snapshot.write_trees(LeafForm::Fast, &|_| ()).unwrap(), 1);
    assert_eq!(snapshot.write_trees(LeafForm::Fast, &|_| ()).unwrap(), 0);
    // a live insert: the stored tree stays, the new segment is scanned
    writer.apply(ItemBatch::new(second.clone()), Vec::new()).unwrap();
    let snapshot = Snapshot::open(folder.path()).unwrap();
    let how = snapshot.explain().unwrap();
    assert!(how[0].starts_with("tree:"), "{how:?}");
    assert!(how[1].starts_with("scan:"), "{how:?}");
    let mut all = first;
    all.append(&second).unwrap();
    let scan = Scan::new(all).unwrap();
    let truth = scan.search(&queries, &Query::nearest(25), &|_| ()).unwrap();
    assert_eq!(snapshot.hits(&queries, &Query::nearest(25), &|_| ()).unwrap(), truth);
    assert_eq!(snapshot.write_trees(LeafForm::Compact, &|_| ()).unwrap(), 1);
    assert_eq!(trees(), 2);
    let snapshot = Snapshot::open(folder.path()).unwrap();
    assert_eq!(snapshot.hits(&queries, &Query::nearest(25), &|_| ()).unwrap(), truth);
    // a flipped bit of a tree is reported, by a search as well
    let tree = |entry: std::io::Result<fs_err::DirEntry>| {
        Some(entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "tree"))
    };
    let tree = fs_err::read_dir(folder.path()).unwrap().find_map(tree).unwrap();
    let mut bytes = fs_err::read(&tree).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs_err::write(&tree, &bytes).unwrap();
    let states = crosshash_codes::segments::verify(folder.path()).unwrap();
    let named = states.iter().find(|state| state.fault.is_some()).unwrap();
    assert_eq!(named.path, tree);
    let snapshot = Snapshot::open(folder.path()).unwrap();
    assert!(snapshot.hits(&queries, &Query::nearest(25), &|_| ()).is_err());
    // merged segments take their trees with them
    writer.compact().unwrap();
    assert_eq!(trees(), 0);
}
