"""A small encoder-decoder Transformer of the parts of this course, each of which can be switched off.

Every block is pre-norm: x + attention(norm(x)), then x + feed_forward(norm(x)). The decoder has the interface of those
in `seq2seq`: training gives it all words at once, translation one word at a time with a state, here the caches.

Shapes: B sentences, T_x source tokens, T_y target words, h heads, V words in the target vocabulary.
Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; norm first as in Xiong et al. 2020,
https://arxiv.org/abs/2002.04745
"""

from typing import NamedTuple

import torch
from torch import nn

from . import functional, shapes
from .corpus import PAD
from .layers import KeyValueCache, MultiHeadAttention


class Memory(NamedTuple):
    """What the decoder knows about the source: for each layer its keys and values, projected once."""

    caches: tuple  # of KeyValueCache


class State(NamedTuple):
    """What the decoder remembers between two calls. Its caches grow in place, so a state can be used once only."""

    words: torch.Tensor  # (B, t), the words read so far
    caches: tuple  # of KeyValueCache, one a layer, with the keys and values of these words


class Weights(NamedTuple):
    """Who looks at whom: weights of every layer and head."""

    encoder: torch.Tensor  # (layers, B, h, T_x, T_x)
    decoder: torch.Tensor  # (layers, B, h, T_y, T_y)
    cross: torch.Tensor  # (layers, B, h, T_y, T_x)


class Embedding(nn.Embedding):
    """Word vectors plus the sinusoidal vectors of their positions.

    The paper draws word vectors of variance 1 / d_model and multiplies them by sqrt(d_model); nn.Embedding draws them
    with variance 1 from the start.
    """

    def __init__(self, size, d_model, positions):
        super().__init__(size, d_model, padding_idx=PAD)
        self.positions = positions

    def forward(self, words, first=0):
        """words (B, T), the first at position `first` -> (B, T, d_model)."""
        x = super().forward(words)
        if self.positions:
            last = first + words.shape[1]
            x = x + functional.sinusoidal_positions(last, x.shape[-1], like=x).narrow(0, first, words.shape[1])
        return x


