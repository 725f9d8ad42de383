//! Structure and house rules that a machine can check.
//!
//! Every rule is a function of text that returns the violations, and has a test on a text that
//! violates it (module `scanners`), so that a rule that finds nothing is known to work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// All crates; a crate may depend on those before it.
const CRATES: [&str; 6] = [
    "crosshash-codes",
    "crosshash-features",
    "crosshash",
    "crosshash-cli",
    "crosshash-bench",
    "crosshash-python",
];

/// Crates that only programs may use.
const PROGRAM_ONLY: [&str; 5] = ["clap", "anyhow", "axum", "indicatif", "plotters"];

/// The only crate that may name the tensor library.
const TENSOR_CRATE: &str = "crosshash";

/// Types of the tensor library, which no public signature may contain.
const TENSOR_TYPES: [&str; 5] =
    ["burn_tensor", "Tensor", "TensorData", "Device", "Gradients"];

/// Uses of modules against the direction of all others: crate, from, to, reason. They are one
/// design decision: `Config::fit` trains the configured method, so a configuration knows its method.
const BACK_EDGES: [(&str, &str, &str, &str); 3] = [
    (
        "crosshash",
        "config",
        "method",
        "a configuration owns the method that parsed its section",
    ),
    (
        "crosshash",
        "config",
        "train",
        "Config::begin and Config::fit start a TrainingSession",
    ),
    (
        "crosshash",
        "method",
        "train",
        "gradient methods implement Objective of the training loop",
    ),
];

/// Folders of interchangeable parts: folder, name of the table in its mod.rs, files that support
/// the parts and are not parts themselves.
const TABLES: [(&str, &str, &[&str]); 8] = [
    (
        "crates/crosshash/src/method",
        "METHODS",
        &[
            "batchwise",
            "closed_form",
            "deep",
            "domains",
            "modality_data",
            "range",
            "test_data",
            "views",
        ],
    ),
    (
        "crates/crosshash/src/data/read",
        "READERS",
        &["mat5", "mat73", "table", "text_format"],
    ),
    (
        "crates/crosshash/src/network",
        "NETWORKS",
        // efficientnet_lite is frozen: it is in the table of backbones
        &["backbone", "efficientnet_lite", "layer", "run", "state"],
    ),
    (
        "crates/crosshash-codes/src/eval",
        "METRICS",
        &[
            "health",
            "idf",
            "known_item",
            "pr_curve",
            "radius",
            "ranking",
            "relevance",
            "report",
            "scores",
            "significance",
            "success",
            "sums",
            "tally",
            "twin",
            "twin_scores",
            "typed_words",
            "user_metrics",
        ],
    ),
    (
        "crates/crosshash-codes/src/index",
        "INDEXES",
        &[
            "distinct",
            "filter",
            "huge_vec",
            "items",
            "rank",
            "scratch",
            "substrings",
            "top",
        ],
    ),
    ("crates/crosshash-codes/src/exchange", "FORMATS", &["ids"]),
    (
        "crates/crosshash-cli/src/store",
        "STORES",
        &["check", "filter", "push", "rows", "tls", "url"],
    ),
    (
        "crates/crosshash-features/src/backbone",
        "BACKBONES",
        &[
            "classifier",
            "export",
            "onnx",
            "onnx_image",
            "onnx_sidecar",
            "pair",
            "sentence",
            "sentencepiece",
            "tokenizer",
        ],
    ),
];

/// Names of types, functions and files that were replaced by those of the field.
const OLD_TYPES: [&str; 30] = [
    "About",
    "Answer",
    "Ask",
    "Asked",
    "Asker",
    "Brain",
    "Choice",
    "Fault",
    "Fitting",
    "Generation",
    "Given",
    "Hardly",
    "Large",
    "Learner",
    "LeftOut",
    "Look",
    "Opened",
    "Origin",
    "Places",
    "Recipe",
    "Seen",
    "Shelf",
    "Shop",
    "Showing",
    "Shown",
    "Side",
    "Takes",
    "Thought",
    "Watch",
    "Wish",
];
const OLD_FUNCTIONS: [&str; 9] =
    ["hear", "nearer", "owe", "settle", "steer", "think", "times", "turned", "unwatched"];
