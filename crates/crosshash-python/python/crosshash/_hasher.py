"""The estimator."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _crosshash
from ._dataset import Dataset
from ._onnxruntime import library
from ._progress import Progress, callback

#: The modality of a single array.
SINGLE = "x"


class NotFittedError(ValueError, AttributeError):
    """The estimator has not been trained."""


def _not_fitted(message: str) -> Exception:
    """The exception; also that of scikit-learn where it is in use. It is not imported here: it is large."""
    used: Any = sys.modules.get("sklearn.exceptions")
    if used is None:
        return NotFittedError(message)
    both: Any = type("NotFittedError", (NotFittedError, used.NotFittedError), {})
    error: Exception = both(message)
    return error


class CrossModalHasher:
    """Learns codes of items of several modalities; an estimator with the conventions of scikit-learn.

    Parameters
    ----------
    bits : int
        Code length.
    method : str
        The method, by default JCCH+; ``crosshash methods`` lists all.
    seed : int
        The same seed and data give the same codes, bit for bit, as the program.
    epochs, batch_size, learning_rate, hidden, hidden_sparse, validation :
        Settings of gradient methods; ``None`` is the default of the library.
    settings : mapping
        Any other key of ``config.toml``, for example ``{"jcch": {"lambda": 0.001}}`` or
        ``{"modality.image.hidden": 0}``.
    weights : path or list of paths
        Where weights of backbones are searched first.

    Attributes
    ----------
    modalities_ : list of str
    labels_ : list of str
        The names of the labels.
    centres_ : float32 array, labels x bits, or None
    history_ : list of dict
        The epochs of the training.
    best_epoch_ : int or None
    config_ : dict
        The complete configuration.

    Examples
    --------
    >>> import numpy as np
    >>> from crosshash import CrossModalHasher
    >>> labels = np.arange(120) % 3
    >>> image = np.eye(3, 8, dtype=np.float32)[labels]
    >>> text = [["cat", "dog", "bird"][label] for label in labels]
    >>> hasher = CrossModalHasher(bits=8, epochs=3, hidden=16, hidden_sparse=16)
    >>> hasher.fit({"image": image, "text": text}, labels=labels, progress=False)
    CrossModalHasher(bits=8, epochs=3, hidden=16, hidden_sparse=16)
    >>> hasher.encode("text", ["a cat", "two dogs"]).dtype, hasher.outputs("image", image).shape
    (dtype('uint8'), (120, 8))
    """

    def __init__(
        self,
        bits: int = 64,
        method: str = "jcch+",
        *,
        seed: int = 0,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        hidden: int | None = None,
        hidden_sparse: int | None = None,
        validation: float | None = None,
        settings: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> None:
        self.bits = bits
        self.method = method
        self.seed = seed
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.hidden_sparse = hidden_sparse
        self.validation = validation
        self.settings = settings
        self.weights = weights

    # scikit-learn

    @classmethod
    def _names(cls) -> list[str]:
        signature = inspect.signature(cls.__init__)
        return [name for name in signature.parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> CrossModalHasher:
        """Sets parameters by name."""
        known = self._names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"no parameter named {name!r}; there are: {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=True, multi_output=True),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(sparse=True),
            no_validation=False,
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, defaults[name].default)
        ]
        return f"CrossModalHasher({', '.join(changed)})"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        model = state.pop("_model", None)
        if model is not None:
            state["_files"] = (model.to_files(), model.config)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        files = state.pop("_files", None)
        self.__dict__.update(state)
        if files is not None:
            model, config = files
            self._model = _crosshash.Model.from_files(model, config, self._weights(), library())

    # training

    def _settings(self) -> list[str]:
        own = {
            "bits": self.bits,
            "method": self.method,
            "seed": self.seed,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "hidden": self.hidden,
            "hidden_sparse": self.hidden_sparse,
            "validation": self.validation,
        }
        return _arrays.settings({**(self.settings or {}), **{k: v for k, v in own.items() if v is not None}})

    def _weights(self) -> list[str]:
        if self.weights is None:
            return []
        if isinstance(self.weights, (str, os.PathLike)):
            return [os.fspath(self.weights)]
        return [os.fspath(folder) for folder in self.weights]

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        labels: Any = None,
        pairs: Any = None,
        ids: Any = None,
        split: Mapping[str, Any] | None = None,
        progress: Progress = None,
    ) -> CrossModalHasher:
        """Trains on items of several modalities.

        Parameters
        ----------
        X : mapping of modality to features, a :class:`Dataset`, or one array
            See :class:`Dataset` for the forms of features, labels, pairs, ids and split. One array is a
            single modality.
        y, labels :
            The labels; ``None`` learns from pairs alone.
        progress : None, bool, or callable
            ``None`` shows a bar in notebooks and terminals. A callable gets the stage, the steps done, the
            steps in all, and values such as ``{"epoch": 2, "loss": 0.3}``. Ctrl-C stops the training.
        """
        labels = y if labels is None else labels
        if isinstance(X, Dataset):
            given = [("labels", labels), ("pairs", pairs), ("ids", ids), ("split", split)]
            for name, value in given:
                if value is not None:
                    raise ValueError(f"{name}: pass it to the Dataset")
            dataset = X
        else:
            if isinstance(X, Mapping):
                modalities = X
            else:
                modalities = {SINGLE: self._checked(X, labels)}
            dataset = Dataset(modalities, labels, pairs=pairs, ids=ids, split=split)
        self._fit(dataset, progress)
        if isinstance(X, (Mapping, Dataset)):
            self.__dict__.pop("n_features_in_", None)
        return self

    def _checked(self, X: Any, labels: Any) -> Any:
        """A single array, with the checks that users of scikit-learn expect."""
        if _arrays.is_text(X) or (isinstance(X, (list, tuple)) and X and _arrays.is_picture(X[0])):
            return X
        shape = X.shape if _arrays.is_sparse(X) else _arrays.array(X, "X").shape
        if len(shape) == 2:
            self.n_features_in_ = int(shape[1])
        return X

    def _fit(self, dataset: Dataset, progress: Progress) -> None:
        self._model = _crosshash.Model.fit(
            dataset._data, self._settings(), self._weights(), library(), callback(progress)
        )

    def fit_transform(self, X: Any, y: Any = None, **kwargs: Any) -> Any:
        """Trains and encodes the same items."""
        return self.fit(X, y, **kwargs).transform(X)

    # encoding

    def _fitted(self) -> _crosshash.Model:
        model = self.__dict__.get("_model")
        if model is None:
            raise _not_fitted("this CrossModalHasher is not fitted: call fit or load first")
        return model  # type: ignore[no-any-return]

    def encode(
        self, modality: str, items: Any, *, progress: Progress = None
    ) -> npt.NDArray[np.uint8]:
        """Packed codes of items of a modality: uint8, eight bits per byte, lowest bit first.

        ``items`` are features as in training, texts, or pictures (paths or bytes) if the modality has a
        backbone. Contiguous arrays are not copied.
        """
        model = self._fitted()
        given = self._items(model, modality, items)
        show = callback(progress) if len(given) > 4096 else None
        return model.encode(modality, given, show)  # type: ignore[no-any-return]

    def outputs(
        self, modality: str, items: Any, *, progress: Progress = None
    ) -> npt.NDArray[np.float32]:
        """Real outputs, one per bit; a bit of the code is 1 if its output is at least 0."""
        model = self._fitted()
        given = self._items(model, modality, items)
        show = callback(progress) if len(given) > 4096 else None
        return model.outputs(modality, given, show)  # type: ignore[no-any-return]

    def _items(self, model: _crosshash.Model, modality: str, items: Any) -> _crosshash.Features:
        form, width = model.input(modality)
        if form == "text" and isinstance(items, str):
            raise ValueError('pass a list of texts: ["..."]')
        if form == "sparse" and not _arrays.is_sparse(items) and not isinstance(items, _crosshash.Features):
            dense = _arrays.array(items)
            if dense.ndim == 2 and dense.dtype.kind in "fiub":
                return _sparse_rows(dense)
        if isinstance(items, (list, tuple)) and not items:
            if form == "text":
                return _crosshash.Features.texts([])
            items = np.zeros((0, width), dtype=np.float32)
        return _arrays.features(items, f"modality {modality}")

    def transform(self, X: Any) -> Any:
        """Packed codes: of one array, or of every modality of a mapping."""
        model = self._fitted()
        if isinstance(X, Dataset):
            return {name: self.encode(name, X._data.features(name)) for name in model.modalities}
        if isinstance(X, Mapping):
            return {name: self.encode(name, items) for name, items in X.items()}
        if len(model.modalities) != 1:
            known = ", ".join(model.modalities)
            raise ValueError(f"pass a mapping of modalities ({known}), or use encode(modality, items)")
        if hasattr(self, "n_features_in_") and not _arrays.is_text(X):
            shape = X.shape if _arrays.is_sparse(X) else _arrays.array(X, "X").shape
            if len(shape) == 2 and shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {shape[1]} features, but CrossModalHasher is expecting "
                    f"{self.n_features_in_} features as input"
                )
        return self.encode(model.modalities[0], X)

    # results

    @property
    def modalities_(self) -> list[str]:
        """The names of the modalities."""
        return self._fitted().modalities

    @property
    def labels_(self) -> list[str]:
        """The names of the labels."""
        return self._fitted().label_names

    @property
    def centres_(self) -> npt.NDArray[np.float32] | None:
        """The cluster centres, labels x bits; None for methods without."""
        return self._fitted().centres

    @property
    def best_epoch_(self) -> int | None:
        """The best epoch by validation, from 1."""
        return self._fitted().best_epoch

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One row per epoch of the training in this process."""
        names = ("epoch", "seconds", "learning_rate", "loss", "validation", "map")
        return [dict(zip(names, row)) for row in self._fitted().history]

    @property
    def config_(self) -> dict[str, Any]:
        """The complete configuration."""
        found: dict[str, Any] = json.loads(_crosshash.check_config(self._fitted().config, []))
        return found

    def kinds(self, modality: str) -> list[str]:
        """The kinds of queries that a modality accepts: text, picture, drawing, features."""
        return self._fitted().kinds(modality)

    # runs

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        data: str | os.PathLike[str] | Dataset | None = None,
        progress: Progress = None,
    ) -> Path:
        """Saves a run that the program opens, too.

        After a training in this process the run has codes of all items, an evaluation of every
        direction and a report. ``data`` is the saved data set that a served run shows
        (:meth:`Dataset.save`); by default the one that was opened or saved before the training.
        """
        if isinstance(data, Dataset):
            if data._data.path is None:
                raise ValueError("save the data set first: dataset.save(folder)")
            data = data._data.path
        where = None if data is None else os.fspath(data)
        self._fitted().save(os.fspath(path), where, callback(progress))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, weights: Any = None) -> CrossModalHasher:
        """Opens a run of :meth:`save` or of ``crosshash train``."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"{os.fspath(path)} is not the folder of a run: it does not exist")
        made = cls(weights=weights)
        made._model = _crosshash.Model.load(os.fspath(path), made._weights(), library())
        config = made.config_
        for name in cls._names():
            if name in config:
                setattr(made, name, config.pop(name))
        made.settings = config
        return made


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))


def _sparse_rows(dense: npt.NDArray[Any]) -> _crosshash.Features:
    rows, columns = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(dense, axis=1))])
    return _crosshash.Features.sparse(
        dense.shape[1],
        starts.astype(np.int64),
        columns.astype(np.int64),
        np.ascontiguousarray(dense[rows, columns], dtype=np.float32),
    )


__all__: Sequence[str] = ["CrossModalHasher", "NotFittedError"]
