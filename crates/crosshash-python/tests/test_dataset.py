"""Data sets: forms of features, labels, pairs, tables; features of backbones."""

from __future__ import annotations

import numpy as np
import pytest

import crosshash
from crosshash import Dataset


def test_labels_have_many_forms():
    x = np.zeros((4, 2), dtype=np.float32)
    matrix = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    wanted = [[0], [1], [0, 1], []]
    assert Dataset({"x": x}, matrix)["x"].labels == wanted
    assert Dataset({"x": x}, wanted)["x"].labels == wanted
    named = Dataset({"x": x}, [["a"], ["b"], ["b", "a"], []])
    assert named.label_names == ["a", "b"] and named["x"].labels == wanted
    assert Dataset({"x": x}, ["b", "a", "b", "b"])["x"].labels == [[1], [0], [1], [1]]
    assert Dataset({"x": x}, np.array([2, 0, 1, 1])).label_names == ["0", "1", "2"]
    assert Dataset({"x": x}, matrix, label_names=["u", "v"]).label_names == ["u", "v"]
    both = Dataset({"x": x, "y": x[:2]}, {"x": ["a", "b", "c", "a"], "y": ["c", "d"]}, pairs=False)
    assert both.label_names == ["a", "b", "c", "d"] and both["y"].labels == [[2], [3]]
    with pytest.raises(ValueError, match="row 1, column 0: 5 is neither 0 nor 1"):
        Dataset({"x": x}, np.array([[0, 1], [5, 0], [0, 0], [0, 0]]))
    with pytest.raises(ValueError, match="modality x has 4 ids but 3 rows of labels"):
        Dataset({"x": x}, [0, 1, 2])
    with pytest.raises(KeyError, match="no labels of modality 'y'"):
        Dataset({"x": x, "y": x}, {"x": [0, 1, 2, 3]})


def test_features_have_many_forms():
    image = np.arange(6, dtype=np.float64).reshape(3, 2)
    data = Dataset({"image": image, "text": np.array(["a", "b", "c"])})
    assert (data["image"].features == image).all() and data["text"].features == ["a", "b", "c"]
    assert data["image"].ids == ["0", "1", "2"] and data.label_names == []
    with pytest.raises(ValueError, match="modality image: an array of 1 dimensions"):
        Dataset({"image": np.zeros(3)})
    with pytest.raises(ValueError, match="is not a type of numbers"):
        Dataset({"image": np.zeros((2, 2), dtype=complex)})
    with pytest.raises(ValueError, match="a data set needs at least one modality"):
        Dataset({})
    with pytest.raises(KeyError, match='no modality named "audio"; there are: image, text'):
        data["audio"]


def test_splits():
    x = np.zeros((100, 2), dtype=np.float32)
    data = Dataset({"x": x}, split={"query": 0.2, "validation": 10}, seed=1)
    sizes = [len(data.part("x", part)) for part in ("query", "validation", "train", "database")]
    assert sizes == [20, 10, 70, 80]
    again = Dataset({"x": x}, split={"query": 0.2, "validation": 10}, seed=1)
    assert (again.part("x", "query") == data.part("x", "query")).all()
    rows = Dataset({"x": x}, split={"query": (0, 30)})
    assert rows.part("x", "query").tolist() == list(range(30))
    assert len(rows.part("x", "validation", validation=0.1)) == 7
    with pytest.raises(KeyError, match="no part named 'test'"):
        Dataset({"x": x}, split={"test": 3})


