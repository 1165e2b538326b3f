"""The toy language of the course: French sentences, their English translations, and which word translates which.

The language is a synchronous grammar: every rule builds a French phrase and its English translation at the same time.
All sentences come from it, so their length can be chosen, and the alignment is known exactly: two words are linked
when the same entry or rule wrote them both.

How to read a rule. A number says how often the rule is used, compared with others for the same symbol. CAPITALS are
symbols, to be replaced by a rule or an entry of their own; small letters are words. French stands left of `=`, English
right; without `=`, both have the same order:

    2  SENTENCE -> CLAUSE et SENTENCE = CLAUSE and SENTENCE

`.g` stands for a gender and `.k` for a kind of noun, each the same in the whole rule: `DET.g NOUN.k.g` is a masculine
article before a masculine noun, or a feminine one before a feminine one. Words of one rule are linked with each other;
words that are marked with a number (`n'#1 est pas#1 = is not#1`) only with those of the same number.

How to add a word. Write `cochon = pig` into `NOUN.animal.m`, or `rose = pink` into `AFTER.g`. An entry may have
several words on either side (`salle de bain = bathroom`): all are linked. Where an entry of `.g` has two forms, the
masculine comes first: `noir/noire`. Leave out French nouns and adjectives that begin with a vowel or a silent h: `le`
and `la` would become `l'`, which this grammar does not know.

How to add a construction. Write a rule. This one asks where someone is, `où est le chat` = `where is the cat`:

    1  CLAUSE -> où#1 est NP.animal.g = where#1 is NP.animal.g

Vocabularies follow by themselves; `parse` tells what the grammar makes of a French sentence.
"""

import bisect
import difflib
import functools
import itertools
import random
from dataclasses import dataclass, replace

from . import shapes

RULES = """
8  SENTENCE    -> CLAUSE
2  SENTENCE    -> CLAUSE et SENTENCE           = CLAUSE and SENTENCE
1  SENTENCE    -> CLAUSE mais SENTENCE         = CLAUSE but SENTENCE
1  SENTENCE    -> CLAUSE pendant que SENTENCE  = CLAUSE while SENTENCE

2  CLAUSE      -> SUBJECT.g PREDICATE.g
3  CLAUSE      -> SUBJECT.g PREDICATE.g PLACES

5  SUBJECT.g   -> NP.animal.g
1  SUBJECT.g   -> NP.animal.g qui INTRANSITIVE = NP.animal.g that INTRANSITIVE

3  PREDICATE.g -> INTRANSITIVE
6  PREDICATE.g -> TRANSITIVE OBJECT
3  PREDICATE.g -> est STATE.g                  = is STATE.g
2  PREDICATE.g -> n'#1 est pas#1 STATE.g       = is not#1 STATE.g

1  OBJECT      -> NP.animal.g
2  OBJECT      -> NP.thing.g

3  PLACES      -> PLACE
1  PLACES      -> PLACE PLACES
1  PLACE       -> PREPOSITION NP.place.g

2  NP.k.g      -> DET.g NOUN.k.g
1  NP.k.g      -> DET.g BEFORE.g NOUN.k.g
4  NP.k.g      -> DET.g NOUN.k.g AFTER.g           = DET.g AFTER.g NOUN.k.g
3  NP.k.g      -> DET.g BEFORE.g NOUN.k.g AFTER.g  = DET.g BEFORE.g AFTER.g NOUN.k.g
"""

FUNCTION_WORDS = {
    "DET.g": "le/la = the, ce/cette = this, mon/ma = my, ton/ta = your, notre = our",
    "PREPOSITION": "sur = on, dans = in, sous = under, contre = against, derrière = behind, devant = in front of",
}
CONTENT_WORDS = {
    "NOUN.animal.m": "chat = cat, chien = dog, lapin = rabbit, cheval = horse, renard = fox, canard = duck, "
    "coq = rooster",
    "NOUN.animal.f": "souris = mouse, vache = cow, poule = hen, tortue = turtle, chèvre = goat, girafe = giraffe, "
    "grenouille = frog",
    "NOUN.thing.m": "livre = book, gâteau = cake, ballon = ball, chapeau = hat, panier = basket, couteau = knife",
    "NOUN.thing.f": "lettre = letter, clé = key, lampe = lamp, fleur = flower, poubelle = trash can, "
    "pomme de terre = potato",
    "NOUN.place.m": "salon = living room, jardin = garden, tapis = carpet, lit = bed, toit = roof, banc = bench, "
    "grenier = attic, sapin = fir tree",
    "NOUN.place.f": "table = table, cuisine = kitchen, forêt = forest, gare = train station, piscine = swimming pool, "
    "salle de bain = bathroom, salle à manger = dining room",
    "BEFORE.g": "petit/petite = small, grand/grande = big, vieux/vieille = old, jeune = young, joli/jolie = pretty",
    "AFTER.g": "noir/noire = black, blanc/blanche = white, vert/verte = green, bleu/bleue = blue, gris/grise = gray, "
    "rouge = red, jaune = yellow",
    "STATE.g": "assis/assise = sitting, couché/couchée = lying, caché/cachée = hidden, perdu/perdue = lost, "
    "debout = standing",
    "INTRANSITIVE": "dort = sleeps, court = runs, chante = sings, rêve = dreams, joue = plays, pleure = cries",
    "TRANSITIVE": "regarde = looks at, cherche = looks for, attend = waits for, écoute = listens to, "
    "ramasse = picks up, voit = sees, aime = likes, suit = follows",
}
FEATURES = {"g": ("m", "f"), "k": ("animal", "thing", "place")}

