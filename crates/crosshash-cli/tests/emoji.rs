//! The built-in data set, through the real program.

use std::process::Command;

#[test]
fn emoji_can_be_inspected_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(["data", "inspect", "emoji", "--json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["name"], "emoji");
    assert_eq!(report["modalities"][1]["items"], 1197);
    assert_eq!(report["pairs"][0]["both"], 822);
    for part in report["split"]["parts"].as_array().unwrap() {
        assert!(part["query"].as_u64().unwrap() > 150, "{part}");
        assert_eq!(part["query_in_train"], 0, "{part}");
    }
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
}
