"""Evaluation, comparison and coefficients."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import crosshash

rng = np.random.default_rng(3)


def average_precision(query, database, relevant):
    """MAP for database order by a plain loop."""
    near = (query[:, None, :] != database[None, :, :]).sum(axis=2)
    values = []
    for row, wanted in zip(near, relevant):
        order = np.argsort(row, kind="stable")
        hits = wanted[order]
        ranks = np.flatnonzero(hits) + 1
        values.append((np.arange(1, len(ranks) + 1) / ranks).mean() if len(ranks) else 0.0)
    return float(np.mean(values))


@pytest.fixture(scope="module")
def codes():
    query, database = rng.integers(0, 2, (15, 32)), rng.integers(0, 2, (300, 32))
    labels = rng.integers(0, 2, (15, 6)), rng.integers(0, 2, (300, 6))
    return query, database, labels


def test_map_equals_a_plain_loop_and_the_program(codes, tmp_path):
    query, database, (left, right) = codes
    report = crosshash.evaluate(query, database, left, right, at=[5, 50])
    relevant = (left @ right.T) > 0
    assert report.map.stable == pytest.approx(average_precision(query, database, relevant))
    assert report.map.pessimistic <= report.map.tie_aware <= report.map.optimistic
    assert set(report.at["precision_at"]) == {5, 50} and 0 < report.chance < 1
    for name, values in (("q", query), ("d", database), ("yq", left), ("yd", right)):
        np.save(tmp_path / f"{name}.npy", values.astype(np.int8 if name[0] != "y" else np.uint8))
    command = [sys.executable, "-m", "crosshash", "eval", "--json", "--at", "5,50"]
    for flag, name in (("query", "q"), ("database", "d"), ("query-labels", "yq"), ("database-labels", "yd")):
        command += [f"--{flag}", str(tmp_path / f"{name}.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["map"]["tie_aware"] == report.map.tie_aware
    assert found["bounds"]["ndcg_at"]["50"]["stable"] == report.at["ndcg_at"][50].stable


def test_forms_of_codes_and_labels_agree(codes):
    query, database, (left, right) = codes
    wanted = crosshash.evaluate(query, database, left, right).map
    lists = [[int(l) for l in np.flatnonzero(row)] for row in left], [
        [f"{l}" for l in np.flatnonzero(row)] for row in right]
    pack = lambda bits, order: np.packbits(bits, axis=1, bitorder=order)
    real = lambda bits: bits - 0.5
    for q, d, options in (
        (query * 2 - 1, database.astype(bool), {}),
        (pack(query, "little"), pack(database, "little"), {}),
        (pack(query, "big"), pack(database, "big"), {"layout": "packbits"}),
        (real(query), real(database), {"layout": "real"}),
    ):
        assert crosshash.evaluate(q, d, left, right, **options).map == wanted
    assert crosshash.evaluate(query, database, lists[0], left_as_numbers(right)).map == wanted


def left_as_numbers(matrix):
    return [[int(label) for label in np.flatnonzero(row)] for row in matrix]


def test_the_report_has_a_table_and_a_figure(codes, tmp_path):
    query, database, (left, right) = codes
    report = crosshash.evaluate(query, database, left, right, at=[10])
    page = report._repr_html_()
    assert "P@10" in page and "<svg" in page and f"{report.map.tie_aware:.4f}" in page
    report.plot(tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_text() == report.svg()
    again = pickle.loads(pickle.dumps(report))
    assert again.map == report.map and again.svg() == report.svg()
    assert "tie-aware" in str(report) and report.to_dict()["protocol"]["bits"] == 32


def test_wrong_arguments_have_sentences(codes):
    query, database, (left, right) = codes
    with pytest.raises(ValueError, match="the query set has 32 bits a code, the database has 16"):
        crosshash.evaluate(query, database[:, :16], left, right)
    with pytest.raises(ValueError, match="the query codes has 15 rows, the query labels has 14"):
        crosshash.evaluate(query, database, left[:14], right)
    with pytest.raises(ValueError, match="pass the labels of the queries and of the database, or none"):
        crosshash.evaluate(query, database, left)
    with pytest.raises(ValueError, match="denominator = 'all'|denominator = \"all\""):
        crosshash.evaluate(query, database, left, right, denominator="all")
    with pytest.raises(ValueError, match="the query label matrix has 5 labels"):
        crosshash.evaluate(query, database, left[:, :5], right)
    without = crosshash.evaluate(query, database)
    assert without.map is None and "<table>" in without._repr_html_()


def test_compare_trains_on_one_split(data):
    dataset = crosshash.Dataset(
        {"image": data["image"], "text": data["text"]}, data["labels"], split={"query": 40}
    )
    found = crosshash.compare(
        dataset, ["cca", "jcch", "lsh"], [8], seeds=2, progress=False,
        settings={"epochs": 2, "hidden": 8, "hidden_sparse": 8},
    )
    rows = found.rows()
    assert [(row["method"], row["seeds"]) for row in rows] == [("cca", 1), ("jcch", 2), ("lsh", 2)]
    assert all(0 < row["map"] <= 1 for row in rows if not row["skipped"])
    assert "text -> image" in rows[0] and "<table>" in found._repr_html_() and "cca" in str(found)
    with pytest.raises(KeyError, match="no method named \"magic\""):
        crosshash.compare(dataset, ["magic"])
    with pytest.raises(ValueError, match="has no queries"):
        crosshash.compare(crosshash.Dataset({"x": data["image"]}, data["labels"]), ["pca-sign"])


def test_unsuitable_methods_are_skipped_with_the_reason(data):
    dataset = crosshash.Dataset({"image": data["image"], "text": data["text"]}, split={"query": 40})
    found = crosshash.compare(dataset, ["jcch"], 8, progress=False)
    assert found.rows()[0]["skipped"].startswith("jcch ")




def test_coefficients_equal_the_program(tmp_path):
    labels = (rng.random((80, 7)) < 0.3).astype(np.uint8)
    labels[labels.sum(axis=1) == 0, 0] = 1
    found = crosshash.coefficients(labels, kind="exact")
    np.save(tmp_path / "labels.npy", labels)
    command = [sys.executable, "-m", "crosshash", "coefficients", "--labels", str(tmp_path / "labels.npy"),
               "--out", str(tmp_path / "out"), "--kind", "exact"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (np.load(tmp_path / "out" / "q.npy") == found.q).all()
    assert (np.load(tmp_path / "out" / "u.npy") == found.u).all()
    assert found.kind == "exact" and ((found.q > 0) <= (labels > 0)).all()
    assert found.q_values.mean() == pytest.approx(1)  # the scale of the paper
    with pytest.raises(KeyError, match="no kind of coefficients named"):
        crosshash.coefficients(labels, kind="some")
