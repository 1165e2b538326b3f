"""Attention as layers with learned weights: additive, Luong's scores, location and local attention, many heads.

`MultiHeadAttention` and its cache come last; what follows is about the others. Each turns scores of
`attnlib.functional` into weights with `attnlib.softmax` and returns the weighted sum of the keys, called the context.
Call a layer with all queries at once; a decoder, which asks one query at a time about the same keys, calls
`prepare(keys, key_mask)` once and `attend(query, prepared)` at every step: the same numbers.

Shapes: query (B, T_q, d_query), keys (B, T_k, d_key), key_mask (B, T_k) with True = a real token,
context (B, T_q, d_key), weights (B, T_q, T_k).
"""

from typing import NamedTuple

import torch
from torch import nn

from . import functional, shapes


class PreparedKeys(NamedTuple):
    """What a layer needs to know about the keys, computed once."""

    keys: torch.Tensor  # (B, T_k, d_key), 0 where there is no token
    projected: torch.Tensor | None  # (B, T_k, d_att), only where the score projects the keys
    mask: torch.Tensor  # (B, 1, T_k), True = a real token


class _Attention(nn.Module):
    """Scores -> weights -> context. A subclass says what the scores are."""

    def __init__(self, d_query, d_key):
        super().__init__()
        shapes.check_whole("d_query", d_query, least=1)
        shapes.check_whole("d_key", d_key, least=1)
        self.d_query, self.d_key = d_query, d_key

    def forward(self, query, keys, key_mask=None):
        """(context, weights) of all queries. A query of a sentence without a real token gets 0."""
        return self.attend(query, self.prepare(keys, key_mask))

    def prepare(self, keys, key_mask=None):
        """The part of the work that does not depend on the query."""
        shapes.check_tensors(keys=keys, key_mask=key_mask)
        shapes.as_numbers(**dict(self.named_parameters()), keys=keys)
        shapes.check_last("keys", keys, "(B, T_k, d_key)", self.d_key)
        key_mask = shapes.as_mask("key_mask", key_mask)
        if key_mask is None:
            key_mask = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)
        shapes.check_shape("key_mask", key_mask, keys.shape[:2])
        keys = keys.masked_fill(~key_mask.unsqueeze(-1), 0.0)  # padding may hold anything: 0 * NaN would be NaN
        return PreparedKeys(keys, self.project(keys), key_mask.unsqueeze(1))

    def attend(self, query, prepared, first=0):
        """(context, weights) of these queries; `first` is the position of the first one in its sentence."""
        shapes.check_last("query", query, "(B, T_q, d_query)", self.d_query)
        weights = self.weights(query, prepared, first)
        return weights @ prepared.keys, weights

    def weights(self, query, prepared, first):
        return functional.softmax(self.scores(query, prepared), prepared.mask)

    def scores(self, query, prepared):
        raise NotImplementedError

    def project(self, keys):
        return None


class AdditiveAttention(_Attention):
    r"""Scores v_a . tanh(query W_a + key U_a): a small network compares a query with a key.

    Args:
        d_query, d_key: features of a query and of a key; they may differ.
        d_att: features of the space in which the two are compared.
    Source:
        Bahdanau et al. 2014, appendix A.1.2, https://arxiv.org/abs/1409.0473

    >>> layer = AdditiveAttention(d_query=4, d_key=3, d_att=5)
    >>> context, weights = layer(torch.ones(2, 6, 4), torch.ones(2, 7, 3))
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 6, 3), (2, 6, 7))
    """

    def __init__(self, d_query, d_key, d_att):
        super().__init__(d_query, d_key)
        shapes.check_whole("d_att", d_att, least=1)
        self.W_a = _weight(d_query, d_att)
        self.U_a = _weight(d_key, d_att)
        self.v_a = _weight(d_att)

    def project(self, keys):
        return keys @ self.U_a  # (B, T_k, d_att)

    def scores(self, query, prepared):
        return functional.additive_scores(query, prepared.projected, self.W_a, None, self.v_a)