PAD, BOS, EOS = 0, 1, 2
SHORTEST = 4  # words in the shortest sentence of a corpus
TEST_BINS = ((4, 8), (9, 12), (13, 16), (17, 20), (21, 24), (25, 28), (29, 32), (33, 36))


@dataclass(frozen=True)
class Pair:
    """A French sentence, its English translation, and the gold alignment. Positions count from 0.

    source: the French words. target: the English words.
    links: (target position, source position) of every two words that translate each other.
    crossing: target positions with a link that crosses another: one word moves left, the other right.
    content: target positions of nouns, verbs and adjectives; the rest are function words.
    A sentence of your own, to be translated, is a Pair with a source only.
    """

    source: tuple
    target: tuple = ()
    links: frozenset = frozenset()
    crossing: frozenset = frozenset()
    content: frozenset = frozenset()


@dataclass(frozen=True)
class Corpus:
    """train and valid are lists of Pair; test has one list for each range of French lengths: "4-8" to "33-36"."""

    train: list
    valid: list
    test: dict


@dataclass(frozen=True, eq=False)
class _Rule:
    """One rule or entry: how `symbols`, and words around them, make a phrase of each language.

    An item of `french` or `english` is the number of a symbol, or (word, unit): words of one unit are linked.
    """

    weight: float
    symbols: tuple
    french: tuple
    english: tuple
    content: bool


@dataclass(frozen=True, eq=False)
class _Node:
    """A rule at work in one sentence, with a node for each of its symbols."""

    rule: _Rule
    parts: tuple


