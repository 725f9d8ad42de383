"""The estimator: training, encoding, conventions, runs."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import SMALL, make

import crosshash


def program(*arguments: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crosshash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)  # type: ignore[call-overload, no-any-return]


def test_text_queries_find_pictures_of_their_label(data):
    hasher = crosshash.CrossModalHasher(bits=16, epochs=40, hidden=64, hidden_sparse=64)
    hasher.fit({"image": data["image"], "text": data["text"]}, labels=data["labels"], progress=False)
    codes = hasher.encode("image", data["image"])
    assert codes.dtype == np.uint8 and codes.shape == (240, 2)
    index = crosshash.Index(16)
    index.add(codes)
    found = index.search(hasher.encode("text", ["waves of the sea", "snow on a mountain"]), k=10)
    share = (data["labels"][found.ids] == np.array([[0], [1]])).mean()
    assert share > 0.8
    report = crosshash.evaluate(
        hasher.encode("text", data["text"]), codes, data["labels"], data["labels"]
    )
    assert report.map.tie_aware > 0.7 > report.chance


def test_bits_are_the_signs_of_the_outputs(hasher, data):
    outputs = hasher.outputs("image", data["image"])
    assert outputs.shape == (240, 16) and outputs.dtype == np.float32
    packed = np.packbits(outputs >= 0, axis=1, bitorder="little")
    assert (packed == hasher.encode("image", data["image"])).all()


def test_the_same_seed_gives_the_same_codes(hasher, data):
    modalities = {"image": data["image"], "text": data["text"]}
    again = crosshash.CrossModalHasher(**SMALL).fit(modalities, data["labels"], progress=False)
    other = crosshash.CrossModalHasher(**{**SMALL, "seed": 1}).fit(modalities, data["labels"], progress=False)
    first = hasher.outputs("text", data["text"])
    assert (again.outputs("text", data["text"]) == first).all()
    assert (other.outputs("text", data["text"]) != first).any()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8", "bool"])
def test_types_and_layouts_are_read_in_place(hasher, data, dtype):
    image = (data["image"] > 0).astype(dtype)
    wanted = hasher.outputs("image", image.astype(np.float32))
    assert (hasher.outputs("image", image) == wanted).all()
    assert (hasher.outputs("image", np.asfortranarray(image)) == wanted).all()
    spread = np.zeros((240, 24), dtype=dtype)[:, ::2]
    spread[:] = image
    assert (hasher.outputs("image", spread) == wanted).all()


def test_runs_are_shared_with_the_program(hasher, data, tmp_path):
    """A saved run opens in the program and gives the same codes, bit for bit; and the other way round."""
    np.save(tmp_path / "image.npy", data["image"])
    hasher.save(tmp_path / "run", progress=False)
    done = program("encode", tmp_path / "run", "--modality", "image", "--input", tmp_path / "image.npy",
                   "--out", tmp_path / "codes.npy")
    assert done.returncode == 0, done.stderr
    assert (np.load(tmp_path / "codes.npy") == hasher.encode("image", data["image"])).all()
    again = crosshash.CrossModalHasher.load(tmp_path / "run")
    assert again.bits == 16 and again.method == "jcch+" and again.epochs == 4
    assert (again.outputs("text", data["text"]) == hasher.outputs("text", data["text"])).all()
    with pytest.raises(ValueError, match="already contains a run"):
        hasher.save(tmp_path / "run", progress=False)


def test_training_equals_the_program_bit_for_bit(data, tmp_path):
    """The program trains on the saved data set; Python trains on the arrays."""
    dataset = crosshash.Dataset(
        {"image": data["image"], "text": data["text"]}, data["labels"],
        split={"query": 40}, seed=3,
    )
    dataset.save(tmp_path / "data")
    hasher = crosshash.CrossModalHasher(**SMALL, seed=5).fit(dataset, progress=False)
    settings = [f"--set={name}={value}" for name, value in {**SMALL, "seed": 5}.items()]
    done = program("train", tmp_path / "data", "--out", tmp_path / "run", *settings)
    assert done.returncode == 0, done.stderr
    trained = crosshash.CrossModalHasher.load(tmp_path / "run")
    for modality, items in (("image", data["image"]), ("text", data["text"])):
        ours, theirs = hasher.outputs(modality, items), trained.outputs(modality, items)
        assert (ours.view(np.uint32) == theirs.view(np.uint32)).all(), modality
    hasher.save(tmp_path / "python", progress=False)
    for name in ("query.image.codes", "database.text.codes"):
        ours = (tmp_path / "python" / "codes" / name).read_bytes()
        assert ours == (tmp_path / "run" / "codes" / name).read_bytes(), name
    done = program("eval", tmp_path / "python")
    assert done.returncode == 0 and "text -> image" in done.stdout, done.stderr


def test_a_pickled_estimator_encodes_alike(hasher, data):
    again = pickle.loads(pickle.dumps(hasher))
    assert again.get_params() == hasher.get_params()
    assert (again.outputs("image", data["image"]) == hasher.outputs("image", data["image"])).all()
    assert (copy.deepcopy(hasher).encode("text", ["sea"]) == hasher.encode("text", ["sea"])).all()
    blank = pickle.loads(pickle.dumps(crosshash.CrossModalHasher(bits=32)))
    assert blank.bits == 32 and not blank.__sklearn_is_fitted__()


def test_parameters(hasher):
    made = crosshash.CrossModalHasher(bits=8, settings={"jcch": {"lambda": 0.01}})
    assert made.set_params(bits=24).get_params()["bits"] == 24
    assert repr(made) == "CrossModalHasher(bits=24, settings={'jcch': {'lambda': 0.01}})"
    with pytest.raises(ValueError, match="no parameter named 'bit'; there are: bits"):
        made.set_params(bit=8)
    assert hasher.config_["bits"] == 16 and hasher.modalities_ == ["image", "text"]
    assert hasher.centres_.shape == (4, 16) and len(hasher.history_) == 4
    assert hasher.kinds("text") == ["text"]


def test_errors_are_exceptions_with_the_same_sentences(hasher, data, tmp_path):
    with pytest.raises(KeyError, match='no modality named .*audio.*; there are: image, text'):
        hasher.encode("audio", data["image"])
    with pytest.raises(ValueError, match="the features are dense rows with 3 features, the model expects dense rows with 12"):
        hasher.encode("image", np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="row 1, column 0: NaN is not a valid feature"):
        hasher.encode("image", np.array([[0.0] * 12, [np.nan] * 12], dtype=np.float32))
    with pytest.raises(KeyError, match='no method named .*magic.*; there are: jcch'):
        crosshash.CrossModalHasher(method="magic").fit({"x": data["image"]}, data["labels"])
    with pytest.raises(ValueError, match="a code has 1 to 1024 bits, not 0"):
        crosshash.CrossModalHasher(bits=0).fit({"x": data["image"]}, data["labels"])
    with pytest.raises(FileNotFoundError):
        crosshash.CrossModalHasher.load(tmp_path / "missing")
    with pytest.raises(ValueError, match="is not the folder of a run"):
        crosshash.CrossModalHasher.load(tmp_path)
    with pytest.raises(crosshash.NotFittedError):
        crosshash.CrossModalHasher().encode("image", data["image"])
    with pytest.raises(FileNotFoundError):
        crosshash.Dataset.open(tmp_path / "missing.toml")


def test_a_panic_becomes_an_exception():
    with pytest.raises(RuntimeError, match="internal error: a test; this is a bug"):
        crosshash._crosshash._panic_for_test()


def test_pairs_without_labels(data):
    hasher = crosshash.CrossModalHasher(**SMALL)
    hasher.fit({"image": data["image"], "text": data["text"]}, progress=False)
    assert hasher.labels_ == [] and (hasher.centres_ is None or hasher.centres_.size == 0)
    keys = [k // 2 for k in range(240)]
    hasher.fit({"image": data["image"][:120], "text": data["text"]},
               pairs={"image": range(120), "text": keys}, progress=False)
    with pytest.raises(ValueError, match="different numbers of items"):
        hasher.fit({"image": data["image"][:100], "text": data["text"]})


def test_one_array_is_a_single_modality(data):
    hasher = crosshash.CrossModalHasher(bits=8, method="pca-sign")
    codes = hasher.fit_transform(data["image"], data["labels"], progress=False)
    assert codes.shape == (240, 1) and hasher.n_features_in_ == 12
    with pytest.raises(ValueError, match="X has 3 features, but CrossModalHasher is expecting 12"):
        hasher.transform(np.zeros((1, 3)))


def test_progress_is_reported_and_stops_the_work(data):
    seen = []
    hasher = crosshash.CrossModalHasher(**{**SMALL, "epochs": 6})
    modalities = {"image": data["image"], "text": data["text"]}
    hasher.fit(modalities, data["labels"], progress=lambda *report: seen.append(report))
    epochs = [values["epoch"] for stage, _, _, values in seen if values]
    assert epochs == [1, 2, 3, 4, 5, 6]

    def stop(*_):
        raise RuntimeError("enough")

    slow = crosshash.CrossModalHasher(**{**SMALL, "epochs": 100000})
    with pytest.raises(RuntimeError, match="enough"):
        slow.fit(modalities, data["labels"], progress=stop)
    assert not slow.__sklearn_is_fitted__()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_training_and_other_work(data):
    modalities = {"image": data["image"], "text": data["text"]}

    def interrupted(work):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            work()
        timer.join()
        assert time.monotonic() - started < 20

    slow = crosshash.CrossModalHasher(**{**SMALL, "epochs": 1000000})
    interrupted(lambda: slow.fit(modalities, data["labels"], progress=False))
    interrupted(lambda: crosshash._crosshash._panic_for_test(forever=True))


def test_other_threads_run_while_rust_works(data):
    modalities = {"image": data["image"], "text": data["text"]}
    hasher = crosshash.CrossModalHasher(**{**SMALL, "epochs": 30})
    thread = threading.Thread(target=hasher.fit, args=(modalities, data["labels"]), kwargs={"progress": False})
    thread.start()
    counted = 0
    while thread.is_alive():
        counted += 1
    assert counted > 1000 and hasher.encode("text", ["sea"]).shape == (1, 2)


def test_torch_like_tensors_are_accepted(hasher, data):
    class Tensor:
        """What a torch tensor offers, without torch."""

        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        def __dlpack__(self, **kwargs):
            return self.values.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    tensor = Tensor(data["image"])
    assert (hasher.encode("image", tensor) == hasher.encode("image", data["image"])).all()


ENCODE_MANY = """
import numpy as np, crosshash

