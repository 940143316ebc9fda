"""The quantiles of Student's t distribution, on numpy and polars alone, for fractional degrees of freedom."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

LOWEST_PROBABILITY = 0.5
HIGHEST_PROBABILITY = 0.9975
"""Two-sided intervals of up to 99.5 %. Beyond, the quadrature loses digits at 1 < v < 2, where the integrand
ends steeply."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)

_NEWTON_STEPS = 30
"""Half of them reach the last digit. The number is fixed, so that
a quantile never depends on what else is in the array."""

_RATIO_SERIES = (1, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304, 39325 / 33554432)
_RATIO_SERIES_FROM = 32
"""From here on the terms left out are below rounding."""


def student_quantile(probability: float, degrees_of_freedom: NDArray[np.float64]) -> NDArray[np.float64]:
    """The t below which a Student variable lies with the given probability.

    With t = sqrt(v) tan(angle) the distribution function becomes

        F = 1/2 + c(v) * integral of cos(a)**(v - 1) for a from 0 to the angle,
        c(v) = gamma((v + 1)/2) / (sqrt(pi) gamma(v/2)),

    whose integrand is smooth and, for v >= 1, never grows: Gauss-Legendre quadrature with 64 nodes
    is exact to rounding, and Newton's method from 0 climbs to the root without overshooting.

    Args:
        probability: in [LOWEST_PROBABILITY, HIGHEST_PROBABILITY].
        degrees_of_freedom: shape (m,), each >= 1; need not be whole.

    Returns:
        Shape (m,), each t >= 0, NaN for NaN. Its relative error is below 1e-13 at probability 0.975 and
        below 1e-11 everywhere.

    Raises:
        ValueError: the probability is out of range, or a degree of freedom is below 1.

    Source:
        The substitution: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and
        26.7.4 (where it gives the closed forms for whole v).
    """
    if not LOWEST_PROBABILITY <= probability <= HIGHEST_PROBABILITY:
        raise ValueError(
            f"the probability {probability} is not in [{LOWEST_PROBABILITY}, {HIGHEST_PROBABILITY}]"
        )
    if np.any(degrees_of_freedom < 1):
        raise ValueError("there is less than one degree of freedom")
    freedom = degrees_of_freedom[:, np.newaxis]
    constant = _gamma_ratio(degrees_of_freedom / 2) / np.sqrt(np.pi)
    wanted = (probability - 0.5) / constant
    angle = np.zeros_like(degrees_of_freedom)
    for _ in range(_NEWTON_STEPS):
        half = angle[:, np.newaxis] / 2
        # A sum along the row and no matrix product: BLAS adds in an order that depends on the shape.
        area = (half * _WEIGHTS * _cosine_power(half * (_NODES + 1), freedom)).sum(axis=1)
        slope = _cosine_power(angle, degrees_of_freedom)
        # Close to a right angle rounding must not step over it.
        angle = np.minimum(angle + (wanted - area) / slope, np.nextafter(np.pi / 2, 0))
    quantile: NDArray[np.float64] = np.sqrt(degrees_of_freedom) * np.tan(angle)
    return quantile


def student_quantile_expression(probability: float, degrees_of_freedom: pl.Expr) -> pl.Expr:
    """`student_quantile` of a column.

    Args:
        probability: as there.
        degrees_of_freedom: Float64, >= 1 or null.

    Returns:
        Float64, one value a row, null where the degrees of freedom are.
    """

    def quantiles(column: pl.Series) -> pl.Series:
        # Many partitions share their number of owners; each number is worked out once.
        distinct, positions = np.unique(column.to_numpy(), return_inverse=True)
        values = pl.Series(column.name, student_quantile(probability, distinct)[positions], dtype=pl.Float64)
        return values.fill_nan(None)

    return degrees_of_freedom.cast(pl.Float64).map_batches(
        quantiles, return_dtype=pl.Float64, is_elementwise=True
    )


def _cosine_power(angle: NDArray[np.float64], degrees_of_freedom: NDArray[np.float64]) -> NDArray[np.float64]:
    """cos(angle) ** (degrees_of_freedom - 1), exact also where the cosine is within rounding of 1."""
    power: NDArray[np.float64] = np.exp((degrees_of_freedom - 1) / 2 * np.log1p(-(np.sin(angle) ** 2)))
    return power


def _gamma_ratio(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """gamma(x + 1/2) / gamma(x) for x >= 1/2, to rounding.

    The asymptotic series for x >= 32, and downwards from there by r(x) = r(x + 1) * x / (x + 1/2):
    the difference of two log-gammas loses its digits where x is large.

    Source:
        Tricomi and Erdelyi, Pacific Journal of Mathematics 1 (1951) 133-142; coefficients as in Graham,
        Knuth and Patashnik, Concrete Mathematics, answer to exercise 9.60.
    """
    steps = _RATIO_SERIES_FROM
    small = x < _RATIO_SERIES_FROM
    high = np.where(small, x + steps, x)
    inverse = 1 / high
    series = np.zeros_like(x)
    for coefficient in reversed(_RATIO_SERIES):
        series = series * inverse + coefficient
    ratio = np.sqrt(high) * series
    for step in range(steps - 1, -1, -1):
        ratio = np.where(small, ratio * ((x + step) / (x + step + 0.5)), ratio)
    exact: NDArray[np.float64] = ratio
    return exact
