//! Pictures: malicious archives, backbones, extraction and its cache.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crosshash::backbone::{self, InputKind, Weights};
use crosshash::data::{self, Features, Pictures, Raster};
use crosshash::extract::{self, Extracted, Extraction};
use crosshash::picture::{Limits, Picture};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A small picture of one colour with a dark corner, as PNG.
fn png(colour: u8) -> Vec<u8> {
    let mut pixels = vec![colour; 20 * 20 * 3];
    pixels[..90].fill(colour / 3);
    Raster::new(20, 3, pixels).to_png().unwrap()
}

fn zip_of(path: &Path, files: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(fs_err::File::create(path).unwrap());
    let packed = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in files {
        zip.start_file(*name, packed).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn tar_of(path: &Path, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // bypasses the checks of the writer, as an attacker would
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    let bytes = builder.into_inner().unwrap();
    fs_err::write(path, &bytes).unwrap();
    bytes
}

fn files_of(pictures: &Pictures) -> Vec<Result<Vec<u8>, String>> {
    let mut all = vec![Err(String::new()); pictures.len()];
    pictures
        .visit(1 << 20, |item, bytes| {
            all[item] = bytes.map_err(|err| err.to_string());
            Ok::<(), crosshash::Error>(())
        })
        .unwrap();
    all
}

#[test]
fn folders_zips_and_tars_are_equivalent() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (png(10), png(20));
    let files: [(&str, &[u8]); 3] = [("x/b.png", &b), ("a.png", &a), ("notes.txt", b"no")];
    let folder = dir.path().join("folder");
    fs_err::create_dir_all(folder.join("x")).unwrap();
    for (name, bytes) in files {
        fs_err::write(folder.join(name), bytes).unwrap();
    }
    zip_of(&dir.path().join("p.zip"), &files);
    let tar = tar_of(&dir.path().join("p.tar"), &files);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar).unwrap();
    fs_err::write(dir.path().join("p.tar.gz"), gz.finish().unwrap()).unwrap();
    tar_of(&dir.path().join("dots.tar"), &[("./x/b.png", &b), ("./a.png", &a)]);
    for place in ["folder", "p.zip", "p.tar", "p.tar.gz", "dots.tar"] {
        let (pictures, ids) = data::pictures(&dir.path().join(place), "").unwrap();
        assert_eq!(ids, ["a", "x/b"], "{place}");
        assert_eq!(files_of(&pictures), [Ok(a.clone()), Ok(b.clone())], "{place}");
        let picked = files_of(&pictures.select(&[1, 1]));
        assert_eq!(picked, [Ok(b.clone()), Ok(b.clone())], "{place}");
    }
}

#[test]
fn names_and_links_outside_an_archive_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let error_of = |place: &Path| data::pictures(place, "").unwrap_err().to_string();
    for name in ["../a.png", "/etc/a.png", "x/../../a.png", "c:\\a.png"] {
        tar_of(&path("t.tar"), &[(name, b"x")]);
        assert!(error_of(&path("t.tar")).contains("points outside the archive"), "{name}");
        zip_of(&path("z.zip"), &[(name, b"x")]);
        assert!(error_of(&path("z.zip")).contains("points outside the archive"), "{name}");
    }
    let mut builder = tar::Builder::new(fs_err::File::create(path("l.tar")).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "a.png", "/etc/passwd").unwrap();
    builder.finish().unwrap();
    drop(builder);
    let text = error_of(&path("l.tar"));
    assert!(text.contains("entry \"a.png\" is a link"), "{text}");
}

#[cfg(unix)]
#[test]
fn links_outside_a_folder_are_rejected() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    fs_err::create_dir_all(folder.join("x")).unwrap();
    fs_err::write(folder.join("x/a.png"), png(1)).unwrap();
    symlink(folder.join("x/a.png"), folder.join("b.png")).unwrap();
    symlink(&folder, folder.join("x/round")).unwrap(); // a loop
    let (_, ids) = data::pictures(&folder, "").unwrap();
    assert_eq!(ids, ["b", "x/a"]);
    fs_err::write(dir.path().join("secret.png"), png(2)).unwrap();
    symlink(dir.path().join("secret.png"), folder.join("c.png")).unwrap();
    let text = data::pictures(&folder, "").unwrap_err().to_string();
    assert!(text.contains("\"c.png\" is a link to something outside the folder"), "{text}");
}

