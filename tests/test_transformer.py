"""The Transformer: against loops over words, its switches, padding, the future, decoding, devices, training."""

import doctest
import itertools
import math
import re

import numpy as np
import pytest
import torch
from backends import close, needs_cuda
from test_fake_cuda import PlainIndexing
from test_seq2seq import FRENCH, SOURCE, TARGET, log_prob, random_batch, strip, train
from torch._subclasses import FakeTensorMode
from torch.func import functional_call

import attnlib
from attnlib import corpus, seq2seq, training, transformer
from attnlib.corpus import BOS, EOS, Batch
from attnlib.transformer import Transformer

SIZES = {"d_model": 12, "num_heads": 6, "d_ff": 10, "num_layers": 2}
VARIANTS = {
    "whole": {},
    "grouped": {"num_kv_heads": 3},
    "one-head": {"num_heads": 1},
    "no-positions": {"positions": False},
    "no-residual": {"residual": False},
    "no-norm": {"norm": False},
    "no-feed-forward": {"feed_forward": False},
    "not-scaled": {"scaled": False},
    "bare": {"positions": False, "residual": False, "norm": False, "feed_forward": False, "scaled": False},
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def made(name="whole", seed=0, **options):
    """A model in float64. Biases and norms are not what they are at the start. Without residuals, matrices are larger:
    else so little of a word comes through that nothing could be tested."""
    torch.manual_seed(seed)
    model = Transformer(SOURCE, TARGET, **SIZES | VARIANTS[name] | options).double()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) / 3)
            elif name in ("no-residual", "bare"):
                p.mul_(2)
    return model


# --- the oracle: one sentence, one word at a time, in NumPy -------------------------------------------------------


class ByHand:
    """The model from its definition: words one by one, keys and values in growing lists."""

    def __init__(self, model, options):
        self.p = {key: value.detach().numpy() for key, value in model.named_parameters()}
        self.options = {
            "positions": True,
            "residual": True,
            "norm": True,
            "feed_forward": True,
            "scaled": True,
        } | options
        self.h = self.options.get("num_heads", SIZES["num_heads"])
        self.g = self.options.get("num_kv_heads", self.h)

    def embed(self, side, word, t):
        x = self.p[f"{side}.embedding.weight"][word].copy()
        if self.options["positions"]:
            for i in range(0, len(x), 2):
                x[i] += math.sin(t / 10000 ** (i / len(x)))
                x[i + 1] += math.cos(t / 10000 ** (i / len(x)))
        return x

    def norm(self, name, x):
        if not self.options["norm"]:
            return x
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * self.p[f"{name}.weight"] + self.p[f"{name}.bias"]

    def add(self, x, out):
        return x + out if self.options["residual"] else out

    def keys_values(self, name, x):
        return [np.split(x @ self.p[f"{name}.function.{W}"], self.g) for W in ("W_k", "W_v")]

    def look(self, name, x, pairs):
        """The output of attention for one token, and its weights (h, number of keys)."""
        q = np.split(self.norm(f"{name}.norm", x) @ self.p[f"{name}.function.W_q"], self.h)
        scale = len(q[0]) ** -0.5 if self.options["scaled"] else 1.0
        out, looks = [], []
        for i in range(self.h):
            j = i * self.g // self.h
            e = np.exp([scale * q[i] @ keys[j] for keys, _ in pairs])
            looks.append(e / e.sum())
            out.append(sum(w * values[j] for w, (_, values) in zip(looks[-1], pairs, strict=True)))
        return self.add(x, np.concatenate(out) @ self.p[f"{name}.function.W_o"]), np.array(looks)

    def network(self, name, x):
        if not self.options["feed_forward"]:
            return x
        W_1, b_1, W_2, b_2 = (self.p[f"{name}.function.{i}.{part}"] for i in (0, 2) for part in ("weight", "bias"))
        return self.add(x, W_2 @ np.maximum(W_1 @ self.norm(f"{name}.norm", x) + b_1, 0) + b_2)

    def run(self, source, words):
        """Logits of each step, and the weights of the encoder, of the decoder and of the cross-attention."""
        xs = [self.embed("encoder", word, t) for t, word in enumerate(source)]
        looks = {"encoder": [], "decoder": [], "cross": []}
        for layer in range(SIZES["num_layers"]):
            name = f"encoder.layers.{layer}"
            pairs = [
                self.keys_values(f"{name}.self_attention", self.norm(f"{name}.self_attention.norm", x)) for x in xs
            ]
            seen = [self.look(f"{name}.self_attention", x, pairs) for x in xs]
            looks["encoder"].append(np.stack([w for _, w in seen], 1))
            xs = [self.network(f"{name}.feed_forward", x) for x, _ in seen]
        xs = [self.norm("encoder.norm", x) for x in xs]
        ys = [self.embed("decoder", word, t) for t, word in enumerate([BOS, *words])]
        for layer in range(SIZES["num_layers"]):
            name = f"decoder.layers.{layer}"
            memory = [self.keys_values(f"{name}.cross_attention", x) for x in xs]
            past, own, cross = [], np.zeros((self.h, len(ys), len(ys))), []
            for t, y in enumerate(ys):
                past.append(self.keys_values(f"{name}.self_attention", self.norm(f"{name}.self_attention.norm", y)))
                y, own[:, t, : t + 1] = self.look(f"{name}.self_attention", y, past)
                y, look = self.look(f"{name}.cross_attention", y, memory)
                cross.append(look)
                ys[t] = self.network(f"{name}.feed_forward", y)
            looks["decoder"].append(own)
            looks["cross"].append(np.stack(cross, 1))
        W, b = self.p["decoder.output.weight"], self.p["decoder.output.bias"]
        logits = [W @ self.norm("decoder.norm", y) + b for y in ys]
        return np.array(logits), {key: np.array(value) for key, value in looks.items()}


