//! `crosshash serve` end to end: every route and every error, checked against the OpenAPI document.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod serving;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use serving::{Client, Server, json, refused, run};

fn post(client: &mut Client, path: &str, body: &Value) -> std::io::Result<serving::Reply> {
    client.json("POST", path, &body.to_string())
}

/// Checks a value against a schema of the document, as far as the document uses schemas; says
/// where it does not fit.
fn fits(
    document: &Value,
    schema: &Value,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = document.pointer(name.trim_start_matches('#'));
        return fits(document, target.ok_or(format!("{place}: no {name}"))?, value, place);
    }
    for (key, all) in [("anyOf", 1..=usize::MAX), ("oneOf", 1..=1)] {
        if let Some(choices) = schema[key].as_array() {
            let fit =
                choices.iter().filter(|c| fits(document, c, value, place).is_ok()).count();
            return if all.contains(&fit) {
                Ok(())
            } else {
                Err(format!("{place}: {fit} of {key} fit"))
            };
        }
    }
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("the document has a type {other}"),
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().map(|kind| kind.as_str().unwrap()).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind)) {
        return Err(format!("{place}: {value} is not {kinds:?}"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Err(format!("{place}: {value} is not one of {allowed:?}"));
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < least
    {
        return Err(format!("{place}: {number} is below {least}"));
    }
    if let Some(list) = value.as_array() {
        let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
        let least = schema["minItems"].as_u64().unwrap_or(0);
        if !(least..=most).contains(&(list.len() as u64)) {
            return Err(format!("{place}: {} values", list.len()));
        }
        for (k, inner) in list.iter().enumerate() {
            fits(document, &schema["items"], inner, &format!("{place}[{k}]"))?;
        }
    }
    if let Some(map) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !map.contains_key(name.as_str().unwrap()) {
                return Err(format!("{place}: {name} is missing"));
            }
        }
        for (key, inner) in map {
            let place = format!("{place}.{key}");
            match (&schema["properties"][key], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => {
                    return Err(format!("{place} is not described"));
                }
                (Value::Null, more @ Value::Object(_)) => {
                    fits(document, more, inner, &place)?
                }
                (Value::Null, _) => {}
                (known, _) => fits(document, known, inner, &place)?,
            }
        }
    }
    Ok(())
}

/// Checks a response against the document.
#[track_caller]
fn described(document: &Value, path: &str, method: &str, reply: &serving::Reply) {
    let answers = &document["paths"][path][method]["responses"];
    let answer = &answers[reply.status.to_string()];
    assert!(
        !answer.is_null(),
        "{method} {path}: {} is not described: {}",
        reply.status,
        reply.text()
    );
    let kind =
        reply.header("content-type").unwrap_or("").split(';').next().unwrap().to_owned();
    let Some(content) = answer["content"].as_object() else { return };
    let wildcard = format!("{}/*", kind.split('/').next().unwrap());
    let known = content.get(&kind).or(content.get(&wildcard)).or(content.get("*/*"));
    let schema = &known
        .unwrap_or_else(|| panic!("{method} {path}: {kind} is not described"))["schema"];
    if kind == "application/json" {
        let value: Value = serde_json::from_slice(&reply.body).unwrap();
        if let Err(err) = fits(document, schema, &value, path) {
            panic!("{method} {path}: {err}\n{}", reply.text());
        }
    }
}

