"""Attention as layers with learned weights: additive, Luong's scores, and Luong's location and local attention.

Each layer turns scores of `attnlib.functional` into weights with `attnlib.softmax` and returns the weighted sum of the
keys, called the context. Call a layer with all queries at once; a decoder, which asks one query at a time about the
same keys, calls `prepare(keys, key_mask)` once and `attend(query, prepared)` at every step: the same numbers.

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


def _weight(*shape):
    """A parameter of this shape, drawn as in nn.Linear: uniform within 1 / sqrt(number of inputs)."""
    bound = shape[0] ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