@every_variant
def test_equals_the_definition(name):
    model, (batch, sources, targets) = made(name), random_batch()
    logits, weights = model(batch), model.weights(batch)
    for b, (source, words) in enumerate(zip(sources, targets, strict=True)):
        want, looks = ByHand(model, VARIANTS[name]).run(source, words)
        T_x, T_y = len(source), len(words) + 1
        close(logits[b, :T_y], want)
        close(weights.encoder[:, b, :, :T_x, :T_x], looks["encoder"])
        close(weights.decoder[:, b, :, :T_y, :T_y], looks["decoder"])
        close(weights.cross[:, b, :, :T_y, :T_x], looks["cross"])


def test_sizes_of_the_weights():
    batch = random_batch()[0]
    (B, T_x), T_y = batch.source.shape, batch.target_in.shape[1]
    assert [tuple(w.shape) for w in made().weights(batch)] == [
        (2, B, 6, T_x, T_x), (2, B, 6, T_y, T_y), (2, B, 6, T_y, T_x),
    ]  # fmt: skip


def test_switches_take_their_parameters_away():
    def names(name):
        return {key for key, _ in made(name).named_parameters()}

    whole = names("whole")
    assert {key for key in whole if "norm" in key} == whole - names("no-norm")
    assert {key for key in whole if "feed_forward" in key} == whole - names("no-feed-forward")
    for name in ("no-positions", "no-residual", "not-scaled", "grouped", "one-head"):
        assert names(name) == whole


# --- padding, the future, order -----------------------------------------------------------------------------------


def wider(batch):
    """The same sentences with more padding than needed, and NaN-free rubbish in it."""
    source = torch.nn.functional.pad(batch.source, (0, 3), value=5)
    source[:, : batch.source.shape[1]].masked_fill_(~batch.source_mask, 7)
    mask = torch.nn.functional.pad(batch.source_mask, (0, 3))
    return Batch(source, batch.source_lengths, mask, batch.target_in, batch.target_out, ())


