//! Ranks, metadata filters, counts and batch queries over HTTP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod serving;

use serde_json::{Value, json};
use serving::{Client, Server, json, refused, run, unsealed};

fn post(client: &mut Client, path: &str, body: &Value) -> std::io::Result<serving::Reply> {
    client.json("POST", path, &body.to_string())
}

fn search(client: &mut Client, body: &Value) -> Value {
    json(200, post(client, "/v1/search", body))
}

fn hits(found: &Value) -> &Vec<Value> {
    found["hits"].as_array().unwrap()
}

fn ids(found: &Value) -> Vec<String> {
    hits(found).iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

/// The bits of a code in hexadecimal, lowest first, as -1 and +1.
fn signs(code: &str) -> Vec<f64> {
    let bytes = (0..code.len()).step_by(2).map(|at| &code[at..at + 2]);
    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap());
    bytes
        .flat_map(|byte| (0..8).map(move |k| if byte >> k & 1 == 1 { 1.0 } else { -1.0 }))
        .collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn hits_are_ranked_by_the_requested_score() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let base = json!({"query": {"text": "red heart"}, "target": "picture", "by": "meaning", "k": 40});
    let with = |rank: &str| {
        let mut body = base.clone();
        body["rank"] = json!(rank);
        body
    };
    let best = search(&mut client, &base);
    assert_eq!(best["rank"], "outputs");
    assert_eq!(best["hits"], search(&mut client, &with("outputs"))["hits"]);
    for rank in ["hamming", "asymmetric", "outputs"] {
        let found = search(&mut client, &with(rank));
        assert_eq!(found["rank"], rank);
        let scores: Vec<f64> =
            hits(&found).iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{rank}: {scores:?}");
        // pages join to the same list
        let mut joined = Vec::new();
        for skip in (0..40).step_by(8) {
            let mut page = with(rank);
            page["skip"] = json!(skip);
            page["k"] = json!(8);
            joined.extend(ids(&search(&mut client, &page)));
        }
        assert_eq!(joined, ids(&found), "{rank}");
    }
    let encoded = json!({"query": {"text": "red heart"}});
    let encoded = json(200, post(&mut client, "/v1/encode", &encoded));
    let outputs: Vec<f64> = encoded["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect();
    for hit in hits(&search(&mut client, &with("asymmetric"))) {
        // The outputs of a query are rounded to a byte.
        let wanted = cosine(&outputs, &signs(hit["code"].as_str().unwrap()));
        assert!((hit["score"].as_f64().unwrap() - wanted).abs() < 5e-3, "{hit}");
    }
    for hit in hits(&search(&mut client, &with("hamming"))) {
        let wanted = 1.0 - 2.0 * hit["distance"].as_f64().unwrap() / 32.0;
        assert!((hit["score"].as_f64().unwrap() - wanted).abs() < 1e-6, "{hit}");
    }
    let refusal = refused(400, post(&mut client, "/v1/search", &with("cosine")));
    assert_eq!(
        refusal,
        "rank: no rank named \"cosine\"; use hamming, asymmetric or outputs"
    );
    // an item finds itself by its stored outputs, a code by its signs
    let id = &ids(&best)[0];
    let body = json!({"query": {"item": {"id": id, "modality": "picture"}},
                      "target": "picture", "k": 3});
    let own = search(&mut client, &body);
    assert_eq!(
        (own["rank"].as_str(), own["hits"][0]["distance"].as_u64()),
        (Some("outputs"), Some(0))
    );
    assert!(own["hits"][0]["score"].as_f64().unwrap() > 0.9999);
    let code = &own["hits"][0]["code"];
    let body = json!({"query": {"code": code}, "target": "picture", "k": 3});
    assert_eq!(search(&mut client, &body)["rank"], "outputs");
}

/// Code and outputs of a response, sent again, give the same results: a drawing is shared by them.
#[test]
fn code_and_outputs_stand_for_a_query() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let drawing = json!({"strokes": [[[10, 10], [90, 90]], [[90, 10], [10, 90]]], "width": 100, "height": 100});
    for query in [json!({"drawing": drawing}), json!({"text": "red heart"})] {
        for rank in ["outputs", "asymmetric", "hamming"] {
            let with = |query: &Value| json!({"query": query, "target": "picture", "by": "meaning", "rank": rank, "k": 60});
            let first = search(&mut client, &with(&query));
            let [code, outputs, modality] =
                ["code", "outputs", "modality"].map(|name| &first["query"][name]);
            let same = json!({"code": code, "outputs": outputs, "modality": modality});
            let again = search(&mut client, &with(&same));
            assert_eq!(again["hits"], first["hits"], "{rank} {query}");
            assert_eq!(again["query"]["outputs"], *outputs);
            // Without a code, it is that of the signs; a value that was rounded to 0 may differ.
            let signs = search(&mut client, &with(&json!({"outputs": outputs})));
            assert_eq!(
                signs["query"]["code"].as_str().map(str::len),
                code.as_str().map(str::len)
            );
            let plain = json!({"query": query, "target": "picture", "by": "meaning", "explain": false});
            assert_eq!(search(&mut client, &plain)["query"]["outputs"], Value::Null);
        }
    }
    for (query, wanted) in [
        (
            json!({"outputs": [1, 2, 3]}),
            "query.outputs: 3 outputs; the model has 32, one per bit",
        ),
        (
            json!({"outputs": vec![0; 32], "text": "cat"}),
            "query: the query has several forms (text, outputs); specify one of them",
        ),
    ] {
        let body = json!({"query": query, "target": "picture"});
        assert_eq!(refused(400, post(&mut client, "/v1/search", &body)), wanted);
    }
    let none = r#"{"query": {"outputs": [1e60]}, "target": "picture"}"#;
    refused(400, client.json("POST", "/v1/search", none));
}