class Grammar:
    """Draws and parses sentences; RULES, FUNCTION_WORDS and CONTENT_WORDS of this file show the notation.

    A sentence of exactly n words is drawn without trying: `_options(symbol, n)` knows every way to use a rule for n
    words, and its probability among all ways that end up with n words.
    """

    def __init__(self, rules, function_words, content_words):
        self._rules = {}
        for line in filter(None, map(str.strip, rules.splitlines())):
            self._add_rule(line)
        for content, entries in ((False, function_words), (True, content_words)):
            for symbol, text in entries.items():
                for entry in text.split(","):
                    self._add_entry(symbol, entry.strip(), content)
        every = [rule for rules in self._rules.values() for rule in rules]
        for missing in {"SENTENCE": 0, **dict.fromkeys(symbol for rule in every for symbol in rule.symbols)}:
            if missing not in self._rules:
                raise ValueError(f"the grammar uses {missing}, but has no rule and no entry for it")
        self.french = _words(rule.french for rule in every)
        self.english = _words(rule.english for rule in every)
        self._options = functools.cache(self._options)
        try:
            self._options("SENTENCE", SHORTEST)
        except RecursionError:
            raise ValueError("a rule must not turn a symbol into itself alone, not even through other rules") from None

    def draw(self, length, rng):
        """A random pair with `length` French words. rng: a random.Random."""
        if not self._options("SENTENCE", length)[0]:
            raise ValueError(f"the grammar has no sentence of {length} French words")
        return _pair(self._draw("SENTENCE", length, rng))

    def parse(self, words):
        """All pairs whose source is `words`: none if that is no sentence, several if the grammar is ambiguous."""
        words = tuple(words)

        @functools.cache
        def nodes(symbol, start, stop):
            return [
                _Node(rule, parts)
                for rule, lengths in self._options(symbol, stop - start)[0]
                for parts in ways(rule, lengths, start)
            ]

        def ways(rule, lengths, start):
            found = []
            for item in rule.french:
                if isinstance(item, tuple):
                    if words[start] != item[0]:
                        return ()
                    start += 1
                else:
                    found.append(nodes(rule.symbols[item], start, start + lengths[item]))
                    if not found[-1]:
                        return ()
                    start += lengths[item]
            return itertools.product(*found)

        return [_pair(node) for node in nodes("SENTENCE", 0, len(words))]

    def _draw(self, symbol, length, rng):
        options, cumulative = self._options(symbol, length)
        place = bisect.bisect(cumulative, rng.random() * cumulative[-1], hi=len(options) - 1)
        rule, lengths = options[place]
        return _Node(rule, tuple([self._draw(*part, rng) for part in zip(rule.symbols, lengths, strict=True)]))

    def _options(self, symbol, length):
        """Ways to make `length` French words out of a symbol: ([(rule, lengths of its symbols)], cumulated weights)."""
        rules = self._rules[symbol]
        total = sum(rule.weight for rule in rules)
        options, weights = [], []
        for rule in rules:
            words = len(rule.french) - len(rule.symbols)
            for lengths, weight in self._splits(rule.symbols, length - words):
                options.append((rule, lengths))
                weights.append(weight * rule.weight / total)
        return options, list(itertools.accumulate(weights))

    def _splits(self, symbols, length):
        """(lengths, probability) for every way to share out `length` words among symbols."""
        if not symbols:
            if length == 0:
                yield (), 1.0
            return
        first, *rest = symbols
        for words in range(1, length - len(rest) + 1):
            _, cumulative = self._options(first, words)
            if cumulative:
                for lengths, weight in self._splits(rest, length - words):
                    yield (words, *lengths), cumulative[-1] * weight

    def _add_rule(self, line):
        try:
            left, right = line.split("->")
            weight, symbol = left.split()
            weight = float(weight)
        except ValueError:
            raise ValueError(f"a rule must look like `2 SYMBOL -> French = English`, got `{line}`") from None
        if not weight > 0:
            raise ValueError(f"the weight of a rule must be positive, got `{line}`")
        french, _, english = right.partition("=")
        features = {name for word in line.split() if _is_symbol(word) for name in word.split(".")[1:]}
        features = [name for name in FEATURES if name in features]
        for values in itertools.product(*(FEATURES[name] for name in features)):
            chosen = dict(zip(features, values, strict=True))
            sides = [_filled(text, chosen) for text in (french, english or french)]
            symbols, also = ([word for word in side if _is_symbol(word)] for side in sides)
            if sorted(symbols) != sorted(also):
                raise ValueError(f"a rule must have the same symbols in French and in English, got `{line}`")
            if len(set(symbols)) < len(symbols):
                raise ValueError(f"a rule must not repeat a symbol: write a rule for one of them, got `{line}`")
            french_items, english_items = (
                tuple(symbols.index(word) if _is_symbol(word) else _marked(word) for word in side) for side in sides
            )
            rule = _Rule(weight, tuple(symbols), french_items, english_items, content=False)
            self._rules.setdefault(_filled(symbol, chosen)[0], []).append(rule)

    def _add_entry(self, symbol, entry, content):
        french, equals, english = entry.partition("=")
        if not (french.strip() and equals and english.strip()):
            raise ValueError(f"an entry of {symbol} must look like `chat = cat`, got `{entry}`")
        genders = FEATURES["g"] if symbol.endswith(".g") else ("",)
        forms = french.split("/") if "/" in french else [french] * len(genders)
        if len(forms) != len(genders):
            raise ValueError(f"an entry of {symbol} must have {len(genders)} French forms, got `{entry}`")
        for gender, form in zip(genders, forms, strict=True):
            name = symbol.removesuffix(".g") + "." + gender if gender else symbol
            items = [tuple(map(_marked, text.split())) for text in (form, english)]
            self._rules.setdefault(name, []).append(_Rule(1, (), *items, content=content))


def _is_symbol(word):
    return word[0].isupper()


def _marked(word):
    """(word, unit): `pas#1` is ("pas", "1"), `pas` is ("pas", "")."""
    word, _, unit = word.partition("#")
    return word, unit


def _filled(text, features):
    """The words of a text, with the values of features in its symbols: DET.g becomes DET.m."""
    return [
        ".".join(features.get(part, part) for part in word.split(".")) if _is_symbol(word) else word
        for word in text.split()
    ]


