"""Indexes: against a plain loop, in memory and on disk, with threads."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import crosshash

rng = np.random.default_rng(7)


def distances(queries, codes):
    bits = np.unpackbits(queries[:, None, :] ^ codes[None, :, :], axis=2)
    return bits.sum(axis=2)


def plain(queries, codes, k):
    """Ids and distances by a plain loop: by distance, then by number."""
    near = distances(queries, codes)
    order = np.argsort(near, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(near, order, axis=1)


@pytest.fixture(params=["memory", "disk"])
def place(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "index"


@pytest.mark.parametrize("bits", [16, 64, 70, 128])
def test_search_equals_a_plain_loop(place, bits):
    width = -(-bits // 8)
    mask = np.frombuffer((2**bits - 1).to_bytes(width, "little"), dtype=np.uint8)
    codes = rng.integers(0, 256, (3000, width), dtype=np.uint8) & mask
    codes[1000:2000] = codes[:1000]  # ties
    queries = rng.integers(0, 256, (20, width), dtype=np.uint8) & mask
    index = crosshash.Index(bits, place)
    assert index.add(codes[:1500]) == 1500 and index.add(codes[1500:]) == 1500
    found = index.search(queries, k=25)
    ids, near = plain(queries, codes, 25)
    assert (found.ids == ids).all() and (found.distances == near).all()
    assert found.ids.dtype == np.int64 and found.distances.dtype == np.int32
    page = index.search(queries, k=10, skip=15)
    assert (page.ids == ids[:, 15:]).all()
    within = index.search(queries, k=None, radius=int(near[0, 4]))
    all_near = distances(queries, codes)
    assert (within.counts == (all_near <= near[0, 4]).sum(axis=1)).all()
    assert [hit.id for hit in within[0]] == plain(queries[:1], codes, len(within[0]))[0][0].tolist()


def test_items_are_replaced_and_deleted(place):
    codes = rng.integers(0, 256, (200, 8), dtype=np.uint8)
    names = [f"item {k}" for k in range(200)]
    index = crosshash.Index(64, place)
    index.add(codes, ids=names)
    with pytest.raises(ValueError, match="row 0: id item 5 is in the index already; upsert replaces it"):
        index.add(codes[:1], ids=["item 5"])
    assert index.upsert(codes[50:52], ids=["item 0", "new"]) == 1 and len(index) == 201
    assert index.delete(["item 1", "missing"]) == 1 and "item 1" not in index and "new" in index
    found = index.search(codes[50:51], k=3)
    assert set(found.ids[0][:2]) == {"item 0", "item 50"} and found.distances[0, :2].tolist() == [0, 0]
    assert index.search(codes[51:52], k=2).ids[0].tolist() in (["item 51", "new"], ["new", "item 51"])
    index.compact()
    assert len(index) == 200 and (index.get("item 0")["code"] == codes[50]).all()
    assert index.get("item 1") is None
    with pytest.raises(ValueError, match="the index has names as ids, the new items have numbers"):
        index.add(codes[:1], ids=[7])


def test_labels_fields_and_filters(place):
    codes = rng.integers(0, 256, (60, 4), dtype=np.uint8)
    labels = [["cat"] if k % 3 else ["dog", "cat"] for k in range(60)]
    meta = [{"price": k, "shop": {"city": "Ulm" if k % 2 else "Jena"}} for k in range(60)]
    texts = [f"text {k}" for k in range(60)]
    index = crosshash.Index(32, place, label_names=["cat", "dog"])
    index.add(codes, labels=labels, meta=meta, texts=texts)
    found = index.search(codes[:1], k=60, filter="label in (dog) and price < 30")
    assert sorted(found.ids[0, :found.counts[0]]) == list(range(0, 30, 3))
    assert index.search(codes[:1], k=60, filter='shop.city = "Ulm"').counts[0] == 30
    assert index.get(7) | {"code": None} == {
        "id": 7, "code": None, "labels": [0], "text": "text 7", "meta": meta[7],
    }
    with pytest.raises(ValueError, match="colour"):
        index.search(codes[:1], filter="colour = 3")
    with pytest.raises(KeyError, match="no label named 'cow'; there are: cat, dog"):
        index.add(codes[:1], labels=[["cow"]])
    assert index.delete(filter="price >= 30") == 30 and len(index) == 30
    packed, ids, rows = index.items()
    assert (packed == codes[:30]).all() and list(ids) == list(range(30)) and rows[0] == [0, 1]


def test_outputs_rank_candidates(place):
    outputs = rng.normal(size=(500, 32)).astype(np.float32)
    codes = np.packbits(outputs >= 0, axis=1, bitorder="little")
    index = crosshash.Index(32, place, outputs=True)
    index.add(codes, outputs=outputs)
    query = rng.normal(size=(1, 32)).astype(np.float32)
    code = np.packbits(query >= 0, axis=1, bitorder="little")
    found = index.search(code, k=5, rank="auto", outputs=query, candidates=500)
    cosine = (outputs @ query[0]) / np.linalg.norm(outputs, axis=1) / np.linalg.norm(query)
    assert found.ids[0, 0] == cosine.argmax()
    assert np.allclose(found.scores[0], cosine[found.ids[0]], atol=0.01)
    with pytest.raises(ValueError, match='no rank named "cosine"; use hamming, asymmetric or outputs'):
        index.search(code, rank="cosine")


def test_an_index_on_disk_is_shared_with_the_program(tmp_path):
    codes = rng.integers(0, 256, (100, 8), dtype=np.uint8)
    index = crosshash.Index(64, tmp_path / "index")
    index.add(codes)
    with pytest.raises(ValueError, match="another process is writing to this index"):
        crosshash.Index.open(tmp_path / "index")
    del index
    again = crosshash.Index.open(tmp_path / "index")
    assert len(again) == 100 and (again.items()[0] == codes).all()
    command = [sys.executable, "-m", "crosshash", "index", "info", str(tmp_path / "index"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and '"items": 100' in done.stdout, done.stderr + done.stdout
    with pytest.raises(FileNotFoundError):
        crosshash.Index.open(tmp_path / "missing")
    with pytest.raises(ValueError, match="is not empty"):
        crosshash.Index(64, tmp_path / "index")


def test_files_of_codes(tmp_path):
    codes = rng.integers(0, 256, (50, 8), dtype=np.uint8)
    index = crosshash.Index(64)
    index.add(codes, ids=np.arange(50) * 3, labels=np.arange(50) % 4)
    for ending in ("faiss", "npy", "codes", "jsonl"):
        index.write(tmp_path / f"codes.{ending}")
        again = crosshash.Index.read(tmp_path / f"codes.{ending}")
        assert (again.items()[0] == codes).all(), ending
    assert list(crosshash.Index.read(tmp_path / "codes.jsonl").items()[1]) == [k * 3 for k in range(50)]
    with pytest.raises(ValueError, match="name a file that ends in .codes"):
        index.write(tmp_path / "codes.bin")


def test_codes_as_bits_are_accepted():
    bits = rng.integers(0, 2, (30, 24))
    packed = np.packbits(bits, axis=1, bitorder="little")
    for form in (bits, bits.astype(bool), bits * 2 - 1, bits.astype(np.uint8), packed):
        index = crosshash.Index(24)
        index.add(form)
        assert (index.items()[0] == packed).all()
    with pytest.raises(ValueError, match="row 0, column 0: 7 is not a bit"):
        crosshash.Index(24).add(np.full((1, 24), 7, dtype=np.int32))
    with pytest.raises(ValueError, match="24 bits do not fit rows of 4 bytes"):
        crosshash.Index(24).add(np.full((1, 4), 7, dtype=np.uint8))


def test_threads_search_while_another_adds(place):
    """Two threads search one index while a third adds; every answer is one state of the index."""
    codes = rng.integers(0, 256, (20_000, 8), dtype=np.uint8)
    index = crosshash.Index(64, place)
    index.add(codes[:1000])
    queries = codes[:50]
    ended, faults = threading.Event(), []

    def search():
        sizes = []
        try:
            while not ended.is_set():
                found = index.search(queries, k=3)
                assert (found.ids[:, 0] == np.arange(50)).all() and (found.distances[:, 0] == 0).all()
                assert found.ids.max() < len(index)
                sizes.append(len(index))
            assert sizes == sorted(sizes) and len(sizes) > 2
        except BaseException as err:
            faults.append(err)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for start in range(1000, 20_000, 500):
        index.add(codes[start:start + 500])
    ended.set()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert len(index) == 20_000
    assert (index.search(codes[-5:], k=1).ids[:, 0] == np.arange(19_995, 20_000)).all()


def test_empty_results():
    index = crosshash.Index(8)
    found = index.search(np.zeros((2, 1), dtype=np.uint8), k=3)
    assert found.ids.tolist() == [[-1] * 3] * 2 and found.counts.tolist() == [0, 0] and found[0] == []
    with pytest.raises(ValueError, match="pass k, radius, or both"):
        index.search(np.zeros((2, 1), dtype=np.uint8), k=None)
    assert repr(index) == "Index(0 codes of 8 bits, in memory)"