#[test]
fn decompression_bombs_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.zip");
    // an entry of 3 MB in 3 kB, more than the limit below
    zip_of(&path, &[("a.png", &vec![0; 3 << 20]), ("b.png", &png(1))]);
    let (pictures, _) = data::pictures(&path, "").unwrap();
    let files = files_of(&pictures);
    let text = files[0].as_ref().unwrap_err();
    assert!(text.contains("3145728 bytes exceeds the limit of 1048576"), "{text}");
    assert!(files[1].is_ok());
    // an entry whose headers declare a size that is too small
    let mut bytes = fs_err::read(&path).unwrap();
    let size = (3_u32 << 20).to_le_bytes();
    for at in (0..bytes.len() - 4).rev() {
        if bytes[at..at + 4] == size {
            bytes[at..at + 4].copy_from_slice(&100_u32.to_le_bytes());
        }
    }
    fs_err::write(&path, &bytes).unwrap();
    let (pictures, _) = data::pictures(&path, "").unwrap();
    let text = files_of(&pictures)[0].clone().unwrap_err();
    assert!(text.contains("larger than its declared uncompressed size"), "{text}");
    // gzip of zeros: ratio 1,000
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(20 << 20);
    header.set_path("a.png").unwrap();
    header.set_cksum();
    builder.append(&header, &vec![0; 20 << 20][..]).unwrap();
    let tar = builder.into_inner().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(&tar).unwrap();
    fs_err::write(dir.path().join("b.tgz"), gz.finish().unwrap()).unwrap();
    let text = data::pictures(&dir.path().join("b.tgz"), "").unwrap_err().to_string();
    assert!(text.contains("rejected as a zip bomb"), "{text}");
}

/// The tiny network with its description, in its own folder.
fn tiny(folder: &Path, description: &str) -> String {
    let path = folder.join("tiny.onnx");
    fs_err::copy(fixture("tiny.onnx"), &path).unwrap();
    fs_err::write(folder.join("tiny.toml"), description).unwrap();
    path.display().to_string()
}

const TINY: &str =
    "output = \"features\"\n[picture]\nsize = 8\nmean = [127]\nstd = [128]\n";

fn expected(key: &str) -> Vec<f32> {
    let text = fs_err::read(fixture("tiny.json")).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
    serde_json::from_value(all[key].clone()).unwrap()
}

fn near(got: &[f32], wanted: &[f32]) {
    assert_eq!(got.len(), wanted.len());
    for (a, b) in got.iter().zip(wanted) {
        assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{got:?}, not {wanted:?}");
    }
}

#[test]
fn any_onnx_network_is_a_backbone() {
    let dir = tempfile::tempdir().unwrap();
    let rgb = (0..192).map(|k| u8::try_from(7 * k % 256).unwrap()).collect();
    let picture = Picture::new(8, 8, rgb);
    let network = tiny(dir.path(), TINY);
    let loaded = backbone::open(&network, &Weights::default()).unwrap();
    assert_eq!((loaded.backbone().width(), loaded.is_for_drawings()), (5, false));
    let rows = loaded.backbone().pictures(&[picture.clone(), picture.clone()]).unwrap();
    near(&rows[..5], &expected("features"));
    near(&rows[5..], &expected("features"));
    // the first output is the default; another description is another feature source
    let network = tiny(dir.path(), &TINY.replace("output = \"features\"\n", ""));
    let other = backbone::open(&network, &Weights::default()).unwrap();
    near(&other.backbone().pictures(&[picture]).unwrap(), &expected("logits"));
    assert_ne!(loaded.feature_source().digest, other.feature_source().digest);

    let error_of = |description: &str| {
        let network = tiny(dir.path(), description);
        backbone::open(&network, &Weights::default()).unwrap_err().to_string()
    };
    let text = error_of(&TINY.replace("features", "pooled"));
    assert!(
        text.contains("no output named \"pooled\"; there are: logits, features"),
        "{text}"
    );
    let text = error_of(&TINY.replace("size = 8", "sise = 8"));
    assert!(text.contains("tiny.toml") && text.contains("sise"), "{text}");
    let text = error_of("output = \"features\"");
    assert!(text.contains("expected exactly one of [picture] and [text]"), "{text}");
    fs_err::remove_file(dir.path().join("tiny.toml")).unwrap();
    let text = backbone::open(&network, &Weights::default()).unwrap_err().to_string();
    assert!(text.contains("needs a description in"), "{text}");
    fs_err::write(dir.path().join("tiny.toml"), TINY).unwrap();
    fs_err::write(dir.path().join("tiny.onnx"), b"not a network").unwrap();
    let text = backbone::open(&network, &Weights::default()).unwrap_err().to_string();
    assert!(text.contains("tiny.onnx: invalid ONNX file"), "{text}");
}

