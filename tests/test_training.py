"""Which device, the same random numbers twice, the loss, and the training loop."""

import copy
import functools
import math
import random

import numpy as np
import pytest
import torch
import tqdm
from backends import B, close, needs_cuda
from test_fake_cuda import pretend

import attnlib
from attnlib import corpus, training
from attnlib.corpus import PAD


@pytest.fixture(autouse=True)
def _keep_algorithms():
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize(("wanted", "cuda", "expected"), [
    ("cpu", True, "cpu"),
    ("meta", False, "meta"),
    ("mps", True, "mps"),
    (None, True, "cuda"),
    (None, False, "cpu"),
    ("", True, "cuda"),
])
def test_device_is_the_one_asked_for_else_cuda_else_cpu(monkeypatch, wanted, cuda, expected):
    monkeypatch.delenv("ATTNLIB_DEVICE", raising=False)
    if wanted is not None:
        monkeypatch.setenv("ATTNLIB_DEVICE", wanted)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert attnlib.device() == torch.device(expected)


def test_an_unknown_device_is_an_error(monkeypatch):
    monkeypatch.setenv("ATTNLIB_DEVICE", "abacus")
    with pytest.raises(RuntimeError, match="abacus"):
        attnlib.device()


def test_the_same_seed_gives_the_same_numbers():
    def draw():
        return random.random(), np.random.rand(), torch.rand(2).tolist()

    attnlib.seed_everything(3)
    first = draw()
    attnlib.seed_everything(3)
    assert draw() == first
    attnlib.seed_everything(4)
    assert draw() != first


@pytest.mark.parametrize(("wanted", "expected"), [("cpu", True), ("cuda", False)])
def test_deterministic_algorithms_are_for_the_cpu_only(monkeypatch, wanted, expected):
    monkeypatch.setenv("ATTNLIB_DEVICE", wanted)
    attnlib.seed_everything(0)
    assert torch.are_deterministic_algorithms_enabled() is expected


# masked_cross_entropy

T, V = 5, 7


