"""The toy language: what every pair promises, splits that share nothing, the same corpus everywhere, batches."""

import collections
import hashlib
import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import attnlib
from attnlib import corpus
from attnlib.corpus import BOS, ENGLISH, EOS, FRENCH, PAD, RUNNING_EXAMPLE, TEST_BINS, Grammar, Pair, Vocabulary

ROOT = Path(__file__).parents[1]
MASCULINE, FEMININE = {"le", "ce", "mon", "ton"}, {"la", "cette", "ma", "ta"}
SMALL = {"train": 40, "valid": 10, "test": 3}


@pytest.fixture(scope="module")
def full():
    return corpus.make_corpus()


@pytest.fixture(scope="module")
def pairs(full):
    return [*full.train, *full.valid, *itertools.chain(*full.test.values())]


def linked(pair, target):
    """The source words that a target position is linked to, in order."""
    return [pair.source[s] for t, s in sorted(pair.links) if t == target]


def forms(symbol):
    """[(masculine form, feminine form)] of the entries of a symbol; the same one twice where there is one form."""
    entries = {**corpus.FUNCTION_WORDS, **corpus.CONTENT_WORDS}[symbol].split(",")
    french = [entry.partition("=")[0].strip().split("/") for entry in entries]
    return [(both[0], both[-1]) for both in french]


# the running example


def test_running_example_is_the_one_of_the_course():
    assert " ".join(RUNNING_EXAMPLE.source) == "le chat noir est assis sur le tapis rouge dans le salon"
    assert " ".join(RUNNING_EXAMPLE.target) == "the black cat is sitting on the red carpet in the living room"
    straight = {(0, 0), (3, 3), (4, 4), (5, 5), (6, 6), (9, 9), (10, 10)}
    swapped = {(1, 2), (2, 1), (7, 8), (8, 7)}
    assert RUNNING_EXAMPLE.links == straight | swapped | {(11, 11), (12, 11)}
    assert RUNNING_EXAMPLE.crossing == {1, 2, 7, 8}
    assert RUNNING_EXAMPLE.content == {1, 2, 4, 7, 8, 11, 12}


def test_running_example_is_in_no_split(pairs):
    assert RUNNING_EXAMPLE.source not in {pair.source for pair in pairs}


def test_running_example_is_left_out_when_it_is_drawn(monkeypatch):
    drawn = iter([RUNNING_EXAMPLE, RUNNING_EXAMPLE, corpus.parse("le chat dort dans le jardin")])
    monkeypatch.setattr(corpus.Grammar, "draw", lambda *_: next(drawn))
    assert corpus.make_corpus(train=1, valid=0, test=0).train[0].source[-1] == "jardin"


# every pair


def test_links_are_in_range_and_no_word_is_without_one(pairs):
    for pair in pairs:
        assert {t for t, _ in pair.links} == set(range(len(pair.target)))
        assert {s for _, s in pair.links} == set(range(len(pair.source)))
        assert pair.crossing | pair.content <= set(range(len(pair.target)))


def test_crossing_is_what_the_definition_says(pairs):
    for pair in pairs[::10]:
        crossed = {
            t
            for (t, s), (u, r) in itertools.permutations(pair.links, 2)
            if (t < u and s > r) or (t > u and s < r)
        }  # fmt: skip
        assert pair.crossing == crossed


def test_content_words_translate_nouns_verbs_and_adjectives(pairs):
    french = {form for symbol in corpus.CONTENT_WORDS for entry in forms(symbol) for form in " ".join(entry).split()}
    for pair in pairs[::10]:
        assert pair.content == {t for t in range(len(pair.target)) if set(linked(pair, t)) <= french}


def test_gender_agrees(pairs):
    said = {}  # the gender of every word that has one
    for symbol in ("DET.g", "BEFORE.g", "AFTER.g", "STATE.g"):
        for masculine, feminine in forms(symbol):
            if masculine != feminine:
                said |= {masculine: "m", feminine: "f"}
    for kind, gender in itertools.product(corpus.FEATURES["k"], "mf"):
        said |= {noun.split()[0]: gender for noun, _ in forms(f"NOUN.{kind}.{gender}")}
    articles, states = ({form for both in forms(symbol) for form in both} for symbol in ("DET.g", "STATE.g"))
    seen = collections.Counter()
    for pair in pairs[::4]:
        subject = phrase = None
        for word in pair.source:
            if word in ("et", "mais", "pendant"):
                subject = None  # a new clause
            elif word in articles:
                phrase = None  # a new noun with its adjectives
            if word in states:
                assert said.get(word, subject) == subject, pair.source
                seen["state", said.get(word)] += 1
            elif word in said:
                assert phrase in (None, said[word]), pair.source
                phrase = said[word]
                subject = subject or phrase
                seen[phrase] += 1
    assert min(seen[key] for key in ("m", "f", ("state", "m"), ("state", "f"))) > 400, seen


