"""The cases of cases.json: mistakes that real code made, on both backends."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from backends import back, both, close, function, to

import attnlib.gradients
from attnlib.layers import MultiHeadAttention

ELSEWHERE = {"plots.plot_attention"}  # tested in test_plots.py
LOSS, LAYER = "masked_cross_entropy", "layers.MultiHeadAttention"  # for tensors only
ALL = json.loads((Path(__file__).parent / "cases.json").read_text())
CASES = {case["id"]: case for case in ALL if case["call"] not in {LOSS, LAYER, *ELSEWHERE}}
ARRAYS = {"q", "k", "v", "mask", "key_mask", "scores", "x", "W_a"}


def arrays(args, integers):
    """The arguments as NumPy: integer lists stay integers where integers is true, else become floats."""
    out = {}
    for name, value in args.items():
        if name not in ARRAYS:
            out[name] = value
            continue
        if isinstance(value, str):
            rows, columns = value.removeprefix("zeros(").removesuffix(")").split(",")
            value = np.zeros((int(rows), int(columns)))
        dtype = None
        if isinstance(value, dict):
            value, dtype = value["data"], value["dtype"]
        value = np.array(value, dtype=dtype)
        out[name] = value.astype(float) if value.dtype.kind == "i" and not integers else value
    return out


def run(kind, case, integers=False):
    """What the library answers to a case."""
    args = arrays(case["args"], integers)
    if case["call"] != "grad_q(sum(attention))":
        return function(case["call"])(**to(kind, args))
    if kind == "numpy":
        q, k, v = args["q"], args["k"], args["v"]
        grad = np.ones((len(q), v.shape[-1]))
        return attnlib.gradients.attention_vjp(q, k, v, grad, args["mask"])[0]
    args = to(kind, args)
    attnlib.attention(**(args | {"q": args["q"].requires_grad_()})).sum().backward()
    return args["q"].grad


@both
@pytest.mark.parametrize("name", CASES)
def test_case(kind, name):
    case = CASES[name]
    if "raises" in case:
        with pytest.raises({"TypeError": TypeError, "ValueError": ValueError}[case["raises"]]):
            run(kind, case)
    else:
        close(run(kind, case), np.array(case["expect"]), 1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if "expect" in CASES[name]])
def test_integers_are_promoted_to_float64_in_numpy(name):
    case = CASES[name]
    answer = run("numpy", case, integers=True)
    assert answer.dtype == (np.float16 if "float16" in str(case["args"]) else np.float64)
    close(answer, back(run("numpy", case)), 1e-12)


@pytest.mark.parametrize("name", ["plain", "plain-weights", "huge-scores", "general-scores"])
def test_integer_tensors_are_refused(name):
    args = to("torch", arrays(CASES[name]["args"], integers=True))
    first = next(iter(args))
    with pytest.raises(TypeError, match=rf"\b{first}\b.*int64") as error:
        function(CASES[name]["call"])(**args)
    assert "float" in str(error.value)


def test_padding_does_not_count_in_the_loss():
    (case,) = (case for case in ALL if case["call"] == LOSS)
    logits, targets, pad = case["args"].values()
    loss = attnlib.masked_cross_entropy(torch.tensor(logits, dtype=torch.float64), torch.tensor(targets), pad)
    close(loss, np.array(case["expect"]), 1e-6)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_a_layer_with_a_fully_padded_sequence(training, gradients):
    (case,) = (case for case in ALL if case["call"] == LAYER)
    assert case["expect"] == "finite and equal"
    torch.manual_seed(0)
    layer = MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(12, 3, bias=False, batch_first=True))
    x, key_mask = torch.randn(2, 4, 12), torch.tensor([[True, True, False, False], [False] * 4])
    want = layer.eval()(x, key_mask=key_mask)
    with torch.set_grad_enabled(gradients):
        got = layer.train(training)(x, key_mask=key_mask)
    assert got.equal(want)
    assert (got[0] != 0).all()
    assert (got[1] == 0).all()


def test_no_case_is_lost():
    assert len(CASES) == 27
    assert len(ALL) == 27 + 2 + len([case for case in ALL if case["call"] in ELSEWHERE])
