"""Translation with GRUs: an encoder, three decoders (no attention, Bahdanau's order, Luong's order), greedy and beam.

A decoder is called with any number of words at once. Training gives it the whole reference sentence (teacher forcing);
translation gives it one word at a time, together with the state that the last call returned. Both run the same code.

Shapes: B sentences, T_x source tokens, T_y target words, V words in the target vocabulary. An annotation is what the
encoder says about one source token; d_annotation are its features.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from . import corpus, layers, shapes, training
from .corpus import BOS, EOS, PAD

ATTENTION = ("additive", "dot", "general", "concat", "scaled_dot", "location", "local_m", "local_p")


class Memory(NamedTuple):
    """What the decoder knows about the source."""

    keys: layers.PreparedKeys | None  # the annotations; None without attention
    last: torch.Tensor  # (B, d_last), the encoder's last state, or both directions' last states side by side


class State(NamedTuple):
    """What the decoder remembers between two calls."""

    s: torch.Tensor  # (B, d_decoder), the state of the GRU
    fed: torch.Tensor | None = None  # (B, d_decoder), the last attentional state, for input feeding
    t: int = 0  # how many words have been read


class Encoder(nn.Module):
    """Reads the source. With `residual_embedding`, a token's annotation also holds its own word embedding."""

    def __init__(self, source_size, d_embedding, d_encoder, bidirectional=True, residual_embedding=False):
        super().__init__()
        self.residual_embedding = residual_embedding
        self.embedding = nn.Embedding(source_size, d_embedding, padding_idx=PAD)
        self.gru = nn.GRU(d_embedding, d_encoder, batch_first=True, bidirectional=bidirectional)
        self.d_last = d_encoder * (2 if bidirectional else 1)
        self.d_annotation = self.d_last + (d_embedding if residual_embedding else 0)

    def forward(self, source, lengths):
        """source (B, T_x), longest first, lengths (B,) on the CPU -> annotations (B, T_x, d_annotation), last state."""
        x = self.embedding(source)  # (B, T_x, d_embedding)
        # Packed: each direction starts and ends at the sentence's own ends, so padding is never read.
        packed, last = self.gru(pack_padded_sequence(x, lengths, batch_first=True))
        h, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.shape[1])
        if self.residual_embedding:
            h = torch.cat([h, x], -1)
        return h, last.transpose(0, 1).flatten(1)  # (directions, B, d_encoder) -> (B, d_last)


class FixedDecoder(nn.Module):
    """No attention: the encoder's last state is all that is known of the source, the same vector at every step."""

    def __init__(self, target_size, d_embedding, d_decoder, d_last):
        super().__init__()
        self.embedding = nn.Embedding(target_size, d_embedding, padding_idx=PAD)
        self.gru = nn.GRU(d_embedding + d_last, d_decoder, batch_first=True)
        self.readout = Readout(target_size, d_embedding, d_decoder, d_last)

    def forward(self, words, memory, state):
        """words (B, T_y), the previous word of each step -> logits (B, T_y, V), no weights, the state after them."""
        y = self.embedding(words)  # (B, T_y, d_embedding)
        c = memory.last.unsqueeze(1).expand(-1, words.shape[1], -1)  # (B, T_y, d_last)
        s, last = self.gru(torch.cat([y, c], -1), state.s.unsqueeze(0))  # (B, T_y, d_decoder)
        return self.readout(s, c, y), None, State(last.squeeze(0), t=state.t + words.shape[1])


class BahdanauDecoder(nn.Module):
    """Looks first, then steps: s_{t-1} asks for the context c_t, from which the GRU makes s_t.

    With `previous_word_in_query`, the query is [s_{t-1}; y_{t-1}]: what to look for depends on the word just written.
    Source: Bahdanau et al. 2014, appendix A.2, https://arxiv.org/abs/1409.0473
    """

    def __init__(self, target_size, d_embedding, d_decoder, attention, previous_word_in_query=False):
        super().__init__()
        self.attention, self.previous_word_in_query = attention, previous_word_in_query
        self.embedding = nn.Embedding(target_size, d_embedding, padding_idx=PAD)
        self.gru = nn.GRUCell(d_embedding + attention.d_key, d_decoder)
        self.readout = Readout(target_size, d_embedding, d_decoder, attention.d_key)

    def forward(self, words, memory, state):
        """words (B, T_y) -> logits (B, T_y, V), weights (B, T_y, T_x), the state after them."""
        y = self.embedding(words)  # (B, T_y, d_embedding)
        s, t = state.s, state.t
        states, contexts, weights = [], [], []
        for y_t in y.unbind(1):  # c_t needs s_{t-1}: one step after the other
            query = torch.cat([s, y_t], -1) if self.previous_word_in_query else s
            c_t, w_t = self.attention.attend(query.unsqueeze(1), memory.keys, t)
            s = self.gru(torch.cat([y_t, c_t.squeeze(1)], -1), s)  # (B, d_decoder)
            states.append(s)
            contexts.append(c_t)
            weights.append(w_t)
            t += 1
        s_all, c_all = torch.stack(states, 1), torch.cat(contexts, 1)  # (B, T_y, d_decoder), (B, T_y, d_annotation)
        return self.readout(s_all, c_all, y), torch.cat(weights, 1), State(s, t=t)