class Sublayer(nn.Module):
    """x + function(norm(x)): the norm keeps the scale of what goes in, the sum lets x and its gradient pass."""

    def __init__(self, d_model, function, residual, norm):
        super().__init__()
        self.norm = nn.LayerNorm(d_model) if norm else nn.Identity()
        self.function, self.residual = function, residual

    def forward(self, x, **options):
        out = self.function(self.norm(x), **options)
        return x + out if self.residual else out

    def weights(self, x, **options):
        """The weights with which the attention inside averages."""
        return self.function.weights(self.norm(x), **options)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a network on each token."""

    def __init__(self, attention, feed_forward):
        super().__init__()
        self.self_attention, self.feed_forward = attention(), feed_forward()

    def forward(self, x, mask):
        """x (B, T_x, d_model), mask (B, T_x), True = a word."""
        return self.feed_forward(self.self_attention(x, key_mask=mask))


class DecoderLayer(nn.Module):
    """Causal self-attention over the words so far, attention to the source, then a network on each word."""

    def __init__(self, attention, feed_forward):
        super().__init__()
        self.self_attention, self.cross_attention, self.feed_forward = attention(), attention(), feed_forward()

    def forward(self, x, memory, cache):
        """x (B, T_y, d_model); memory and cache: the KeyValueCache of the source and of the words before x."""
        x = self.self_attention(x, causal=True, cache=cache)
        return self.feed_forward(self.cross_attention(x, cache=memory))


class Encoder(nn.Module):
    """Turns source tokens into annotations."""

    def __init__(self, embedding, layers, norm):
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm

    def forward(self, source, mask):
        """source (B, T_x), mask (B, T_x), True = a word -> annotations (B, T_x, d_model)."""
        x = self.embedding(source)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)

    def weights(self, source, mask):
        """(layers, B, h, T_x, T_x)."""
        x, looks = self.embedding(source), []
        for layer in self.layers:
            looks.append(layer.self_attention.weights(x, key_mask=mask))
            x = layer(x, mask)
        return torch.stack(looks)


class Decoder(nn.Module):
    """Says the next word, from the words so far and the source."""

    def __init__(self, embedding, layers, norm, output):
        super().__init__()
        self.embedding, self.layers, self.norm, self.output = embedding, nn.ModuleList(layers), norm, output

    def forward(self, words, memory, state):
        """words (B, T_y), the previous word of each step -> logits (B, T_y, V), None, the state after them.

        The weights are not computed on the way: ask `Transformer.weights`.
        """
        t = state.words.shape[1]
        if any(len(cache) != t for cache in state.caches):
            raise ValueError(f"state must be used once only: it holds {t} words, its caches hold more")
        x = self.embedding(words, first=t)
        for layer, keys, cache in zip(self.layers, memory.caches, state.caches, strict=True):
            x = layer(x, keys, cache)
        return self.output(self.norm(x)), None, State(torch.cat([state.words, words], 1), state.caches)

    def weights(self, words, memory):
        """Of self-attention (layers, B, h, T_y, T_y) and of attention to the source (layers, B, h, T_y, T_x)."""
        x, own, cross = self.embedding(words), [], []
        for layer, keys in zip(self.layers, memory.caches, strict=True):
            own.append(layer.self_attention.weights(x, causal=True))
            cross.append(layer.cross_attention.weights(layer.self_attention(x, causal=True), cache=keys))
            x = layer(x, keys, None)
        return torch.stack(own), torch.stack(cross)


class Transformer(nn.Module):
    r"""A translation model without recurrence, with the interface of `seq2seq.Seq2Seq`.

    `seq2seq.seq2seq_loss` and `seq2seq.translate` take it too; `translate` gives None for its weights, of which there
    are many for each word: see `weights`.

    Args:
        source_size, target_size: words in the two vocabularies.
        d_model: features of a token. num_heads: h, which divides d_model. num_kv_heads: g, which divides h; h if None.
        d_ff: features inside the feed-forward network. num_layers: of the encoder, and of the decoder.
        positions, residual, norm, feed_forward, scaled: False leaves that part out: the sinusoidal positions, the
            sums around each part, layer normalization, the network on each token, the 1 / sqrt(d_k) of the scores.
    Raises:
        TypeError, ValueError: sizes that do not fit, a switch that is not True or False.

    >>> model = Transformer(9, 8, d_model=4, num_heads=2, d_ff=6, num_layers=1)
    >>> sum(p.numel() for p in model.parameters())
    472
    """

    def __init__(
        self, source_size, target_size, *, d_model=64, num_heads=4, num_kv_heads=None, d_ff=128, num_layers=2,
        positions=True, residual=True, norm=True, feed_forward=True, scaled=True,
    ):  # fmt: skip
        super().__init__()
        for name, size in (
            ("source_size", source_size), ("target_size", target_size), ("d_model", d_model), ("d_ff", d_ff),
            ("num_layers", num_layers),
        ):  # fmt: skip
            shapes.check_whole(name, size, least=1)
        shapes.check_flags(positions=positions, residual=residual, norm=norm, feed_forward=feed_forward, scaled=scaled)

        def attention():
            layer = MultiHeadAttention(d_model, num_heads, num_kv_heads, scale=None if scaled else 1.0)
            return Sublayer(d_model, layer, residual, norm)

        def network():
            if not feed_forward:
                return nn.Identity()
            layer = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
            return Sublayer(d_model, layer, residual, norm)

        def last_norm():
            return nn.LayerNorm(d_model) if norm else nn.Identity()

        self.encoder = Encoder(
            Embedding(source_size, d_model, positions),
            [EncoderLayer(attention, network) for _ in range(num_layers)],
            last_norm(),
        )
        self.decoder = Decoder(
            Embedding(target_size, d_model, positions),
            [DecoderLayer(attention, network) for _ in range(num_layers)],
            last_norm(),
            nn.Linear(d_model, target_size),
        )

    def forward(self, batch):
        """Logits (B, T_y, V) of each next word, given the reference words before it (teacher forcing)."""
        return self.decoder(batch.target_in, *self.read(batch))[0]

    def weights(self, batch):
        """`Weights` of every layer and head, given the reference words. Row t of cross is where word t was sought."""
        memory, _ = self.read(batch)
        encoder = self.encoder.weights(batch.source, batch.source_mask)
        return Weights(encoder, *self.decoder.weights(batch.target_in, memory))

    def read(self, batch):
        """The source as the decoder sees it: (memory, state before the first word)."""
        annotations = self.encoder(batch.source, batch.source_mask)
        layers = self.decoder.layers
        memory = tuple(layer.cross_attention.function.prepare(annotations, batch.source_mask) for layer in layers)
        return Memory(memory), State(batch.source.narrow(1, 0, 0), tuple(KeyValueCache() for _ in layers))
