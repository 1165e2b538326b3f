"""Translation models: against a decoder written in NumPy, padding, greedy and beam, devices, training, errors."""

import itertools
import math
import re

import numpy as np
import pytest
import torch
from backends import close, needs_cuda

from attnlib import corpus, seq2seq, training
from attnlib.corpus import BOS, EOS, PAD, Batch
from attnlib.seq2seq import Seq2Seq, seq2seq_loss, translate

SOURCE, TARGET = 11, 9  # words in the vocabularies
SIZES = {"d_embedding": 4, "d_encoder": 5, "d_decoder": 6}
WIDE = SIZES | {"d_decoder": 10}  # a state as wide as the annotations of two directions: for a dot
LUONG = {"order": "luong"}
VARIANTS = {
    "fixed": SIZES,
    "fixed-one-direction": SIZES | {"bidirectional": False},
    "bahdanau": SIZES | {"attention": "additive"},
    "bahdanau-word": SIZES | {"attention": "additive", "previous_word_in_query": True},
    "bahdanau-residual": SIZES | {"attention": "additive", "previous_word_in_query": True, "residual_embedding": True},
    "bahdanau-one-direction": SIZES | {"attention": "additive", "bidirectional": False, "d_att": 3},
    "bahdanau-dot": WIDE | {"attention": "dot"},
    "bahdanau-local-m": SIZES | {"attention": "local_m", "window": 2},
    "luong-dot": WIDE | LUONG | {"attention": "dot"},
    "luong-dot-feeding": WIDE | LUONG | {"attention": "dot", "input_feeding": True},
    "luong-scaled": WIDE | LUONG | {"attention": "scaled_dot"},
    "luong-plain": SIZES | LUONG | {"attention": "general"},
    "luong-general": SIZES | LUONG | {"attention": "general", "residual_embedding": True},
    "luong-general-feeding": SIZES | LUONG | {"attention": "general", "input_feeding": True},
    "luong-concat": SIZES | LUONG | {"attention": "concat"},
    "luong-additive": SIZES | LUONG | {"attention": "additive"},
    "luong-location": SIZES | LUONG | {"attention": "location"},
    "luong-local-m": SIZES | LUONG | {"attention": "local_m", "window": 2},
    "luong-local-p": SIZES | LUONG | {"attention": "local_p", "window": 2},
    "luong-local-p-feeding": SIZES | LUONG | {"attention": "local_p", "window": 2, "input_feeding": True},
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def made(name, seed=0):
    """A model in float64."""
    torch.manual_seed(seed)
    return Seq2Seq(SOURCE, TARGET, **VARIANTS[name]).double()


def batch_of(sources, targets):
    """A Batch of lists of ids, the longest source first."""

    def padded(rows):
        return torch.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])

    source = padded(sources)
    return Batch(
        source, torch.tensor([len(row) for row in sources]), source != PAD,
        padded([[BOS, *row] for row in targets]), padded([[*row, EOS] for row in targets]), (),
    )  # fmt: skip


def random_batch(lengths=((7, 5), (4, 8), (4, 2), (1, 3)), seed=0):
    """Random ids, with (source length, target length) of each sentence."""
    rng = np.random.default_rng(seed)
    sources = [rng.integers(EOS + 1, SOURCE, length).tolist() for length, _ in lengths]
    targets = [rng.integers(EOS + 1, TARGET, length).tolist() for _, length in lengths]
    return batch_of(sources, targets), sources, targets


# --- the oracle: one sentence, one word at a time, in NumPy ------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def gru_step(x, h, W_i, W_h, b_i, b_h):
    """One step of a GRU as PyTorch defines it: reset, update, new."""
    reset_i, update_i, new_i = np.split(W_i @ x + b_i, 3)
    reset_h, update_h, new_h = np.split(W_h @ h + b_h, 3)
    reset, update = sigmoid(reset_i + reset_h), sigmoid(update_i + update_h)
    return (1 - update) * np.tanh(new_i + reset * new_h) + update * h


