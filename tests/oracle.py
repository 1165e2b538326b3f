"""Attention as slow loops over plain float64 numbers: the answer the tests compare with."""

import math

import numpy as np


def visible(t_q, t_k, leading, mask=None, key_mask=None, causal=False):
    """Who may see whom, entry by entry: bool (*leading, t_q, t_k)."""
    seen = np.ones((*leading, t_q, t_k), dtype=bool)
    for place in np.ndindex(seen.shape):
        *lead, i, j = place
        if mask is not None:
            # A (t_q, t_k) mask serves every leading index; an axis of length 1 serves its whole axis.
            wanted = (i, j) if mask.ndim == 2 else place
            own = tuple(0 if size == 1 else index for size, index in zip(mask.shape, wanted, strict=True))
            seen[place] &= mask[own]
        if key_mask is not None:
            seen[place] &= key_mask[(lead[0], j) if lead else (j,)]
        if causal:
            seen[place] &= j <= i + t_k - t_q
    return seen


def weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    """Attention weights; a row with nothing to attend to is 0."""
    *leading, t_q, d_k = q.shape
    t_k = k.shape[-2]
    seen = visible(t_q, t_k, leading, mask, key_mask, causal)
    scale = 1 / math.sqrt(d_k) if scale is None else scale
    out = np.zeros(seen.shape)
    for row in np.ndindex(seen.shape[:-1]):
        keys = [j for j in range(t_k) if seen[row][j]]
        scores = [scale * sum(q[row][c] * k[row[:-1]][j, c] for c in range(d_k)) for j in keys]
        powers = [math.exp(score - max(scores)) for score in scores]
        for j, power in zip(keys, powers, strict=True):
            out[row][j] = power / sum(powers)
    return out


def attention(q, k, v, mask=None, **options):
    """The weighted sums of the values, term by term."""
    table = weights(q, k, mask, **options)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for row in np.ndindex(table.shape[:-1]):
        for j in range(v.shape[-2]):
            if table[row][j] > 0:  # the value of a key that is not seen may be anything
                out[row] += table[row][j] * v[row[:-1]][j]
    return out