def logits_and_targets(seed=0, lengths=(5, 3)):
    """logits (B, T, V) and targets (B, T), padded behind `lengths`."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(1, V, size=(B, T))
    for row, length in enumerate(lengths):
        targets[row, length:] = PAD
    return torch.tensor(rng.normal(size=(B, T, V)), requires_grad=True), torch.tensor(targets)


def test_the_loss_is_the_mean_over_valid_tokens():
    logits, targets = logits_and_targets()
    z = logits.detach().numpy()
    logs = np.log(np.exp(z) / np.exp(z).sum(-1, keepdims=True))
    valid = [(b, t) for b in range(B) for t in range(T) if targets[b, t] != PAD]
    assert len(valid) == 8
    want = -np.mean([logs[b, t, targets[b, t]] for b, t in valid])
    close(attnlib.masked_cross_entropy(logits, targets), np.array(want))


def test_padding_gets_no_gradient():
    logits, targets = logits_and_targets()
    attnlib.masked_cross_entropy(logits, targets).backward()
    assert (logits.grad[targets == PAD] == 0).all()
    assert (logits.grad[targets != PAD] != 0).all()


def test_more_padding_changes_nothing():
    logits, targets = logits_and_targets()
    longer = torch.cat([logits, torch.full((B, 4, V), 1e3)], dim=1)
    padded = torch.cat([targets, torch.full((B, 4), PAD)], dim=1)
    close(attnlib.masked_cross_entropy(longer, padded), attnlib.masked_cross_entropy(logits, targets))


def test_another_padding():
    logits, targets = logits_and_targets()
    close(
        attnlib.masked_cross_entropy(logits, torch.where(targets == PAD, -100, targets), -100),
        attnlib.masked_cross_entropy(logits, targets),
    )


@pytest.mark.parametrize("lengths", [(0, 0), (5, 0)])
def test_rows_of_padding_alone(lengths):
    logits, targets = logits_and_targets(lengths=lengths)
    loss = attnlib.masked_cross_entropy(logits, targets)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[1] == 0).all()
    assert (loss == 0) == (lengths == (0, 0))


@pytest.mark.parametrize(("logits", "targets", "error", "words"), [
    (torch.ones(2, 5, 7), torch.ones(2, 4, dtype=int), ValueError, r"targets must have shape \(2, 5\), got \(2, 4\)"),
    (torch.ones(7), torch.ones((), dtype=int), ValueError, "logits must have at least 2 axes"),
    (torch.ones(2, 5, 7), torch.ones(2, 5), TypeError, "targets must be int64, got torch.float32"),
    (torch.ones(2, 5, 7), torch.ones(2, 5, dtype=torch.int32), TypeError, "targets must be int64, got torch.int32"),
    (torch.ones(2, 5, 7, dtype=int), torch.ones(2, 5, dtype=int), TypeError, "logits must be a floating-point tensor"),
    (np.ones((2, 5, 7)), np.ones((2, 5), dtype=int), TypeError, "logits and targets must be torch tensors"),
    (torch.ones(2, 5, 7), np.ones((2, 5), dtype=int), TypeError, "targets must be a torch tensor"),
])  # fmt: skip
def test_bad_input_of_the_loss(logits, targets, error, words):
    with pytest.raises(error, match=words):
        attnlib.masked_cross_entropy(logits, targets)


def test_the_loss_on_pretended_cuda():
    args = np.ones((B, T, V), dtype=np.float32), np.ones((B, T), dtype=np.int64)
    assert pretend(training.masked_cross_entropy, args, {}) == ((), "cuda", torch.float32)


# fit


def line(seed=0):
    """A model for y = 2 x_1 - x_2, fresh batches (x, y) of it, and the loss."""
    attnlib.seed_everything(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Dropout(0.0))
    generator = torch.Generator().manual_seed(seed)

    def stream():
        while True:
            x = torch.randn(B + 6, 2, generator=generator)
            yield x, x @ torch.tensor([[2.0], [-1.0]])

    return model, stream(), lambda model, batch: ((model(batch[0]) - batch[1]) ** 2).mean()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_fit_learns():
    model, stream, loss = line()
    history = attnlib.fit(model, stream, loss=loss, steps=400, lr=0.05)
    assert len(history.losses) == 400
    assert history.losses[0] > 0.1
    assert history.losses[-1] < 1e-4
    assert not history.interrupted
    assert weights(model).tolist() == pytest.approx([2, -1, 0], abs=0.01)


def test_fit_is_adam_with_warm_up_cosine_and_clipping():
    """Against a loop of its own: the rate up to lr in 3 steps, then down a half cosine; gradients cut to length 0.1."""
    model, stream, loss = line()
    other = copy.deepcopy(model)
    batches = [next(stream) for _ in range(8)]
    history = attnlib.fit(model, batches, loss=loss, steps=8, lr=0.2, warmup=3, clip=0.1)
    rates = [0.2 / 3, 0.4 / 3, 0.2, *(0.1 * (1 + math.cos(math.pi * k / 5)) for k in range(5))]
    optimizer = torch.optim.Adam(other.parameters())
    losses = []
    for rate, batch in zip(rates, batches, strict=True):
        value = loss(other, batch)
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        norm = torch.cat([p.grad.flatten() for p in other.parameters()]).norm()
        assert norm > 0.1
        for p in other.parameters():
            p.grad *= 0.1 / norm
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    assert history.losses == pytest.approx(losses, abs=1e-5)
    close(weights(model), weights(other), 1e-5)


def test_no_clipping_when_not_wanted():
    """One step of Adam hides the length of the gradient; a second one, of another length, shows it."""
    results = []
    for clip in (None, 1e9, 0.1):
        model, stream, loss = line()
        attnlib.fit(model, stream, loss=loss, steps=5, clip=clip, warmup=0)
        results.append(weights(model).tolist())
    assert results[0] == results[1]
    assert results[1] != results[2]


def test_the_same_seed_gives_the_same_bits():
    results = []
    for seed in (1, 1, 2):
        model, stream, loss = line(seed)
        results.append((attnlib.fit(model, stream, loss=loss, steps=20).losses, weights(model).tolist()))
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_warm_up_longer_than_the_training():
    model, stream, loss = line()
    assert len(attnlib.fit(model, stream, loss=loss, steps=3, warmup=50).losses) == 3


def test_the_model_trains_in_train_mode_and_ends_in_eval_mode():
    model, stream, loss = line()
    modes = []
    model.eval()
    attnlib.fit(model, stream, loss=lambda m, b: modes.append(m.training) or loss(m, b), steps=2)
    assert modes == [True, True]
    assert not model.training


def test_interrupting_keeps_what_was_learned(capsys):
    model, stream, loss = line()
    steps = []

    def interrupted(model, batch):
        steps.append(weights(model))
        if len(steps) == 4:
            raise KeyboardInterrupt
        return loss(model, batch)

    history = attnlib.fit(model, stream, loss=interrupted, steps=100)
    assert history.interrupted
    assert len(history.losses) == 3
    assert torch.equal(weights(model), steps[3])
    assert not torch.equal(steps[3], steps[2])
    assert not model.training
    assert "after 3 of 100 steps" in capsys.readouterr().out


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_loss_is_an_error_that_names_the_step(bad):
    model, stream, loss = line()
    seen = []

    def spoiled(model, batch):
        seen.append(weights(model))
        return loss(model, batch) * (bad if len(seen) == 3 else 1)

    with pytest.raises(FloatingPointError, match=rf"loss is {bad} at step 2 of 10.*smaller lr than 0.005"):
        attnlib.fit(model, stream, loss=spoiled, steps=10)
    assert torch.equal(weights(model), seen[2])
    assert not model.training


def test_a_bad_gradient_is_an_error_before_it_does_harm():
    model, stream, loss = line()
    before = weights(model)
    with pytest.raises(FloatingPointError, match="gradient is nan at step 0 of 10"):
        attnlib.fit(model, stream, loss=lambda m, b: (0 * loss(m, b)).sqrt(), steps=10)
    assert torch.equal(weights(model), before)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_batches_of_the_corpus(clip):
    """A batch with a method `to`, on the device that the environment names."""
    attnlib.seed_everything(0)
    pairs = corpus.make_corpus(train=60, valid=0, test=0).train
    model = torch.nn.Sequential(torch.nn.Embedding(len(corpus.ENGLISH), 16), torch.nn.Linear(16, len(corpus.ENGLISH)))

    def loss(model, batch):
        return attnlib.masked_cross_entropy(model(batch.target_in), batch.target_out)

    history = attnlib.fit(model, corpus.batches(pairs, 8, random.Random(0)), loss=loss, steps=60, clip=clip, lr=0.02)
    assert history.losses[0] > 4 > 3.2 > history.losses[-1]


def test_batches_of_a_data_loader():
    """It collates pairs into lists; the losses are those of tuples."""
    x = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, x.sum(-1, keepdim=True))
    losses = []
    for kind in (list, tuple):
        model, _, loss = line()
        loader = torch.utils.data.DataLoader(data, batch_size=4)
        losses.append(attnlib.fit(model, map(kind, loader), loss=loss, steps=3).losses)
    assert losses[0] == losses[1]


def test_the_device_is_the_one_of_attnlib_unless_another_is_named(monkeypatch):
    model, stream, _ = line()
    monkeypatch.setenv("ATTNLIB_DEVICE", "meta")
    where = []

    def look(model, batch):
        where.append((batch[0].device.type, model[0].weight.device.type))
        return torch.zeros((), requires_grad=True)

    model.requires_grad_(False)  # meta cannot tell the length of a gradient
    attnlib.fit(model, stream, loss=look, steps=1, device="cpu")
    attnlib.fit(model, stream, loss=look, steps=1)
    assert where == [("cpu", "cpu"), ("meta", "meta")]


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"steps": 0}, ValueError, "steps must be at least 1, got 0"),
    ({"steps": 2.0}, TypeError, "steps must be a whole number"),
    ({"warmup": -1}, ValueError, "warmup must be at least 0, got -1"),
    ({"lr": 0}, ValueError, "lr must be positive, got 0"),
    ({"lr": "fast"}, TypeError, "lr must be a number"),
    ({"clip": -1.0}, ValueError, "clip must be positive, got -1.0"),
    ({"loss": lambda m, b: m(b[0])}, ValueError, r"result of loss must have shape \(\), got \(8, 1\)"),
    ({"batches": []}, ValueError, "batches must yield 2 batches, one a step, got 0"),
])  # fmt: skip
def test_bad_input_of_fit(options, error, words):
    model, stream, loss = line()
    options = {"batches": stream, "loss": loss, "steps": 2} | options
    with pytest.raises(error, match=words):
        attnlib.fit(model, **options)


def test_the_progress_bar_says_what_it_is_and_can_be_hidden(monkeypatch, capsys):
    """TQDM_DISABLE=1 in conftest.py hides it; here it is shown all the same the second time."""
    shown = []
    for _ in range(2):
        model, stream, loss = line()
        attnlib.fit(model, stream, loss=loss, steps=3, description="fixed vector")
        shown.append(capsys.readouterr())
        monkeypatch.setattr(tqdm, "tqdm", functools.partial(tqdm.tqdm, disable=False))
    assert shown[0] == ("", "")
    assert "fixed vector: 100%" in shown[1].err
    assert "3/3" in shown[1].err


def test_a_history_is_short_in_print():
    assert repr(training.History([0.5] * 800)) == "History(interrupted=False)"


@needs_cuda
def test_fit_on_cuda(monkeypatch):
    monkeypatch.setenv("ATTNLIB_DEVICE", "cuda")
    model, stream, loss = line()
    history = attnlib.fit(model, stream, loss=loss, steps=400, lr=0.05)
    assert weights(model).device.type == "cuda"
    assert history.losses[-1] < 1e-4