class LuongAttention(_Attention):
    r"""The scores of Luong: "dot" q k^T, "general" q W_a k^T, "concat" v_a . tanh([q; k] W_a).

    Args:
        score: "dot", "general", "concat", or "scaled_dot", which is dot / sqrt(d_key).
        d_query, d_key: features of a query and of a key; a dot needs them equal.
        d_att: for "concat", the features of the space in which the two are compared; d_query if None.
    Source:
        Luong et al. 2015, section 3.1, https://arxiv.org/abs/1508.04025

    >>> context, weights = LuongAttention("general", d_query=4, d_key=3)(torch.ones(2, 6, 4), torch.ones(2, 7, 3))
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 6, 3), (2, 6, 7))
    """

    def __init__(self, score, d_query, d_key, d_att=None):
        super().__init__(d_query, d_key)
        shapes.check_choice("score", score, ("dot", "scaled_dot", "general", "concat"))
        self.score = score
        if score in ("dot", "scaled_dot") and d_query != d_key:
            raise ValueError(f"d_key must equal d_query = {d_query} for the score {score!r}, got {d_key}")
        if score == "general":
            self.W_a = _weight(d_query, d_key)
        if score == "concat":
            d_att = d_query if d_att is None else d_att
            shapes.check_whole("d_att", d_att, least=1)
            self.W_a = _weight(d_query + d_key, d_att)
            self.v_a = _weight(d_att)

    def scores(self, query, prepared):
        if self.score == "dot":
            return functional.dot_scores(query, prepared.keys)
        if self.score == "scaled_dot":
            return functional.scaled_dot_scores(query, prepared.keys)
        if self.score == "general":
            return functional.general_scores(query, prepared.keys, self.W_a)
        return functional.concat_scores(query, prepared.keys, self.W_a, self.v_a)


class LocationAttention(_Attention):
    r"""Scores query W_a, one for each position: where to look is guessed from the query alone, without the keys.

    A position has its own column of W_a, so positions that training never reached are noise, and a sentence of more
    than `max_keys` tokens is an error.

    Source: "location" in Luong et al. 2015, equation 8, https://arxiv.org/abs/1508.04025
    """

    def __init__(self, d_query, d_key, max_keys=64):
        super().__init__(d_query, d_key)
        shapes.check_whole("max_keys", max_keys, least=1)
        self.W_a = _weight(d_query, max_keys)

    def scores(self, query, prepared):
        T_k, max_keys = prepared.keys.shape[1], self.W_a.shape[1]
        if T_k > max_keys:
            raise ValueError(f"keys must have at most max_keys = {max_keys} tokens for the location score, got {T_k}")
        return query @ self.W_a[:, :T_k]  # (B, T_q, T_k)


class LocalAttention(_Attention):
    r"""The general score inside a window of keys around a position p_t; all other weights are 0.

    Args:
        kind: "m" (monotonic): p_t = t, and the last token once the source has ended.
            "p" (predictive): p_t = T_k sigmoid(v_p . tanh(query W_p)), T_k the number of real tokens. The weights are
            then multiplied by exp(-(j - p_t)^2 / (2 sigma^2)), sigma = window / 2, so they sum to less than 1.
        d_query, d_key: features of a query and of a key.
        window: D; the keys j with |j - p_t| <= D are seen.
    Source:
        Luong et al. 2015, section 3.2, https://arxiv.org/abs/1508.04025
    """

    def __init__(self, kind, d_query, d_key, window=4):
        super().__init__(d_query, d_key)
        shapes.check_choice("kind", kind, ("m", "p"))
        shapes.check_whole("window", window, least=1)
        self.kind, self.window = kind, window
        self.W_a = _weight(d_query, d_key)
        if kind == "p":
            self.W_p = _weight(d_query, d_query)
            self.v_p = _weight(d_query)

    def scores(self, query, prepared):
        return functional.general_scores(query, prepared.keys, self.W_a)

    def weights(self, query, prepared, first):
        T_k = prepared.keys.shape[1]
        distance = torch.arange(T_k, device=query.device) - self.centers(query, prepared, first)  # (B, T_q, T_k)
        near = distance.abs() <= self.window
        weights = functional.softmax(self.scores(query, prepared), prepared.mask & near)
        if self.kind == "p":
            weights = weights * torch.exp(-(distance**2) / (2 * (self.window / 2) ** 2))
        return weights

    def centers(self, query, prepared, first):
        """p_t of each query: (B, T_q, 1)."""
        tokens = prepared.mask.sum(-1, keepdim=True)  # (B, 1, 1)
        if self.kind == "p":
            guess = torch.tanh(query @ self.W_p) @ self.v_p  # (B, T_q)
            return tokens * torch.sigmoid(guess).unsqueeze(-1)
        t = torch.arange(first, first + query.shape[1], device=query.device)
        return torch.minimum(t.reshape(1, -1, 1), tokens - 1)