def gru_weights(p, prefix, suffix):
    return [p[f"{prefix}.{name}{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def encode_by_hand(p, source):
    """Annotations of both directions, and the last states side by side."""
    x = [p["encoder.embedding.weight"][word] for word in source]
    d = p["encoder.gru.weight_hh_l0"].shape[1]
    forward, backward = [], []
    h = np.zeros(d)
    for word in x:
        h = gru_step(word, h, *gru_weights(p, "encoder.gru", "_l0"))
        forward.append(h)
    h = np.zeros(d)
    for word in reversed(x):
        h = gru_step(word, h, *gru_weights(p, "encoder.gru", "_l0_reverse"))
        backward.insert(0, h)
    annotations = np.array([np.concatenate(pair) for pair in zip(forward, backward, strict=True)])
    return annotations, np.concatenate([forward[-1], backward[0]])


def linear(p, name, x):
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def decode_by_hand(name, p, source, words):
    """Logits and weights of each step, given the words before it."""
    annotations, last = encode_by_hand(p, source)
    s, fed = np.tanh(linear(p, "initial", last)), np.zeros(len(p["initial.bias"]))
    logits, weights = [], []
    for word in [BOS, *words]:
        y = p["decoder.embedding.weight"][word]
        if name.startswith("luong"):
            x = np.concatenate([y, fed]) if name.endswith("feeding") else y
            s = gru_step(x, s, *gru_weights(p, "decoder.gru", "_l0"))
            w = softmax(np.array([s @ p["decoder.attention.W_a"] @ h for h in annotations]))
            fed = np.tanh(linear(p, "decoder.W_c", np.concatenate([w @ annotations, s])))
            logits.append(linear(p, "decoder.output", fed))
        else:
            w, c = None, last
            if name != "fixed":
                query = np.concatenate([s, y]) if name.endswith("word") else s
                W_a, U_a, v_a = (p[f"decoder.attention.{key}"] for key in ("W_a", "U_a", "v_a"))
                w = softmax(np.array([v_a @ np.tanh(query @ W_a + h @ U_a) for h in annotations]))
                c = w @ annotations
            s = gru_step(np.concatenate([y, c]), s, *gru_weights(p, "decoder.gru", "_l0" if w is None else ""))
            hidden = np.tanh(linear(p, "decoder.readout.hidden", np.concatenate([s, c, y])))
            logits.append(linear(p, "decoder.readout.output", hidden))
        weights.append(w)
    return np.array(logits), weights


@pytest.mark.parametrize("name", ["fixed", "bahdanau", "bahdanau-word", "luong-plain", "luong-general-feeding"])
def test_equals_a_decoder_in_numpy(name):
    model, (batch, sources, targets) = made(name), random_batch()
    p = {key: value.detach().numpy() for key, value in model.named_parameters()}
    logits, weights = model(batch), model.weights(batch)
    for b, (source, words) in enumerate(zip(sources, targets, strict=True)):
        want_logits, want_weights = decode_by_hand(name, p, source, words)
        close(logits[b, : len(words) + 1], want_logits)
        if name == "fixed":
            assert weights is None
        else:
            close(weights[b, : len(words) + 1, : len(source)], np.array(want_weights))


# --- the encoder, padding, one step or all ------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_encoder_is_a_gru_on_each_sentence_alone(bidirectional, residual):
    torch.manual_seed(0)
    encoder = seq2seq.Encoder(SOURCE, 4, 5, bidirectional, residual).double()
    batch, sources, _ = random_batch()
    annotations, last = encoder(batch.source, batch.source_lengths)
    for b, source in enumerate(sources):
        x = encoder.embedding(torch.tensor([source]))
        h, h_last = encoder.gru(x)
        want = torch.cat([h, x], -1) if residual else h
        close(annotations[b, : len(source)], want[0])
        assert (annotations[b, len(source) :] == 0).all()
        close(last[b], h_last.flatten())
    assert encoder.d_annotation == annotations.shape[-1]


@every_variant
def test_padding_never_changes_an_output(name):
    """A sentence alone, and the same among longer ones with more padding than needed."""
    model, (batch, sources, targets) = made(name), random_batch()
    more = [torch.nn.functional.pad(x, (0, 3)) for x in (batch.source, batch.source_mask)]
    batch = Batch(more[0], batch.source_lengths, more[1], batch.target_in, batch.target_out, ())
    logits, weights = model(batch), model.weights(batch)
    ids, looks = seq2seq.search(model, batch, 12)
    wide_ids, _ = seq2seq.search(model, batch, 12, beam=3)
    for b, (source, words) in enumerate(zip(sources, targets, strict=True)):
        alone = batch_of([source], [words])
        close(logits[b, : len(words) + 1], model(alone)[0])
        alone_ids, alone_looks = seq2seq.search(model, alone, 12)
        assert strip(ids[b]) == strip(alone_ids[0])
        assert strip(wide_ids[b]) == strip(seq2seq.search(model, alone, 12, beam=3)[0][0])
        if weights is not None:
            close(weights[b, : len(words) + 1, : len(source)], model.weights(alone)[0])
            assert (weights[b, :, len(source) :] == 0).all()
            steps = alone_looks.shape[1]
            close(looks[b, :steps, : len(source)], alone_looks[0])


def strip(ids):
    """The ids up to and with EOS."""
    ids = ids.tolist()
    return ids[: ids.index(EOS) + 1] if EOS in ids else [i for i in ids if i != PAD]


@every_variant
def test_weights_sum_to_1(name):
    model, (batch, _, _) = made(name), random_batch()
    weights = model.weights(batch)
    if weights is None:
        return
    total = weights.detach().sum(-1)
    if "local-p" in name:
        assert ((total > 0) & (total < 1)).all()
    else:
        close(total, np.ones(total.shape))


@every_variant
def test_one_word_at_a_time_is_all_words_at_once(name):
    model, (batch, _, _) = made(name), random_batch()
    memory, state = model.read(batch)
    logits, weights = [], []
    for word in batch.target_in.split(1, 1):
        step, look, state = model.decoder(word, memory, state)
        logits.append(step)
        weights.append(look)
    close(torch.cat(logits, 1), model(batch))
    if weights[0] is not None:
        close(torch.cat(weights, 1), model.weights(batch))


@pytest.mark.parametrize("name", ["bahdanau-local-m", "luong-local-m"])
def test_the_window_moves_with_the_words(name):
    model, (batch, sources, _) = made(name), random_batch()
    for b, source in enumerate(sources):
        for t, row in enumerate(model.weights(batch)[b]):
            center = min(t, len(source) - 1)
            assert row.nonzero().flatten().tolist() == [j for j in range(len(source)) if abs(j - center) <= 2]


@pytest.mark.parametrize(("name", "calls"), [("luong-general", 1), ("luong-general-feeding", 9), ("bahdanau", 9)])
def test_without_input_feeding_there_is_no_loop_over_words(name, calls, monkeypatch):
    model, (batch, _, _) = made(name), random_batch()
    counted = {"attend": 0, "gru": 0}

    def count(key, owner, method):
        honest = getattr(owner, method)

        def counting(*args):
            counted[key] += 1
            return honest(*args)

        monkeypatch.setattr(owner, method, counting)

    count("attend", model.decoder.attention, "attend")
    count("gru", model.decoder.gru, "forward")
    model(batch)
    assert counted == {"attend": calls, "gru": calls}
    assert batch.target_in.shape[1] == 9


# --- translation --------------------------------------------------------------------------------------------------


def log_prob(model, source, ids):
    """Log probability of the words ids of a sentence, PAD and BOS being impossible."""
    batch = batch_of([source], [[i for i in ids if i != EOS]])
    logits = model(batch)[0].detach().numpy()
    logits[:, [PAD, BOS]] = -np.inf
    return sum(np.log(softmax(row)[i]) for row, i in zip(logits, ids, strict=False))


@every_variant
def test_greedy_takes_the_most_probable_word(name):
    model, (batch, sources, _) = made(name, seed=1), random_batch()
    ids, weights = seq2seq.search(model, batch, 6)
    for b, source in enumerate(sources):
        words = strip(ids[b])
        alone = batch_of([source], [[i for i in words if i != EOS]])
        best = model(alone)[0, :, EOS:].argmax(-1) + EOS
        assert words == best[: len(words)].tolist()
        if weights is not None:
            seen = model.weights(alone)[0]
            close(weights[b, : len(words), : len(source)], seen[: len(words)])


@every_variant
def test_greedy_is_a_beam_of_one(name):
    model, (batch, _, _) = made(name, seed=2), random_batch()
    memory, state = model.read(batch)
    ids, weights = seq2seq.greedy(model.decoder, memory, state, 10)
    wide_ids, wide_weights = seq2seq.beam_search(model.decoder, memory, state, 10, 1)
    assert wide_ids.equal(ids)
    if weights is not None:
        close(wide_weights, weights)


@pytest.mark.parametrize("name", ["fixed", "bahdanau", "luong-general-feeding", "luong-local-m"])
def test_a_wide_beam_finds_the_most_probable_sentence(name):
    """Against all sentences of at most 4 words of a small vocabulary, by models that are far from sure."""
    every = [list(words) for n in (1, 2, 3, 4) for words in itertools.product(range(EOS, 5), repeat=n)]
    every = [words for words in every if EOS not in words[:-1] and (words[-1] == EOS or len(words) == 4)]
    found = []
    for seed in range(6):
        torch.manual_seed(seed)
        model = Seq2Seq(SOURCE, 5, **VARIANTS[name]).double()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(3)
        batch, sources, _ = random_batch(((5, 1), (3, 1)), seed)
        ids, weights = seq2seq.search(model, batch, 4, beam=len(every))
        for b, source in enumerate(sources):
            best = max(every, key=lambda words, source=source, model=model: log_prob(model, source, words))
            found.append(strip(ids[b]))
            assert found[-1] == best
            if weights is not None:
                seen = model.weights(batch_of([source], [[i for i in best if i != EOS]]))[0]
                close(weights[b, : len(best), : len(source)], seen[: len(best)])
    assert sum(len(words) >= 3 for words in found) >= 3  # where the beam had something to reorder


@pytest.mark.parametrize("name", ["fixed", "bahdanau-residual", "luong-dot"])
def test_a_beam_finds_sentences_at_least_as_probable(name):
    model = made(name)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    batch, sources, _ = random_batch(((7, 1),) * 12, seed=3)
    greedy, beam = (seq2seq.search(model, batch, 8, beam=width)[0] for width in (1, 4))
    totals = [[log_prob(model, s, strip(ids[b])) for b, s in enumerate(sources)] for ids in (greedy, beam)]
    assert (np.array(totals[1]) >= np.array(totals[0]) - 1e-9).all()
    assert not beam.equal(greedy[:, : beam.shape[1]])


class GardenPath(torch.nn.Module):
    """A decoder that prefers to begin with 3, and then does not know how to go on; after 4 it is sure: 5, end."""

    NEXT = ({3: 0.6, 4: 0.4}, {3: dict.fromkeys(range(EOS, 7), 0.2), 4: {5: 1.0}}, {4: {EOS: 1.0}})

    def forward(self, words, memory, state):
        first = words if state.t == 1 else state.s  # (B, 1), remembered from the second call on
        table = torch.zeros(len(words), TARGET)
        for row, begin in zip(table, first[:, 0].int().tolist(), strict=True):
            sure = self.NEXT[0] if state.t == 0 else self.NEXT[min(state.t, 2)].get(begin, self.NEXT[1][3])
            for word, p in sure.items():
                row[word] = p
        return table.log().unsqueeze(1), None, seq2seq.State(first.float(), t=state.t + 1)


def test_a_beam_turns_back_where_greedy_cannot():
    start = seq2seq.State(torch.zeros(2, 1))
    for row in seq2seq.greedy(GardenPath(), None, start, 3)[0].tolist():
        assert row[0] == 3
    assert seq2seq.beam_search(GardenPath(), None, start, 3, 2)[0].tolist() == [[4, 5, EOS]] * 2


class Scripted(torch.nn.Module):
    """A decoder that says the words of a script, whatever it reads."""

    def __init__(self, rows):
        super().__init__()
        self.script = torch.tensor(rows)  # (B, T)

    def forward(self, words, memory, state):
        logits = torch.nn.functional.one_hot(self.script[:, state.t], TARGET).float() * 50
        return logits.unsqueeze(1), None, seq2seq.State(state.s, t=state.t + 1)


@pytest.mark.parametrize("search", [seq2seq.greedy, lambda *args: seq2seq.beam_search(*args, 1)])
def test_translation_stops_at_the_end_and_at_the_limit(search):
    decoder = Scripted([[5, 6, EOS, 7, 7], [5, EOS, 6, 6, 6]])
    state, memory = seq2seq.State(torch.zeros(2, 3)), seq2seq.Memory(None, torch.zeros(2, 3))
    assert search(decoder, memory, state, 5)[0].tolist() == [[5, 6, EOS], [5, EOS, PAD]]
    assert search(decoder, memory, state, 2)[0].tolist() == [[5, 6], [5, EOS]]


def test_padding_and_the_beginning_are_no_words():
    decoder = Scripted([[PAD, BOS, EOS]])
    ids, _ = seq2seq.greedy(decoder, None, seq2seq.State(torch.zeros(1, 3)), 3)
    assert not set(ids[0].tolist()) & {PAD, BOS}


FRENCH = ["le chat dort", "la souris noire regarde le petit chien", "le cheval court"]


def french_model(**options):
    torch.manual_seed(0)
    return Seq2Seq(len(corpus.FRENCH), len(corpus.ENGLISH), d_embedding=8, d_encoder=16, d_decoder=32, **options)


@pytest.fixture(scope="module")
def overfitted():
    """A model that knows a few sentences by heart."""
    model = french_model(attention="general", order="luong")
    train(model, corpus.make_batch([corpus.parse(text) for text in FRENCH]), steps=80)
    return model


@pytest.mark.parametrize("beam", [1, 3])
def test_translate_gives_words_and_weights_in_the_order_of_the_sentences(overfitted, beam):
    for sentences in (FRENCH, [corpus.parse(text) for text in FRENCH], [text.split() for text in FRENCH]):
        out = translate(overfitted, sentences, beam=beam)
        for text, (words, weights) in zip(FRENCH, out, strict=True):
            assert words == list(corpus.parse(text).target)
            assert weights.shape == (len(words), len(text.split()))
            assert weights.dtype == np.float32
            close(weights.sum(-1), np.ones(len(words)), 1e-6)
    assert translate(overfitted, [], beam=beam) == []
    words, weights = translate(overfitted, FRENCH[1:2], max_length=3, beam=beam)[0]
    assert (len(words), weights.shape) == (3, (3, 7))


def test_translate_more_sentences_than_fit_one_batch(overfitted):
    many = [FRENCH[i % 3] for i in range(250)]
    assert [words for words, _ in translate(overfitted, many)] == [list(corpus.parse(text).target) for text in many]


def test_translate_without_attention_has_no_weights():
    assert all(weights is None for _, weights in translate(french_model(), FRENCH, max_length=5))


# --- training -----------------------------------------------------------------------------------------------------


def train(model, batch, steps=1, lr=1e-2):
    optimizer = torch.optim.Adam(model.parameters(), lr)
    losses = []
    for _ in range(steps):
        loss = seq2seq_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


@every_variant
def test_training_step_on_the_meta_device(name):
    """Nothing reads the data, and nothing stays on the CPU but the lengths."""
    model, batch = made(name).to("meta"), random_batch()[0].to("meta")
    (loss,) = train(model, batch)
    assert loss.device.type == "meta"
    assert {p.grad.device.type for p in model.parameters()} == {"meta"}


@needs_cuda
@every_variant
def test_on_real_cuda(name):
    """Logits, weights, gradients and translations of the CPU, on the device of the model."""
    model, (batch, _, _) = made(name), random_batch()
    moved, there = made(name).cuda(), batch.to("cuda")
    close(moved(there), model(batch), 1e-9)
    if model.weights(batch) is not None:
        close(moved.weights(there), model.weights(batch), 1e-9)
    for beam in (1, 3):
        ids, _ = seq2seq.search(moved, there, 10, beam)
        assert ids.device.type == "cuda"
        assert ids.tolist() == seq2seq.search(model, batch, 10, beam)[0].tolist()
    train(model, batch)
    train(moved, there)
    for p, q in zip(model.parameters(), moved.parameters(), strict=True):
        close(q.grad, p.grad, 1e-9)


@every_variant
def test_a_training_step_lowers_the_loss_and_moves_every_parameter(name):
    model, (batch, _, _) = made(name), random_batch()
    before = {key: value.clone() for key, value in model.named_parameters()}
    losses = train(model, batch, steps=2)
    assert losses[1] < losses[0]
    still = [key for key, value in model.named_parameters() if value.equal(before[key])]
    assert still == []


@every_variant
def test_training_and_evaluation_compute_the_same(name):
    model, (batch, _, _) = made(name), random_batch()
    assert model.train()(batch).equal(model.eval()(batch))


@pytest.mark.parametrize("name", ["fixed", "bahdanau-residual", "luong-dot-feeding"])
def test_the_same_seed_gives_the_same_bits(name):
    def run(seed):
        training.seed_everything(seed)
        model = Seq2Seq(SOURCE, TARGET, **VARIANTS[name])
        train(model, random_batch()[0], steps=3)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    before = torch.are_deterministic_algorithms_enabled()
    try:
        first = run(5)
        assert run(5).equal(first)
        assert not run(6).equal(first)
    finally:
        torch.use_deterministic_algorithms(before)


def test_the_loss_is_that_of_the_words():
    model, (batch, sources, targets) = made("bahdanau"), random_batch()
    total, count = 0.0, 0
    for source, words in zip(sources, targets, strict=True):
        logits = model(batch_of([source], [words]))[0].detach().numpy()
        for row, word in zip(logits, [*words, EOS], strict=True):
            total -= math.log(softmax(row)[word])
            count += 1
    close(seq2seq_loss(model, batch), np.array(total / count))


# --- bad input ----------------------------------------------------------------------------------------------------


def new(**options):
    return Seq2Seq(SOURCE, TARGET, **SIZES | options)


BAD = {
    "attention": (
        lambda: new(attention="cosine"), ValueError,
        "attention must be one of None, 'additive', 'dot', 'general', 'concat', 'scaled_dot', 'location', 'local_m', "
        "'local_p', got 'cosine'",
    ),
    "order": (lambda: new(order="vaswani"), ValueError, "order must be one of 'bahdanau', 'luong', got 'vaswani'"),
    "size": (lambda: new(d_encoder=0), ValueError, "d_encoder must be at least 1, got 0"),
    "size-type": (lambda: new(d_decoder=6.0), TypeError, "d_decoder must be a whole number, got float 6.0"),
    "vocabulary": (lambda: Seq2Seq(["a"], 9, **SIZES), TypeError, "source_size must be a whole number, got list"),
    "dot": (
        lambda: new(attention="dot", order="luong"), ValueError,
        "attention='dot' needs a query as wide as an annotation: d_decoder makes 6, the encoder makes 10",
    ),
    "dot-word": (
        lambda: new(attention="scaled_dot", d_decoder=10, previous_word_in_query=True), ValueError,
        "attention='scaled_dot' needs a query as wide as an annotation: "
        "d_decoder + d_embedding makes 14, the encoder makes 10",
    ),
    "flag": (lambda: new(bidirectional="no"), TypeError, "bidirectional must be True or False, got str 'no'"),
    "flag-number": (
        lambda: new(residual_embedding=0), TypeError, "residual_embedding must be True or False, got int 0",
    ),
    "feeding": (
        lambda: new(attention="general", input_feeding=True), ValueError,
        "input_feeding needs attention and order='luong'",
    ),
    "feeding-fixed": (lambda: new(order="luong", input_feeding=True), ValueError, "input_feeding needs attention"),
    "word": (
        lambda: new(attention="general", order="luong", previous_word_in_query=True), ValueError,
        "previous_word_in_query needs attention and order='bahdanau'",
    ),
    "residual": (lambda: new(residual_embedding=True), ValueError, "residual_embedding needs attention"),
    "max_length": (lambda: translate(french_model(), FRENCH, max_length=0), ValueError, "max_length must be at least"),
    "beam": (lambda: translate(french_model(), FRENCH, beam=0), ValueError, "beam must be at least 1, got 0"),
    "one-string": (
        lambda: translate(french_model(), "le chat dort"), TypeError,
        "sentences must be a list of sentences, got one string: put it in a list",
    ),
    "unknown-word": (lambda: translate(french_model(), ["le chta dort"]), ValueError, "unknown word 'chta'"),
    "empty": (lambda: translate(french_model(), [""]), ValueError, "every source at least one word"),
    "other-vocabulary": (
        lambda: translate(new(), FRENCH), ValueError,
        f"model must have the {len(corpus.FRENCH)} French and {len(corpus.ENGLISH)} English words of corpus, "
        f"got {SOURCE} and {TARGET}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    run, error, message = BAD[name]
    with pytest.raises(error, match=re.escape(message)):
        run()