@every_variant
def test_padding_never_changes_an_output(name):
    model, (batch, sources, targets) = made(name), random_batch()
    want, looks = model(batch), model.weights(batch)
    close(model(wider(batch)), want.detach())
    ids = seq2seq.search(model, wider(batch), 12)[0]
    wide_ids = seq2seq.search(model, wider(batch), 12, beam=3)[0]
    for b, (source, words) in enumerate(zip(sources, targets, strict=True)):
        alone = random_batch_of(source, words)
        close(want[b, : len(words) + 1], model(alone)[0].detach())
        assert strip(ids[b]) == strip(seq2seq.search(model, alone, 12)[0][0])
        assert strip(wide_ids[b]) == strip(seq2seq.search(model, alone, 12, beam=3)[0][0])
        assert (looks.encoder[:, b, :, :, len(source) :] == 0).all()
        assert (looks.cross[:, b, :, :, len(source) :] == 0).all()


def random_batch_of(source, words):
    return Batch(
        torch.tensor([source]), torch.tensor([len(source)]), torch.ones(1, len(source), dtype=torch.bool),
        torch.tensor([[BOS, *words]]), torch.tensor([[*words, EOS]]), (),
    )  # fmt: skip


@every_variant
def test_the_future_cannot_leak(name):
    """Another word at t changes the logits from t on, and none before."""
    model, (batch, _, _) = made(name), random_batch()
    want = model(batch)
    for t in range(1, batch.target_in.shape[1]):
        words = batch.target_in.clone()
        words[:, t] = (words[:, t] + 1) % TARGET
        got = model(Batch(batch.source, batch.source_lengths, batch.source_mask, words, batch.target_out, ()))
        close(got[:, :t], want[:, :t].detach(), 1e-13)
        # Of the longest source. Without residuals a source of 1 token answers the same, whatever a word asks.
        assert (got[0, t] != want[0, t]).any()
    assert (model.weights(batch).decoder.triu(1) == 0).all()


@pytest.mark.parametrize(("name", "blind"), [("no-positions", True), ("whole", False)])
def test_only_positions_tell_the_encoder_about_order(name, blind):
    model, (_, sources, _) = made(name), random_batch()
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    x = torch.tensor([sources[0]])
    mask = torch.ones(1, 7, dtype=torch.bool)
    moved = model.encoder(x[:, order], mask)
    assert torch.allclose(moved, model.encoder(x, mask)[:, order]) == blind


# --- decoding -----------------------------------------------------------------------------------------------------


@every_variant
def test_one_word_at_a_time_is_all_words_at_once(name):
    model, (batch, _, _) = made(name), random_batch()
    for lengths in (1, [2, 1, 6]):
        memory, state = model.read(batch)
        with torch.no_grad():
            logits = []
            for words in batch.target_in.split(lengths, 1):
                step, look, state = model.decoder(words, memory, state)
                logits.append(step)
                assert look is None
        close(torch.cat(logits, 1), model(batch).detach())
        assert state.words.equal(batch.target_in)
        assert [len(cache) for cache in state.caches] == [9, 9]


@every_variant
def test_greedy_takes_the_most_probable_word(name):
    model, (batch, sources, _) = made(name, seed=1), random_batch()
    ids, weights = seq2seq.search(model, batch, 6)
    assert weights is None
    for b, source in enumerate(sources):
        words = strip(ids[b])
        alone = random_batch_of(source, [i for i in words if i != EOS])
        assert words == (model(alone)[0, :, EOS:].argmax(-1) + EOS)[: len(words)].tolist()


@every_variant
def test_greedy_is_a_beam_of_one(name):
    model, (batch, _, _) = made(name, seed=2), random_batch()
    with torch.no_grad():
        ids, _ = seq2seq.greedy(model.decoder, *model.read(batch), 10)
        wide, weights = seq2seq.beam_search(model.decoder, *model.read(batch), 10, 1)
    assert wide.equal(ids)
    assert weights is None


def test_a_wide_beam_finds_the_most_probable_sentence():
    """Against all sentences of at most 4 words of a small vocabulary: the caches follow their sentences."""
    every = [list(words) for n in (1, 2, 3, 4) for words in itertools.product(range(EOS, 5), repeat=n)]
    every = [words for words in every if EOS not in words[:-1] and (words[-1] == EOS or len(words) == 4)]
    found = []
    for seed in range(4):
        torch.manual_seed(seed)
        model = Transformer(SOURCE, 5, **SIZES).double()
        with torch.no_grad():
            model.decoder.output.weight.mul_(2)
            model.decoder.output.bias[EOS] -= 3  # or the most probable sentence is the empty one
        batch, sources, _ = random_batch(((5, 1), (3, 1)), seed)
        ids, _ = seq2seq.search(model, batch, 4, beam=len(every))
        for b, source in enumerate(sources):
            best = max(every, key=lambda words, source=source, model=model: log_prob(model, source, words))
            found.append(strip(ids[b]))
            assert found[-1] == best
    assert sum(len(words) >= 3 for words in found) >= 3