#[test]
fn any_onnx_text_encoder_is_a_backbone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.onnx");
    fs_err::copy(fixture("tiny_text.onnx"), &path).unwrap();
    fs_err::copy(fixture("tiny_tokenizer.json"), dir.path().join("t.json")).unwrap();
    let open = |more: &str| {
        let text = format!("[text]\ntokenizer = \"t.json\"\n{more}");
        fs_err::write(dir.path().join("text.toml"), text).unwrap();
        backbone::open(&path.display().to_string(), &Weights::default()).unwrap()
    };
    let loaded = open("");
    let rows = loaded.backbone().texts(&["red bus", "RED  bus"]).unwrap();
    near(&rows[..4], &expected("red bus"));
    near(&rows[4..], &expected("red bus"));
    let first = open("pooling = \"first\"\nunit_length = false");
    near(&first.backbone().texts(&["red bus"]).unwrap(), &expected("red bus, first"));
    // a text that is too long is truncated, with its end token
    let cut = open("max_tokens = 4");
    near(&cut.backbone().texts(&["red bus cat cat"]).unwrap(), &expected("red bus"));
    assert!(cut.backbone().texts(&[""]).unwrap().iter().all(|x| x.is_finite()));
    let err = loaded.backbone().pictures(&[]).unwrap_err().to_string();
    assert_eq!(err, "this backbone takes texts, not pictures");
}