#[test]
fn every_path_matches_the_openapi_document() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let document = json(200, client.get("/openapi.json"));
    assert_eq!(document["openapi"], "3.1.0");
    let search = json!({"query": {"text": "cat"}, "target": "picture", "k": 3});
    let several = json!({"queries": [{"text": "cat"}, {"text": "dog"}], "target": "picture",
                         "rank": "asymmetric", "counts": true, "filter": "exists(group)"});
    let found = json(200, post(&mut client, "/v1/search", &search));
    let id = found["hits"][0]["id"].as_str().unwrap().to_owned();
    let item = json!({"modality": "words", "items": [{"id": "mine", "text": "a tabby cat", "meta": {"by": "me"}}]});
    let gone = json!({"modality": "words", "ids": ["mine", "not there"]});
    let encode = json!({"query": {"text": "cat"}});
    let body = |value: &Value| Some(value.to_string());
    let picture = format!("/v1/items/{id}/picture?modality=picture&size=32");
    let requests: Vec<(&str, &str, String, Option<String>, u16)> = vec![
        ("/", "get", "/".into(), None, 200),
        ("/page/{file}", "get", "/page/index.html".into(), None, 200),
        ("/page/{file}", "get", "/page/nothing.js".into(), None, 404),
        ("/healthz", "get", "/healthz".into(), None, 200),
        ("/metrics", "get", "/metrics".into(), None, 200),
        ("/openapi.json", "get", "/openapi.json".into(), None, 200),
        ("/v1/models", "get", "/v1/models".into(), None, 200),
        ("/v1/models/{model}", "get", "/v1/models/small".into(), None, 200),
        ("/v1/models/{model}", "get", "/v1/models/other".into(), None, 404),
        ("/v1/models/{model}/map", "get", "/v1/models/small/map".into(), None, 202),
        ("/v1/models/{model}/map", "get", "/v1/models/other/map".into(), None, 404),
        ("/v1/models/{model}/reload", "post", "/v1/models/small/reload".into(), None, 200),
        ("/v1/models/{model}/reload", "post", "/v1/models/other/reload".into(), None, 404),
        ("/v1/search", "post", "/v1/search".into(), body(&search), 200),
        ("/v1/search", "post", "/v1/search".into(), body(&several), 200),
        ("/v1/search", "post", "/v1/search".into(), Some("{".into()), 400),
        ("/v1/encode", "post", "/v1/encode".into(), body(&encode), 200),
        ("/v1/encode", "post", "/v1/encode".into(), Some("{}".into()), 400),
        ("/v1/items", "post", "/v1/items".into(), body(&item), 201),
        ("/v1/items", "post", "/v1/items".into(), Some("[]".into()), 400),
        ("/v1/items/{id}", "get", "/v1/items/mine?modality=words".into(), None, 200),
        ("/v1/items/{id}", "get", format!("/v1/items/{id}?modality=picture"), None, 200),
        ("/v1/items/{id}", "get", "/v1/items/nothing?modality=words".into(), None, 404),
        ("/v1/items/{id}", "get", "/v1/items/nothing".into(), None, 400),
        ("/v1/items/{id}/picture", "get", picture, None, 200),
        (
            "/v1/items/{id}/picture",
            "get",
            "/v1/items/mine/picture?modality=words".into(),
            None,
            404,
        ),
        ("/v1/items/{id}", "delete", "/v1/items/nothing?modality=words".into(), None, 404),
        ("/v1/items", "delete", "/v1/items".into(), body(&gone), 200),
        ("/v1/items", "post", "/v1/items".into(), body(&item), 201),
        ("/v1/items/{id}", "delete", "/v1/items/mine?modality=words".into(), None, 200),
    ];
    let mut walked = std::collections::BTreeSet::new();
    for (path, method, address, body, status) in requests {
        let upper = method.to_uppercase();
        let reply = match body {
            Some(body) => client.json(&upper, &address, &body),
            None => client.request(&upper, &address, "", &[]),
        };
        let reply = reply.unwrap();
        assert_eq!(reply.status, status, "{method} {address}: {}", reply.text());
        described(&document, path, method, &reply);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        walked.insert((path, method));
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            assert!(
                walked.contains(&(path.as_str(), method.as_str())),
                "{method} {path} is not walked"
            );
        }
    }
    // requests that the document gives as examples are answered
    for (path, method) in [
        ("/v1/search", "post"),
        ("/v1/encode", "post"),
        ("/v1/items", "post"),
        ("/v1/items", "delete"),
    ] {
        let content =
            &document["paths"][path][method]["requestBody"]["content"]["application/json"];
        fits(&document, &content["schema"], &content["example"], "example").unwrap();
        let reply = client
            .json(&method.to_uppercase(), path, &content["example"].to_string())
            .unwrap();
        assert!(reply.status < 300, "{path}: {}", reply.text());
    }
    let page = client.get("/").unwrap();
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    // the map is made in the background, and kept
    let started = Instant::now();
    let map = loop {
        let reply = client.get("/v1/models/small/map").unwrap();
        described(&document, "/v1/models/{model}/map", "get", &reply);
        if reply.status == 200 {
            break serde_json::from_slice::<Value>(&reply.body).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(100), "no map");
        std::thread::sleep(Duration::from_millis(300));
    };
    assert!(map["points"].as_array().unwrap().len() > 100);
    assert!(run.join("serve/map.json").exists());
}