def test_the_source_and_each_word_are_projected_once(monkeypatch):
    """6 steps: every cross-attention once, every self-attention of the decoder one word a step."""
    model, (batch, _, _) = made(), random_batch()
    seen = []
    honest = attnlib.layers.MultiHeadAttention._keys_values
    monkeypatch.setattr(
        attnlib.layers.MultiHeadAttention, "_keys_values",
        lambda self, name, x, mask: seen.append(x.shape[1]) or honest(self, name, x, mask),
    )  # fmt: skip
    with torch.no_grad():
        monkeypatch.setattr(seq2seq, "EOS", -1)  # no sentence ends
        seq2seq.greedy(model.decoder, *model.read(batch), 6)
    assert seen == [7, 7] + [7, 7] + [1, 1] * 6


def test_a_state_is_used_once_only():
    model, (batch, _, _) = made(), random_batch()
    memory, state = model.read(batch)
    model.decoder(batch.target_in, memory, state)
    with pytest.raises(ValueError, match="state must be used once only: it holds 0 words, its caches hold more"):
        model.decoder(batch.target_in, memory, state)


def french_model(**options):
    torch.manual_seed(0)
    sizes = {"d_model": 24, "num_heads": 4, "d_ff": 32, "num_layers": 1} | options
    return Transformer(len(corpus.FRENCH), len(corpus.ENGLISH), **sizes)


@pytest.fixture(scope="module")
def overfitted():
    """A model that the loop of the course taught a few sentences by heart, and its losses."""
    model = french_model()
    batch = corpus.make_batch([corpus.parse(text) for text in FRENCH])
    options = {"steps": 60, "lr": 1e-2, "warmup": 10, "device": "cpu"}
    return model, training.fit(model, itertools.repeat(batch), loss=seq2seq.seq2seq_loss, **options).losses


@pytest.mark.parametrize("beam", [1, 3])
def test_translate(overfitted, beam):
    assert seq2seq.translate(overfitted[0], FRENCH, beam=beam) == [
        (list(corpus.parse(text).target), None) for text in FRENCH
    ]


def test_translate_names_another_vocabulary():
    with pytest.raises(ValueError, match=f"got {SOURCE} and {TARGET}"):
        seq2seq.translate(made(), FRENCH)


# --- devices, training --------------------------------------------------------------------------------------------


