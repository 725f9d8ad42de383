//! `PictureIndex`: finds the picture that a cell of a table names.
//!
//! Tables name pictures in many ways: by path below the folder, by file name with or without extension, by
//! a path of another computer, by address. A name is looked up as it is, then without its leading folders,
//! then by its file name alone; a file name that several pictures have names none of them.

use std::collections::HashMap;

use super::read::Listing;

/// Pictures by path, id and file name.
pub(super) struct PictureIndex {
    exact: HashMap<String, usize>,
    /// By file name with and without extension, in lower case; `None`: several pictures.
    by_file: HashMap<String, Option<usize>>,
}

impl PictureIndex {
    pub(super) fn new(listing: &Listing) -> PictureIndex {
        let mut exact = HashMap::new();
        let mut by_file: HashMap<String, Option<usize>> = HashMap::new();
        for (at, id) in listing.ids.iter().enumerate() {
            let name = listing.pictures.name(at);
            exact.insert(id.clone(), at);
            exact.insert(name.to_owned(), at);
            for name in [file_name(id), file_name(name)] {
                let known = by_file.entry(name.to_lowercase()).or_insert(Some(at));
                if *known != Some(at) {
                    *known = None;
                }
            }
        }
        PictureIndex { exact, by_file }
    }

    /// The picture that a cell names.
    pub(super) fn find(&self, cell: &str) -> Option<usize> {
        if let Some(&at) = self.exact.get(cell) {
            return Some(at);
        }
        if cell.trim().is_empty() {
            return None;
        }
        let plain = cell.trim().replace('\\', "/");
        // The part of an address after `?` or `#` is no part of the name.
        let plain = match plain.split_once("://") {
            Some((_, rest)) => rest.split(['?', '#']).next().unwrap_or(rest).to_owned(),
            None => plain,
        };
        let mut rest = plain.trim_start_matches("./");
        loop {
            if let Some(&at) = self.exact.get(rest) {
                return Some(at);
            }
            match rest.split_once('/') {
                Some((_, below)) => rest = below,
                None => break,
            }
        }
        self.by_file.get(&rest.to_lowercase()).copied().flatten()
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{PicturePlace, Pictures};

    #[test]
    fn names_of_all_kinds_are_found() {
        let names = ["a/1.jpg", "b/1.jpg", "b/Two.PNG"].map(str::to_owned).to_vec();
        let ids = ["a/1", "b/1", "b/Two"].map(str::to_owned).to_vec();
        let place = PicturePlace::Folder("photos".into());
        let pictures = Pictures::new(place, names);
        let index = PictureIndex::new(&Listing { pictures, ids, others: 0 });
        for (cell, at) in [
            ("a/1.jpg", Some(0)),
            ("b/1", Some(1)),
            ("./b/1.jpg", Some(1)),
            ("photos/b/1.jpg", Some(1)),
            ("C:\\users\\me\\a\\1.jpg", Some(0)),
            ("two.png", Some(2)),
            ("Two", Some(2)),
            ("https://example.org/x/two.png?w=100", Some(2)),
            ("1.jpg", None), // two pictures have this file name
            ("3.jpg", None),
            ("", None),
        ] {
            assert_eq!(index.find(cell), at, "{cell}");
        }
    }
}
