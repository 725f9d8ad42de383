//! Random requests by the schemas of the OpenAPI document: valid values, and values of wrong types,
//! sizes and characters. No request may end in a 5xx response or end the server.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::{Outcome, PeakMemory};
use crate::serve::{Client, Server};

const MAX_MIB: u64 = 1024;
/// The deepest generated value.
const MAX_DEPTH: usize = 6;
/// Texts that are hard to handle.
const TEXTS: [&str; 12] = [
    "",
    "cat",
    "picture",
    "words",
    "\u{1b}[31m",
    "\u{0}",
    "../../etc/passwd",
    "label in (animal) and not (price < 3)",
    "((((((((((",
    "99999999999999999999",
    "\u{202e}\u{1f600}",
    "00000000",
];

pub(super) fn run(run: &Path, requests: usize, seed: u64) -> Result<Outcome> {
    let mut server = Server::start(run)?;
    let address = server.addr;
    let document = Client::new(address).get("/openapi.json")?;
    let document: Value = serde_json::from_slice(&document.body)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 3);
    let operations = operations(&document)?;
    let (mut faults, mut statuses) = (Vec::new(), BTreeMap::<String, usize>::new());
    let ((), peak) = PeakMemory::during(&server, || {
        let mut client = Client::new(address);
        for _ in 0..requests {
            let (path, method, operation) =
                &operations[rng.random_range(0..operations.len())];
            let made = request(&document, path, operation, &mut rng);
            let method = method.to_uppercase();
            let reply = match &made.body {
                Some(body) => client.json(&method, &made.path, &body.to_string()),
                None => client.request(&method, &made.path, "", &[]),
            };
            match reply {
                Ok(reply) => {
                    *statuses.entry(reply.status.to_string()).or_default() += 1;
                    if reply.status >= 500 && faults.len() < 20 {
                        let body = made.body.map_or(String::new(), |body| body.to_string());
                        faults.push(format!(
                            "{method} {} {body}: {}",
                            made.path,
                            reply.text()
                        ));
                    }
                }
                Err(err) => {
                    *statuses.entry(format!("closed: {}", err.kind())).or_default() += 1
                }
            }
        }
    });
    if !server.is_alive() {
        faults.push("the server has ended".into());
    }
    if peak > MAX_MIB {
        faults.push(format!("peak memory of {peak} MiB"));
    }
    let figures = json!({ "requests": requests, "statuses": statuses, "peak_mib": peak });
    Ok(Outcome { figures, faults })
}

/// A generated request.
struct Made {
    path: String,
    body: Option<Value>,
}

/// Path, method and description of every operation.
fn operations(document: &Value) -> Result<Vec<(String, String, Value)>> {
    let paths = document["paths"].as_object().context("the document has no paths")?;
    let mut all = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if operation["responses"].is_object() && path != "/metrics" {
                all.push((path.clone(), method.clone(), operation.clone()));
            }
        }
    }
    Ok(all)
}

fn request(document: &Value, path: &str, operation: &Value, rng: &mut ChaCha8Rng) -> Made {
    let (mut path, mut query) = (path.to_owned(), Vec::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = resolved(document, parameter);
        let name = parameter["name"].as_str().unwrap_or_default();
        let value = value(document, &parameter["schema"], rng, 0);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let text = escaped(&text);
        if parameter["in"] == "path" {
            let text = if text.is_empty() { "x".to_owned() } else { text };
            path = path.replace(&format!("{{{name}}}"), &text);
        } else if rng.random_bool(0.5) {
            query.push(format!("{name}={text}"));
        }
    }
    if !query.is_empty() {
        path += &format!("?{}", query.join("&"));
    }
    let body = resolved(document, &operation["requestBody"]);
    let schema = &body["content"]["application/json"]["schema"];
    let body = (!schema.is_null()).then(|| value(document, schema, rng, 0));
    Made { path, body }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().map(|name| name.trim_start_matches('#'));
    target.and_then(|target| document.pointer(target)).unwrap_or(value)
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let each = text.bytes().map(|byte| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    each.collect()
}

/// A value of a schema, or of another one.
fn value(document: &Value, schema: &Value, rng: &mut ChaCha8Rng, depth: usize) -> Value {
    if rng.random_bool(0.05) || depth > MAX_DEPTH {
        return odd(rng);
    }
    let schema = resolved(document, schema);
    for key in ["anyOf", "oneOf", "enum"] {
        if let Some(choices) = schema[key].as_array().filter(|choices| !choices.is_empty())
        {
            let chosen = &choices[rng.random_range(0..choices.len())];
            return if key == "enum" {
                chosen.clone()
            } else {
                value(document, chosen, rng, depth + 1)
            };
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) if !kinds.is_empty() => {
            kinds[rng.random_range(0..kinds.len())].as_str()
        }
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => {
            let mut object = Map::new();
            let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let wanted = required.iter().any(|one| one == name);
                if rng.random_bool(if wanted { 0.97 } else { 0.3 }) {
                    object.insert(name.clone(), value(document, property, rng, depth + 1));
                }
            }
            if rng.random_bool(0.02) {
                object.insert("unknown".into(), odd(rng));
            }
            object.into()
        }
        Some("array") => {
            let count = rng.random_range(0..4);
            (0..count).map(|_| value(document, &schema["items"], rng, depth + 1)).collect()
        }
        Some("integer") => {
            [0, 1, 7, 1000, 1_000_001, -1, i64::MAX][rng.random_range(0..7)].into()
        }
        Some("number") => [0.0, 0.5, -1.0, 1e30, 300.0][rng.random_range(0..5)].into(),
        Some("boolean") => rng.random_bool(0.5).into(),
        Some("null") => Value::Null,
        Some("string") => TEXTS[rng.random_range(0..TEXTS.len())].into(),
        _ => odd(rng),
    }
}

/// A value of any type.
fn odd(rng: &mut ChaCha8Rng) -> Value {
    match rng.random_range(0..8) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-7),
        3 => json!(1e300),
        4 => json!([]),
        5 => json!({ "a": [null, { "b": "c" }] }),
        6 => "x".repeat(rng.random_range(0..100_000)).into(),
        _ => TEXTS[rng.random_range(0..TEXTS.len())].into(),
    }
}
