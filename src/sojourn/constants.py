"""Constants of a training problem, as the convergence bounds need them."""

import math
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.shown import quoted
from sojourn.values import number

KEYS = ("A", "L", "B", "sigma2", "G2", "R2", "rho2")


@dataclass(frozen=True)
class Constants:
    """The constants A and L, and either B itself or its parts: B = 2 (1 + rho^2) G^2 + sigma^2.

    >>> Constants(A=100, L=1, B=20).noise
    20.0
    >>> Constants(A=100, L=1, sigma2=2, G2=9).noise
    20.0
    """

    A: float
    """Loss at the start minus the lowest possible loss."""
    L: float
    """Smoothness: Lipschitz constant of the clients' gradients."""
    B: float | None = None
    """2 G^2 + sigma^2, where the two are not known separately."""
    sigma2: float | None = None
    """Variance of a stochastic gradient (sigma^2)."""
    G2: float | None = None
    """Upper bound of the squared distance between a client's gradient and the mean gradient (G^2; M^2 in the
    extension).
    """
    R2: float | None = None
    """Upper bound of the squared norm of a gradient; only the communication-aware bound needs it."""
    rho2: float = 0.0
    """Strong growth: the variance of a stochastic gradient is at most sigma^2 + rho^2 |gradient|^2."""

    def __post_init__(self) -> None:
        for key in KEYS:
            value = getattr(self, key)
            lowest = "positive" if key in ("A", "L", "B") else "non-negative"
            if value is None:
                continue
            try:
                good = math.isfinite(number(value, key))
            except InvalidInput:
                good = False
            if not good or value < 0 or (value == 0 and lowest == "positive"):
                raise InvalidInput(f"constant {key} must be {lowest} and finite, got {quoted(value)}")
        apart = self.sigma2 is not None and self.G2 is not None
        if self.B is None and not apart:
            missing = "G2" if self.sigma2 is not None else "sigma2" if self.G2 is not None else "B"
            raise InvalidInput(f"constant {missing} is missing; give A, L and B, or A, L, sigma2 and G2")
        if self.B is not None and (self.sigma2 is not None or self.G2 is not None):
            raise InvalidInput("constants B and sigma2 or G2 exclude each other, got both; give sigma2 and G2, or B")
        if self.rho2 and not apart:
            raise InvalidInput(f"constant rho2 ({self.rho2}) needs sigma2 and G2 separately, got B; give sigma2 and G2")
        if self.R2 is not None and not apart:
            raise InvalidInput("constant R2 needs sigma2 and G2 separately, got B; give sigma2 and G2, or leave R2 out")
        if not self.noise < math.inf:
            raise InvalidInput(f"2 (1 + rho2) G2 + sigma2 must be finite, got {self.noise}; give smaller constants")
        if self.noise <= 0:
            raise InvalidInput("sigma2 and G2 must not both be 0: without noise and differences there is no bound")

    @property
    def noise(self) -> float:
        """B of the bound."""
        if self.B is not None:
            return float(self.B)
        assert self.sigma2 is not None
        assert self.G2 is not None
        return float(2 * (1 + self.rho2) * self.G2 + self.sigma2)

    @classmethod
    def load(cls, path: str | Path) -> "Constants":
        """Read a TOML file with A, L and B, or with A, L, sigma2 and G2; R2 and rho2 are optional."""
        content = read_toml(path, "constants file")
        unknown = [key for key in content if key not in KEYS and not isinstance(content[key], dict | str)]
        if unknown:
            raise InvalidInput(f"constants file {path}: unknown key '{unknown[0]}'; the keys are {', '.join(KEYS)}")
        for key in ("A", "L"):
            if key not in content:
                raise InvalidInput(f"constants file {path}: key {key} is required and missing; add it")
        try:
            return cls(**{key: content[key] for key in KEYS if key in content})
        except InvalidInput as error:
            raise InvalidInput(f"constants file {path}: {error}") from None

    def facts(self) -> dict[str, float]:
        """The constants that were given, by key."""
        stated = {key: getattr(self, key) for key in KEYS}
        return {key: value for key, value in stated.items() if value is not None and (key != "rho2" or value)}


WORKED_EXAMPLE = Constants(A=100.0, L=1.0, B=20.0)
"""The constants of the paper's worked example."""