def _words(sides):
    """The different words of rules, in the order in which they first appear."""
    return tuple(dict.fromkeys(item[0] for side in sides for item in side if isinstance(item, tuple)))


def _pair(node):
    """The pair that a tree of nodes spells."""
    source, target, units, links, content = [], [], {}, [], []

    def spell_french(node):
        for item in node.rule.french:
            if isinstance(item, tuple):
                units.setdefault((node, item[1]), []).append(len(source))
                source.append(item[0])
            else:
                spell_french(node.parts[item])

    def spell_english(node):
        for item in node.rule.english:
            if isinstance(item, tuple):
                links.append(units.get((node, item[1]), []))
                if node.rule.content:
                    content.append(len(target))
                target.append(item[0])
            else:
                spell_english(node.parts[item])

    spell_french(node)
    spell_english(node)
    return Pair(
        tuple(source),
        tuple(target),
        frozenset([(t, s) for t, linked in enumerate(links) for s in linked]),
        frozenset(_crossing(links)),
        frozenset(content),
    )


def _crossing(links):
    """Target positions whose link crosses another: a word before it looks further right, or a later one further left.

    links: for every target word, the source positions it is linked to.
    """
    furthest = -1
    for t, linked in enumerate(links):
        if linked and min(linked) < furthest:
            yield t
        furthest = max([furthest, *linked])
    nearest = len(links) + max([0, *itertools.chain(*links)])
    for t, linked in reversed(list(enumerate(links))):
        if linked and max(linked) > nearest:
            yield t
        nearest = min([nearest, *linked])