class KeyValueCache:
    r"""The keys and values that a `MultiHeadAttention` has projected so far, so that no token is projected twice.

    An empty cache is for decoding: self-attention appends the tokens of each call. A cache that `prepare` returns
    holds a memory, for cross-attention: it is read, never changed.

    keys: (B, g, T, d_k), values: (B, g, T, d_k), None while it is empty. key_mask: (B, T) of a memory, or None.
    Tokens are written into room that doubles when it is full, so n steps copy O(n) numbers, not O(n^2), and take up
    to twice the memory. Where gradients are recorded, nothing may be written over, and every step copies.

    >>> layer, cache = MultiHeadAttention(d_model=6, num_heads=3), KeyValueCache()
    >>> for x in torch.ones(2, 5, 6).split(1, dim=1):  # a token at a time
    ...     output = layer(x, causal=True, cache=cache)
    >>> len(cache), tuple(cache.keys.shape), tuple(output.shape)
    (5, (2, 3, 5, 2), (2, 1, 6))
    """

    def __init__(self):
        self._keys = self._values = self.key_mask = None
        self._length, self.of_memory = 0, False

    def __len__(self):
        return self._length

    @property
    def keys(self):
        return None if self._keys is None else self._keys.narrow(2, 0, self._length)

    @property
    def values(self):
        return None if self._values is None else self._values.narrow(2, 0, self._length)

    def append(self, keys, values):
        """Add the keys and values (B, g, T, d_k) of T more tokens."""
        if self.of_memory:
            raise ValueError("cache must be one that may grow, got that of a memory")
        shapes.check_shape("values", values, keys.shape)
        if self._keys is not None:
            B, g, _, d_k = self._keys.shape
            shapes.check_shape("keys", keys, (B, g, keys.shape[2], d_k))
        self._keys = _appended(self._keys, keys, self._length)
        self._values = _appended(self._values, values, self._length)
        self._length += keys.shape[2]

    def rows(self, index):
        """A new cache with the sentences `index` (a tensor of whole numbers), in that order: for a beam search."""
        chosen = KeyValueCache()
        chosen._length, chosen.of_memory = self._length, self.of_memory
        if self._keys is not None:
            chosen._keys, chosen._values = self.keys[index], self.values[index]
        chosen.key_mask = None if self.key_mask is None else self.key_mask[index]
        return chosen