class LuongDecoder(nn.Module):
    """Steps first, then looks: the new state s_t asks, and tanh(W_c [c_t; s_t]) says the word.

    That attentional state does not reach the GRU, so all steps run at once. With `input_feeding` it joins the next
    word's embedding, and the steps run one after the other.
    Source: Luong et al. 2015, sections 3 and 3.3, https://arxiv.org/abs/1508.04025
    """

    def __init__(self, target_size, d_embedding, d_decoder, attention, input_feeding=False):
        super().__init__()
        self.attention, self.input_feeding = attention, input_feeding
        self.embedding = nn.Embedding(target_size, d_embedding, padding_idx=PAD)
        self.gru = nn.GRU(d_embedding + (d_decoder if input_feeding else 0), d_decoder, batch_first=True)
        self.W_c = nn.Linear(attention.d_key + d_decoder, d_decoder)
        self.output = nn.Linear(d_decoder, target_size)

    def forward(self, words, memory, state):
        """words (B, T_y) -> logits (B, T_y, V), weights (B, T_y, T_x), the state after them."""
        y = self.embedding(words)  # (B, T_y, d_embedding)
        attentional, weights = [], []
        for x in y.split(1, 1) if self.input_feeding else [y]:  # one word at a time, or all at once
            if self.input_feeding:
                x = torch.cat([x, state.fed.unsqueeze(1)], -1)
            s, last = self.gru(x, state.s.unsqueeze(0))  # (B, steps, d_decoder)
            c, w = self.attention.attend(s, memory.keys, state.t)
            a = torch.tanh(self.W_c(torch.cat([c, s], -1)))  # (B, steps, d_decoder)
            attentional.append(a)
            weights.append(w)
            state = State(last.squeeze(0), a[:, -1] if self.input_feeding else None, state.t + x.shape[1])
        return self.output(torch.cat(attentional, 1)), torch.cat(weights, 1), state


class Readout(nn.Module):
    """Logits of the next word from the state, the context and the previous word."""

    def __init__(self, target_size, d_embedding, d_decoder, d_context):
        super().__init__()
        self.hidden = nn.Linear(d_decoder + d_context + d_embedding, d_embedding)
        self.output = nn.Linear(d_embedding, target_size)

    def forward(self, s, c, y):
        return self.output(torch.tanh(self.hidden(torch.cat([s, c, y], -1))))  # (B, T_y, V)


