"""Optional packages: scikit-learn, SciPy, pandas, Polars, pyarrow, FAISS, datasets, PIL, torch.

Every test is skipped if its package is missing. With CROSSHASH_OPTIONAL=all a missing package is an error,
so that a continuous build does not skip them.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import SMALL

import crosshash
from crosshash import CrossModalHasher, Dataset, Index

REQUIRED = os.environ.get("CROSSHASH_OPTIONAL") == "all"


def need(name: str):
    if REQUIRED:
        return importlib.import_module(name)
    return pytest.importorskip(name)


TABLE = {
    "id": ["p1", "p2", "p3"],
    "caption": ["a cat", "a dog", "rain"],
    "price": [3, 5, 8],
    "weight": [0.5, 1.5, 2.0],
    "tags": [["cat", "pet"], ["dog", "pet"], []],
    "vector": [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]],
}


def check_table(table) -> None:
    data = Dataset.from_table(table, {"image": "vector", "text": "caption"}, labels="tags", id="id")
    assert data["image"].ids == TABLE["id"] and data["text"].features == TABLE["caption"]
    assert data.label_names == ["cat", "dog", "pet"] and data["text"].labels == [[0, 2], [1, 2], []]
    assert np.allclose(data["image"].features, TABLE["vector"])
    assert data._meta["image"] == [{"price": 3, "weight": 0.5}, {"price": 5, "weight": 1.5}, {"price": 8, "weight": 2.0}]


def test_pandas():
    pandas = need("pandas")
    frame = pandas.DataFrame(TABLE)
    check_table(frame)
    hasher = CrossModalHasher(**SMALL, method="pca-sign")
    numbers = pandas.DataFrame(np.random.default_rng(0).normal(size=(50, 5)))
    assert hasher.fit_transform(numbers, pandas.Series(np.arange(50) % 2), progress=False).shape == (50, 2)
    labels = pandas.DataFrame({"cat": [1, 0, 1], "dog": [0, 1, 1]})
    assert Dataset({"x": np.eye(3)}, labels).label_names == ["cat", "dog"]
    several = Dataset.from_table(
        pandas.DataFrame({"t": ["a", "b"], "cat": [1, 0], "dog": [1, 1]}), {"text": "t"}, labels=["cat", "dog"]
    )
    assert several["text"].labels == [[0, 1], [1]]


def test_polars():
    polars = need("polars")
    check_table(polars.DataFrame(TABLE))
    check_table(polars.DataFrame(TABLE).with_columns(polars.col("caption").cast(polars.Categorical)))


def test_pyarrow():
    pa = need("pyarrow")
    table = pa.table(TABLE)
    check_table(table)
    check_table(pa.concat_tables([table.slice(0, 1), table.slice(1)]))
    fixed = table.set_column(
        5, "vector", pa.array(TABLE["vector"], type=pa.list_(pa.float32(), 2))
    ).set_column(1, "caption", pa.array(TABLE["caption"], type=pa.large_string()))
    check_table(fixed)
    with pytest.raises(ValueError, match="column \"vector\", row 1: 1 values, the rows before have 2"):
        ragged = table.set_column(5, "vector", pa.array([[0.0, 1.0], [1.0], [2.0, 1.0]]))
        Dataset.from_table(ragged, {"image": "vector"})
    with pytest.raises(ValueError, match="column \"price\", row 1: the value is missing"):
        Dataset.from_table(table.set_column(2, "price", pa.array([1, None, 2])), {"image": "vector"})


def test_arrow_batches_are_encoded(hasher, data, tmp_path):
    pa = need("pyarrow")
    hasher.save(tmp_path / "run", progress=False)
    encode = crosshash.arrow_encoder(tmp_path / "run", "text", keep=["id"])
    table = pa.table({"id": [str(k) for k in range(240)], "caption": data["text"]})
    batches = list(pickle.loads(pickle.dumps(encode))(table.to_batches(max_chunksize=100)))
    assert [batch.num_rows for batch in batches] == [100, 100, 40]
    found = pa.Table.from_batches(batches)
    assert found.schema.names == ["id", "code"] and str(found.schema.field("code").type) == "fixed_size_binary[2]"
    codes = np.frombuffer(b"".join(found["code"].to_pylist()), dtype=np.uint8).reshape(-1, 2)
    assert (codes == hasher.encode("text", data["text"])).all()
    image = pa.table({"x": pa.array(data["image"].tolist(), type=pa.list_(pa.float32()))})
    (one,) = crosshash.arrow_encoder(hasher, "image")([image])
    assert isinstance(one, pa.Table) and one.num_rows == 240
    with pytest.raises(KeyError, match="pass column="):
        list(crosshash.arrow_encoder(hasher, "text")(table.to_batches()))


def test_huggingface_datasets():
    datasets = need("datasets")
    check_table(datasets.Dataset.from_dict(TABLE))


def test_scipy(hasher, data):
    sparse = need("scipy.sparse")
    rng = np.random.default_rng(0)
    bags = sparse.random(240, 50, density=0.1, random_state=0, format="csr", dtype=np.float32)
    bags = bags + sparse.csr_matrix((np.full(240, 3.0), (np.arange(240), data["labels"])), shape=(240, 50))
    labels = sparse.csr_matrix((np.ones(240), (np.arange(240), data["labels"])), shape=(240, 4))
    made = CrossModalHasher(**SMALL).fit({"image": data["image"], "bag": bags}, labels, progress=False)
    wanted = made.encode("bag", bags)
    assert (made.encode("bag", bags.toarray()) == wanted).all()
    assert (made.encode("bag", sparse.coo_array(bags)) == wanted).all()
    q, u = crosshash.coefficients(labels).tocsr()
    assert q.shape == u.shape == (240, 4) and rng is not None


def test_scikit_learn(data):
    need("sklearn")
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.validation import check_is_fitted

    made = CrossModalHasher(**SMALL, settings={"jcch": {"lambda": 0.01}})
    again = clone(made)
    assert again.get_params() == made.get_params() and again is not made
    with pytest.raises(NotFittedError):
        check_is_fitted(made)
    pipeline = make_pipeline(StandardScaler(), CrossModalHasher(bits=8, method="pca-sign"))
    codes = pipeline.fit_transform(data["image"], data["labels"])
    assert codes.shape == (240, 1) and pipeline.get_params()["crossmodalhasher__bits"] == 8
    pipeline.set_params(crossmodalhasher__bits=16)
    assert pipeline.fit(data["image"], data["labels"]).transform(data["image"]).shape == (240, 2)


def test_the_checks_of_scikit_learn_that_apply():
    """Checks of `check_estimator` for a single modality. Others presuppose what hashing does not have:
    transformed values of type float, one dimension of samples only, or training on one sample."""
    need("sklearn")
    from sklearn.utils import estimator_checks as checks

    def estimator():
        return CrossModalHasher(bits=8, method="pca-sign")

    for name in (
        "check_estimator_cloneable",
        "check_estimator_get_tags_default_keys",
        "check_estimator_repr",
        "check_estimators_pickle",
        "check_estimators_overwrite_params",
        "check_estimators_unfitted",
        "check_do_not_raise_errors_in_init_or_set_param",
        "check_dont_overwrite_attributes",
        "check_dict_unchanged",
        "check_fit2d_predict1d",
        "check_fit_idempotent",
        "check_get_params_invariance",
        "check_set_params",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_n_features_in",
        "check_parameters_default_constructible",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
    ):
        check = getattr(checks, name, None)
        if check is None:  # renamed between versions
            continue
        made = CrossModalHasher if name == "check_parameters_default_constructible" else estimator()
        if name == "check_parameters_default_constructible":
            made = CrossModalHasher()
        check("CrossModalHasher", made)


def test_faiss(data):
    faiss = need("faiss")
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 256, (1000, 8), dtype=np.uint8)
    index = Index(64)
    index.add(codes)
    flat = index.to_faiss()
    distances, _ = flat.search(codes[:20], 10)
    assert (index.search(codes[:20], k=10).distances == distances).all()
    assert (Index.from_faiss(flat).items()[0] == codes).all()
    own = Index(64)
    own.add(codes, ids=np.arange(1000) * 7)
    mapped = own.to_faiss()
    del own
    assert (mapped.search(codes[:5], 1)[1][:, 0] == np.arange(5) * 7).all()
    again = Index.from_faiss(mapped)
    assert list(again.items()[1]) == list(range(0, 7000, 7))


def test_faiss_files(tmp_path):
    faiss = need("faiss")
    codes = np.random.default_rng(1).integers(0, 256, (100, 8), dtype=np.uint8)
    flat = faiss.IndexBinaryFlat(64)
    flat.add(codes)
    faiss.write_index_binary(flat, str(tmp_path / "theirs.faiss"))
    index = Index.read(tmp_path / "theirs.faiss")
    assert (index.items()[0] == codes).all()
    index.write(tmp_path / "ours.faiss")
    assert faiss.read_index_binary(str(tmp_path / "ours.faiss")).ntotal == 100


def test_pictures_of_pil(tmp_path):
    image = need("PIL.Image")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    picture = image.fromarray(pixels)
    picture.save(tmp_path / "a.png")
    from_pil = crosshash.features([picture], "descriptor", progress=False)
    assert (from_pil == crosshash.features([tmp_path / "a.png"], "descriptor", progress=False)).all()
    assert (from_pil == crosshash.features(tmp_path, "descriptor", progress=False)).all()
    assert (from_pil == crosshash.features([(tmp_path / "a.png").read_bytes()], "descriptor", progress=False)).all()
    assert (from_pil == crosshash.features(pixels[None], "descriptor", progress=False)).all()


TORCH = "torch is too large for every build: NOT run; pip install torch, then pytest -k torch"


def test_torch_tensors(hasher, data):
    """Tensors by DLPack: features, labels, codes and ids; the memory of a tensor is not copied."""
    torch = pytest.importorskip("torch", reason=TORCH)
    from crosshash import _arrays

    tensor = torch.from_numpy(data["image"].copy())
    assert np.shares_memory(_arrays.array(tensor), tensor.numpy())
    wanted = hasher.outputs("image", data["image"])
    assert (hasher.outputs("image", tensor) == wanted).all()
    assert (hasher.outputs("image", tensor.clone().requires_grad_()) == wanted).all()
    assert (hasher.outputs("image", tensor.T.contiguous().T) == wanted).all()
    half = tensor.half()
    assert (hasher.outputs("image", half) == hasher.outputs("image", half.float())).all()
    with pytest.raises(ValueError, match="modality image: .*tensor.cpu"):
        hasher.encode("image", tensor.bfloat16())
    with pytest.raises(ValueError, match="modality image: .*tensor.cpu"):
        hasher.encode("image", torch.empty((2, 12), device="meta"))

    modalities = {"image": tensor, "text": data["text"]}
    made = CrossModalHasher(**SMALL).fit(modalities, labels=torch.from_numpy(data["labels"]), progress=False)
    assert (made.outputs("image", tensor) == wanted).all()

    bits = torch.from_numpy(np.random.default_rng(2).integers(0, 2, (50, 64)).astype(bool))
    index = Index(64)
    index.add(bits, ids=torch.arange(50) * 2)
    assert index.search(bits[:5].to(torch.int8) * 2 - 1, k=1).ids[:, 0].tolist() == [0, 2, 4, 6, 8]
    real = torch.randn(30, 16, generator=torch.Generator().manual_seed(0))
    marks = torch.arange(30) % 3
    assert (
        crosshash.evaluate(real, real, marks, marks, layout="real").map
        == crosshash.evaluate(real.numpy(), real.numpy(), marks.numpy(), marks.numpy(), layout="real").map
    )


def test_numpy_is_the_only_requirement():
    """The package and the program load nothing but NumPy."""
    code = "import sys, crosshash; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout
    heavy = {"pandas", "polars", "pyarrow", "scipy", "faiss", "datasets", "torch", "onnxruntime", "tqdm"}
    assert not [name for name in heavy if f"'{name}'" in loaded], loaded
