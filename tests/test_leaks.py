"""The two tests to take home: silent on sound functions, and the right complaint for every kind of leak."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from backends import both, needs_cuda, to
from torch import nn

import attnlib
from attnlib.leaks import future_cannot_leak, padding_cannot_leak

# B = 2, T = 5, d = 3; sentence 0 is full, sentence 1 has two pads.
X = np.random.default_rng(0).normal(size=(2, 5, 3))
LENGTHS = np.array([5, 3])
MASK = attnlib.padding_mask(LENGTHS, 5)
TOKENS = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]])


def attend(x, mask=None, **masks):
    return attnlib.attention(x, x, x, mask, **masks)


def causal(x):
    return attend(x, causal=True)


def padded(x, lengths):
    return attend(x, key_mask=attnlib.padding_mask(lengths, x.shape[1]))


def complaint(error, test, *args, **settings):
    """The message of the one error that a test must raise."""
    with pytest.raises(error) as raised:
        test(*args, **settings)
    assert type(raised.value) is error
    return str(raised.value)


def leaks(message):
    return re.search(r"Leaks: (.*) \(", message)[1].split(", ")


# --- the future ---


@both
@pytest.mark.parametrize("fn", [causal, lambda x: x.cumsum(1), lambda x: x, lambda x: 0 * x + x[:, :1]])
def test_sound_functions_pass(kind, fn):
    assert future_cannot_leak(fn, to(kind, X)) is None


@both
def test_every_leak_is_listed_by_its_positions(kind):
    """Without a mask each position leaks into all before it; a triangle that is one too wide only into the last."""
    message = complaint(AssertionError, future_cannot_leak, attend, to(kind, X))
    assert leaks(message) == ["1 into 0", "2 into 0", "2 into 1", "3 into 0", "3 into 1", "3 into 2", "4 more"]
    wide = np.tri(5, 5, 1, dtype=bool)
    message = complaint(AssertionError, future_cannot_leak, lambda x: attend(x, to(kind, wide)), to(kind, X))
    assert leaks(message) == ["1 into 0", "2 into 1", "3 into 2", "4 into 3"]
    assert message.startswith("the future leaks: a new value at position ")


@pytest.mark.parametrize("t", range(1, 5))
@pytest.mark.parametrize("s", range(4))
def test_each_pair_of_positions_is_tried(s, t):
    def fn(x):
        y = x.copy()
        y[:, s] += 0.01 * x[:, t]
        return y

    if t <= s:
        assert future_cannot_leak(fn, X) is None
    else:
        assert leaks(complaint(AssertionError, future_cannot_leak, fn, X)) == [f"{t} into {s}"]


def test_the_size_of_a_leak_is_the_one_that_was_seen():
    def fn(x):
        seen.append(x.copy())
        y = x.copy()
        y[:, 0] += 0.5 * x[:, 4]
        return y

    seen = []
    message = complaint(AssertionError, future_cannot_leak, fn, X)
    moved = max(np.abs(x[:, 4] - X[:, 4]).max() for x in seen) / 2
    assert f"position 4 moves the output at position 0 by {moved:.3g}, allowed is" in message


def soft(fill):
    """Causal attention whose mask is a number added to the scores."""
    bias = np.where(np.tri(5, dtype=bool), 0, fill)
    return lambda x: attnlib.softmax(attnlib.scaled_dot_scores(x, x) + bias) @ x


def test_a_leak_that_only_a_large_vector_shows():
    single = X.astype(np.float32)
    fn = lambda x: soft(-30.0)(x).astype(np.float32)  # noqa: E731
    assert future_cannot_leak(fn, single, large=1e-3) is None
    assert "a large value at position" in complaint(AssertionError, future_cannot_leak, fn, single)
    assert future_cannot_leak(soft(-np.inf), X) is None


@pytest.mark.parametrize("sign", [-1, 1])
def test_large_values_of_both_signs_are_tried(sign):
    def fn(x):  # one feature, so a single draw has one sign at each position
        y = x.copy()
        y[:, 0] += np.maximum(sign * x[:, 4] - 100, 0)
        return y

    one = X[..., :1]
    for seed in range(3):
        assert "4 into 0" in complaint(AssertionError, future_cannot_leak, fn, one, seed=seed)


def test_whole_numbers_are_tokens():
    table = np.random.default_rng(1).normal(size=(9, 3))
    seen = []

    def embed(then):
        def fn(tokens):
            seen.append(tokens)
            return then(table[tokens])

        return fn

    assert future_cannot_leak(embed(causal), TOKENS) is None
    assert max(x.max() for x in seen) == 6
    assert future_cannot_leak(embed(causal), TOKENS, vocabulary=9) is None
    assert (min(x.min() for x in seen), max(x.max() for x in seen)) == (0, 8)
    assert all(x.dtype == TOKENS.dtype for x in seen)
    assert "a new value" in complaint(AssertionError, future_cannot_leak, embed(attend), TOKENS)
    assert "a new value" in complaint(AssertionError, future_cannot_leak, embed(attend), TOKENS.astype(np.uint8))


def test_every_changed_token_is_another_one():
    seen = []
    future_cannot_leak(lambda x: seen.append(x) or x.astype(float), TOKENS, vocabulary=7)
    changed = [x != TOKENS for x in seen]
    assert {tuple(c.any(axis=0)) for c in changed[2:]} == {tuple(np.arange(5) == t) for t in range(5)}
    assert all(c.sum() == 2 for c in changed[2:])


def test_nan_in_an_earlier_output_is_a_leak():
    def fn(x):  # a finite mask on scores that may be infinite: the old way
        y = x.copy()
        y[:, 0] += np.where(np.abs(x[:, 3]) > 1000, np.nan, 0)
        return y

    message = complaint(AssertionError, future_cannot_leak, fn, X)
    assert "a large value at position 3 makes the output at position 0 NaN or infinite" in message


def test_outputs_of_minus_infinity_may_stay_what_they_are():
    """Logits that forbid a word."""

    def fn(x):
        y = causal(x)
        y[..., 0] = -np.inf
        return y

    assert future_cannot_leak(fn, X) is None


def test_whole_number_outputs_are_compared_exactly():
    assert future_cannot_leak(lambda x: causal(x).argmax(-1), X) is None
    assert "by 1" in complaint(AssertionError, future_cannot_leak, lambda x: (x > x.mean(1, keepdims=True)) * 1, X)


def test_the_tolerance_is_a_share_of_the_largest_output():
    def fn(x):
        y = x.copy()
        y[:, 0] += 1e-6 * x[:, 1]
        return 1e-9 * y

    assert "allowed is" in complaint(AssertionError, future_cannot_leak, fn, X)
    assert future_cannot_leak(fn, X, tolerance=0.05) is None


def test_the_same_seed_gives_the_same_message():
    messages = [complaint(AssertionError, future_cannot_leak, attend, X, seed=seed) for seed in (4, 4, 5)]
    assert messages[0] == messages[1] != messages[2]


# --- the padding ---


@both
@pytest.mark.parametrize("nan", [False, True])
def test_sound_padding_passes(kind, nan):
    assert padding_cannot_leak(padded, *to(kind, (X, LENGTHS)), nan=nan) is None
    by_mask = lambda x, real: attend(x, key_mask=real)  # noqa: E731
    assert padding_cannot_leak(by_mask, *to(kind, (X, MASK)), nan=nan) is None
    left = np.array([[False, False, True, True, True], [True] * 5])
    assert padding_cannot_leak(by_mask, *to(kind, (X, left)), nan=nan) is None


def test_lengths_may_be_a_list():
    assert padding_cannot_leak(lambda x, n: attend(x, key_mask=attnlib.padding_mask(n, x.shape[1])), X, [5, 3]) is None


@both
def test_padding_that_is_seen_is_listed(kind):
    message = complaint(AssertionError, padding_cannot_leak, lambda x, n: attend(x), *to(kind, (X, LENGTHS)))
    assert leaks(message) == [f"{p} into {s} of sequence 1" for p in (3, 4) for s in (0, 1, 2)]
    assert re.search(
        r"a new value at the padded position [34] moves the output of sequence 1 at position [012]", message
    )


@both
def test_the_opposite_polarity_is_a_leak(kind):
    fn = lambda x, real: attend(x, key_mask=~real)  # noqa: E731
    mask = np.array([[True] * 4 + [False], [True] * 3 + [False] * 2])
    assert "4 into 0 of sequence 0" in complaint(AssertionError, padding_cannot_leak, fn, *to(kind, (X, mask)))


def test_a_mask_of_numbers_leaks_only_where_the_padding_is_large():
    def fn(x, real):
        bias = np.where(real, 0, -30.0)[:, None]
        return (attnlib.softmax(attnlib.scaled_dot_scores(x, x) + bias) @ x).astype(np.float32)

    single = X.astype(np.float32)
    assert padding_cannot_leak(fn, single, MASK, large=1e-3) is None
    assert "a large value at the padded position" in complaint(AssertionError, padding_cannot_leak, fn, single, MASK)


def test_a_weight_of_0_times_nan():
    def fn(x, real):
        return attnlib.attention_weights(x, x, key_mask=real) @ x

    assert padding_cannot_leak(fn, X, MASK) is None
    message = complaint(AssertionError, padding_cannot_leak, fn, X, MASK, nan=True)
    assert "leaks: NaN at the padded position 4 makes the output of sequence 1 at position 2 NaN" in message


def test_infinity_is_planted_too():
    def fn(x, real):
        y = x.copy()
        y[:, 0] += np.where(np.isposinf(x[:, -1:]), 1, 0).max(axis=1)
        return y

    assert padding_cannot_leak(fn, X, MASK) is None
    assert "leaks: infinity at the padded position 4" in complaint(
        AssertionError, padding_cannot_leak, fn, X, MASK, nan=True
    )


def test_one_output_a_sequence():
    def wrong(x, lengths):  # the padding adds nothing, but it is counted
        real = attnlib.padding_mask(lengths, x.shape[1])[..., None]
        return np.where(real, x, 0).mean(axis=1)

    def right(x, lengths):
        real = attnlib.padding_mask(lengths, x.shape[1])[..., None]
        return np.where(real, x, 0).sum(axis=1) / lengths[:, None]

    assert padding_cannot_leak(right, X, LENGTHS, pooled=True) is None
    message = complaint(AssertionError, padding_cannot_leak, wrong, X, LENGTHS, pooled=True)
    assert "taking away the padding of sequence 1 and its company moves the output of sequence 1 by" in message
    message = complaint(AssertionError, padding_cannot_leak, lambda x, n: x.max(axis=1), X, LENGTHS, pooled=True)
    assert re.search(r"padded position [34] moves the output of sequence 1 by", message)


def test_padding_that_the_function_finds_by_itself():
    table = np.random.default_rng(1).normal(size=(7, 3))

    def right(tokens, real):
        return attend(table[tokens], key_mask=tokens != 0)

    def wrong(tokens, real):
        return attend(table[tokens])

    assert padding_cannot_leak(right, TOKENS, LENGTHS, pad=0) is None
    assert padding_cannot_leak(right, TOKENS, MASK, pad=0) is None
    assert "taking away the padding" in complaint(AssertionError, padding_cannot_leak, wrong, TOKENS, LENGTHS, pad=0)
    assert "a new value" in complaint(AssertionError, padding_cannot_leak, right, TOKENS, LENGTHS)  # pads change


def test_company_that_matters_is_found():
    """Nothing in the padding is read, but its amount is."""
    fn = lambda x, n: x + x.shape[1]  # noqa: E731
    message = complaint(AssertionError, padding_cannot_leak, fn, X, LENGTHS)
    assert "taking away the padding of sequence 1 and its company moves the output of sequence 1 at position" in message
    assert "by 2, allowed" in message


def test_a_sequence_without_a_word_is_left_out():
    assert padding_cannot_leak(padded, X, np.array([0, 3])) is None
    message = complaint(AssertionError, padding_cannot_leak, lambda x, n: attend(x), X, np.array([0, 3]))
    assert "sequence 0" not in message


# --- models, devices, and what stays as it is ---


class Model(nn.Module):
    def __init__(self, bidirectional=False, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(8, 6)
        self.rnn = nn.GRU(6, 4, batch_first=True, bidirectional=bidirectional)
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.drop(self.rnn(self.embed(tokens))[0])


def test_models_of_torch_layers():
    tokens = torch.tensor(TOKENS)
    assert future_cannot_leak(Model(), tokens) is None
    assert "the future leaks" in complaint(AssertionError, future_cannot_leak, Model(bidirectional=True), tokens)
    assert future_cannot_leak(Model(dropout=0.5).eval(), tokens) is None
    assert "is dropout on? Then call model.eval()" in complaint(
        ValueError, future_cannot_leak, Model(dropout=0.5), tokens
    )


@pytest.mark.parametrize("train", [False, True])
def test_a_transformer_layer(train):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True).train(train)
    x = torch.randn(2, 5, 6)
    later = ~torch.ones(5, 5, dtype=torch.bool).tril()
    assert future_cannot_leak(lambda x: layer(x, src_mask=later), x) is None
    assert padding_cannot_leak(lambda x, real: layer(x, src_key_padding_mask=~real), x, torch.tensor(MASK)) is None
    assert "the future leaks" in complaint(AssertionError, future_cannot_leak, layer, x)
    flipped = lambda x, real: layer(x, src_key_padding_mask=real | ~real.any(-1, True))  # noqa: E731
    some = torch.tensor([[True] * 4 + [False], [True] * 3 + [False] * 2])
    assert "the padding leaks" in complaint(AssertionError, padding_cannot_leak, flipped, x, some)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_precision(dtype):
    x = torch.tensor(X, dtype=dtype)
    assert future_cannot_leak(causal, x) is None
    assert padding_cannot_leak(padded, x, torch.tensor(LENGTHS)) is None
    assert "a new value" in complaint(AssertionError, future_cannot_leak, attend, x)
    assert "the padding leaks" in complaint(AssertionError, padding_cannot_leak, lambda x, n: attend(x), x, LENGTHS)


def test_numpy_half():
    assert future_cannot_leak(causal, X.astype(np.float16)) is None
    assert "a new value" in complaint(AssertionError, future_cannot_leak, attend, X.astype(np.float16))


def test_large_is_not_too_large_for_half_precision():
    """Values that overflow would turn a weight of exactly 0 into NaN."""
    fn = lambda x: attnlib.attention_weights(x, x, causal=True) @ (4 * x)  # noqa: E731
    assert future_cannot_leak(fn, X.astype(np.float16)) is None
    assert future_cannot_leak(fn, torch.tensor(X, dtype=torch.float16)) is None


@needs_cuda
def test_cuda():
    x, lengths = torch.tensor(X, device="cuda"), torch.tensor(LENGTHS, device="cuda")
    assert future_cannot_leak(causal, x) is None
    assert padding_cannot_leak(padded, x, lengths) is None
    assert "the future leaks" in complaint(AssertionError, future_cannot_leak, attend, x)


@both
def test_inputs_stay_as_they_are_even_if_the_function_writes_into_its_own(kind):
    def greedy(x, lengths=None):
        y = causal(x) if lengths is None else padded(x, lengths)
        x[...] = 7
        if lengths is not None:
            lengths[...] = 1
        return y

    x, lengths = to(kind, (X, LENGTHS))
    assert future_cannot_leak(greedy, x) is None
    assert padding_cannot_leak(greedy, x, lengths) is None
    np.testing.assert_array_equal(np.asarray(x), X)
    np.testing.assert_array_equal(np.asarray(lengths), LENGTHS)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("sound", [False, True])
def test_the_model_stays_as_it_is(train, sound):
    model = Model(bidirectional=not sound).train(train)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model(torch.tensor(TOKENS)).sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    random = np.random.get_state()[1].copy(), torch.get_rng_state()
    seen = []

    def fn(tokens):
        seen.append((model.training, torch.is_grad_enabled()))
        return model(tokens)

    if sound:
        future_cannot_leak(fn, torch.tensor(TOKENS))
    else:
        complaint(AssertionError, future_cannot_leak, fn, torch.tensor(TOKENS))
    assert set(seen) == {(train, True)}
    assert model.training == train
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), grads, strict=True))
    np.testing.assert_array_equal(np.random.get_state()[1], random[0])
    assert torch.equal(torch.get_rng_state(), random[1])


def test_a_tensor_with_a_gradient_is_fine():
    x = torch.tensor(X, requires_grad=True)
    assert future_cannot_leak(causal, x) is None
    assert x.grad is None


# --- functions and inputs that cannot be tested ---


def noisy(x):
    return x + np.random.default_rng().normal(size=x.shape)


UNTESTABLE = {
    "no time axis": (
        ValueError,
        lambda x: x.mean(axis=1),
        r"fn must return shape \(2, 5, ...\), as x has, got \(2, 3\)",
    ),
    "time first": (ValueError, lambda x: x.swapaxes(0, 1), r"fn must return shape \(2, 5, ...\).*got \(5, 2, 3\)"),
    "a pair": (TypeError, lambda x: (x, None), r"fn must return one array, got a tuple: use lambda x: model\(x\)\[0\]"),
    "nothing": (TypeError, lambda x: None, "fn must return an array or a tensor, got NoneType"),
    "words": (TypeError, lambda x: x.astype(str), "fn must return real numbers, got dtype <U"),
    "noise": (ValueError, noisy, r"fn must give the same output .* differ by [\d.]+: is dropout on\?"),
    "constant": (ValueError, lambda x: np.ones((2, 5)), "fn must depend on"),
    "NaN": (ValueError, lambda x: x * np.nan, "fn must return numbers, got NaN before anything was changed"),
}


@pytest.mark.parametrize("case", UNTESTABLE)
def test_what_cannot_be_tested_is_said(case):
    error, fn, message = UNTESTABLE[case]
    assert re.search(message, complaint(error, future_cannot_leak, fn, X))
    assert re.search(message, complaint(error, padding_cannot_leak, lambda x, n: fn(x), X, LENGTHS))


BAD = {
    "one position": (
        ValueError,
        lambda: future_cannot_leak(causal, X[:, :1]),
        "x must have at least 2 positions, got T = 1",
    ),
    "a matrix": (
        ValueError,
        lambda: future_cannot_leak(causal, X[0, 0]),
        r"x must have shape \(B, T, ...\).*x\[None\]",
    ),
    "empty": (ValueError, lambda: future_cannot_leak(causal, X[:0]), r"none of them 0, got \(0, 5, 3\)"),
    "not finite": (ValueError, lambda: future_cannot_leak(causal, X / 0), "x must be finite"),
    "boolean x": (TypeError, lambda: future_cannot_leak(causal, X > 0), "x must hold vectors .*got dtype bool"),
    "no array": (TypeError, lambda: future_cannot_leak(causal, "words"), "x must be a NumPy array or a torch tensor"),
    "vocabulary": (
        ValueError,
        lambda: future_cannot_leak(causal, TOKENS, vocabulary=6),
        "vocabulary must be above .*0 to 6",
    ),
    "one token": (ValueError, lambda: future_cannot_leak(causal, TOKENS * 0), "vocabulary must be .* 2 or more, got 1"),
    "large": (ValueError, lambda: future_cannot_leak(causal, X, large=0), "large must be positive, got 0"),
    "lengths": (
        ValueError,
        lambda: padding_cannot_leak(padded, X, LENGTHS[:1]),
        r"real must be lengths \(2,\).*\(1,\)",
    ),
    "a 0/1 mask": (
        ValueError,
        lambda: padding_cannot_leak(padded, X, MASK * 1),
        r"real must be .* boolean mask \(2, 5\)",
    ),
    "float lengths": (TypeError, lambda: padding_cannot_leak(padded, X, LENGTHS * 1.0), "real must hold .*float64"),
    "too long": (ValueError, lambda: padding_cannot_leak(padded, X, LENGTHS + 1), r"from 0 to T = 5, got \[6, 4\]"),
    "no padding": (ValueError, lambda: padding_cannot_leak(padded, X, [5, 5]), "some padding, got 10 of 10 tokens"),
    "no words": (ValueError, lambda: padding_cannot_leak(padded, X, [0, 0]), "leave some tokens .*got 0 of 10 tokens"),
    "nan in tokens": (ValueError, lambda: padding_cannot_leak(padded, TOKENS, LENGTHS, nan=True), "nan must be False"),
    "pad": (ValueError, lambda: padding_cannot_leak(padded, TOKENS, LENGTHS, pad=1), "pad must be the token .*got 1"),
    "pad in a sentence": (
        ValueError,
        lambda: padding_cannot_leak(padded, TOKENS[:, [3, 4, 0, 1, 2]], [5, 3], pad=0),
        "pad must be the token",
    ),
    "word as pad": (ValueError, lambda: padding_cannot_leak(padded, TOKENS, [4, 3], pad=5), "pad must be the token"),
    "pad among words": (
        ValueError,
        lambda: padding_cannot_leak(padded, TOKENS, [5, 4], pad=0),
        "pad must be the token",
    ),
    "pad of vectors": (ValueError, lambda: padding_cannot_leak(padded, X, LENGTHS, pad=0), "pad must be the token"),
    "pad on the left": (
        ValueError,
        lambda: padding_cannot_leak(padded, TOKENS[:, ::-1], MASK[:, ::-1], pad=0),
        "pad must stand on the right",
    ),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument(case):
    error, call, message = BAD[case]
    assert re.search(message, complaint(error, call))


def test_it_needs_no_torch():
    code = (
        "import sys, numpy as np, attnlib; attnlib.leaks.future_cannot_leak(lambda x: x, np.ones((1, 2, 3)));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