class Seq2Seq(nn.Module):
    r"""A translation model.

    Args:
        source_size, target_size: words in the two vocabularies.
        d_embedding, d_encoder, d_decoder: features of a word, of an encoder state (of each direction), of a decoder
            state.
        attention: None, "additive", "dot", "general", "concat", "scaled_dot", "location", "local_m" or "local_p".
        order: "bahdanau" (look, then step) or "luong" (step, then look). Without attention it has no meaning.
        bidirectional: the encoder reads from both ends.
        input_feeding: Luong's order only: the attentional state joins the next input.
        previous_word_in_query: Bahdanau's order only: the query also holds the previous word.
        residual_embedding: an annotation also holds the embedding of its word.
        d_att: features of the space in which "additive" and "concat" compare; d_encoder if None.
        window: of "local_m" and "local_p".
    Raises:
        TypeError, ValueError: an unknown name, sizes that do not fit, an option that the order does not have.

    >>> model = Seq2Seq(9, 8, d_embedding=4, d_encoder=5, d_decoder=6, attention="additive")
    >>> sum(p.numel() for p in model.parameters())
    1069
    """

    def __init__(
        self, source_size, target_size, *, d_embedding, d_encoder, d_decoder, attention=None, order="bahdanau",
        bidirectional=True, input_feeding=False, previous_word_in_query=False, residual_embedding=False, d_att=None,
        window=4,
    ):  # fmt: skip
        super().__init__()
        for name, size in (
            ("source_size", source_size), ("target_size", target_size), ("d_embedding", d_embedding),
            ("d_encoder", d_encoder), ("d_decoder", d_decoder),
        ):  # fmt: skip
            shapes.check_whole(name, size, least=1)
        shapes.check_choice("attention", attention, (None, *ATTENTION))
        shapes.check_choice("order", order, ("bahdanau", "luong"))
        shapes.check_flags(
            bidirectional=bidirectional,
            input_feeding=input_feeding,
            previous_word_in_query=previous_word_in_query,
            residual_embedding=residual_embedding,
        )
        if input_feeding and (attention is None or order != "luong"):
            raise ValueError("input_feeding needs attention and order='luong'")
        if previous_word_in_query and (attention is None or order != "bahdanau"):
            raise ValueError("previous_word_in_query needs attention and order='bahdanau'")
        if residual_embedding and attention is None:
            raise ValueError("residual_embedding needs attention: without it no annotation is read")

        self.encoder = Encoder(source_size, d_embedding, d_encoder, bidirectional, residual_embedding)
        self.initial = nn.Linear(self.encoder.d_last, d_decoder)
        if attention is None:
            self.decoder = FixedDecoder(target_size, d_embedding, d_decoder, self.encoder.d_last)
            return
        d_query = d_decoder + (d_embedding if previous_word_in_query else 0)
        d_att = d_encoder if d_att is None else d_att
        query = "d_decoder + d_embedding" if previous_word_in_query else "d_decoder"
        layer = _attention_layer(attention, query, d_query, self.encoder.d_annotation, d_att, window)
        if order == "bahdanau":
            self.decoder = BahdanauDecoder(target_size, d_embedding, d_decoder, layer, previous_word_in_query)
        else:
            self.decoder = LuongDecoder(target_size, d_embedding, d_decoder, layer, input_feeding)

    def forward(self, batch):
        """Logits (B, T_y, V) of each next word, given the reference words before it (teacher forcing)."""
        return self.decoder(batch.target_in, *self.read(batch))[0]

    def weights(self, batch):
        """Where each step looked under teacher forcing: (B, T_y, T_x), None without attention."""
        return self.decoder(batch.target_in, *self.read(batch))[1]

    def read(self, batch):
        """The source as the decoder sees it: (memory, state before the first word)."""
        annotations, last = self.encoder(batch.source, batch.source_lengths)
        s = torch.tanh(self.initial(last))  # (B, d_decoder)
        if isinstance(self.decoder, FixedDecoder):
            return Memory(None, last), State(s)
        keys = self.decoder.attention.prepare(annotations, batch.source_mask)
        return Memory(keys, last), State(s, torch.zeros_like(s))


def seq2seq_loss(model, batch):
    """Cross-entropy of the reference words: the `loss` of `training.fit`."""
    return training.masked_cross_entropy(model(batch), batch.target_out)


def translate(model, sentences, *, max_length=60, beam=1):
    r"""Translate French sentences.

    Args:
        model: a `Seq2Seq` or a `transformer.Transformer` of the vocabularies of `corpus`.
        sentences: each a `Pair`, a sequence of words, or a string of words separated by spaces.
        max_length: a translation stops here if the model has not ended it.
        beam: how many unfinished translations are kept; 1 is greedy, the most probable next word every time.
    Returns:
        A list of (words, weights), in the order of the sentences. weights is a NumPy array with a row for each
        word and a column for each source token. It is None without attention, and for a Transformer, which has many
        weights for each word: see its method `weights`.
    Raises:
        ValueError: a word that is not in the vocabulary, an empty sentence, a count below 1.
    """
    shapes.check_whole("max_length", max_length, least=1)
    shapes.check_whole("beam", beam, least=1)
    if isinstance(sentences, str):
        raise TypeError("sentences must be a list of sentences, got one string: put it in a list")
    _check_vocabularies(model)
    pairs = [_as_pair(sentence) for sentence in sentences]
    longest_first = sorted(range(len(pairs)), key=lambda i: -len(pairs[i].source))
    out = [None] * len(pairs)
    for start in range(0, len(pairs), 100):  # of similar length, so that little is padding
        chosen = longest_first[start : start + 100]
        batch = corpus.make_batch([pairs[i] for i in chosen], next(model.parameters()).device)
        ids, weights = search(model, batch, max_length, beam)
        for row, i in enumerate(chosen):
            words = corpus.ENGLISH.decode(ids[row].tolist())
            real = int(batch.source_lengths[row])
            look = None if weights is None else weights[row, : len(words), :real].cpu().numpy().astype(np.float32)
            out[i] = (words, look)
    return out


@torch.no_grad()
def search(model, batch, max_length, beam=1):
    """ids (B, T), padded after the end of a sentence, and weights (B, T, T_x) or None, for ids instead of words."""
    memory, state = model.read(batch)
    if beam == 1:
        return greedy(model.decoder, memory, state, max_length)
    return beam_search(model.decoder, memory, state, max_length, beam)


