//! The settings of the paper (`configs/paper`) are valid and name their method.

use crosshash::Config;

#[test]
fn every_file_is_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/paper");
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let config = Config::parse(&fs_err::read_to_string(&path).unwrap(), &[]);
        let config = config.unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        names.push((path.file_stem().unwrap().to_owned(), config.method().name));
    }
    names.sort();
    let found: Vec<(&str, &str)> =
        names.iter().map(|(file, method)| (file.to_str().unwrap(), *method)).collect();
    let jcch = ["iaprtc12", "mirflickr25k", "nuswide", "sketchy", "tuberlin"];
    let mut wanted = vec![("dcmh", "dcmh")];
    wanted.extend(jcch.map(|file| (file, "jcch")));
    assert_eq!(found, wanted);
}