@pytest.mark.parametrize(("french", "english", "links"), [
    ("le petit chat noir dort", "the small black cat sleeps", {(0, 0), (1, 1), (2, 3), (3, 2), (4, 4)}),
    ("la vache n' est pas assise", "the cow is not sitting", {(0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 5)}),
    ("ma poule cherche cette clé", "my hen looks for this key", {(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (5, 4)}),
    (
        "le coq court dans la salle de bain", "the rooster runs in the bathroom",
        {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (5, 6), (5, 7)},
    ),
    (
        "le coq qui joue chante pendant que ma poule dort", "the rooster that plays sings while my hen sleeps",
        {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (5, 6), (6, 7), (7, 8), (8, 9)},
    ),
])  # fmt: skip
def test_translation_and_links_of(french, english, links):
    pair = corpus.parse(french)
    assert " ".join(pair.target) == english
    assert pair.links == links


def test_every_sentence_has_one_reading(pairs):
    for pair in pairs[::20]:
        assert corpus.GRAMMAR.parse(pair.source) == [pair]


def test_no_word_needs_an_elision():
    articles = [word for word in FRENCH.words[3:] if word in MASCULINE | FEMININE]
    assert set(articles) == MASCULINE | FEMININE
    after_an_article = [name for name in corpus.CONTENT_WORDS if name.startswith(("NOUN", "BEFORE"))]
    assert len(after_an_article) == 7
    for name in after_an_article:
        for entry in corpus.CONTENT_WORDS[name].split(","):
            assert entry.strip()[0] not in "aeiouyhéèêàâîôœ"


# splits


def test_lengths_fill_their_quotas(full):
    for split in (full.train, full.valid):
        counts = collections.Counter(len(pair.source) for pair in split)
        assert sorted(counts) == list(range(4, 21))
        assert max(counts.values()) - min(counts.values()) <= 1
    assert (len(full.train), len(full.valid)) == (10_000, 500)
    assert list(full.test) == ["4-8", "9-12", "13-16", "17-20", "21-24", "25-28", "29-32", "33-36"]
    for (low, high), split in zip(TEST_BINS, full.test.values(), strict=True):
        assert len(split) == 100
        assert {len(pair.source) for pair in split} == set(range(low, high + 1))


def test_longest_sets_the_lengths_of_training():
    made = corpus.make_corpus(train=27, valid=27, test=1, longest=30)
    for split in (made.train, made.valid):
        assert sorted(len(pair.source) for pair in split) == list(range(4, 31))


def test_no_sentence_comes_twice(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs) == 11_300


def test_it_is_a_language_worth_aligning(pairs):
    words = sum(len(pair.target) for pair in pairs)
    assert 0.30 < sum(len(pair.crossing) for pair in pairs) / words < 0.40
    assert 0.90 < sum(bool(pair.crossing) for pair in pairs) / len(pairs) < 0.97
    several = [collections.Counter(s for _, s in pair.links) for pair in pairs]
    assert any(count > 1 for counts in several for count in counts.values())
    assert 105 <= len(FRENCH) - 3 <= 115
    assert 85 <= len(ENGLISH) - 3 <= 100


def test_every_word_is_used_in_training(full):
    assert {word for pair in full.train for word in pair.source} == set(FRENCH.words[3:])
    assert {word for pair in full.train for word in pair.target} == set(ENGLISH.words[3:])
    assert min(collections.Counter(word for pair in full.train for word in pair.source).values()) > 100


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one():
    small, large = (corpus.make_corpus(**{**SMALL, "train": train}) for train in (20, 40))
    assert (small.valid, small.test, small.train) == (large.valid, large.test, large.train[:20])


def test_another_seed_gives_another_corpus():
    one, same, other = (corpus.make_corpus(seed, **SMALL) for seed in (3, 3, 4))
    assert one == same
    assert one.train != other.train


DIGEST = """
import hashlib
from attnlib import corpus
made = corpus.make_corpus(train=40, valid=10, test=3)
pairs = [*made.train, *made.valid, *sum(made.test.values(), [])]
text = repr([[p.source, p.target, *map(sorted, (p.links, p.crossing, p.content))] for p in pairs])
print(hashlib.sha256(repr((text, corpus.FRENCH.words, corpus.ENGLISH.words)).encode()).hexdigest())
"""


def test_same_corpus_whatever_the_hash_seed():
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "99")
    }
    assert len(digests) == 1