def greedy(decoder, memory, state, max_length):
    """Take the most probable next word, feed it back, until every sentence has ended."""
    word = _begin(state)  # (B, 1)
    ended = word == EOS
    ids, weights = [], []
    while len(ids) < max_length and not ended.all():
        logits, w, state = decoder(word, memory, state)
        word = next_log_probs(logits).argmax(-1, keepdim=True).masked_fill(ended, PAD)  # (B, 1)
        ended = ended | (word == EOS)
        ids.append(word)
        weights.append(w)
    return torch.cat(ids, 1), None if w is None else torch.cat(weights, 1)


def beam_search(decoder, memory, state, max_length, beam):
    """Keep the `beam` most probable beginnings of each sentence; return the most probable one in the end.

    Probable means the sum of log probabilities, without a bonus for length. Beginnings of sentence b are the rows
    b * beam, ..., b * beam + beam - 1, the most probable first.
    """
    B, device = state[0].shape[0], state[0].device
    row = torch.arange(B, device=device).unsqueeze(1) * beam  # (B, 1), the first row of each sentence
    memory, state = (_rows(x, torch.arange(B).repeat_interleave(beam).to(device)) for x in (memory, state))
    word = _begin(state)  # (B * beam, 1)
    ended = word == EOS
    total = torch.full((B, beam), -torch.inf, device=device)
    total[:, 0] = 0.0  # all rows begin alike: only the first may continue, or the beam would hold copies
    ids, weights = word[:, :0], None
    while ids.shape[1] < max_length and not ended[row].all():  # the first can only lose its place by ending later
        logits, w, state = decoder(word, memory, state)
        log_probs = next_log_probs(logits)  # (B * beam, V)
        V = log_probs.shape[1]
        stay = torch.full_like(log_probs[:1], -torch.inf)
        stay[:, PAD] = 0.0  # a sentence that has ended stays as it is
        log_probs = torch.where(ended, stay, log_probs)
        total, best = (total.unsqueeze(-1) + log_probs.reshape(B, beam, V)).flatten(1).topk(beam)  # (B, beam)
        parent = (row + best // V).flatten()  # (B * beam,)
        word = (best % V).reshape(-1, 1)
        ended = ended[parent] | (word == EOS)
        state = _rows(state, parent)
        ids = torch.cat([ids[parent], word], 1)
        if w is not None:
            weights = w[parent] if weights is None else torch.cat([weights[parent], w[parent]], 1)
    row = row.flatten()
    return ids[row], None if weights is None else weights[row]


def next_log_probs(logits):
    """Log probabilities (B, V) of the next word from logits (B, 1, V). PAD and BOS are no words: never."""
    logits = logits[:, -1].clone()
    logits[:, [PAD, BOS]] = -torch.inf
    return torch.log_softmax(logits, -1)


def _attention_layer(name, query, d_query, d_key, d_att, window):
    if name == "additive":
        return layers.AdditiveAttention(d_query, d_key, d_att)
    if name == "location":
        return layers.LocationAttention(d_query, d_key)
    if name in ("local_m", "local_p"):
        return layers.LocalAttention(name[-1], d_query, d_key, window)
    if name in ("dot", "scaled_dot") and d_query != d_key:
        raise ValueError(
            f"attention={name!r} needs a query as wide as an annotation: "
            f"{query} makes {d_query}, the encoder makes {d_key}"
        )
    return layers.LuongAttention(name, d_query, d_key, d_att)


def _begin(state):
    """BOS for each sentence of a state, whose first field is a tensor with a row for each."""
    return torch.full((state[0].shape[0], 1), BOS, device=state[0].device)


def _rows(value, index):
    """The rows `index` of every tensor and cache in a (nested) tuple."""
    if isinstance(value, torch.Tensor):
        return value[index]
    if isinstance(value, layers.KeyValueCache):
        return value.rows(index)
    if isinstance(value, tuple):
        rows = [_rows(x, index) for x in value]
        return type(value)(*rows) if hasattr(value, "_fields") else tuple(rows)
    return value


def _check_vocabularies(model):
    got = (model.encoder.embedding.num_embeddings, model.decoder.embedding.num_embeddings)
    if got != (len(corpus.FRENCH), len(corpus.ENGLISH)):
        raise ValueError(
            f"model must have the {len(corpus.FRENCH)} French and {len(corpus.ENGLISH)} English words of corpus, "
            f"got {got[0]} and {got[1]}"
        )


def _as_pair(sentence):
    if isinstance(sentence, corpus.Pair):
        return sentence
    return corpus.Pair(tuple(sentence.split() if isinstance(sentence, str) else sentence))
