"""Cross-modal hashing: short binary codes for items of different modalities.

Learn hash functions that map pictures, texts and other items to codes of 16 to 256 bits in a common
space, so that a query of one modality finds items of another by Hamming distance.

>>> import numpy as np, crosshash
>>> rng = np.random.default_rng(0)
>>> labels = np.arange(200) % 4
>>> image = rng.normal(size=(200, 16)).astype(np.float32)
>>> image[np.arange(200), labels] += 4
>>> words = ["sea waves", "mountain snow", "city streets", "people faces"]
>>> text = [words[label] for label in labels]
>>> hasher = crosshash.CrossModalHasher(bits=16, epochs=5, hidden=32, hidden_sparse=32)
>>> hasher = hasher.fit({"image": image, "text": text}, labels=labels, progress=False)
>>> index = crosshash.Index(16)
>>> _ = index.add(hasher.encode("image", image), labels=labels)
>>> found = index.search(hasher.encode("text", ["snow on the mountain"]), k=3)
>>> found.ids.shape
(1, 3)

See ``docs/python.md`` of the project for a guide. The command ``crosshash`` is the same program as the
one that is built from Rust.
"""

from ._arrow import arrow_encoder
from ._compare import Comparison, compare
from ._crosshash import UnsuitableError, __version__
from ._dataset import Dataset
from ._evaluate import Evaluation, evaluate
from ._features import Backbone, backbones, features
from ._hasher import CrossModalHasher, NotFittedError
from ._index import Hit, Index, SearchResults
from ._serve import Server, serve
from ._supervision import Coefficients, coefficients

__all__ = [
    "Backbone",
    "Coefficients",
    "Comparison",
    "CrossModalHasher",
    "Dataset",
    "Evaluation",
    "Hit",
    "Index",
    "NotFittedError",
    "SearchResults",
    "Server",
    "UnsuitableError",
    "__version__",
    "arrow_encoder",
    "backbones",
    "coefficients",
    "compare",
    "evaluate",
    "features",
    "serve",
]
