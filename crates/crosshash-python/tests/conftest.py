"""Shared data: a small data set that trains in a second, and a model of it."""

from __future__ import annotations

import numpy as np
import pytest

import crosshash

WORDS = ["sea waves beach", "mountain snow peak", "city street cars", "people faces crowd"]


def make(items: int = 240, seed: int = 0) -> dict[str, object]:
    """Features whose columns depend on the label, and texts that contain its words."""
    rng = np.random.default_rng(seed)
    labels = np.arange(items) % 4
    image = rng.normal(size=(items, 12)).astype(np.float32)
    image[np.arange(items), labels] += 3
    text = [f"{WORDS[label]} number {k % 17}" for k, label in enumerate(labels)]
    return {"labels": labels, "image": image, "text": text}


@pytest.fixture(scope="session")
def data() -> dict[str, object]:
    return make()


SMALL = {"bits": 16, "epochs": 4, "hidden": 16, "hidden_sparse": 16}


@pytest.fixture(scope="session")
def hasher(data: dict[str, object]) -> crosshash.CrossModalHasher:
    made = crosshash.CrossModalHasher(**SMALL)  # type: ignore[arg-type]
    modalities = {"image": data["image"], "text": data["text"]}
    return made.fit(modalities, labels=data["labels"], progress=False)
