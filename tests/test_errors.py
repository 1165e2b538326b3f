"""Bad input: each error names the argument, what was expected and what came, in the same words on both backends."""

import re

import numpy as np
import pytest
import torch
from backends import D_K, T_K, T_Q, B, H, both, qkv, to

import attnlib


class Maker:
    """Arrays of one backend: floats m(2, 3), booleans m.yes(2, 3), integers m.whole([1, 2])."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, *shape, dtype="float64"):
        return to(self.kind, np.ones(shape, dtype=dtype))

    def yes(self, *shape):
        return self(*shape, dtype=bool)

    def whole(self, values):
        return to(self.kind, np.array(values))

    def mha(self, **other):
        """Valid arguments of multi_head_attention (2 heads), with others put in their place."""
        return {
            "x": self(B, T_Q, 8), "W_q": self(8, 6), "W_k": self(8, 6), "W_v": self(8, 10), "W_o": self(10, 8),
            "num_heads": 2,
        } | other  # fmt: skip


def attention(m, mask=None, **options):
    return attnlib.attention(m(2, 3, 5, 6), m(2, 3, 7, 6), m(2, 3, 7, 4), mask, **options)


def blockwise(m, **options):
    return attnlib.blockwise_attention(m(2, 3, 5, 6), m(2, 3, 7, 6), m(2, 3, 7, 4), **options)


def weights(m, mask=None, **options):
    return attnlib.attention_weights(m(5, 6), m(7, 6), mask, **options)


# id: (call, error, the argument it names, other words that must stand in the message)
BAD = {
    # shapes of q, k, v
    "q-1d": (lambda m: attnlib.attention(m(6), m(7, 6), m(7, 4)), ValueError, "q", ["(6,)", "2"]),
    "k-1d": (lambda m: attnlib.attention(m(5, 6), m(6), m(7, 4)), ValueError, "k", ["(6,)", "2"]),
    "v-1d": (lambda m: attnlib.attention(m(5, 6), m(7, 6), m(7)), ValueError, "v", ["(7,)", "2"]),
    "q-0d": (lambda m: attnlib.attention(m(), m(7, 6), m(7, 4)), ValueError, "q", ["()", "2"]),
    "d_k": (lambda m: attnlib.attention(m(5, 6), m(7, 8), m(7, 4)), ValueError, "k", ["6", "8"]),
    "v-length": (lambda m: attnlib.attention(m(5, 6), m(7, 6), m(8, 4)), ValueError, "v", ["7", "8"]),
    "no-features": (lambda m: attnlib.attention(m(5, 0), m(7, 0), m(7, 4)), ValueError, "q", ["(5, 0)"]),
    "batch-k": (
        lambda m: attnlib.attention(m(2, 5, 6), m(3, 7, 6), m(3, 7, 4)), ValueError, "k", ["(2,)", "(3,)"],
    ),
    "batch-v": (
        lambda m: attnlib.attention(m(2, 5, 6), m(2, 7, 6), m(3, 7, 4)), ValueError, "v", ["(2,)", "(3,)"],
    ),
    "batch-of-one-is-not-stretched": (
        lambda m: attnlib.attention(m(2, 3, 5, 6), m(2, 1, 7, 6), m(2, 1, 7, 4)), ValueError, "k", ["(2, 3)", "(2, 1)"],
    ),
    "ranks-differ": (
        lambda m: attnlib.attention(m(2, 3, 5, 6), m(3, 7, 6), m(3, 7, 4)), ValueError, "k", ["(2, 3)", "(3,)"],
    ),
    "weights-d_k": (lambda m: attnlib.attention_weights(m(5, 6), m(7, 8)), ValueError, "k", ["6", "8"]),
    "blockwise-v-length": (
        lambda m: attnlib.blockwise_attention(m(5, 6), m(7, 6), m(8, 4)), ValueError, "v", ["7", "8"],
    ),
    # groups of heads
    "grouped-heads": (
        lambda m: attnlib.grouped_attention(m(2, 6, 5, 8), m(2, 4, 7, 8), m(2, 4, 7, 3)), ValueError, "q",
        ["q must have a multiple of the heads of k, 4, got 6 in shape (2, 6, 5, 8)"],
    ),
    "grouped-no-heads": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(2, 0, 7, 8)), ValueError, "q", ["heads of k, 0"],
    ),
    "grouped-2d": (
        lambda m: attnlib.grouped_attention(m(5, 8), m(7, 8), m(7, 3)), ValueError, "q", ["3", "h, T_q", "(5, 8)"],
    ),
    "grouped-batch": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(3, 7, 8)), ValueError, "k",
        ["k must have the axes of q before the heads, (2,), got () in shape (3, 7, 8)"],
    ),
    "grouped-v": (
        lambda m: attnlib.grouped_attention(m(2, 6, 5, 8), m(2, 3, 7, 8), m(2, 6, 7, 3)), ValueError, "v",
        ["(2, 3)", "(2, 6)"],
    ),
    "grouped-v-length": (
        lambda m: attnlib.grouped_attention(m(2, 6, 5, 8), m(2, 3, 7, 8), m(2, 3, 9, 3)), ValueError, "v", ["7", "9"],
    ),
    "grouped-d_k": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(2, 3, 7, 4)), ValueError, "k", ["8", "4"],
    ),
    "grouped-mask": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(2, 3, 7, 8), m.yes(2, 3, 5, 7)), ValueError,
        "mask", ["mask must have shape (5, 7) or (2, 6, 5, 7), got (2, 3, 5, 7)"],
    ),
    "grouped-key_mask": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(2, 3, 7, 8), key_mask=m.yes(2, 5)), ValueError,
        "key_mask", ["(2, 7)", "(2, 5)"],
    ),
    "grouped-key_mask-no-batch": (
        lambda m: attnlib.grouped_attention_weights(m(6, 5, 8), m(3, 7, 8), key_mask=m.yes(6, 7)), ValueError,
        "key_mask", ["(7,)", "(6, 7)"],
    ),
    "grouped-causal": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(2, 3, 7, 8), causal=1), TypeError, "causal",
        ["True or False", "1"],
    ),
    "grouped-scale": (
        lambda m: attnlib.grouped_attention_weights(m(2, 6, 5, 8), m(2, 3, 7, 8), scale="1"), TypeError, "scale", ["1"],
    ),
    # masks
    "mask-shape": (
        lambda m: attention(m, m.yes(5, 5)), ValueError, "mask",
        ["mask must have shape (5, 7) or (2, 3, 5, 7), got (5, 5)"],
    ),
    "mask-shape-2d": (
        lambda m: weights(m, m.yes(7, 5)), ValueError, "mask", ["mask must have shape (5, 7), got (7, 5)"],
    ),
    "mask-batch": (lambda m: attention(m, m.yes(2, 7)), ValueError, "mask", ["(5, 7) or (2, 3, 5, 7)", "(2, 7)"]),
    "mask-3d-of-4d": (lambda m: attention(m, m.yes(2, 5, 7)), ValueError, "mask", ["(2, 3, 5, 7)", "(2, 5, 7)"]),
    "mask-row-of-4d": (lambda m: attention(m, m.yes(1, 7)), ValueError, "mask", ["(5, 7)", "(1, 7)"]),
    "mask-too-deep": (lambda m: weights(m, m.yes(1, 5, 7)), ValueError, "mask", ["(5, 7)", "(1, 5, 7)"]),
    "mask-1d": (lambda m: weights(m, m.yes(7)), ValueError, "mask", ["(5, 7)", "(7,)"]),
    "mask-integers": (lambda m: attention(m, m(5, 7, dtype="int64")), TypeError, "mask", ["boolean", "int64"]),
    "mask-floats": (lambda m: attention(m, m(5, 7)), TypeError, "mask", ["boolean", "float64"]),
    "mask-bytes": (lambda m: attention(m, m(5, 7, dtype="uint8")), TypeError, "mask", ["boolean", "uint8"]),
    "key-mask-shape": (
        lambda m: attention(m, key_mask=m.yes(7)), ValueError, "key_mask",
        ["key_mask must have shape (2, 7), got (7,)"],
    ),
    "key-mask-heads": (
        lambda m: attention(m, key_mask=m.yes(2, 3, 7)), ValueError, "key_mask", ["(2, 7)", "(2, 3, 7)"],
    ),
    "key-mask-of-queries": (lambda m: attention(m, key_mask=m.yes(2, 5)), ValueError, "key_mask", ["(2, 7)", "(2, 5)"]),
    "key-mask-one": (lambda m: attention(m, key_mask=m.yes(1, 7)), ValueError, "key_mask", ["(2, 7)", "(1, 7)"]),
    "key-mask-2d": (lambda m: weights(m, key_mask=m.yes(5, 7)), ValueError, "key_mask", ["(7,)", "(5, 7)"]),
    "key-mask-floats": (lambda m: attention(m, key_mask=m(2, 7)), TypeError, "key_mask", ["boolean", "float64"]),
    "key-mask-integers": (
        lambda m: blockwise(m, key_mask=m(2, 7, dtype="int64")), TypeError, "key_mask", ["boolean", "int64"],
    ),
    "blockwise-key-mask-shape": (
        lambda m: blockwise(m, key_mask=m.yes(2, 5)), ValueError, "key_mask", ["(2, 7)", "(2, 5)"],
    ),
    # dtypes
    "complex": (
        lambda m: attnlib.attention(m(5, 6, dtype=complex), m(7, 6), m(7, 4)), TypeError, "q", ["complex128"],
    ),
    "booleans": (lambda m: attnlib.attention_weights(m(5, 6), m.yes(7, 6)), TypeError, "k", ["bool"]),
    "softmax-complex": (lambda m: attnlib.softmax(m(3, dtype=complex)), TypeError, "scores", ["complex128"]),
    # plain arguments
    "causal-number": (lambda m: attention(m, causal=1), TypeError, "causal", ["True or False", "1"]),
    "causal-none": (lambda m: attention(m, causal=None), TypeError, "causal", ["None"]),
    "scale-text": (lambda m: attention(m, scale="2"), TypeError, "scale", ["number", "'2'"]),
    "scale-nan": (lambda m: attention(m, scale=float("nan")), ValueError, "scale", ["finite", "nan"]),
    "scale-inf": (lambda m: weights(m, scale=float("inf")), ValueError, "scale", ["finite", "inf"]),
    "scale-complex": (lambda m: weights(m, scale=1j), TypeError, "scale", ["1j"]),
    "scale-array": (lambda m: weights(m, scale=m(2)), TypeError, "scale", ["number"]),
    "scores-scale": (lambda m: attnlib.scaled_dot_scores(m(5, 6), m(7, 6), "2"), TypeError, "scale", ["'2'"]),
    "block-0": (lambda m: blockwise(m, block_size=0), ValueError, "block_size", ["1", "0"]),
    "block-negative": (lambda m: blockwise(m, block_size=-3), ValueError, "block_size", ["1", "-3"]),
    "block-float": (lambda m: blockwise(m, block_size=2.0), TypeError, "block_size", ["whole", "2.0"]),
    "block-none": (lambda m: blockwise(m, block_size=None), TypeError, "block_size", ["whole", "None"]),
    "blockwise-scale": (lambda m: blockwise(m, scale="2"), TypeError, "scale", ["'2'"]),
    # softmax
    "softmax-0d": (lambda m: attnlib.softmax(m()), ValueError, "scores", ["1", "()"]),
    "softmax-axis": (lambda m: attnlib.softmax(m(2, 3), axis=2), ValueError, "axis", ["(2, 3)", "2"]),
    "softmax-axis-text": (lambda m: attnlib.softmax(m(2, 3), axis="k"), TypeError, "axis", ["'k'"]),
    "softmax-axis-none": (lambda m: attnlib.softmax(m(2, 3), axis=None), TypeError, "axis", ["None"]),
    "softmax-mask-shape": (lambda m: attnlib.softmax(m(2, 3), m.yes(2)), ValueError, "mask", ["(2, 3)", "(2,)"]),
    "softmax-mask-stretches": (
        lambda m: attnlib.softmax(m(3), m.yes(2, 3)), ValueError, "mask", ["(3,)", "(2, 3)"],
    ),
    "softmax-mask-integers": (
        lambda m: attnlib.softmax(m(3), m(3, dtype="int64")), TypeError, "mask", ["boolean", "int64"],
    ),
    # scores
    "dot-d": (lambda m: attnlib.dot_scores(m(5, 6), m(7, 8)), ValueError, "k", ["6", "8"]),
    "dot-1d": (lambda m: attnlib.dot_scores(m(6), m(7, 6)), ValueError, "q", ["2", "(6,)"]),
    "gaussian-d": (lambda m: attnlib.gaussian_scores(m(5, 6), m(7, 8)), ValueError, "k", ["6", "8"]),
    "gaussian-width-0": (lambda m: attnlib.gaussian_scores(m(5, 6), m(7, 6), 0), ValueError, "width", ["0"]),
    "gaussian-width-text": (lambda m: attnlib.gaussian_scores(m(5, 6), m(7, 6), "1"), TypeError, "width", ["'1'"]),
    "general-W": (
        lambda m: attnlib.general_scores(m(5, 6), m(7, 8), m(8, 6)), ValueError, "W_a", ["(6, 8)", "(8, 6)"],
    ),
    "general-W-3d": (
        lambda m: attnlib.general_scores(m(5, 6), m(7, 8), m(1, 6, 8)), ValueError, "W_a", ["(6, 8)", "(1, 6, 8)"],
    ),
    "concat-W": (
        lambda m: attnlib.concat_scores(m(5, 6), m(7, 8), m(13, 3), m(3)), ValueError, "W_a", ["14", "(13, 3)"],
    ),
    "concat-v": (
        lambda m: attnlib.concat_scores(m(5, 6), m(7, 8), m(14, 3), m(4)), ValueError, "v_a", ["(3,)", "(4,)"],
    ),
    "additive-W": (
        lambda m: attnlib.additive_scores(m(5, 6), m(7, 8), m(5, 3), m(8, 3), m(3)), ValueError, "W_a", ["6", "(5, 3)"],
    ),
    "additive-U": (
        lambda m: attnlib.additive_scores(m(5, 6), m(7, 8), m(6, 3), m(8, 4), m(3)),
        ValueError, "U_a", ["(8, 3)", "(8, 4)"],
    ),
    "additive-v": (
        lambda m: attnlib.additive_scores(m(5, 6), m(7, 8), m(6, 3), m(8, 3), m(3, 1)),
        ValueError, "v_a", ["(3,)", "(3, 1)"],
    ),
    # masks made here
    "causal-negative": (lambda m: attnlib.causal_mask(-1, like=m(1)), ValueError, "T_q", ["0", "-1"]),
    "causal-float": (lambda m: attnlib.causal_mask(2, 3.0, like=m(1)), TypeError, "T_k", ["whole", "3.0"]),
    "lengths-too-long": (lambda m: attnlib.padding_mask(m.whole([2, 6]), 5), ValueError, "lengths", ["5", "6"]),
    "lengths-negative": (lambda m: attnlib.padding_mask(m.whole([2, -1]), 5), ValueError, "lengths", ["0", "-1"]),
    "lengths-floats": (lambda m: attnlib.padding_mask(m(2), 5), TypeError, "lengths", ["integers", "float64"]),
    "lengths-booleans": (lambda m: attnlib.padding_mask(m.yes(2), 5), TypeError, "lengths", ["integers", "bool"]),
    "lengths-2d": (lambda m: attnlib.padding_mask(m.whole([[1, 2]]), 5), ValueError, "lengths", ["(B,)", "(1, 2)"]),
    "lengths-0d": (lambda m: attnlib.padding_mask(m.whole(3), 5), ValueError, "lengths", ["(B,)", "()"]),
    "padding-T": (lambda m: attnlib.padding_mask(m.whole([1]), -1), ValueError, "T", ["0", "-1"]),
    "padding-T-float": (lambda m: attnlib.padding_mask(m.whole([1]), 3.0), TypeError, "T", ["whole", "3.0"]),
    # heads
    "split-0": (lambda m: attnlib.split_heads(m(4, 6), 0), ValueError, "num_heads", ["1", "0"]),
    "split-negative": (lambda m: attnlib.split_heads(m(4, 6), -2), ValueError, "num_heads", ["1", "-2"]),
    "split-float": (lambda m: attnlib.split_heads(m(4, 6), 2.0), TypeError, "num_heads", ["whole", "2.0"]),
    "split-bool": (lambda m: attnlib.split_heads(m(4, 6), True), TypeError, "num_heads", ["whole", "True"]),
    "split-not-divisible": (lambda m: attnlib.split_heads(m(4, 6), 4), ValueError, "num_heads", ["6", "4"]),
    "split-1d": (lambda m: attnlib.split_heads(m(6), 2), ValueError, "x", ["2", "(6,)"]),
    "merge-2d": (lambda m: attnlib.merge_heads(m(4, 6)), ValueError, "x", ["3", "(4, 6)"]),
    "repeat-not-divisible": (lambda m: attnlib.repeat_kv(m(2, 5, 6), 5), ValueError, "num_heads", ["5", "2"]),
    "repeat-fewer": (lambda m: attnlib.repeat_kv(m(4, 5, 6), 2), ValueError, "num_heads", ["2", "4"]),
    "repeat-0": (lambda m: attnlib.repeat_kv(m(2, 5, 6), 0), ValueError, "num_heads", ["1", "0"]),
    "repeat-none": (lambda m: attnlib.repeat_kv(m(0, 5, 6), 2), ValueError, "num_kv_heads", ["1", "0"]),
    "repeat-2d": (lambda m: attnlib.repeat_kv(m(5, 6), 2), ValueError, "x", ["3", "(5, 6)"]),
    # multi-head attention
    "mha-x": (lambda m: attnlib.multi_head_attention(**m.mha(x=m(8))), ValueError, "x", ["2", "(8,)"]),
    "mha-W_q": (lambda m: attnlib.multi_head_attention(**m.mha(W_q=m(7, 6))), ValueError, "W_q", ["8", "(7, 6)"]),
    "mha-W_q-1d": (lambda m: attnlib.multi_head_attention(**m.mha(W_q=m(8))), ValueError, "W_q", ["8", "(8,)"]),
    "mha-W_k": (lambda m: attnlib.multi_head_attention(**m.mha(W_k=m(8, 4))), ValueError, "W_k", ["(8, 6)", "(8, 4)"]),
    "mha-W_v": (lambda m: attnlib.multi_head_attention(**m.mha(W_v=m(9, 10))), ValueError, "W_v", ["8", "(9, 10)"]),
    "mha-W_v-heads": (lambda m: attnlib.multi_head_attention(**m.mha(W_v=m(8, 9))), ValueError, "W_v", ["2", "9"]),
    "mha-W_o": (lambda m: attnlib.multi_head_attention(**m.mha(W_o=m(8, 8))), ValueError, "W_o", ["10", "(8, 8)"]),
    "mha-heads": (lambda m: attnlib.multi_head_attention(**m.mha(num_heads=4)), ValueError, "num_heads", ["6", "4"]),
    "mha-0": (lambda m: attnlib.multi_head_attention(**m.mha(num_heads=0)), ValueError, "num_heads", ["1", "0"]),
    "mha-float": (lambda m: attnlib.multi_head_attention(**m.mha(num_heads=2.0)), TypeError, "num_heads", ["2.0"]),
    "mha-kv-0": (
        lambda m: attnlib.multi_head_attention(**m.mha(num_kv_heads=0)), ValueError, "num_kv_heads", ["1", "0"],
    ),
    "mha-kv-not-divisible": (
        lambda m: attnlib.multi_head_attention(**m.mha(num_heads=3, num_kv_heads=2)),
        ValueError, "num_kv_heads", ["3", "2"],
    ),
    "mha-memory": (
        lambda m: attnlib.multi_head_attention(**m.mha(memory=m(3, T_K, 8))), ValueError, "memory", ["(2,)", "(3,)"],
    ),
    "mha-memory-width": (
        lambda m: attnlib.multi_head_attention(**m.mha(memory=m(B, T_K, 9))), ValueError, "W_k", ["9", "(8, 6)"],
    ),
    "mha-mask": (
        lambda m: attnlib.multi_head_attention(**m.mha(mask=m.yes(B, T_Q))), ValueError, "mask",
        ["(4, 4) or (2, 2, 4, 4)", "(2, 4)"],
    ),
    "mha-key-mask": (
        lambda m: attnlib.multi_head_attention(**m.mha(key_mask=m.yes(T_Q))), ValueError, "key_mask",
        ["(2, 4)", "(4,)"],
    ),
    "mha-mask-floats": (lambda m: attnlib.multi_head_attention(**m.mha(mask=m(4, 4))), TypeError, "mask", ["boolean"]),
    # positions
    "positions-T": (lambda m: attnlib.sinusoidal_positions(-1, 4, m(1)), ValueError, "T", ["0", "-1"]),
    "positions-T-float": (lambda m: attnlib.sinusoidal_positions(3.0, 4, m(1)), TypeError, "T", ["3.0"]),
    "positions-width": (lambda m: attnlib.sinusoidal_positions(3, 0, m(1)), ValueError, "d_model", ["1", "0"]),
    "positions-width-float": (lambda m: attnlib.sinusoidal_positions(3, 4.0, m(1)), TypeError, "d_model", ["4.0"]),
}  # fmt: skip


def check(error, name, words):
    """The message names the argument, and says what was expected and what came."""
    text = str(error.value)
    assert re.search(rf"\b{name}\b", text), text
    assert "got" in text or ":" in text, text
    for word in words:
        assert re.search(rf"(?<![\w.-])(torch\.)?{re.escape(word)}(?!\w)", text), f"{word!r} is not in {text!r}"


@both
@pytest.mark.parametrize("name", BAD)
def test_bad_input(kind, name):
    run, kind_of_error, argument, words = BAD[name]
    with pytest.raises(kind_of_error) as error:
        run(Maker(kind))
    check(error, argument, words)


def test_the_valid_arguments_are_valid():
    """What the bad calls above are built from passes, so that each fails for its own reason."""
    for m in (Maker("numpy"), Maker("torch")):
        attention(m, m.yes(5, 7), key_mask=m.yes(2, 7), causal=True, scale=1)
        attention(m, m.yes(2, 1, 1, 7))
        blockwise(m, block_size=1, key_mask=m.yes(2, 7))
        weights(m, m.yes(5, 7), key_mask=m.yes(7))
        attnlib.multi_head_attention(**m.mha(mask=m.yes(2, 1, 4, 4), key_mask=m.yes(2, 4), num_kv_heads=2))


@pytest.mark.parametrize("name", ["attention", "blockwise_attention"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_numpy_and_torch_do_not_mix(name, which):
    arrays = [torch.tensor(x) if i == which else x for i, x in enumerate(qkv())]
    with pytest.raises(TypeError, match=r"\b[qkv]\b.*torch tensor.*NumPy array"):
        getattr(attnlib, name)(*arrays)


@pytest.mark.parametrize("name", ["mask", "key_mask"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_masks_do_not_mix_either(kind, name):
    shape = {"mask": (T_Q, T_K), "key_mask": (B, T_K)}[name]
    other = {"numpy": "torch", "torch": "numpy"}[kind]
    with pytest.raises(TypeError, match=r"torch tensor.*NumPy array"):
        attnlib.attention(*to(kind, qkv()), **{name: to(other, np.ones(shape, dtype=bool))})


def test_weights_and_lengths_do_not_mix_either():
    m, t = Maker("numpy"), Maker("torch")
    for run in (
        lambda: attnlib.general_scores(m(5, 6), m(7, 8), t(6, 8)),
        lambda: attnlib.softmax(t(3), m.yes(3)),
        lambda: attnlib.multi_head_attention(**m.mha(W_o=t(10, 8))),
        lambda: attnlib.multi_head_attention(**t.mha(memory=m(B, T_K, 8))),
    ):
        with pytest.raises(TypeError, match="torch tensor"):
            run()
    with pytest.raises(TypeError, match="like"):
        attnlib.padding_mask(m.whole([1]), 3, like=t(1))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_tensors_on_two_devices(which):
    arrays = [torch.tensor(x, device="meta" if i == which else "cpu") for i, x in enumerate(qkv())]
    for name in ("attention", "blockwise_attention"):
        with pytest.raises(ValueError, match=r"\b[qkv]\b.*device.*(cpu.*meta|meta.*cpu)"):
            getattr(attnlib, name)(*arrays)


def test_masks_on_another_device():
    mask = torch.ones(T_Q, T_K, dtype=torch.bool, device="meta")
    with pytest.raises(ValueError, match=r"\bmask\b.*device"):
        attnlib.attention(*to("torch", qkv()), mask)


@pytest.mark.parametrize(("which", "name"), [(0, "q"), (1, "k"), (2, "v")])
def test_integer_tensors(which, name):
    arrays = to("torch", qkv())
    arrays = [x.long() if i == which else x for i, x in enumerate(arrays)]
    for function in ("attention", "blockwise_attention"):
        with pytest.raises(TypeError, match=rf"\b{name}\b.*float.*int64"):
            getattr(attnlib, function)(*arrays)


def test_tensors_of_two_dtypes():
    q, k, v = to("torch", qkv())
    with pytest.raises(TypeError, match=r"\bk\b.*float64.*float32"):
        attnlib.attention(q, k.float(), v)


NOT_ARRAYS = {"text": "abc", "none": None, "set": {1, 2}, "dict": {}, "generator": (i for i in range(3))}


@pytest.mark.parametrize("value", NOT_ARRAYS.values(), ids=NOT_ARRAYS)
def test_what_is_no_array(value):
    for run in (
        lambda: attnlib.softmax(value),
        lambda: attnlib.split_heads(value, 2),
        lambda: attnlib.padding_mask(value, 2),
    ):
        with pytest.raises(TypeError, match=r"\b(scores|x|lengths)\b"):
            run()
    with pytest.raises(TypeError, match=r"\bk\b"):
        attnlib.attention(np.ones((5, 6)), value, np.ones((7, 4)))


def test_lists_of_the_wrong_things():
    with pytest.raises(TypeError, match="scores"):
        attnlib.softmax(["a", "b"])
    with pytest.raises(TypeError, match="scores"):
        attnlib.softmax(np.array([1, None]))
    with pytest.raises(ValueError, match="scores"):
        attnlib.softmax([[1, 2], [3]])
    with pytest.raises(TypeError, match="mask"):
        attnlib.softmax([1, 2], mask=[1, 0])
    with pytest.raises(TypeError, match="torch tensor"):
        attnlib.softmax(torch.ones(2), mask=[True, False])


def test_masked_arrays_are_refused():
    """Their mask means the opposite, and would be dropped without a word."""
    with pytest.raises(TypeError, match="scores"):
        attnlib.softmax(np.ma.masked_array([1.0, 2.0], mask=[False, True]))


@pytest.mark.parametrize("like", ["cuda", 3, torch.float32, {}])
def test_like_must_be_an_array(like):
    for run in (
        lambda: attnlib.causal_mask(2, like=like),
        lambda: attnlib.padding_mask([1], 2, like=like),
        lambda: attnlib.sinusoidal_positions(2, 4, like=like),
    ):
        with pytest.raises(TypeError, match="like"):
            run()


def test_what_has_no_default_must_be_given_by_name():
    """Options after the mask are words, so that no call can swap them."""
    q, k, v = qkv()
    with pytest.raises(TypeError):
        attnlib.attention(q, k, v, None, np.ones((B, T_K), dtype=bool))
    with pytest.raises(TypeError):
        attnlib.blockwise_attention(q, k, v, 2)
    with pytest.raises(TypeError):
        attnlib.multi_head_attention(*Maker("numpy").mha().values(), H, D_K)