const OLD_FILES: [&str; 15] = [
    "asking",
    "assemble",
    "balls",
    "brain",
    "described",
    "kernel",
    "nearer",
    "once",
    "opening",
    "product",
    "real",
    "recipe",
    "shelf",
    "tune",
    "walk",
];

/// Hosts that code and documents may name: local addresses, examples, schemas, sources of weights.
const HOSTS: [&str; 10] = [
    "127.0.0.1",
    "burn.dev",
    "download.pytorch.org",
    "evil.example",
    "example.org",
    "git-lfs",
    "git-lfs.github.com",
    "github.com",
    "rustup.rs",
    "www.w3.org",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|ext| ext == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs_err::read_to_string(path).expect("a text file")
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// The sources of a crate: path below `src`, and text.
fn sources(name: &str) -> Vec<(String, String)> {
    let folder = root().join("crates").join(name).join("src");
    let one = |path: PathBuf| {
        let below = path.strip_prefix(&folder).expect("a path below the folder");
        (below.to_string_lossy().replace('\\', "/"), read(&path))
    };
    files(&folder, "rs").into_iter().map(one).collect()
}

/// The Markdown documents.
fn documents() -> Vec<PathBuf> {
    let mut found = files(&root().join("docs"), "md");
    let entries = fs_err::read_dir(root()).expect("a folder");
    let top = entries.map(|entry| entry.expect("an entry").path());
    found.extend(top.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    found.sort();
    found
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The identifiers of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_name(c)).filter(|word| !word.is_empty())
}

/// Source text without comment lines and without test modules (`#[cfg(test)] mod name { .. }`).
fn code(text: &str) -> String {
    let (mut kept, mut for_tests, mut inside) = (String::new(), false, false);
    for line in text.lines() {
        if inside {
            inside = line != "}";
            continue;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        let is_module = line.ends_with('{') && words(line).any(|word| word == "mod");
        if for_tests && is_module {
            inside = true;
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
        for_tests = line == "#[cfg(test)]";
    }
    kept
}

/// The name that a text begins with.
fn leading_name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// The first name of a path, or of each path of a group in braces.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return leading_name(path).into_iter().collect();
    };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.extend(leading_name(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(leading_name(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// The names that follow `prefix::` in the paths of a text: a and c in `crate::{a::B, c}`.
fn names_below<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let start = format!("{prefix}::");
    let mut found = Vec::new();
    for (at, _) in text.match_indices(start.as_str()) {
        let within = text[..at].ends_with(|c: char| is_name(c) || c == ':');
        if !within {
            found.extend(first_names(&text[at + start.len()..]));
        }
    }
    found
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The module path of a file: a/b.rs and a/b/mod.rs are the module b in a.
fn module_path(file: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    parts
}

fn is_root(file: &str) -> bool {
    file == "lib.rs" || file == "main.rs"
}

/// The top-level modules of a crate, and which of them use which. Names that the root re-exports
/// count as names of their module.
fn module_graph(sources: &[(String, String)]) -> Graph {
    let mut graph = Graph::new();
    for (file, _) in sources.iter().filter(|(file, _)| !is_root(file)) {
        graph.entry(module_path(file)[0].to_owned()).or_default();
    }
    let mut exported: BTreeMap<String, String> = BTreeMap::new();
    for (_, text) in sources.iter().filter(|(file, _)| is_root(file)) {
        let text = code(text);
        for item in text.split("pub use ").skip(1) {
            let path = item.split(';').next().unwrap_or(item);
            let Some(module) = leading_name(path) else { continue };
            if graph.contains_key(module) {
                let names = words(path).skip(1);
                exported.extend(names.map(|name| (name.to_owned(), module.to_owned())));
            }
        }
    }
    for (file, text) in sources.iter().filter(|(file, _)| !is_root(file)) {
        let parts = module_path(file);
        if parts.last().is_some_and(|last| last.ends_with("tests")) {
            continue;
        }
        let text = code(text);
        let up = vec!["super"; parts.len()].join("::");
        let mut used = names_below(&text, "crate");
        used.extend(names_below(&text, &up));
        for name in used {
            let module = if graph.contains_key(name) {
                Some(name)
            } else {
                exported.get(name).map(String::as_str)
            };
            if let Some(module) = module.filter(|module| *module != parts[0]) {
                graph.entry(parts[0].to_owned()).or_default().insert(module.to_owned());
            }
        }
    }
    graph
}

/// A cycle of a graph; empty if there is none.
fn cycle(graph: &Graph) -> Vec<String> {
    let mut left = graph.clone();
    loop {
        let is_free = |to: &BTreeSet<String>| to.iter().all(|to| !left.contains_key(to));
        let free: Vec<String> = left
            .iter()
            .filter(|entry| is_free(entry.1))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        for name in free {
            left.remove(&name);
        }
    }
    // Every module that is left uses another that is left: following them ends in a cycle.
    let mut path: Vec<String> = left.keys().take(1).cloned().collect();
    while let Some(last) = path.last() {
        let next = left[last].iter().find(|to| left.contains_key(*to));
        let next = next.expect("a module that is left uses another").clone();
        if let Some(at) = path.iter().position(|name| *name == next) {
            return path.split_off(at);
        }
        path.push(next);
    }
    path
}

/// The dependencies that a manifest names, of every kind.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let (mut found, mut inside) = (BTreeSet::new(), false);
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            let table = line.trim_matches(['[', ']']);
            inside = table.ends_with("dependencies");
            if let Some((_, name)) = table.split_once("dependencies.") {
                found.insert(name.to_owned());
            }
        } else if inside && !line.starts_with('#') && line.contains('=') {
            let name = line.split(['.', ' ', '=']).next().unwrap_or(line);
            found.insert(name.trim_matches('"').to_owned());
        }
    }
    found
}

/// What is wrong with the dependencies of one crate.
fn wrong_dependencies(name: &str, manifest: &str) -> Vec<String> {
    let Some(at) = CRATES.iter().position(|known| *known == name) else {
        return vec![format!("{name} is missing in CRATES")];
    };
    let is_program = at > 2;
    let is_wrong = |other: &String| {
        CRATES[at + 1..].contains(&other.as_str())
            || (!is_program && PROGRAM_ONLY.contains(&other.as_str()))
            || (name != TENSOR_CRATE && other.starts_with("burn"))
    };
    dependencies(manifest).into_iter().filter(is_wrong).collect()
}

/// The text of a table: from its name to the closing bracket.
fn table<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let start = text.find(&format!(" {name}: "))?;
    let rest = &text[start..];
    Some(&rest[..rest.find("\n];")?])
}

/// `cluster_lists` as a type: `ClusterLists`.
fn type_name(module: &str) -> String {
    let part = |part: &str| part[..1].to_uppercase() + &part[1..];
    module.split('_').filter(|text| !text.is_empty()).map(part).collect()
}

/// The parts that a table does not name, neither as modules nor as types.
fn missing(parts: &[String], table: &str, supporting: &[&str]) -> Vec<String> {
    let listed: BTreeSet<&str> = words(table).collect();
    let is_missing = |part: &&String| {
        !supporting.contains(&part.as_str())
            && !listed.contains(part.as_str())
            && !listed.contains(type_name(part).as_str())
    };
    parts.iter().filter(is_missing).cloned().collect()
}

/// The modules of a library that its users can reach.
fn public_modules(lib: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in lib.lines() {
        let path = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("pub use "));
        found.extend(path.and_then(leading_name));
    }
    found
}

/// The public signatures of a source text: functions, fields, re-exports, whole traits and enums,
/// and traits that are implemented.
fn public_signatures(text: &str) -> Vec<String> {
    let code = code(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let bare = line.trim_start();
        let is_impl = bare.starts_with("impl") && bare.contains(" for ");
        if !bare.starts_with("pub ") && !is_impl {
            continue;
        }
        let whole = bare.starts_with("pub trait ") || bare.starts_with("pub enum ");
        let closing = format!("{}}}", &line[..line.len() - bare.len()]);
        let ends: &[char] = if bare.starts_with("pub use ") {
            &[';']
        } else if words(bare).any(|word| word == "fn") {
            &['{', ';', '}']
        } else {
            &['{', ';', '}', ',']
        };
        let mut signature = String::new();
        for line in &lines[at..] {
            signature.push_str(line);
            signature.push('\n');
            let done = if whole { *line == closing.as_str() } else { line.ends_with(ends) };
            if done {
                break;
            }
        }
        found.push(signature);
    }
    found
}

/// The public signatures of a text that contain a type of the tensor library.
fn tensor_signatures(text: &str) -> Vec<String> {
    let named = |signature: &String| words(signature).any(|w| TENSOR_TYPES.contains(&w));
    public_signatures(text).into_iter().filter(named).collect()
}

/// The paths in backticks of a document or comment, as far as they are of this repository.
fn quoted_paths(text: &str) -> Vec<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_path = |quoted: &&str| {
        let below = ["crates/", "docs/", "configs/", ".ci/"];
        let ending = [".rs", ".py", ".md"];
        !quoted.is_empty()
            && quoted.chars().all(plain)
            && (below.iter().any(|start| quoted.starts_with(*start))
                || (!quoted.starts_with(['.', '/'])
                    && ending.iter().any(|end| quoted.ends_with(*end))))
    };
    // the text between backticks is every second piece
    text.split('`').skip(1).step_by(2).filter(is_path).collect()
}