def test_same_corpus_as_ever():
    """Stored outputs of the chapters depend on it: a change here means to run all of them again."""
    text = "\n".join(" ".join(pair.source) for pair in corpus.make_corpus(**SMALL).train)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "dfc7905da8b569e6"


def test_cost_is_linear():
    def seconds(train):
        times = []
        for _ in range(2):
            start = time.process_time()
            corpus.make_corpus(train=train, valid=0, test=0)
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(8000) / seconds(500) < 24  # 16 if linear, 38 seen when every pair is compared with all before it


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"seed": 1.5}, TypeError, "seed must be a whole number"),
    ({"train": -1}, ValueError, "train must be at least 0, got -1"),
    ({"valid": "9"}, TypeError, "valid must be a whole number"),
    ({"test": -2}, ValueError, "test must be at least 0, got -2"),
    ({"longest": 3}, ValueError, "longest must be at least 4, got 3"),
])  # fmt: skip
def test_bad_sizes_of_a_corpus(options, error, words):
    with pytest.raises(error, match=words):
        corpus.make_corpus(**options)


def test_more_pairs_than_sentences(monkeypatch):
    words = "a = a, b = b, c = c"
    tiny = Grammar("1 SENTENCE -> A B C D", dict.fromkeys("ABCD", words), {})
    monkeypatch.setattr(corpus, "GRAMMAR", tiny)
    assert len({p.source for p in corpus.make_corpus(train=60, valid=0, test=0, longest=4).train}) == 60
    with pytest.raises(ValueError, match=r"train, valid and test must ask for fewer pairs.*4 French words"):
        corpus.make_corpus(train=82, valid=0, test=0, longest=4)


# the grammar as the reader changes it


def grammar(rules="", **content):
    return Grammar(corpus.RULES + rules, corpus.FUNCTION_WORDS, {**corpus.CONTENT_WORDS, **content})


def test_a_word_can_be_added():
    nouns = corpus.CONTENT_WORDS["NOUN.animal.m"] + ", cochon d' Inde = guinea pig"
    changed = grammar(**{"NOUN.animal.m": nouns.replace("Inde", "inde"), "AFTER.g": "rose = pink, doux/douce = soft"})
    (pair,) = changed.parse("ce cochon d' inde doux est debout".split())
    assert " ".join(pair.target) == "this soft guinea pig is standing"
    assert {s for t, s in pair.links if t == 2} == {1, 2, 3}
    assert changed.parse("la poule douce dort".split())
    assert changed.parse("la poule doux dort".split()) == []
    assert {"cochon", "rose"} <= set(changed.french)
    assert "pink" in changed.english


def test_the_construction_of_the_docstring_can_be_added():
    rule = next(line.strip() for line in corpus.__doc__.splitlines() if "1  CLAUSE -> où#1" in line)
    (pair,) = grammar(rule).parse("où est le chat".split())
    assert " ".join(pair.target) == "where is the cat"
    assert pair.links == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert corpus.GRAMMAR.parse("où est le chat".split()) == []


def test_weights_say_how_often_a_rule_is_used():
    rng = random.Random(0)
    one = Grammar("3 SENTENCE -> A \n 1 SENTENCE -> B", {"A": "oui = yes", "B": "non = no"}, {})
    counts = collections.Counter(one.draw(1, rng).source for _ in range(4000))
    assert counts["oui",] / 4000 == pytest.approx(0.75, abs=0.03)


def test_sentences_of_one_length_come_as_often_as_the_rules_say():
    """P(A A) = 1/8, P(B) = 1/8 among sentences of two words: half each."""
    one = Grammar("1 SENTENCE -> A REST \n 1 SENTENCE -> B \n 1 REST -> A2 \n 3 REST -> C", {
        "A": "a = a", "A2": "a = a", "B": "b b = b, d = d, e = e, f = f", "C": "c c c = c",
    }, {})  # fmt: skip
    rng = random.Random(0)
    counts = collections.Counter(one.draw(2, rng).source for _ in range(4000))
    assert counts["a", "a"] / 4000 == pytest.approx(0.5, abs=0.03)