/// Counts do not change hits; a weak match is judged by the nearest item, wherever it is ranked.
#[test]
fn counts_and_the_nearest_item_do_not_depend_on_the_page() {
    let (_dir, run) = run();
    let path = run.join("report.json");
    let mut report: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let body = |k: usize, skip: usize, rank: &str| json!({"query": {"text": "red heart"}, "target": "picture", "by": "meaning", "rank": rank, "k": k, "skip": skip});
    let nearest =
        search(&mut client, &body(1, 0, "hamming"))["hits"][0]["distance"].clone();
    let nearest = nearest.as_u64().unwrap();
    for (weak_from, is_weak) in [(nearest + 1, false), (nearest, true)] {
        report["nearest"] = json!([{
            "query": "words", "database": "picture", "queries": 20, "real": [0, 0, 0, 0, 0],
            "chance": [0, 0, 0, 0, 0], "weak_from": weak_from,
        }]);
        fs_err::write(&path, report.to_string()).unwrap();
        unsealed(&run);
        json(200, client.request("POST", "/v1/models/small/reload", "", &[]));
        for rank in ["hamming", "outputs"] {
            for (k, skip) in [(1, 0), (3, 0), (3, 40), (3, 1500)] {
                let mut with = body(k, skip, rank);
                let plain = search(&mut client, &with);
                with["counts"] = json!(true);
                let counted = search(&mut client, &with);
                assert_eq!(counted["hits"], plain["hits"], "{rank} {k} {skip}");
                assert_eq!(counted["counts"]["items"], plain["searched"]);
                for hit in hits(&plain) {
                    assert_eq!(hit["weak"], is_weak, "{rank} {k} {skip}: {hit}");
                }
            }
        }
    }
}

