"""The 95 % Wilson score interval of a share, as polars expressions."""

from __future__ import annotations

import polars as pl

Z_95 = 1.959963984540054
"""The 0.975 quantile of the standard normal distribution."""


def wilson_low(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    """The lower end of the interval of `successes` events in `trials` independent trials.

    Args:
        successes: whole numbers, 0 <= successes <= trials.
        trials: whole numbers, >= 0.

    Returns:
        Float64 in [0, 1], one value a row; null where there are no trials; exactly 0 where there
        are no events.

    Source:
        E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
        Journal of the American Statistical Association 22 (1927) 209-212; as the score interval in
        Brown, Cai and DasGupta, Statistical Science 16 (2001) 101-133, equation (4). No continuity
        correction.
    """
    centre, half_width = _centre_and_half_width(successes, trials)
    low = pl.when(successes == 0).then(0.0).otherwise((centre - half_width).clip(0.0, 1.0))
    return pl.when(trials > 0).then(low)


def wilson_high(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    """The upper end of the interval; shapes, units and source as `wilson_low`.

    Returns:
        Float64 in [0, 1]; null where there are no trials; exactly 1 where every trial is an event.
    """
    centre, half_width = _centre_and_half_width(successes, trials)
    high = pl.when(successes == trials).then(1.0).otherwise((centre + half_width).clip(0.0, 1.0))
    return pl.when(trials > 0).then(high)


def _centre_and_half_width(successes: pl.Expr, trials: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    count = trials.cast(pl.Float64)
    share = successes / count
    spread = (share * (1 - share) / count + Z_95**2 / (4 * count**2)).sqrt()
    scale = 1 + Z_95**2 / count
    return (share + Z_95**2 / (2 * count)) / scale, Z_95 * spread / scale