def test_all_readings_of_an_ambiguous_sentence_are_found():
    one = Grammar("1 SENTENCE -> A \n 1 SENTENCE -> B", {"A": "vers = towards", "B": "vers = worms"}, {})
    assert [pair.target for pair in one.parse(["vers"])] == [("towards",), ("worms",)]
    two = Grammar("1 SENTENCE -> A B", {"A": "vers = towards, vers = worms", "B": "la = the"}, {})
    assert [pair.target for pair in two.parse(["vers", "la"])] == [("towards", "the"), ("worms", "the")]


@pytest.mark.parametrize(("rule", "words"), [
    ("CLAUSE -> où est", "2 SYMBOL -> French = English.*CLAUSE -> où est"),
    ("1 CLAUSE : où est", "2 SYMBOL -> French = English"),
    ("often CLAUSE -> où est", "2 SYMBOL -> French = English"),
    ("0 CLAUSE -> où est", "weight of a rule must be positive"),
    ("1 CLAUSE -> où PLACE = where PREPOSITION", "same symbols in French and in English.*où PLACE"),
    ("1 CLAUSE -> PLACE PLACE", "must not repeat a symbol.*PLACE PLACE"),
    ("1 PLACE -> PLACES", "must not turn a symbol into itself alone"),
    ("1 CLAUSE -> ADVERB PLACE", "uses ADVERB, but has no rule"),
])  # fmt: skip
def test_a_bad_rule_is_named(rule, words):
    with pytest.raises(ValueError, match=words):
        grammar(rule)


@pytest.mark.parametrize(("symbol", "entry", "words"), [
    ("PLACES", "ici", "entry of PLACES must look like `chat = cat`, got `ici`"),
    ("PLACES", "ici = ", "entry of PLACES must look like"),
    ("AFTER.g", "a/b/c = d", "entry of AFTER.g must have 2 French forms, got `a/b/c = d`"),
])  # fmt: skip
def test_a_bad_entry_is_named(symbol, entry, words):
    with pytest.raises(ValueError, match=words):
        grammar(**{symbol: entry})


def test_a_length_that_no_sentence_has():
    with pytest.raises(ValueError, match="no sentence of 2 French words"):
        corpus.GRAMMAR.draw(2, random.Random(0))


def test_parse_refuses_what_is_not_in_the_language():
    with pytest.raises(ValueError, match=r"unknown word 'chats'.*closed.* 112 words.*chat"):
        corpus.parse("le chats dort")
    for sentence in ("le la dort", "le vache dort", "le chat dort et", ""):
        with pytest.raises(ValueError, match="must follow the rules of the toy language"):
            corpus.parse(sentence)
    assert corpus.parse(["le", "chat", "dort"]).target == ("the", "cat", "sleeps")


# vocabularies


def test_vocabulary_there_and_back():
    words = Vocabulary(["chat", "chien", "dort"])
    assert len(words) == 6
    assert words.encode(["dort", "chat"]) == [5, 3]
    assert words.decode([5, 3]) == ["dort", "chat"]
    assert words.decode([BOS, 5, 3, PAD, EOS, 4]) == ["dort", "chat"]
    assert words.decode(torch.tensor([4, EOS, 4])) == ["chien"]
    assert words.encode([]) == words.decode([]) == []
    assert (PAD, BOS, EOS) == (0, 1, 2)


def test_vocabulary_errors():
    words = Vocabulary(["chat", "chien"])
    with pytest.raises(ValueError, match=r"'chats'.*closed.*2 words.*: chat"):
        words.encode(["chats"])
    with pytest.raises(TypeError, match=r"list of words.*'le chat'.*split"):
        words.encode("le chat")
    with pytest.raises(ValueError, match="ids must be from 0 to 4, got values from 3 to 5"):
        words.decode([3, 5])
    with pytest.raises(ValueError, match="different"):
        Vocabulary(["chat", "chat"])
    with pytest.raises(ValueError, match="different"):
        Vocabulary(["<eos>"])


# batches


def some(*sentences):
    return [corpus.parse(sentence) for sentence in sentences]