/// Inserted items are stored with their outputs, also after a restart.
#[test]
fn inserted_items_are_ranked_by_their_outputs() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let text = "a purple dinosaur on a bicycle";
    let code = "00".repeat(4);
    let items = json!({"modality": "words", "items": [
        {"id": "mine", "text": text}, {"id": "coded", "code": code}]});
    json(201, post(&mut client, "/v1/items", &items));
    let query = json!({"query": {"text": text}, "target": "words", "k": 50});
    let check = |client: &mut Client| {
        let found = search(client, &query);
        let mine = hits(&found).iter().find(|hit| hit["id"] == "mine").unwrap().clone();
        assert!(mine["score"].as_f64().unwrap() > 0.9999, "{mine}");
        let coded =
            json!({"query": {"code": code}, "target": "words", "filter": "id = coded"});
        let coded = search(client, &coded);
        assert!((coded["hits"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
        ids(&found)
    };
    let before = check(&mut client);
    drop(server);
    let server = Server::start(&run, &[]);
    assert_eq!(check(&mut server.client()), before);
}

fn insert_shoes(client: &mut Client) {
    let item = |k: i32| {
        let brand = ["x", "y", "it's"][k as usize % 3];
        json!({
            "id": format!("shoe {k}"),
            "text": "running shoe",
            "meta": {
                "price": f64::from(k) * 2.5,
                "brand": brand,
                "added": format!("2024-05-{:02}T10:00:00Z", k + 1),
                "tags": [if k % 2 == 0 { "even" } else { "odd" }, "shoe"],
                "size": {"eu": 40 + k},
                "new": k > 6,
                "odd name": k,
            },
        })
    };
    let items: Vec<Value> = (0..10).map(item).collect();
    json(201, post(client, "/v1/items", &json!({"modality": "words", "items": items})));
}

#[test]
fn filters_select_by_fields_and_report_their_place() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    insert_shoes(&mut client);
    let mut found = |filter: &str| -> Vec<String> {
        let body = json!({"query": {"text": "running shoe"}, "target": "words", "k": 1000,
                          "filter": filter, "explain": false});
        let mut ids = ids(&search(&mut client, &body));
        ids.retain(|id| id.starts_with("shoe"));
        ids.sort();
        ids.iter().map(|id| id.strip_prefix("shoe ").unwrap().to_owned()).collect()
    };
    assert_eq!(found("price < 20 and brand = \"x\""), ["0", "3", "6"]);
    assert_eq!(found("price >= 20"), ["8", "9"]);
    assert_eq!(found("brand = 'it''s' and price <= 12.5"), ["2", "5"]);
    assert_eq!(found("added >= 2024-05-09"), ["8", "9"]);
    assert_eq!(found("added < '2024-05-02T12:00:00+02:00'"), ["0"]);
    assert_eq!(found("tags contains even and new = true"), ["8"]);
    assert_eq!(found("size.eu in (41, 42) or `odd name` = 9"), ["1", "2", "9"]);
    assert_eq!(found("exists(price) and not (brand in (x, y))"), ["2", "5", "8"]);
    assert_eq!(found("not exists(price)").len(), 0);
    // fields of the data set
    let body = json!({"query": {"text": "apple"}, "target": "words", "k": 5,
                      "filter": "subgroup = food-fruit and not exists(price)"});
    let fruit = search(&mut client, &body);
    assert_eq!(hits(&fruit).len(), 5);
    assert!(hits(&fruit).iter().all(|hit| hit["meta"]["subgroup"] == "food-fruit"));
    // errors
    let mut refusal = |filter: &str| {
        let body = json!({"query": {"text": "a"}, "target": "words", "filter": filter});
        refused(400, post(&mut client, "/v1/search", &body))
    };
    assert_eq!(
        refusal("price < 20 and brand is x"),
        "filter: filter, character 22: expected `=`, `!=`, `<`, `<=`, `>`, `>=`, `in` or \
         `contains`, found `is`\n  price < 20 and brand is x\n                       ^"
    );
    let unknown = refusal("prize < 20");
    assert!(
        unknown.contains("no item has the field \"prize\"; there are added, brand"),
        "{unknown}"
    );
    let long = refusal(&format!("id = '{}'", "x".repeat(70_000)));
    assert!(long.contains("the limit is 65536"), "{long}");
    let many = refusal(&vec!["id = 1"; 600].join(" or "));
    assert!(many.contains("more than 1000 tests and operators"), "{many}");
}

#[test]
fn counts_follow_the_filter() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    insert_shoes(&mut client);
    let count = |client: &mut Client, more: Value| -> Value {
        let mut body =
            json!({"query": {"text": "shoe"}, "target": "words", "k": 0, "counts": true});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        search(client, &body)
    };
    let field = |counts: &Value, name: &str| -> Value {
        let fields = counts["counts"]["fields"].as_array().unwrap();
        fields.iter().find(|field| field["name"] == name).cloned().unwrap_or(Value::Null)
    };
    let some = count(&mut client, json!({"filter": "price < 20"}));
    assert_eq!(some["counts"]["items"], 8);
    let brand = field(&some, "brand");
    assert_eq!(
        brand["values"],
        json!([{"value": "x", "items": 3}, {"value": "y", "items": 3}, {"value": "it's", "items": 2}])
    );
    let price = field(&some, "price");
    assert_eq!(
        (&price["min"], &price["max"], &price["distinct"]),
        (&json!(0.0), &json!(17.5), &json!(8))
    );
    assert_eq!(field(&some, "tags")["values"][0], json!({"value": "shoe", "items": 8}));
    let all = count(&mut client, json!({}));
    assert_eq!(all["counts"]["items"], all["searched"]);
    assert!(!field(&all, "subgroup").is_null());
    let labels = all["counts"]["labels"].as_array().unwrap();
    assert!(labels.is_sorted_by(|a, b| a["items"].as_u64() >= b["items"].as_u64()));
    // within a radius, as many as are found
    let near = count(&mut client, json!({"radius": 6, "k": 1000}));
    assert_eq!(near["counts"]["items"].as_u64().unwrap(), hits(&near).len() as u64);
    assert!(
        search(&mut client, &json!({"query": {"text": "a"}, "target": "words"}))["counts"]
            .is_null()
    );
}

