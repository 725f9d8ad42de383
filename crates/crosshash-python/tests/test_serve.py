"""The HTTP service."""

from __future__ import annotations

import json
import urllib.request

import numpy as np
import pytest

import crosshash


def ask(url: str, body: dict[str, object]) -> dict[str, object]:
    request = urllib.request.Request(
        f"{url}v1/search", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        found: dict[str, object] = json.load(reply)
        return found


def test_a_run_with_its_data_is_served(data, tmp_path):
    table = {"id": [f"p{k}" for k in range(240)], "caption": data["text"], "kind": data["labels"].tolist(),
             "price": list(range(240)), "vector": data["image"]}
    dataset = crosshash.Dataset.from_table(table, {"image": "vector", "text": "caption"}, labels="kind", id="id")
    dataset.save(tmp_path / "data")
    hasher = crosshash.CrossModalHasher(bits=16, epochs=3, hidden=16, hidden_sparse=16)
    hasher.fit(dataset, progress=False).save(tmp_path / "run", progress=False)
    with crosshash.serve(tmp_path / "run") as server:
        assert server.is_running and server.url.startswith("http://127.0.0.1:")
        found = ask(server.url, {"query": {"text": "sea waves"}, "target": "text", "k": 3, "filter": "price < 100"})
        hits = found["results"] if "results" in found else found["hits"]
        assert len(hits) == 3 and "sea" in json.dumps(hits)
        with urllib.request.urlopen(server.url, timeout=30) as page:
            assert b"<html" in page.read().lower()
    assert not server.is_running and "stopped" in repr(server)


def test_an_index_is_served(tmp_path):
    index = crosshash.Index(16, tmp_path / "index")
    index.add(np.array([[0, 0], [1, 0], [255, 255]], dtype=np.uint8), ids=["a", "b", "c"],
              texts=["red shoe", "blue shoe", "green hat"], meta=[{"price": k} for k in range(3)])
    del index
    with crosshash.serve(tmp_path / "index") as server:
        found = ask(server.url, {"query": {"item": {"modality": "items", "id": "a"}}, "k": 2})
        assert "red shoe" in json.dumps(found) and "blue shoe" in json.dumps(found)


def test_faults_have_sentences(tmp_path):
    with pytest.raises(FileNotFoundError):
        crosshash.serve(tmp_path / "missing")
    with pytest.raises(RuntimeError, match="the service did not start: .*"):
        crosshash.serve(tmp_path)
    with pytest.raises(ValueError, match="an index in memory cannot be served"):
        crosshash.serve(crosshash.Index(8))
    with pytest.raises(RuntimeError, match="token"):
        crosshash.serve(tmp_path, host="0.0.0.0", options=[])  # refused before it listens
