"""CPU seconds until a translator is right, in batches and one sentence at a time: `make bench-training`.

The widely used way to train a small translator takes one sentence at a time, and one Python step for each of its
tokens. Here both ways train the same model from the same weights on the same sentences, with the same optimizer, until
it translates nine of ten long sentences exactly; each has the best of some learning rates. Prints a table and writes
it to _build/bench_training.md. Not a test: it takes a quarter of an hour or more, and wants an idle machine.
"""

import itertools
import math
import random
import sys
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

import attnlib
from attnlib import corpus
from attnlib.corpus import BOS, ENGLISH, EOS, FRENCH
from attnlib.metrics import exact_match
from attnlib.seq2seq import Memory, Seq2Seq, State, seq2seq_loss, translate

REPORT = Path(__file__).parents[1] / "_build" / "bench_training.md"
SIZE, BATCH = 48, 32
GOAL = 0.9  # of the sentences of 13 to 20 words in the validation set
WARMUP = 1_600  # sentences until the learning rate is reached
LOOK = 1_600  # sentences between two looks at the validation set
RATES = {"in batches": (2e-3, 5e-3, 1e-2), "one at a time": (5e-4, 1e-3, 2e-3)}
LIMIT = 600  # CPU seconds, then a run counts as lost


def new_model():
    sizes = {"d_embedding": SIZE, "d_encoder": SIZE, "d_decoder": 2 * SIZE}
    return Seq2Seq(len(FRENCH), len(ENGLISH), **sizes, attention="additive")


def sentence_loss(model, pair):
    """The mean surprise of one sentence: every token of both languages is a step of its own."""
    x = [model.encoder.embedding(torch.tensor([number])) for number in FRENCH.encode(pair.source)]
    gru = model.encoder.gru
    directions = []
    for words, end in ((x, ""), (x[::-1], "_reverse")):
        cell = [getattr(gru, f"{name}_l0{end}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        h, states = torch.zeros(1, SIZE), []
        for word in words:
            h = torch.gru_cell(word, h, *cell)
            states.append(h)
        directions.append(states)
    forward, backward = directions
    annotations = torch.cat([torch.stack(forward, 1), torch.stack(backward[::-1], 1)], -1)
    last = torch.cat([forward[-1], backward[-1]], -1)
    memory, state = Memory(model.decoder.attention.prepare(annotations), last), State(torch.tanh(model.initial(last)))
    target = ENGLISH.encode(pair.target)
    total = 0.0
    for read, say in zip([BOS, *target], [*target, EOS], strict=True):
        logits, _, state = model.decoder(torch.tensor([[read]]), memory, state)
        total = total + cross_entropy(logits[:, 0], torch.tensor([say]))
    return total / (len(target) + 1)


def losses(way, model, pairs, rng):
    """Endless (number of sentences, their loss)."""
    if way == "in batches":
        for batch in corpus.batches(pairs, BATCH, rng):
            yield len(batch.pairs), seq2seq_loss(model, batch)
    for _ in itertools.count():
        for pair in rng.sample(pairs, len(pairs)):
            yield 1, sentence_loss(model, pair)


def seconds_to_goal(way, lr, seed, data):
    """(CPU seconds of training, sentences seen) until the goal; infinite seconds if it is not reached."""
    attnlib.seed_everything(seed)
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    watched = [pair for pair in data.valid if len(pair.source) > 12]
    seconds, seen, looked = 0.0, 0, 0
    stream = losses(way, model, data.train, random.Random(seed))
    while seconds < LIMIT:
        start = time.process_time()
        count, loss = next(stream)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (seen + count) / WARMUP)
        optimizer.step()
        seen += count
        seconds += time.process_time() - start
        if seen - looked >= LOOK:
            looked = seen
            right = exact_match([words for words, _ in translate(model, watched)], [p.target for p in watched])
            print(f"  {way}, lr {lr}: {seen} sentences, {seconds:.0f} s, {right:.0%}", file=sys.stderr)
            if right >= GOAL:
                return seconds, seen
    return math.inf, seen


def main():
    torch.set_num_threads(1)
    data = corpus.make_corpus()
    with torch.no_grad():  # both ways compute the same loss
        model = new_model()
        for pair in data.valid[:20]:
            torch.testing.assert_close(sentence_loss(model, pair), seq2seq_loss(model, corpus.make_batch([pair])))
    lines = ["| way | learning rate | sentences | CPU seconds |", "|---|---|---|---|"]
    best = {}
    for way, rates in RATES.items():
        for lr in rates:
            seconds, seen = seconds_to_goal(way, lr, 0, data)
            lines.append(f"| {way} | {lr} | {seen:,} | {seconds:.0f} |")
            best[way] = min(best.get(way, math.inf), seconds)
    lines += ["", f"One at a time over in batches, each at its best: {best['one at a time'] / best['in batches']:.1f}"]
    print(*lines, sep="\n")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