def test_tables_have_fields_and_can_be_saved(tmp_path):
    table = {
        "id": ["p1", "p2", "p3"], "title": ["red shoe", "blue hat", None], "tags": ["shoe|red", "hat", ""],
        "price": [10, 20.5, float("nan")], "vector": [[0.0, 1.0], [1.0, 0.5], [2.0, 2.0]],
    }
    data = Dataset.from_table(table, {"image": "vector", "text": ["title"]}, labels="tags", separator="|", id="id")
    assert data.label_names == ["hat", "red", "shoe"] and data["text"].features == ["red shoe", "blue hat", ""]
    data.save(tmp_path / "data")
    again = Dataset.open(tmp_path / "data")
    assert again["image"].ids == ["p1", "p2", "p3"] and again.label_names == data.label_names
    assert (again["image"].features == data["image"].features).all()
    assert again["text"].labels == data["text"].labels
    assert '"price": 20.5' in (tmp_path / "data" / "image.jsonl").read_text()
    with pytest.raises(KeyError, match="no column named 'size'; there are: id, title"):
        Dataset.from_table(table, {"image": "size"})
    with pytest.raises(ValueError, match="is not empty"):
        data.save(tmp_path / "data")
    with pytest.raises(ValueError, match="int is not a table"):
        Dataset.from_table(3, {})


def test_a_saved_data_set_keeps_its_split(tmp_path):
    x = np.arange(80, dtype=np.float32).reshape(40, 2)
    groups = [k // 4 for k in range(40)]
    data = Dataset({"x": x}, np.arange(40) % 2, split={"query": 8}, seed=4, stratify=True, groups={"x": groups},
                   label_names=['a "b"', "two\nlines"])
    data.save(tmp_path / "data")
    again = Dataset.open(tmp_path / "data")
    assert again.label_names == data.label_names
    query = data.part("x", "query")
    assert (again.part("x", "query") == query).all()
    assert len({groups[k] for k in query} & {groups[k] for k in data.part("x", "train")}) == 0
    with pytest.raises(ValueError, match="this data set is in files already"):
        again.save(tmp_path / "again")


def picture(colour: int) -> bytes:
    """A PNG of 8 x 8 pixels of one colour, without a library."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = (b"\0" + bytes([colour, 0, 255 - colour]) * 8) * 8
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_folders_of_pictures_are_imported(tmp_path):
    for name, colour in (("red", 200), ("blue", 20)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(10):
            (tmp_path / "photos" / name / f"{k}.png").write_bytes(picture(colour + k))
    data = Dataset.from_folder(tmp_path / "photos", tmp_path / "data", backbones={"image": "descriptor"},
                               progress=False)
    assert data.modalities == ["image", "text"] and sorted(data.label_names) == ["blue", "red"]
    assert len(data["image"]) == 20 and data["image"].features.shape[0] == 20
    assert sorted(set(data["text"].features)) == ["blue", "red"]  # the names of the folders
    assert any("red" in one or "class" in one for one in data.findings), data.findings
    hasher = crosshash.CrossModalHasher(bits=16, method="cca").fit(data, progress=False)
    codes = hasher.encode("image", data["image"].select(range(20)))
    assert codes.shape == (20, 2)
    with pytest.raises(ValueError, match="dataset.toml already exists"):
        Dataset.from_folder(tmp_path / "photos", tmp_path / "data")
    with pytest.raises(FileNotFoundError, match="the file or folder does not exist"):
        Dataset.from_folder(tmp_path / "missing", tmp_path / "other")


def test_the_built_in_data_set_opens():
    data = Dataset.open("emoji", progress=False)
    assert "words" in data and len(data["words"]) > 1000 and len(data.label_names) > 5


def test_features_of_pictures_and_arrays(tmp_path):
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    names = [one.name for one in crosshash.backbones()]
    assert "descriptor" in names and "efficientnet-lite0" in names
    rows = crosshash.features([picture, picture], "descriptor", progress=False)
    assert rows.shape[0] == 2 and rows.dtype == np.float32 and (rows[0] == rows[1]).all()
    with pytest.raises(KeyError, match="no backbone named"):
        crosshash.features([picture], "resnet")
    with pytest.raises(ValueError, match="picture 0 is 20 x 30 x 2"):
        crosshash.features([picture[:, :, :2]], "descriptor")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="bad.png"):
        crosshash.features([tmp_path / "bad.png"], "descriptor", progress=False)