#[test]
fn queries_of_every_kind_return_the_expected_items() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let models = json(200, client.get("/v1/models"));
    assert_eq!(models["default"], "small");
    let model = &models["models"][0];
    assert_eq!((&model["bits"], &model["generation"]), (&json!(32), &json!(1)));
    let modality = |name: &str| {
        let all = model["modalities"].as_array().unwrap();
        all.iter().find(|m| m["name"] == name).unwrap().clone()
    };
    assert_eq!(modality("words")["asks"], json!(["text"]));
    assert_eq!(modality("picture")["asks"][0], "picture");
    assert_eq!(modality("drawing")["asks"][0], "drawing");
    assert_eq!(modality("drawing")["items"], 1197);
    assert_eq!(modality("picture")["shows"], "picture");
    let full = json(200, client.get("/v1/models/small"));
    assert_eq!(full["report"]["directions"].as_array().unwrap().len(), 9);
    assert!(full["report"]["directions"][0]["curve"].as_array().unwrap().len() > 5);
    assert_eq!(full["history"][0]["epoch"], 1);
    assert_eq!(full["settings"]["epochs"], 1);

    // an item finds itself, at no distance, with its labels shared
    let cat = "1f408";
    let ask = |client: &mut Client, query: Value, target: &str| {
        let body = json!({"query": query, "target": target, "k": 1000, "rank": "hamming"});
        json(200, post(client, "/v1/search", &body))
    };
    let by_item =
        ask(&mut client, json!({"item": {"id": cat, "modality": "picture"}}), "picture");
    let own = by_item["hits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|hit| hit["id"] == cat)
        .unwrap()
        .clone();
    assert_eq!(own["distance"], 0);
    assert_eq!(own["shared"], own["labels"]);
    assert_eq!(by_item["query"]["labels"], own["labels"]);
    assert_eq!(by_item["query"]["code"], own["code"]);
    assert_eq!(by_item["query"]["centres"].as_array().unwrap().len(), 5);
    assert!(own["text"].as_str().unwrap().starts_with("cat"), "{own}");
    // hits are ordered, pages join, distances are those of the codes
    let hits = by_item["hits"].as_array().unwrap();
    assert!(hits.is_sorted_by_key(|h| (h["distance"].as_u64(), h["item"].as_u64())));
    let word =
        |hit: &Value| u32::from_str_radix(hit["code"].as_str().unwrap(), 16).unwrap();
    let query =
        u32::from_str_radix(by_item["query"]["code"].as_str().unwrap(), 16).unwrap();
    assert!(
        hits.iter().all(|h| u64::from((word(h) ^ query).count_ones())
            == h["distance"].as_u64().unwrap())
    );
    let page = json!({"query": {"code": own["code"]}, "target": "picture", "k": 5, "skip": 7, "rank": "hamming"});
    let page = json(200, post(&mut client, "/v1/search", &page));
    assert_eq!(
        page["hits"].as_array().unwrap()[..],
        hits[7..12]
            .iter()
            .map(|hit| {
                let mut hit = hit.clone();
                let kept = page["hits"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|p| p["id"] == hit["id"])
                    .unwrap();
                hit["shared"] = kept["shared"].clone(); // by centres, a code has no labels
                hit
            })
            .collect::<Vec<_>>()[..]
    );
    // its own picture and its own words have its code
    let picture = client.get(own["picture"].as_str().unwrap()).unwrap();
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
    let mut form = b"--x\r\ncontent-disposition: form-data; name=\"picture\"; filename=\"cat.png\"\r\n\r\n".to_vec();
    form.extend_from_slice(&picture.body);
    form.extend_from_slice(b"\r\n--x\r\ncontent-disposition: form-data; name=\"request\"\r\n\r\n{\"target\":\"picture\",\"k\":1000}\r\n--x--\r\n");
    let by_file = json(
        200,
        client.request(
            "POST",
            "/v1/search",
            "content-type: multipart/form-data; boundary=x\r\n",
            &form,
        ),
    );
    assert_eq!(
        by_file["query"]["code"], own["code"],
        "an uploaded picture is encoded as it was for training"
    );
    let words = json(200, client.get(&format!("/v1/items/{cat}?modality=words")));
    let by_text = ask(&mut client, json!({"text": words["text"]}), "picture");
    assert_eq!(by_text["query"]["code"], words["code"]);
    assert_eq!(words["also"], json!(["picture", "drawing"]));
    // a drawing, by strokes
    let strokes =
        json!([[[10, 10], [90, 10], [90, 90], [10, 90], [10, 10]], [[30, 40], [31, 40]]]);
    let by_drawing = ask(
        &mut client,
        json!({"drawing": {"strokes": strokes, "width": 100, "height": 100}}),
        "words",
    );
    assert_eq!(by_drawing["query"]["modality"], "drawing");
    assert_eq!(by_drawing["searched"], by_text["searched"]);
    // features
    let encoded = json(
        200,
        post(
            &mut client,
            "/v1/encode",
            &json!({"query": {"features": vec![0.1; 388], "modality": "drawing"}}),
        ),
    );
    assert_eq!(encoded["outputs"].as_array().unwrap().len(), 32);
    // radius and filter
    let label = own["labels"][0].as_str().unwrap();
    let some = json!({"query": {"code": own["code"]}, "target": "picture", "k": 1000, "radius": 6, "rank": "hamming", "filter": format!("label in ('{label}')")});
    let some = json(200, post(&mut client, "/v1/search", &some));
    let fits = |hit: &&Value| {
        let near = hit["distance"].as_u64().unwrap() <= 6;
        near && hit["labels"].as_array().unwrap().contains(&json!(label))
    };
    let some = some["hits"].as_array().unwrap();
    assert!(some.iter().all(|hit| fits(&hit)));
    // the list above ends after a thousand
    let wanted: Vec<&Value> = hits.iter().filter(fits).map(|hit| &hit["id"]).collect();
    let found: Vec<&Value> = some.iter().map(|hit| &hit["id"]).take(wanted.len()).collect();
    assert_eq!(found, wanted);
    // thumbnails are cached by their tag
    let small =
        client.get(&format!("/v1/items/{cat}/picture?modality=picture&size=16")).unwrap();
    let tag = small.header("etag").unwrap().to_owned();
    let again = client
        .request(
            "GET",
            &format!("/v1/items/{cat}/picture?modality=picture&size=16"),
            &format!("if-none-match: {tag}\r\n"),
            &[],
        )
        .unwrap();
    assert_eq!((again.status, again.body.len()), (304, 0));
    let metrics = client.get("/metrics").unwrap().text();
    assert!(
        metrics.contains("crosshash_items{model=\"small\",modality=\"drawing\"} 1197"),
        "{metrics}"
    );
    assert!(metrics.contains(
        "crosshash_requests_total{route=\"/v1/search\",method=\"POST\",status=\"200\"}"
    ));
    assert!(metrics.contains("process_resident_memory_bytes"));
}

