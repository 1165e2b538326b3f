"""The cases of cases.json: mistakes that real code made, on both backends."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from backends import back, both, close, function, to

import attnlib.gradients

# The first comes with the chapter on layers; the plots are tested in test_plots.py.
ELSEWHERE = {"layers.MultiHeadAttention", "plots.plot_attention"}
LOSS = "masked_cross_entropy"  # for tensors only
ALL = json.loads((Path(__file__).parent / "cases.json").read_text())
CASES = {case["id"]: case for case in ALL if case["call"] not in {LOSS, *ELSEWHERE}}
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


def test_no_case_is_lost():
    assert len(CASES) == 27
    assert len(ALL) == 27 + 1 + len([case for case in ALL if case["call"] in ELSEWHERE])