#[test]
fn several_queries_are_answered_like_single_ones() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let texts = ["cat", "red heart", "house", "arrow", "cat"];
    let queries: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
    for more in [json!({}), json!({"filter": "not label = 0", "rank": "asymmetric"})] {
        let mut body = json!({"queries": queries, "target": "picture", "k": 7});
        more.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        let label =
            json(200, client.get("/v1/models"))["models"][0]["labels"][0]["name"].clone();
        if let Some(filter) = body.get_mut("filter") {
            *filter = json!(format!(
                "not label = '{}'",
                label.as_str().unwrap().replace('\'', "''")
            ));
        }
        let several = search(&mut client, &body);
        let results = several["results"].as_array().unwrap();
        assert_eq!(results.len(), texts.len());
        for (text, result) in texts.iter().zip(results) {
            let mut single = body.clone();
            single.as_object_mut().unwrap().remove("queries");
            single["query"] = json!({"text": text});
            let single = search(&mut client, &single);
            assert_eq!(
                (&result["hits"], &result["query"]),
                (&single["hits"], &single["query"])
            );
        }
    }
    let mut refusal = |body: &Value| refused(400, post(&mut client, "/v1/search", body));
    let both =
        json!({"query": {"text": "a"}, "queries": [{"text": "b"}], "target": "picture"});
    assert_eq!(
        refusal(&both),
        "queries: the request has query and queries; specify one of them"
    );
    let none = json!({"queries": [], "target": "picture"});
    assert_eq!(refusal(&none), "queries: no queries are given");
    let many = json!({"queries": vec![json!({"text": "a"}); 101], "target": "picture"});
    assert_eq!(
        refusal(&many),
        "queries: 101 queries at once; at most 100, send several requests"
    );
    let wrong = json!({"queries": [{"text": "a"}, {"text": ""}], "target": "picture"});
    assert_eq!(refusal(&wrong), "queries[1].text: the text is empty");
}