def test_make_batch():
    short, long, same = some("le chat dort", "ma poule cherche cette clé", "la vache dort")
    batch = corpus.make_batch([short, long, same])
    assert batch.pairs == (long, short, same)
    assert batch.source_lengths.tolist() == [5, 3, 3]
    assert batch.source.tolist()[0] == FRENCH.encode(long.source)
    assert batch.source.tolist()[2] == [*FRENCH.encode(same.source), PAD, PAD]
    assert batch.source_mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2, [True] * 3 + [False] * 2]
    assert batch.target_in.tolist()[1] == [BOS, *ENGLISH.encode(short.target), PAD, PAD, PAD]
    assert batch.target_out.tolist()[1] == [*ENGLISH.encode(short.target), EOS, PAD, PAD, PAD]
    assert batch.target_out.tolist()[0] == [*ENGLISH.encode(long.target), EOS]
    assert {x.dtype for x in (batch.source, batch.source_lengths, batch.target_in, batch.target_out)} == {torch.int64}
    assert batch.source_mask.dtype == torch.bool


def test_a_batch_of_sentences_without_a_translation():
    batch = corpus.make_batch([Pair(("le", "chat", "dort"))])
    assert (batch.target_in.tolist(), batch.target_out.tolist()) == ([[BOS]], [[EOS]])


@pytest.mark.parametrize("bad", [[], [Pair(())]])
def test_a_batch_needs_words(bad):
    with pytest.raises(ValueError, match="pairs must hold at least one pair"):
        corpus.make_batch(bad)


def test_lengths_of_a_batch_stay_on_the_cpu():
    batch = corpus.make_batch(some("le chat dort"), device="meta")
    tensors = batch.source, batch.source_mask, batch.target_in, batch.target_out
    assert {x.device.type for x in tensors} == {"meta"}
    assert batch.source_lengths.device.type == "cpu"
    assert corpus.make_batch(some("le chat dort")).source.device.type == "cpu"


def test_every_pair_comes_once_an_epoch():
    pairs = corpus.make_corpus(train=23, valid=0, test=0).train
    stream = corpus.batches(pairs, 5, random.Random(0))
    epochs = [[next(stream) for _ in range(5)] for _ in range(2)]
    for epoch in epochs:
        assert sorted(len(batch.pairs) for batch in epoch) == [3, 5, 5, 5, 5]
        assert {pair.source for batch in epoch for pair in batch.pairs} == {pair.source for pair in pairs}
    assert [batch.pairs for batch in epochs[0]] != [batch.pairs for batch in epochs[1]]


def test_the_sentences_of_a_batch_are_of_similar_length_and_the_batches_in_any_order():
    pairs = corpus.make_corpus(train=850, valid=0, test=0).train  # two and a bit times 20 batches
    one_epoch = list(corpus.batches(pairs, 20, random.Random(0), steps=43))
    assert sum(len(batch.pairs) for batch in one_epoch) == 850
    padding = [1 - batch.source_mask.float().mean() for batch in one_epoch]
    assert sum(padding) / 43 < 0.05  # unsorted, a third
    longest = [int(batch.source_lengths[0]) for batch in one_epoch]
    rises = sum(a < b for a, b in itertools.pairwise(longest))
    assert 10 < rises < 32  # neither short to long nor long to short


def test_batches_stop_after_steps_and_repeat_with_the_seed():
    pairs = corpus.make_corpus(train=23, valid=0, test=0).train

    def run(seed, steps=7):
        return [batch.pairs for batch in corpus.batches(pairs, 5, random.Random(seed), steps=steps)]

    assert len(run(1)) == 7
    assert run(1) == run(1) != run(2)
    assert run(1, 0) == []
    moved = corpus.batches(pairs, 5, random.Random(0), device="meta", steps=2)
    assert {batch.source.device.type for batch in moved} == {"meta"}


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda p: corpus.batches(p, 0, random.Random(0)), ValueError, "batch_size must be at least 1, got 0"),
    (lambda p: corpus.batches(p, 5, 0), TypeError, "rng must be a random.Random, got int 0"),
    (lambda p: corpus.batches(p, 5, random.Random(0), steps=-1), ValueError, "steps must be at least 0, got -1"),
    (lambda p: corpus.batches([], 5, random.Random(0)), ValueError, "pairs must hold at least one pair"),
])  # fmt: skip
def test_bad_batches(call, error, words):
    with pytest.raises(error, match=words):
        call(some("le chat dort"))


def test_making_a_corpus_needs_no_torch():
    assert attnlib.corpus is corpus
    code = "import sys; from attnlib import corpus; corpus.make_corpus(0, 9, 9, 9); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