def memory(field):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(field))

few = np.eye(128, dtype=np.float32)[np.arange(400) % 128]
hasher = crosshash.CrossModalHasher(64, "lsh").fit(few, np.arange(400) % 2, progress=False)
many = np.ones((1_000_000, 128), dtype=np.float32)
given = {given}
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # the present memory becomes the peak
before = memory("VmRSS")
codes = hasher.encode("x", given, progress=False)
assert codes.shape == (1_000_000, 8) and (codes == codes[0]).all()
print((memory("VmHWM") - before) / many.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    "given, least, most", [("many", 0, 0.25), ("many.T.copy().T", 0, 0.25), ("many[:, ::-1]", 1, 1.25)]
)
def test_encoding_a_million_rows_copies_nothing(given, least, most):
    """Additional memory as a share of the rows (488 MiB), in a process of its own: codes (2 %) and blocks.
    Rows that are not contiguous are copied, which shows that the measurement would notice a copy."""
    code = ENCODE_MANY.replace("{given}", given)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert least <= float(done.stdout) < most, done.stdout


def test_the_program_is_the_same(tmp_path):
    assert program("--version").stdout.startswith(f"crosshash {crosshash.__version__}")
    done = program("train", tmp_path / "missing", "--out", tmp_path / "run")
    assert done.returncode == 2 and done.stderr.startswith("crosshash: ")
    assert program("methods").returncode == 0


def test_compare_of_the_program_starts_itself_again(data, tmp_path):
    dataset = crosshash.Dataset({"image": data["image"], "text": data["text"]}, data["labels"], split={"query": 40})
    dataset.save(tmp_path / "data")
    done = program("compare", tmp_path / "data", "--out", tmp_path / "out", "--methods", "cca,lsh",
                   "--bits", "8", "--seeds", "1")
    assert done.returncode == 0 and "cca" in done.stdout, done.stderr


def test_more_data_than_a_block_gives_the_same_codes(hasher):
    image = make(40_000, seed=2)["image"]
    whole = hasher.encode("image", image)
    assert (whole[32_700:32_800] == hasher.encode("image", image[32_700:32_800])).all()