/// Two networks of one space (`fixtures/pair.py`), as one backbone.
#[test]
fn a_pair_of_networks_is_a_backbone_of_two_sides() {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(fixture("pair")).unwrap() {
        let entry = entry.unwrap();
        fs_err::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let path = dir.path().join("clip.toml");
    let name = path.display().to_string();
    let text = fs_err::read(fixture("pair/expected.json")).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let expected =
        |key: &str| -> Vec<f32> { serde_json::from_value(all[key].clone()).unwrap() };
    let open = |name: &str| backbone::open(name, &Weights::default());
    let pictures = open(&backbone::side(&name, InputKind::Pictures)).unwrap();
    let rgb = (0..192).map(|k| u8::try_from(7 * k % 256).unwrap()).collect();
    let picture = Picture::new(8, 8, rgb);
    near(&pictures.backbone().pictures(&[picture]).unwrap(), &expected("picture"));
    let texts = open(&backbone::side(&name, InputKind::Texts)).unwrap();
    let rows = texts.backbone().texts(&["a photo of a RED thing", "blue"]).unwrap();
    near(&rows[..32], &expected("a photo of a red thing"));
    near(&rows[32..], &expected("blue"));
    assert_ne!(pictures.feature_source(), texts.feature_source());
    assert_eq!(pictures.backbone().width(), texts.backbone().width());
    // Padding has no effect on a network that uses the mask.
    let description = fs_err::read_to_string(&path).unwrap();
    fs_err::write(&path, format!("{description}pad_to = 12\npad_token = 4\n")).unwrap();
    let padded = open(&format!("{name}#texts")).unwrap();
    near(&padded.backbone().texts(&["blue"]).unwrap(), &expected("blue"));

    let err = open(&name).unwrap_err().to_string();
    assert!(err.contains("choose") && err.contains("clip.toml#texts"), "{err}");
    fs_err::write(&path, description.replace("tokenizer =", "tokeniser =")).unwrap();
    let err = open(&format!("{name}#texts")).unwrap_err().to_string();
    assert!(err.contains("clip.toml") && err.contains("tokeniser"), "{err}");
    assert_eq!(backbone::side("wordllama", InputKind::Texts), "wordllama");
}

fn extract(
    network: &str,
    features: &Features,
    cache: Option<&Path>,
    skip_bad: bool,
) -> Result<Extracted, String> {
    let loaded = backbone::open(network, &Weights::default()).unwrap();
    let how = Extraction { cache, skip_bad, ..Extraction::new(&loaded) };
    let done = AtomicUsize::new(0);
    let given = extract::extract(&how, features, &|now| {
        done.fetch_max(now, Ordering::Relaxed);
    });
    if given.is_ok() {
        assert_eq!(done.into_inner(), features.len(), "progress reaches the end");
    }
    given.map_err(|err| err.to_string())
}

fn rows(given: &Extracted) -> Vec<f32> {
    given.rows.values().to_vec()
}

#[test]
fn extraction_caches_features_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let network = tiny(dir.path(), TINY);
    let cache = dir.path().join("cache");
    let mut files: Vec<Vec<u8>> = (0..40).map(|k| png(k * 6)).collect();
    let pictures = Features::Pictures(Pictures::in_memory(files.clone()));
    let plain = extract(&network, &pictures, None, false).unwrap();
    let loaded = backbone::open(&network, &Weights::default()).unwrap();
    for (k, file) in files.iter().enumerate().step_by(7) {
        let picture = crosshash::picture::decode(file, &Limits::default()).unwrap();
        let row = loaded.backbone().pictures(&[picture]).unwrap();
        assert_eq!(rows(&plain)[k * 5..k * 5 + 5], row, "every row is at its place");
    }
    // a part, then all: only new items are computed
    let part = Features::Pictures(Pictures::in_memory(files[..15].to_vec()));
    assert_eq!(extract(&network, &part, Some(&cache), false).unwrap().cached, 0);
    let all = extract(&network, &pictures, Some(&cache), false).unwrap();
    assert_eq!((all.cached, rows(&all)), (15, rows(&plain)));
    files.reverse(); // names and order do not matter
    let turned = Features::Pictures(Pictures::in_memory(files));
    let again = extract(&network, &turned, Some(&cache), false).unwrap();
    assert_eq!(again.cached, 40);
    assert_eq!(rows(&again)[..5], rows(&plain)[39 * 5..]);
    // another description of the same network is another backbone
    let other = tiny(dir.path(), &TINY.replace("127", "126"));
    assert_eq!(extract(&other, &pictures, Some(&cache), false).unwrap().cached, 0);
    let built_in = extract("descriptor", &pictures, Some(&cache), false).unwrap();
    assert_eq!((built_in.cached, built_in.rows.len()), (0, 40));
    let again = extract("descriptor", &pictures, Some(&cache), false).unwrap();
    assert_eq!((again.cached, rows(&again)), (40, rows(&built_in)));
}

#[test]
fn interrupted_extraction_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let network = tiny(dir.path(), TINY);
    let cache = dir.path().join("cache");
    let files: Vec<Vec<u8>> = (0..30).map(png).collect();
    let pictures = Features::Pictures(Pictures::in_memory(files));
    let whole = extract(&network, &pictures, Some(&cache), false).unwrap();
    let file = fs_err::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let bytes = fs_err::read(&file).unwrap();
    // as after a crash within a record
    fs_err::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let again = extract(&network, &pictures, Some(&cache), false).unwrap();
    assert!((10..16).contains(&again.cached), "{} were kept", again.cached);
    assert_eq!(rows(&again), rows(&whole));
}

#[test]
fn unreadable_pictures_are_errors_unless_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let network = tiny(dir.path(), TINY);
    let path = dir.path().join("p.zip");
    let (a, b) = (png(100), png(200));
    let cut = &a[..a.len() / 2];
    zip_of(
        &path,
        &[("a.png", &a), ("cut.png", cut), ("page.jpg", b"<html>"), ("z.png", &b)],
    );
    let (pictures, _) = data::pictures(&path, "").unwrap();
    let pictures = Features::Pictures(pictures);
    let text = extract(&network, &pictures, None, false).unwrap_err();
    assert!(text.starts_with("2 pictures cannot be read; "), "{text}");
    assert!(text.contains("p.zip/cut.png: damaged or invalid PNG"), "{text}");
    assert!(text.contains("p.zip/page.jpg: the file is a web page"), "{text}");
    assert!(text.contains("--skip-bad"), "{text}");
    let given = extract(&network, &pictures, None, true).unwrap();
    assert_eq!(
        (given.kept.as_slice(), given.bad.len(), given.rows.len()),
        (&[0, 3][..], 2, 2)
    );
    let only_bad = Features::Pictures(Pictures::in_memory(vec![b"x".to_vec(); 50]));
    let text = extract(&network, &only_bad, None, true).unwrap_err();
    assert_eq!(text, "none of the pictures can be read");
    let text = extract(&network, &only_bad, None, false).unwrap_err();
    assert!(text.contains("pictures and possibly more cannot be read"), "{text}");
    let texts = Features::Text(["a"].iter().collect());
    let text = extract(&network, &texts, None, false).unwrap_err();
    assert!(text.ends_with("takes pictures, not text"), "{text}");
}