/// The hosts of addresses in a text that are not among [`HOSTS`], and the hosts of package
/// registries, which a user may have replaced by a mirror.
fn foreign_hosts(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split("://").skip(1) {
        let is_host = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let end = rest.find(|c: char| !is_host(c)).unwrap_or(rest.len());
        let host = rest[..end].trim_end_matches('.');
        if host.contains(['.', '-']) && !HOSTS.contains(&host) {
            found.push(host.to_owned());
        }
    }
    let registries =
        [("crates", "io"), ("pypi", "org"), ("npmjs", "com"), ("npmjs", "org")];
    let registries = registries.map(|(name, end)| format!("{name}.{end}"));
    let others = [["python", "hosted"].concat(), ["ana", "conda"].concat()];
    found.extend(
        registries.into_iter().chain(others).filter(|name| text.contains(name.as_str())),
    );
    found
}

/// Whether a source text contains unsafe code: blocks, functions or implementations.
fn has_unsafe(text: &str) -> bool {
    let forms = ["{", "fn ", "impl ", "extern "].map(|form| ["unsafe", form].join(" "));
    code(text).lines().any(|line| forms.iter().any(|form| line.contains(form)))
}

/// Definitions in a source text under a name that was replaced.
fn old_names(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for line in code.lines() {
        let line: Vec<&str> = words(line).collect();
        for pair in line.windows(2) {
            let old = match pair[0] {
                "struct" | "enum" | "trait" | "type" => OLD_TYPES.contains(&pair[1]),
                "fn" => OLD_FUNCTIONS.contains(&pair[1]),
                _ => false,
            };
            if old {
                found.push(pair[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn every_file_begins_with_a_description() {
    let sources = files(&root().join("crates"), "rs");
    assert!(sources.len() > 30, "the sources are there");
    for path in sources {
        assert!(read(&path).starts_with("//! "), "{} has no header", path.display());
    }
}

#[test]
fn modules_have_no_cycles() {
    for name in CRATES {
        let mut graph = module_graph(&sources(name));
        assert!(graph.len() > 3, "{name} has modules");
        for (_, from, to, _) in BACK_EDGES.iter().filter(|(of, ..)| *of == name) {
            let was_there = graph.get_mut(*from).is_some_and(|used| used.remove(*to));
            assert!(
                was_there,
                "{name}: {from} does not use {to}: remove it from BACK_EDGES"
            );
        }
        let found = cycle(&graph);
        assert!(found.is_empty(), "{name}: modules use each other: {}", found.join(" -> "));
    }
}

#[test]
fn crates_depend_in_one_direction() {
    let crates = fs_err::read_dir(root().join("crates")).expect("a folder");
    let mut count = 0;
    for entry in crates {
        let path = entry.expect("an entry").path();
        if !path.join("Cargo.toml").exists() {
            continue;
        }
        count += 1;
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let wrong = wrong_dependencies(&name, &read(&path.join("Cargo.toml")));
        assert!(wrong.is_empty(), "{name} must not depend on {}", wrong.join(", "));
    }
    assert_eq!(count, CRATES.len());
}

#[test]
fn only_one_crate_names_the_tensor_library_and_not_in_public() {
    let library = "burn_tensor";
    for name in CRATES.into_iter().filter(|name| *name != TENSOR_CRATE) {
        for (file, text) in sources(name) {
            let names = words(&code(&text)).any(|word| word == library);
            assert!(!names, "{name}: {file} names {library}");
        }
    }
    let lib = read(&root().join("crates").join(TENSOR_CRATE).join("src/lib.rs"));
    let public = public_modules(&lib);
    assert!(public.contains("data") && public.contains("model"), "{public:?}");
    let mut checked = 0;
    for (file, text) in sources(TENSOR_CRATE) {
        if is_root(&file) || public.contains(module_path(&file)[0]) {
            checked += public_signatures(&text).len();
            let found = tensor_signatures(&text);
            assert!(found.is_empty(), "{file} shows a tensor type: {}", found.join("\n"));
        }
    }
    assert!(checked > 100, "there are public signatures");
}

#[test]
fn every_file_is_part_of_its_crate() {
    for name in CRATES {
        for path in files(&root().join("crates").join(name).join("src"), "rs") {
            let is_module = path.ends_with("mod.rs");
            let folder = path.parent().expect("a folder");
            let (module, folder) = if is_module {
                (stem(folder), folder.parent().expect("a folder"))
            } else {
                (stem(&path), folder)
            };
            if ["lib", "main"].contains(&module.as_str()) {
                continue;
            }
            let parents = ["mod.rs", "lib.rs", "main.rs"].map(|file| folder.join(file));
            let declares = |parent: &PathBuf| {
                parent.exists() && read(parent).contains(&format!("mod {module};"))
            };
            let mut parents = parents.into_iter().chain([folder.with_extension("rs")]);
            assert!(
                parents.any(|parent| declares(&parent)),
                "{} is unused",
                path.display()
            );
        }
    }
}

#[test]
fn every_part_is_in_its_table() {
    for (folder, name, supporting) in TABLES {
        let text = read(&root().join(folder).join("mod.rs"));
        let listed = table(&text, name).unwrap_or_else(|| panic!("{folder} has no {name}"));
        let entries = fs_err::read_dir(root().join(folder)).expect("a folder");
        let mut parts: Vec<String> =
            entries.map(|entry| stem(&entry.expect("an entry").path())).collect();
        parts.retain(|part| part != "mod");
        for file in supporting {
            assert!(parts.iter().any(|part| part == file), "{folder} has no {file}");
        }
        let missing = missing(&parts, listed, supporting);
        assert!(missing.is_empty(), "{folder}: {name} lacks {}", missing.join(", "));
    }
}

#[test]
fn every_path_in_documents_and_comments_exists() {
    let folders = ["crates", "docs", "configs"].map(|folder| root().join(folder));
    let endings = ["rs", "py", "md"];
    let known: Vec<String> = folders
        .iter()
        .flat_map(|folder| endings.iter().flat_map(move |ending| files(folder, ending)))
        .map(|path| path.to_string_lossy().replace('\\', "/"))
        .collect();
    let exists = |path: &str| {
        root().join(path).exists()
            || known.iter().any(|known| known.ends_with(&format!("/{path}")))
    };
    let mut named = 0;
    for document in documents() {
        let text = read(&document);
        for path in quoted_paths(&text) {
            named += 1;
            assert!(exists(path), "{} names {path}", document.display());
        }
    }
    assert!(named > 20, "documents name paths");
    for source in files(&root().join("crates"), "rs") {
        for line in read(&source).lines() {
            let comment = line.trim_start().starts_with("//");
            let paths = if comment { quoted_paths(line) } else { Vec::new() };
            for path in paths {
                assert!(exists(path), "{} names {path}", source.display());
            }
        }
    }
}

/// The section on unsafe code lists exactly the files that contain some.
#[test]
fn unsafe_code_is_listed_with_its_reason() {
    let text = read(&root().join("docs/security.md"));
    let section =
        text.split("\n## ").find(|part| part.starts_with("Unsafe code")).expect("listed");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (path, reason) = (cells.next()?.trim_end_matches('`'), cells.next()?);
        assert!(reason.len() > 20, "{path}: {reason}");
        Some(path.to_owned())
    };
    let listed: BTreeSet<String> = section.lines().filter_map(row).collect();
    let is_unsafe = |path: &PathBuf| has_unsafe(&read(path));
    let below = |path: PathBuf| {
        let path = path.strip_prefix(root()).expect("a path below the root").to_owned();
        path.to_str().expect("UTF-8").to_owned()
    };
    let all = files(&root().join("crates"), "rs").into_iter().filter(is_unsafe).map(below);
    assert_eq!(
        all.collect::<BTreeSet<_>>(),
        listed,
        "files with unsafe code, and those listed"
    );
}

/// The document on security names a test for every defect; they exist.
#[test]
fn every_test_that_the_security_document_names_exists() {
    let text = read(&root().join("docs/security.md"));
    let mut named = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        let Some((file, test)) = quoted.split_once(".rs::") else { continue };
        let path = root().join(format!("{file}.rs"));
        assert!(path.is_file(), "{quoted}: no such file");
        assert!(read(&path).contains(&format!("fn {test}(")), "{quoted}: no such test");
        named += 1;
    }
    assert!(named >= 19, "{named} tests are named");
}

#[test]
fn every_path_that_the_overview_names_exists() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = read(&root().join(document));
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = quoted.contains('/') || quoted.ends_with(".md");
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if is_path && quoted.chars().all(plain) && !quoted.starts_with(['.', '/']) {
                assert!(root().join(quoted).exists(), "{document} names {quoted}");
            }
        }
    }
}

#[test]
fn every_picture_that_a_document_shows_exists() {
    let mut shown = 0;
    for document in documents() {
        let text = read(&document);
        for link in text.split("![").skip(1).filter_map(|rest| rest.split("](").nth(1)) {
            let target = link.split(')').next().expect("a link ends");
            let path = document.parent().expect("a folder").join(target);
            shown += 1;
            assert!(path.exists(), "{} shows {target}", document.display());
        }
    }
    assert!(shown > 1, "documents show pictures");
}

#[test]
fn code_and_documents_name_no_foreign_hosts() {
    let mut all = documents();
    for ending in ["rs", "py", "toml", "js", "html", "json"] {
        all.extend(files(&root().join("crates"), ending));
    }
    all.extend(files(&root().join("configs"), "toml"));
    all.extend(["Cargo.toml", "deny.toml", ".ci/run"].map(|file| root().join(file)));
    for path in all {
        let found = foreign_hosts(&read(&path));
        assert!(found.is_empty(), "{} names {}", path.display(), found.join(", "));
    }
}

#[test]
fn replaced_names_do_not_come_back() {
    for path in files(&root().join("crates"), "rs") {
        let below = path.strip_prefix(root()).expect("a path below the root");
        let is_source = below.components().any(|part| part.as_os_str() == "src");
        let name = stem(&path);
        let old_file = is_source && OLD_FILES.contains(&name.as_str());
        assert!(!old_file, "{}: this file was renamed", path.display());
        let found = old_names(&read(&path));
        assert!(found.is_empty(), "{} defines {}", path.display(), found.join(", "));
    }
}

#[test]
fn property_tests_have_a_fixed_seed() {
    let macro_name = ["proptest", "! {"].concat();
    let mut blocks = 0;
    for path in files(&root().join("crates"), "rs") {
        let text = read(&path);
        for block in text.split(&macro_name).skip(1) {
            blocks += 1;
            let config = block.trim_start().starts_with("#![proptest_config(fixed(");
            assert!(config, "{}: begin with proptest_config(fixed(CASES))", path.display());
        }
    }
    assert!(blocks > 10, "there are property tests");
}

/// Every rule fails on a text that violates it.
mod scanners {
    use super::*;

    fn graph(sources: &[(&str, &str)]) -> Graph {
        let owned = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
        module_graph(&sources.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_cycle_is_found_through_groups_super_and_reexports() {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::{Thing, Other};\n");
        let by_crate = ("a.rs", "use crate::{Error, b::{self, X}};\n");
        let by_super = ("b/inner.rs", "use super::super::c::Y;\n");
        let open = graph(&[lib, by_crate, by_super, ("b/mod.rs", ""), ("c.rs", "")]);
        assert!(open["a"].contains("b") && open["b"].contains("c"));
        assert!(cycle(&open).is_empty());
        let back = ("c.rs", "fn f() { crate::a::g(); }\n");
        let closed = graph(&[lib, by_crate, by_super, back]);
        assert_eq!(cycle(&closed), ["a", "b", "c"]);
        let root =
            graph(&[lib, ("b.rs", "use crate::Thing;\n"), ("c.rs", "use crate::b;\n")]);
        assert_eq!(cycle(&root), ["b", "c"]);
    }

    #[test]
    fn unsafe_code_is_found() {
        let quoted = ["unsafe", " { f() }"].concat();
        assert!(has_unsafe(&format!("fn g() {{\n    let x = {quoted};\n}}\n")));
        assert!(!has_unsafe(&format!("// {quoted}\nfn g() {{}}\n")));
        assert!(!has_unsafe("#![expect(unsafe_code, reason = \"x\")]\n"));
    }

    #[test]
    fn comments_and_test_modules_do_not_count() {
        let comment = "//! See crate::b.\n// use crate::b;\n";
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\nuse crate::c;\n";
        let text = [comment, tests].concat();
        let found = graph(&[("a.rs", text.as_str()), ("b.rs", ""), ("c.rs", "")]);
        assert_eq!(found["a"].iter().collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn a_dependency_in_the_wrong_direction_is_found() {
        let manifest = "[dependencies]\ncrosshash-cli.workspace = true\nrand = \"1\"\n\
                        [dev-dependencies]\nclap = { workspace = true }\n\
                        [dependencies.burn-tensor]\nworkspace = true\n\
                        [features]\naxum = []\n";
        let found = wrong_dependencies("crosshash-codes", manifest);
        assert_eq!(found, ["burn-tensor", "clap", "crosshash-cli"]);
        assert!(
            wrong_dependencies("crosshash-bench", "[dependencies]\nclap = \"4\"\n")
                .is_empty()
        );
        assert_eq!(wrong_dependencies("new", "").len(), 1);
    }

    #[test]
    fn a_part_without_a_table_entry_is_found() {
        let text =
            "pub const PARTS: &[Part] = &[\n    one::ENTRY,\n    TwoWords::new(),\n];\n";
        let parts = ["one", "two_words", "three", "helper"].map(str::to_owned);
        let listed = table(text, "PARTS").expect("a table");
        assert_eq!(missing(&parts, listed, &["helper"]), ["three"]);
        assert_eq!(table(text, "OTHERS"), None);
    }

    #[test]
    fn a_tensor_in_a_public_signature_is_found() {
        let bad = [
            "pub fn f(\n    x: &[f32],\n    on: &Device,\n) -> f32 {\n}\n",
            "pub struct S {\n    pub weights: Tensor<2>,\n}\n",
            "pub trait T {\n    fn f(&self) -> Tensor<1>;\n}\n",
            "pub enum E {\n    A(Tensor<1>),\n}\n",
            "pub use burn_tensor::Tensor;\n",
            "impl From<Tensor<1>> for S {\n}\n",
        ];
        for text in bad {
            assert_eq!(tensor_signatures(text).len(), 1, "{text}");
        }
        let good = "pub(crate) fn f(x: Tensor<1>) {}\nstruct S {\n    x: Tensor<1>,\n}\n\
                    pub fn g() -> f32 {\n    Tensor::zeros()\n}\n";
        assert!(tensor_signatures(good).is_empty());
        let lib = "pub mod a;\nmod b;\npub use c::D;\n";
        assert_eq!(public_modules(lib).into_iter().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn paths_hosts_and_old_names_are_found() {
        let text = "see `docs/none.md`, `a/b.rs`, `x/y`, `two words.md` and `.md`";
        assert_eq!(quoted_paths(text), ["docs/none.md", "a/b.rs"]);
        let registry = ["crates", "io"].join(".");
        let address = ["https", "www.somewhere.net/x"].join("://");
        let local = "http://127.0.0.1:7878/ and https://example.org\r\n";
        assert_eq!(foreign_hosts(&registry), [registry.as_str()]);
        assert_eq!(foreign_hosts(&address), ["www.somewhere.net"]);
        assert!(foreign_hosts(local).is_empty());
        let old = "pub(crate) X Brain;\nY think() {}\n// X Shelf\n";
        let old = old.replace('X', "struct").replace('Y', "fn");
        assert_eq!(old_names(&old), ["Brain", "think"]);
        assert!(old_names("struct Encoder;\nfn encode() {}\n").is_empty());
    }
}
