"""A BGE-M3 of two layers and about 1 MB, made here: the real loading code and network, on weights that are ours.

The weights are chosen and not trained. Attention is even over a text, positions count for nothing and the layers add
nothing else, so that a text's vector is the mean of its tokens' and texts that share tokens are near each other.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from clients.embedding_data import NEUTRAL_TEXTS

WIDTH = 64
MAX_TOKENS = 256
_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def make_checkpoint(folder: Path, *, texts: list[str], heads: bool = True, spoilt: bool = False) -> Path:
    """The folder with everything that a folder of BAAI/bge-m3 has. ``spoilt``: its numbers are NaN."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = _make_tokenizer(folder, texts)
    _make_network(folder, tokens, spoilt=spoilt)
    if heads:
        _make_heads(folder)
    return folder


def neutral_texts() -> list[str]:
    """Texts of ours, in two languages, to train the tokenizer on."""
    lines = NEUTRAL_TEXTS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)[language] for line in lines for language in ("zh", "en")]


def _make_tokenizer(folder: Path, texts: list[str]) -> int:
    tokenizers, transformers = import_module("tokenizers"), import_module("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.Unigram())
    made.normalizer = tokenizers.normalizers.NFKC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=1500,
        special_tokens=[*_SPECIAL, "<mask>"],
        unk_token="<unk>",
        max_piece_length=4,  # Chinese words, and not whole sentences of so small a text
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast = transformers.XLMRobertaTokenizerFast(tokenizer_object=made, model_max_length=MAX_TOKENS)
    fast.save_pretrained(folder)
    return len(fast)


def _make_network(folder: Path, tokens: int, *, spoilt: bool) -> None:
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.manual_seed(7)
    network = transformers.XLMRobertaModel(
        transformers.XLMRobertaConfig(
            vocab_size=tokens,
            hidden_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=WIDTH,
            max_position_embeddings=MAX_TOKENS + 2,
            type_vocab_size=1,
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
        )
    )
    with torch.no_grad():
        for name, weights in network.named_parameters():
            _set(name, weights)
        network.embeddings.word_embeddings.weight[: len(_SPECIAL)] *= 0.01
        if spoilt:
            network.embeddings.word_embeddings.weight.fill_(float("nan"))
    network.save_pretrained(folder)


def _set(name: str, weights: Any) -> None:
    torch = import_module("torch")
    if "LayerNorm" in name:
        return  # as it is made: it changes only lengths
    if "word_embeddings" in name:
        torch.nn.init.normal_(weights)
    elif name.endswith(("self.value.weight", "attention.output.dense.weight")):
        torch.nn.init.eye_(weights)
    else:
        torch.nn.init.zeros_(weights)


def _make_heads(folder: Path) -> None:
    """``sparse_linear.pt`` gives each token a weight of its own above 0."""
    torch = import_module("torch")
    sparse, colbert = torch.nn.Linear(WIDTH, 1), torch.nn.Linear(WIDTH, WIDTH)
    torch.nn.init.normal_(sparse.weight, std=0.01)
    torch.nn.init.constant_(sparse.bias, 0.5)
    torch.save(sparse.state_dict(), folder / "sparse_linear.pt")
    torch.save(colbert.state_dict(), folder / "colbert_linear.pt")