/// `CROSSHASH_WEIGHTS=../shared/weights CROSSHASH_SKETCHY=.../sketchy125_128px.zip cargo test ...
/// -- --ignored`: real weights against the features in `CROSSHASH_GOLDEN`.
#[test]
#[ignore = "needs weights (CROSSHASH_WEIGHTS) and pictures (CROSSHASH_SKETCHY), which are not here"]
#[expect(clippy::print_stdout, reason = "results of a manual test")]
#[expect(clippy::cast_possible_truncation, reason = "inputs are defined as f32")]
fn real_networks_agree_with_another_implementation() {
    let weights = std::env::var_os("CROSSHASH_WEIGHTS").expect("CROSSHASH_WEIGHTS");
    let golden = std::env::var_os("CROSSHASH_GOLDEN").expect("CROSSHASH_GOLDEN");
    let golden: serde_json::Value =
        serde_json::from_slice(&fs_err::read(golden).unwrap()).unwrap();
    let floats = |value: &serde_json::Value| -> Vec<f32> {
        serde_json::from_value(value.clone()).unwrap()
    };
    let check = |what: &str, got: &[f32], wanted: &[f32]| {
        assert_eq!(got.len(), wanted.len(), "{what}");
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let cosine = dot(got, wanted) / (dot(got, got) * dot(wanted, wanted)).sqrt();
        let off = got.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{what}: largest difference {off:.6}, cosine {cosine:.7}");
        (off, cosine)
    };
    let runtimes = [None, std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from)];
    for onnxruntime in
        runtimes.into_iter().enumerate().filter(|(k, r)| *k == 0 || r.is_some())
    {
        let onnxruntime = onnxruntime.1;
        let by = if onnxruntime.is_some() { "onnxruntime" } else { "built in" };
        let weights =
            Weights { folders: vec![PathBuf::from(weights.clone())], onnxruntime };
        let lite0 = backbone::open("efficientnet-lite0", &weights).unwrap();
        let input: Vec<f32> =
            (0..3 * 224 * 224).map(|k| (0.001 * f64::from(k)).sin() as f32).collect();
        let got = lite0.backbone().inputs(&input, 1).unwrap();
        let wanted = floats(&golden["efficientnet-lite0"]["features"]);
        let (off, cosine) = check(&format!("{by}, lite0, synthetic"), &got, &wanted);
        assert!(off < 1e-3 && cosine > 0.9999);
        let doodle = backbone::open("doodlenet", &weights).unwrap();
        let input: Vec<f32> = (0..28 * 28)
            .map(|k| (((0.05 * f64::from(k)).sin() + 1.0) / 2.0) as f32)
            .collect();
        let got = doodle.backbone().inputs(&input, 1).unwrap();
        let wanted = floats(&golden["doodlenet"]["outputs"]["features"]);
        let (off, cosine) = check(&format!("{by}, doodlenet, synthetic"), &got, &wanted);
        assert!(off < 1e-3 && cosine > 0.9999);
        if let Some(sketchy) = std::env::var_os("CROSSHASH_SKETCHY") {
            let (pictures, _) = data::pictures(Path::new(&sketchy), "photo").unwrap();
            for one in golden["efficientnet-lite0-pictures"].as_array().unwrap() {
                let name = one["file"].as_str().unwrap();
                let at = (0..pictures.len()).find(|&k| pictures.name(k) == name).unwrap();
                let picture = Features::Pictures(pictures.select(&[at]));
                let how = Extraction::new(&lite0);
                let given = extract::extract(&how, &picture, &|_| {}).unwrap();
                let (off, cosine) = check(
                    &format!("{by}, {name}"),
                    &rows(&given),
                    &floats(&one["features"]),
                );
                assert!(off < 1e-3 && cosine > 0.9999);
            }
        }
    }
}