class MultiHeadAttention(nn.Module):
    r"""concat(head_1, ..., head_h) W_o, where each head attends with its own projections of x and of the memory.

    Args:
        d_model: features of a token, in and out. num_heads: h, which divides d_model; d_k = d_model / h.
        num_kv_heads: g, which divides h; h if None. g < h is grouped-query, g = 1 multi-query attention.
        bias: a bias b_q, b_k, b_v, b_o joins every projection.
        scale: multiplies q k^T; 1 / sqrt(d_k) if None.
    Parameters:
        W_q (d_model, h d_k), W_k and W_v (d_model, g d_k), W_o (h d_k, d_model).
    Source:
        Vaswani et al. 2017, section 3.2.2, https://arxiv.org/abs/1706.03762

    >>> layer = MultiHeadAttention(d_model=6, num_heads=3)
    >>> tuple(layer(torch.ones(2, 4, 6), memory=torch.ones(2, 5, 6)).shape)
    (2, 4, 6)
    >>> tuple(layer.weights(torch.ones(2, 4, 6), memory=torch.ones(2, 5, 6)).shape)
    (2, 3, 4, 5)
    """

    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=False, *, scale=None):
        super().__init__()
        d_model = shapes.check_whole("d_model", d_model, least=1)
        num_heads = shapes.check_heads("num_heads", num_heads, d_model, "d_model")
        num_heads, num_kv_heads = shapes.check_groups(num_heads, num_heads if num_kv_heads is None else num_kv_heads)
        shapes.check_flag("bias", bias)
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.scale = shapes.check_scale(scale)
        d_kv = num_kv_heads * (d_model // num_heads)
        self.W_q = _weight(d_model, d_model)
        self.W_k = _weight(d_model, d_kv)
        self.W_v = _weight(d_model, d_kv)
        self.W_o = _weight(d_model, d_model)
        for name, size in (("b_q", d_model), ("b_k", d_kv), ("b_v", d_kv), ("b_o", d_model)):
            self.register_parameter(name, nn.Parameter(torch.zeros(size)) if bias else None)

    def forward(self, x, memory=None, *, mask=None, key_mask=None, causal=False, cache=None):
        r"""What each token of x finds in the memory.

        Args:
            x: (B, T_q, d_model), asks. memory: (B, T_k, d_model), answers; x itself if None (self-attention).
            mask: boolean, (T_q, T_k) or (B, h, T_q, T_k) with each axis whole or 1; True = may attend.
            key_mask: boolean, (B, T_k); True = a real key, False = padding, which may hold anything.
            causal: query i sees key j only if j <= i + T_k - T_q.
            cache: a `KeyValueCache`, instead of a memory. An empty one, or one of earlier calls: the tokens of x are
                appended, and T_k counts all of them. One of `prepare`: its memory answers, under its own key_mask.
        Returns:
            (B, T_q, d_model). A query that may see no key gets 0 (with a bias: b_o).
        Raises:
            TypeError, ValueError: as in `functional.multi_head_attention`; a memory or a key_mask beside a cache that
            already has it.
        """
        q, k, v, key_mask = self._heads(x, memory, key_mask, cache)
        if cache is not None and not cache.of_memory:
            # First the checks: a call that fails must leave the cache as it was.
            scores = (x.shape[0], self.num_heads, x.shape[1], len(cache) + x.shape[1])
            shapes.check_mask("mask", shapes.as_mask("mask", mask), scores)
            shapes.check_flag("causal", causal)
            cache.append(k, v)
            k, v = cache.keys, cache.values
        out = functional.grouped_attention(q, k, v, mask, key_mask=key_mask, causal=causal, scale=self.scale)
        return _projected(functional.merge_heads(out), self.W_o, self.b_o)

    def weights(self, x, memory=None, *, mask=None, key_mask=None, causal=False, cache=None):
        """The weights with which `forward` averages: (B, h, T_q, T_k). A cache must be one of `prepare`."""
        if cache is not None and not cache.of_memory:
            raise ValueError("cache must be one of prepare(memory): weights must not append to it")
        q, k, _, key_mask = self._heads(x, memory, key_mask, cache)
        return functional.grouped_attention_weights(q, k, mask, key_mask=key_mask, causal=causal, scale=self.scale)

    def prepare(self, memory, key_mask=None):
        """A cache with the keys and values of a memory, projected once for all the calls that ask it."""
        shapes.same_library(W_k=self.W_k, memory=memory, key_mask=key_mask)
        shapes.as_numbers(W_k=self.W_k, memory=memory)
        cache = KeyValueCache()
        cache.append(*self._keys_values("memory", memory, key_mask))
        cache.key_mask, cache.of_memory = key_mask, True
        return cache

    def _heads(self, x, memory, key_mask, cache):
        """Queries, keys and values in heads, and the mask of the keys; new keys are not yet in the cache."""
        shapes.same_library(W_q=self.W_q, x=x, memory=memory, key_mask=key_mask)
        shapes.as_numbers(W_q=self.W_q, x=x, **({} if memory is None else {"memory": memory}))
        shapes.check_last("x", x, "(B, T_q, d_model)", self.d_model)
        q = functional.split_heads(_projected(x, self.W_q, self.b_q), self.num_heads)
        if cache is not None and not isinstance(cache, KeyValueCache):
            raise TypeError(f"cache must be a KeyValueCache, got {type(cache).__name__}")
        if cache is not None and memory is not None:
            raise ValueError("memory must be None beside a cache: the cache of a memory comes from prepare(memory)")
        if cache is not None and cache.of_memory:
            if key_mask is not None:
                raise ValueError("key_mask must be None beside a prepared cache: prepare(memory, key_mask) takes it")
            return q, cache.keys, cache.values, cache.key_mask
        if cache is not None and key_mask is not None:  # of all keys; the last ones are those of x
            shapes.check_shape("key_mask", key_mask, (x.shape[0], len(cache) + x.shape[1]))
            return q, *self._keys_values("x", x, key_mask.narrow(1, len(cache), x.shape[1])), key_mask
        if memory is None:
            return q, *self._keys_values("x", x, key_mask), key_mask
        return q, *self._keys_values("memory", memory, key_mask), key_mask

    def _keys_values(self, name, x, key_mask):
        """Keys and values (B, g, T, d_k) of tokens; padding is 0 before it is projected, since 0 * NaN is NaN."""
        shapes.check_last(name, x, "(B, T_k, d_model)", self.d_model)
        key_mask = shapes.as_mask("key_mask", key_mask)
        if key_mask is not None:
            shapes.check_shape("key_mask", key_mask, x.shape[:2])
            x = x.masked_fill(~key_mask.unsqueeze(-1), 0.0)
        return tuple(
            functional.split_heads(_projected(x, W, b), self.num_kv_heads)
            for W, b in ((self.W_k, self.b_k), (self.W_v, self.b_v))
        )

    @classmethod
    def from_torch(cls, module):
        r"""A layer with copies of the weights of a `torch.nn.MultiheadAttention`: the same numbers.

        PyTorch's `key_padding_mask` and boolean `attn_mask` mean True = ignore: `torch_key_padding_mask(key_mask)`
        and `~mask` stand there for our masks. A sequence of nothing but padding gives NaN or a number there, depending
        on flags; here 0 (with a bias: b_o).

        Args:
            module: its `batch_first` plays no role: this layer always takes the batch first.
        Raises:
            TypeError: no nn.MultiheadAttention.
            ValueError: kdim or vdim other than embed_dim, add_bias_kv, add_zero_attn; or dropout above 0, which this
            layer does not have: set `module.dropout = 0.0` to take the weights as they are used in eval mode.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"module must be a torch.nn.MultiheadAttention, got {type(module).__name__}")
        for name, got, wanted in (
            ("kdim", module.kdim, module.embed_dim), ("vdim", module.vdim, module.embed_dim),
            ("add_bias_kv", module.bias_k is not None, False), ("add_zero_attn", module.add_zero_attn, False),
            ("dropout", module.dropout, 0),
        ):  # fmt: skip
            if got != wanted:
                hint = "; set module.dropout = 0.0 to take the weights as eval mode uses them"
                raise ValueError(f"module must have {name} = {wanted}, got {got}" + hint * (name == "dropout"))
        weight, bias = module.in_proj_weight, module.in_proj_bias
        layer = cls(module.embed_dim, module.num_heads, bias=bias is not None).to(weight)
        with torch.no_grad():  # PyTorch stacks the three matrices, and keeps every matrix transposed
            for mine, block in zip((layer.W_q, layer.W_k, layer.W_v), weight.chunk(3), strict=True):
                mine.copy_(block.T)
            layer.W_o.copy_(module.out_proj.weight.T)
            if bias is not None:
                for mine, block in zip((layer.b_q, layer.b_k, layer.b_v), bias.chunk(3), strict=True):
                    mine.copy_(block)
                layer.b_o.copy_(module.out_proj.bias)
        return layer.train(module.training)


def torch_key_padding_mask(key_mask):
    """PyTorch's `key_padding_mask` (True = ignore) from a `key_mask` (True = a real key): the one converter."""
    key_mask = shapes.as_mask("key_mask", key_mask)
    if not shapes.is_tensor(key_mask):
        raise TypeError(f"key_mask must be a torch tensor, got {type(key_mask).__name__}")
    return ~key_mask


def _appended(buffer, x, length):
    """A buffer that holds x after its first `length` tokens (B, g, T, d)."""
    if buffer is None:
        return x
    end = length + x.shape[2]
    if buffer.requires_grad or x.requires_grad:  # autograd needs the old numbers: no writing over them
        return torch.cat([buffer.narrow(2, 0, length), x], 2)
    if end > buffer.shape[2]:
        room = buffer.new_empty(*buffer.shape[:2], 2 * end, buffer.shape[3])
        room.narrow(2, 0, length).copy_(buffer.narrow(2, 0, length))
        buffer = room
    buffer.narrow(2, length, x.shape[2]).copy_(x)
    return buffer


def _projected(x, W, b):
    return x @ W if b is None else x @ W + b


def _weight(*shape):
    """A parameter of this shape, drawn as in nn.Linear: uniform within 1 / sqrt(number of inputs)."""
    bound = shape[0] ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