#[test]
fn errors_name_the_problem_the_place_and_a_remedy() {
    let (_dir, run) = run();
    let server = Server::start(&run, &["--max-body", "1", "--max-seconds", "1"]);
    let mut client = server.client();
    let mut say = |body: Value| refused(400, post(&mut client, "/v1/search", &body));
    assert_eq!(
        say(json!({"query": {}, "target": "words"})),
        "query: empty query; specify one of text, picture, drawing, item, code, outputs or features"
    );
    assert_eq!(
        say(json!({"query": {"text": "a", "code": "00"}, "target": "words"})),
        "query: the query has several forms (text, code); specify one of them"
    );
    assert_eq!(
        say(json!({"query": {"text": "a"}})),
        "target: specify the modality to search: picture, drawing, words"
    );
    assert_eq!(
        say(json!({"query": {"text": "a"}, "target": "sound"})),
        "target: no modality named \"sound\"; there are picture, drawing, words"
    );
    assert_eq!(
        say(json!({"query": {"text": "a"}, "target": "words", "k": 5000})),
        "k: 5000 results requested; the limit is 1000, use skip for the next page"
    );
    assert_eq!(
        say(json!({"query": {"code": "12"}, "target": "words"})),
        "query.code: a code is 8 hexadecimal digits (32 bits, lowest bit first), with zeros beyond the last bit"
    );
    assert_eq!(
        say(
            json!({"query": {"text": "a"}, "target": "words", "filter": "label = cow cow"})
        )
        .split(';')
        .next()
        .unwrap(),
        "filter: filter, character 9: no label is named \"cow\""
    );
    assert_eq!(
        say(json!({"query": {"text": 5}, "target": "words"})).split(": ").next().unwrap(),
        "query.text"
    );
    assert!(
        say(json!({"query": {"picture": "AAAA"}, "target": "words"}))
            .starts_with("query.picture: ")
    );
    assert!(
        say(
            json!({"query": {"features": [1, 2], "modality": "picture"}, "target": "words"})
        )
        .contains("dense rows with")
    );
    assert!(refused(404, client.get("/v2")).contains("/openapi.json"));
    refused(405, client.request("PUT", "/v1/items", "", &[]));
    refused(
        415,
        client.request("POST", "/v1/search", "content-type: text/plain\r\n", b"{}"),
    );
    let large = refused(
        413,
        client.json(
            "POST",
            "/v1/search",
            &format!("{{\"query\":{{\"text\":\"{}\"}}}}", "a".repeat(2 << 20)),
        ),
    );
    assert!(large.contains("--max-body"), "{large}");
    refused(400, client.json("POST", "/v1/items", &json!({"modality": "words", "items": [{"id": "x", "text": "y", "labels": ["no label"]}]}).to_string()));
    refused(
        400,
        client.json(
            "POST",
            "/v1/items",
            &json!({"modality": "words", "items": [{"id": "x"}]}).to_string(),
        ),
    );
    refused(403, client.raw(b"GET /v1/models HTTP/1.1\r\nhost: evil.example\r\n\r\n"));
    refused(400, client.get("/v1/items/%ff?modality=words"));
    refused(404, client.get("/v1/items/..%2f..%2fetc%2fpasswd?modality=words"));
    // clients that send nothing are disconnected, in head or body
    for start in [
        "GET /v1/models HT",
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{",
    ] {
        let started = Instant::now();
        let mut slow = TcpStream::connect(server.addr).unwrap();
        slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        slow.write_all(start.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = slow.read_to_string(&mut answer);
        assert!(started.elapsed() < Duration::from_secs(6), "{start}: still open");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    json(200, client.get("/healthz"));
}

/// Every field of every request body as null: it is accepted if, and only if, the document says so.
#[test]
fn null_is_accepted_where_the_document_declares_it() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let document = json(200, client.get("/openapi.json"));
    let body = |path: &str, method: &str| {
        let content = &document["paths"][path][method]["requestBody"]["content"];
        content["application/json"]["schema"].clone()
    };
    let mut checked = 0;
    for (path, method, valid) in [
        ("/v1/search", "post", json!({"query": {"text": "cat"}, "target": "words"})),
        ("/v1/encode", "post", json!({"query": {"text": "cat"}})),
        (
            "/v1/items",
            "post",
            json!({"modality": "words", "items": [{"id": "a", "text": "b"}]}),
        ),
        ("/v1/items", "delete", json!({"modality": "words", "ids": ["a"]})),
    ] {
        let schema = body(path, method);
        fits(&document, &schema, &valid, path).unwrap();
        let mut places: Vec<String> = Vec::new();
        let target = schema["$ref"].as_str().map(|name| name.trim_start_matches('#'));
        let fields = target.map_or(&schema, |name| document.pointer(name).unwrap());
        let names = fields["properties"].as_object().unwrap().keys();
        places.extend(names.map(|name| format!("/{name}")));
        if path != "/v1/items" {
            let forms =
                ["text", "picture", "drawing", "item", "code", "outputs", "features"];
            places.extend(
                forms.iter().chain(&["modality"]).map(|name| format!("/query/{name}")),
            );
        } else if method == "post" {
            let item =
                document["components"]["schemas"]["NewItem"]["properties"].as_object();
            places.extend(item.unwrap().keys().map(|name| format!("/items/0/{name}")));
        }
        for place in places {
            let mut sent = valid.clone();
            let (parent, name) = place.rsplit_once('/').unwrap();
            sent.pointer_mut(parent).unwrap()[name] = Value::Null;
            let declared = fits(&document, &schema, &sent, path).is_ok();
            let status = client
                .json(&method.to_uppercase(), path, &sent.to_string())
                .unwrap()
                .status;
            assert!(declared == (status < 300) && status < 500, "{path} {sent}: {status}");
            checked += 1;
        }
    }
    assert!(checked > 35, "{checked}");
}

#[test]
fn a_token_is_required_on_public_addresses() {
    let (dir, run) = run();
    let output = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(["serve", run.to_str().unwrap(), "--addr", "0.0.0.0:0"])
        .env_remove("CROSSHASH_TOKEN")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--token-file"), "{output:?}");
    let file = dir.path().join("token");
    fs_err::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    let more = ["--token-file", file.to_str().unwrap(), "--cors", "https://example.org"];
    let server = Server::start(&run, &more);
    let mut client = server.client();
    refused(401, client.get("/v1/models"));
    refused(401, client.get("/metrics"));
    json(200, client.get("/healthz"));
    assert_eq!(client.get("/").unwrap().status, 200, "the page asks for the token");
    client.token = Some("0123456789abcdef0123456789abcdee".into());
    refused(401, client.get("/v1/models"));
    client.token = Some("0123456789abcdef0123456789abcdef".into());
    json(200, client.get("/v1/models"));
    let allowed = client
        .request("GET", "/v1/models", "origin: https://example.org\r\n", &[])
        .unwrap();
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://example.org"));
    let other = client
        .request("GET", "/v1/models", "origin: https://evil.example\r\n", &[])
        .unwrap();
    assert_eq!(other.header("access-control-allow-origin"), None);
}