class Vocabulary:
    """Numbers for words: 0 to 2 are PAD, BOS (before the first word) and EOS (after the last); then come the words.

    It is closed: the grammar knows all words, so there is none for "unknown".
    """

    def __init__(self, words):
        self.words = ("<pad>", "<bos>", "<eos>", *words)
        self._ids = {word: number for number, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            raise ValueError("words must be different from each other and from <pad>, <bos>, <eos>")

    def __len__(self):
        return len(self.words)

    def encode(self, words):
        """The ids of a list of words, as a list. No BOS or EOS is added. ValueError for a word it does not have."""
        if isinstance(words, str):
            raise TypeError(f"words must be a list of words, got the string {words!r}: use .split()")
        try:
            return [self._ids[word] for word in words]
        except KeyError as error:
            word = error.args[0]
            near = ", ".join(difflib.get_close_matches(str(word), self.words[3:], cutoff=0.5))
            raise ValueError(
                f"unknown word {word!r}: the vocabulary is closed, it has {len(self) - 3} words"
                + (f"; near {word!r} are: {near}" if near else "")
            ) from None

    def decode(self, ids):
        """The words of a list (or a tensor of 1 axis) of ids, up to the first EOS; PAD and BOS are left out."""
        ids = [int(number) for number in ids]
        if ids and not 0 <= min(ids) <= max(ids) < len(self):
            raise ValueError(f"ids must be from 0 to {len(self) - 1}, got values from {min(ids)} to {max(ids)}")
        return [self.words[number] for number in itertools.takewhile(lambda n: n != EOS, ids) if number > EOS]


GRAMMAR = Grammar(RULES, FUNCTION_WORDS, CONTENT_WORDS)
FRENCH, ENGLISH = Vocabulary(GRAMMAR.french), Vocabulary(GRAMMAR.english)


def parse(sentence):
    """The Pair of a French sentence: its translation and gold links. ValueError if it is not in the toy language.

    sentence: a string, or a list of words.

    >>> " ".join(parse("la vache n' est pas assise").target)
    'the cow is not sitting'
    """
    words = sentence.split() if isinstance(sentence, str) else list(sentence)
    FRENCH.encode(words)
    pairs = GRAMMAR.parse(words)
    if not pairs:
        raise ValueError(f"sentence must follow the rules of the toy language, got {' '.join(words)!r}")
    return pairs[0]


RUNNING_EXAMPLE = parse("le chat noir est assis sur le tapis rouge dans le salon")


def make_corpus(seed=0, train=10_000, valid=500, test=100, *, longest=20):
    """Pairs to train on, to watch and to test, all different from each other and from RUNNING_EXAMPLE.

    The same arguments give the same corpus everywhere. A smaller `train` gives the beginning of a larger one.

    Args:
        seed: a whole number.
        train, valid: how many pairs; every French length from 4 to `longest` words comes equally often.
        test: how many pairs in each range of TEST_BINS, four of which are longer than 20 words.
        longest: words in the longest French sentence of train and valid.
    Returns:
        Corpus.
    Raises:
        ValueError: more sentences of a length than the grammar has; of 4 words it has about 5000, enough for a `train`
        of 50,000.

    >>> corpus = make_corpus(train=1000, valid=50, test=10)
    >>> len(corpus.train), len(corpus.valid), list(corpus.test)[:2], len(corpus.test["4-8"])
    (1000, 50, ['4-8', '9-12'], 10)
    """
    shapes.check_whole("seed", seed)
    for name, number in (("train", train), ("valid", valid), ("test", test)):
        shapes.check_whole(name, number, least=0)
    shapes.check_whole("longest", longest, least=SHORTEST)
    rng = random.Random(seed)
    taken = {RUNNING_EXAMPLE.source}

    def draw(count, shortest, longest):
        lengths = itertools.islice(itertools.cycle(range(shortest, longest + 1)), count)
        return [_new_pair(length, rng, taken) for length in lengths]

    tests = {f"{low}-{high}": draw(test, low, high) for low, high in TEST_BINS}
    watched = draw(valid, SHORTEST, longest)
    return Corpus(draw(train, SHORTEST, longest), watched, tests)  # train comes last: its size changes nothing else


def _new_pair(length, rng, taken):
    for _ in range(1000):
        pair = GRAMMAR.draw(length, rng)
        if pair.source not in taken:
            taken.add(pair.source)
            return pair
    raise ValueError(
        f"train, valid and test must ask for fewer pairs: 1000 tries found no new sentence of {length} French words"
    )


@dataclass(frozen=True)
class Batch:
    """B pairs as tensors, the longest source first, filled up with PAD on the right.

    source (B, T_x): ids of the French words. source_lengths (B,): how many, always on the CPU.
    source_mask (B, T_x): True = a word, a key_mask for attention.
    target_in (B, T_y): BOS and the English words, what the decoder reads.
    target_out (B, T_y): the English words and EOS, what it should say.
    pairs: the Pair objects, in the same order.
    """

    source: object
    source_lengths: object
    source_mask: object
    target_in: object
    target_out: object
    pairs: tuple

    def to(self, device):
        """The same batch on a device; the lengths stay on the CPU, where packing a sequence wants them."""
        names = ("source", "source_mask", "target_in", "target_out")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def make_batch(pairs, device=None):
    """A Batch of a list of pairs, sorted by the length of the source, longest first. device: None is the CPU."""
    import torch

    pairs = sorted(pairs, key=lambda pair: -len(pair.source))
    if not pairs or not pairs[-1].source:
        raise ValueError("pairs must hold at least one pair, and every source at least one word")

    def padded(rows):
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])

    source = padded([FRENCH.encode(pair.source) for pair in pairs])
    targets = [ENGLISH.encode(pair.target) for pair in pairs]
    batch = Batch(
        source,
        torch.tensor([len(pair.source) for pair in pairs]),
        source != PAD,
        padded([[BOS, *target] for target in targets]),
        padded([[*target, EOS] for target in targets]),
        tuple(pairs),
    )
    return batch if device is None else batch.to(device)


def batches(pairs, batch_size, rng, device=None, steps=None):
    """Yield batches in shuffled epochs, without end, or `steps` of them.

    Every pair comes once in each epoch. The pairs of a batch are of similar length, so that little of it is padding:
    20 batches' worth of shuffled pairs are sorted by length and cut, and the batches come in shuffled order. One of
    the last batches of an epoch may be smaller.

    Args:
        pairs: a list of Pair. batch_size: pairs in a batch. rng: a random.Random, which decides the order.
        device: where the batches go; None is the CPU. steps: how many batches; None is no end.
    """
    shapes.check_whole("batch_size", batch_size, least=1)
    if steps is not None:
        shapes.check_whole("steps", steps, least=0)
    if not isinstance(rng, random.Random):
        raise TypeError(f"rng must be a random.Random, got {type(rng).__name__} {rng!r}")
    pairs = list(pairs)
    if not pairs:
        raise ValueError("pairs must hold at least one pair")
    return itertools.islice(_epochs(pairs, batch_size, rng, device), steps)


def _epochs(pairs, batch_size, rng, device):
    while True:
        order = rng.sample(pairs, len(pairs))
        for some in _cut(order, 20 * batch_size):
            alike = _cut(sorted(some, key=lambda pair: len(pair.source)), batch_size)
            for chosen in rng.sample(alike, len(alike)):
                yield make_batch(chosen, device)


def _cut(items, size):
    """A list in pieces of `size`, the last one perhaps smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]