class Everything(torch.nn.Module):
    """Logits, loss, weights and a translation, for functional_call."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        with torch.no_grad():
            memory, state = self.model.read(batch)
            steps = []
            for words in batch.target_in.split(1, 1):
                logits, _, state = self.model.decoder(words, memory, state)
                steps.append(logits)
        loss = training.masked_cross_entropy(self.model(batch), batch.target_out)
        return torch.cat(steps, 1), loss, *self.model.weights(batch)


@pytest.mark.parametrize("name", ["whole", "grouped", "bare"])
def test_on_pretended_cuda(name):
    model, batch = made(name), random_batch(((5, 2), (3, 1)))[0]

    def pretended(x):
        return torch.empty(x.shape, dtype=x.dtype, device="cuda")

    names = ("source", "source_mask", "target_in", "target_out")
    with FakeTensorMode(), PlainIndexing():
        parameters = {f"model.{key}": pretended(value) for key, value in model.named_parameters()}
        source, mask, words, out = (pretended(getattr(batch, key)) for key in names)
        answers = functional_call(
            Everything(model), parameters, (Batch(source, batch.source_lengths, mask, words, out, ()),)
        )
        assert {x.device.type for x in answers} == {"cuda"}


@every_variant
def test_training_step_on_the_meta_device(name):
    """Nothing reads the data, and nothing stays on the CPU."""
    model, batch = made(name).to("meta"), random_batch()[0].to("meta")
    (loss,) = train(model, batch)
    assert loss.device.type == "meta"
    assert {p.grad.device.type for p in model.parameters()} == {"meta"}


@needs_cuda
@every_variant
def test_on_real_cuda(name):
    model, batch = made(name), random_batch()[0]
    moved, there = made(name).cuda(), batch.to("cuda")
    for got, want in zip(Everything(moved)(there), Everything(model)(batch), strict=True):
        assert got.device.type == "cuda"
        close(got, want.detach(), 1e-9)
    for beam in (1, 3):
        ids, _ = seq2seq.search(moved, there, 10, beam)
        assert ids.tolist() == seq2seq.search(model, batch, 10, beam)[0].tolist()
    train(model, batch)
    train(moved, there)
    for p, q in zip(model.parameters(), moved.parameters(), strict=True):
        close(q.grad, p.grad, 1e-9)


@every_variant
def test_a_training_step_lowers_the_loss_and_moves_every_parameter(name):
    model, (batch, _, _) = made(name), random_batch()
    before = {key: value.clone() for key, value in model.named_parameters()}
    losses = train(model, batch, steps=2, lr=1e-3)
    assert losses[1] < losses[0]
    assert [key for key, value in model.named_parameters() if value.equal(before[key])] == []


@every_variant
def test_gradients_reach_every_parameter_and_are_right(name):
    """Along one random direction, against a finite difference."""
    model, (batch, _, _) = made(name), random_batch()
    loss = seq2seq.seq2seq_loss(model, batch)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    directions = [torch.randn_like(p) for p in model.parameters()]
    want = sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
    values = []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            moved = {key: p + step * d for (key, p), d in zip(model.named_parameters(), directions, strict=True)}
            values.append(training.masked_cross_entropy(functional_call(model, moved, (batch,)), batch.target_out))
    close((values[0] - values[1]) / 2e-6, want, 1e-6)
    assert all((g != 0).any() for g in grads)


@every_variant
def test_training_and_evaluation_compute_the_same(name):
    model, (batch, _, _) = made(name), random_batch()
    want = model.train()(batch)
    assert model.eval()(batch).equal(want)
    with torch.no_grad():
        assert model(batch).equal(want)


@pytest.mark.parametrize("name", ["whole", "grouped", "bare"])
def test_the_same_seed_gives_the_same_bits(name):
    def run(seed):
        training.seed_everything(seed)
        model = Transformer(SOURCE, TARGET, **SIZES | VARIANTS[name])
        train(model, random_batch()[0], steps=3)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    before = torch.are_deterministic_algorithms_enabled()
    try:
        first = run(5)
        assert run(5).equal(first)
        assert not run(6).equal(first)
    finally:
        torch.use_deterministic_algorithms(before)


def test_the_loop_of_the_course_trains_it(overfitted):
    model, losses = overfitted
    assert losses[-1] < 0.1 < losses[0]
    assert not model.training


# --- bad input ----------------------------------------------------------------------------------------------------

BAD = {
    "size": ({"d_ff": 0}, ValueError, "d_ff must be at least 1, got 0"),
    "layers": ({"num_layers": 1.0}, TypeError, "num_layers must be a whole number, got float 1.0"),
    "heads": ({"num_heads": 5}, ValueError, "num_heads must divide d_model = 12, got 5"),
    "groups": ({"num_kv_heads": 4}, ValueError, "num_heads must be a multiple of num_kv_heads, got 6 and 4"),
    **{
        name: ({name: None}, TypeError, f"{name} must be True or False, got NoneType None")
        for name in ("positions", "residual", "norm", "feed_forward", "scaled")
    },
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    options, error, message = BAD[name]
    with pytest.raises(error, match=re.escape(message)):
        Transformer(SOURCE, TARGET, **SIZES | options)


def test_examples_print_what_they_say():
    failed, tried = doctest.testmod(transformer, extraglobs={"torch": torch})
    assert (failed, tried) == (0, 2)
