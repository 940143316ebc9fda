"""The difference of two independent rates and its 95 % interval, from the intervals of the two.

Square and add: of each rate only the side that matters is taken, so the interval is as lopsided as the two
are, needs no variance, and stays between -1 and 1. From Wilson's limits (`sli/wilson.py`) it is Newcombe's
hybrid score interval, for calls; from the owner-clustered limits (`sli/clustered.py`) it is the same
construction, known as MOVER, for owners. Where the same owners are in both partitions the two rates are
not independent; they mostly move together, and then the interval errs to the wide side.

Sources:
    R. G. Newcombe, "Interval estimation for the difference between independent proportions", Statistics in
    Medicine 17 (1998) 873-890, method 10. G. Y. Zou and A. Donner, "Construction of confidence limits about
    effect measures: a general approach", Statistics in Medicine 27 (2008) 1693-1702, equation (4).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Interval:
    """A rate and its interval, as columns: Float64 in [0, 1], low <= rate <= high; null where unknown."""

    rate: pl.Expr
    low: pl.Expr
    high: pl.Expr


def difference(a: Interval, b: Interval) -> pl.Expr:
    """By how much the rate of b is above that of a.

    Returns:
        Float64 in [-1, 1]; null where either rate is.
    """
    return b.rate - a.rate


def difference_low(a: Interval, b: Interval) -> pl.Expr:
    """The lower end of the difference's interval.

    Returns:
        Float64 in [-1, 1], at most the difference; null where either interval is.
    """
    return (difference(a, b) - _square_and_add(b.rate - b.low, a.high - a.rate)).clip(-1.0, 1.0)


def difference_high(a: Interval, b: Interval) -> pl.Expr:
    """The upper end of the difference's interval.

    Returns:
        Float64 in [-1, 1], at least the difference; null where either interval is.
    """
    return (difference(a, b) + _square_and_add(b.high - b.rate, a.rate - a.low)).clip(-1.0, 1.0)


def _square_and_add(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return (one**2 + other**2).sqrt()
