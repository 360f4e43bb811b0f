"""The paper's claims, put to the test on the random splits and worded from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unseen.experiment.paper_tables import Protocol
from unseen.experiment.reproduce_result import PROTOCOLS, RIVALS, Reproduction, mean_by_split
from unseen.experiment.reproduce_tables import by_curve
from unseen.experiment.runner import MAIN, Interval, interval
from unseen.experiment.studies import FACTORS, Point
from unseen.templates.report import Table
from unseen.validation import counted


@dataclass(frozen=True)
class Difference:
    """Paired difference in MiAP, in points, over the random splits (over the main one if there are none)."""

    what: str
    protocol: Protocol
    main: float
    splits: Interval | None

    @property
    def verdict(self) -> str:
        """What the interval says of the sign."""
        if self.splits is None or np.isnan(self.splits.half):
            return "no interval"
        if self.splits.low > 0:
            return "above"
        return "below" if self.splits.high < 0 else "not told apart"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and the differences that bear on it."""

    title: str
    differences: tuple[Difference, ...]

    @property
    def text(self) -> str:
        """The verdict in a paragraph."""
        return " ".join(_sentence([d for d in self.differences if d.protocol == p], p) for p in PROTOCOLS).strip()


def claims(result: Reproduction) -> list[Claim]:
    """The three claims, as far as their methods ran."""
    ran = result.methods("paper")
    others = [name for name in ran if name not in RIVALS and not name.startswith("TAEP")]
    rivals = [name for name in RIVALS if name in ran]
    variants = [name for name in ("TAEP-H", "TAEP-C") if name in ran]
    found = []
    if "TAEP" in ran:
        found.append(Claim("TAEP is better than its rivals", _pairs(result, [("TAEP", r) for r in rivals])))
        beyond = "TAEP is better than methods that the paper does not compare it with (no claim of the paper)"
        found.append(Claim(beyond, _pairs(result, [("TAEP", name) for name in others])))
        found.append(Claim("Auxiliary information helps", _pairs(result, [(v, "TAEP") for v in variants])))
    strengths = [
        _weakened(name, points, protocol)
        for protocol in PROTOCOLS
        for name, points in by_curve(result.strength).items()
    ]
    found.append(Claim("gamma and lambda matter", tuple(strengths)))
    return [claim for claim in found if claim.differences]


def claims_table(result: Reproduction) -> Table:
    """All differences with their intervals."""
    n = len(result.experiment.random_splits)
    rows = []
    for claim in claims(result):
        for i, d in enumerate(claim.differences):
            over_splits = (_points(d.splits), d.verdict) if n else ()
            rows.append((claim.title if i == 0 else "", d.what, d.protocol, f"{d.main:+.2f}", *over_splits))
    more = (counted(n, "random split"), "verdict") if n else ()
    note = "Points of MiAP."
    if n:
        note = (
            "Points of MiAP, paired by split. 'above' and 'below': the 95 % interval of the mean excludes 0; "
            "intervals are of one comparison each, not corrected for their number."
        )
    columns = ("claim", "difference", "protocol", "main split", *more)
    return Table("The paper's claims: differences in MiAP", columns, tuple(rows), note=note)


def _pairs(result: Reproduction, pairs: Sequence[tuple[str, str]]) -> tuple[Difference, ...]:
    differences = []
    for protocol in PROTOCOLS:
        for first, second in pairs:
            here = result.on_main_split(first, protocol).miap - result.on_main_split(second, protocol).miap
            rows = result.by_split(first, protocol)[:, 0] - result.by_split(second, protocol)[:, 0]
            differences.append(_difference(f"{first} - {second}", protocol, here, rows))
    return tuple(differences)


def _weakened(name: str, points: Sequence[Point], protocol: Protocol) -> Difference:
    """MiAP at the strength of the tables minus that at a thousandth of it."""
    sides = []
    for factor in (FACTORS[0], FACTORS[-1]):
        here = [point.outcome for point in points if point.at == factor]
        main = mean_by_split([o for o in here if o.cell.split_name == MAIN], protocol)[:, 0]
        sides.append((main.mean(), mean_by_split([o for o in here if o.cell.split_name != MAIN], protocol)[:, 0]))
    symbol = "gamma" if name == "TAEP" else "lambda"
    what = f"{name}: {symbol} x 1 - {symbol} x {FACTORS[-1]:g}"
    return _difference(what, protocol, float(sides[0][0] - sides[1][0]), sides[0][1] - sides[1][1])


def _difference(what: str, protocol: Protocol, main: float, splits: NDArray[np.float64]) -> Difference:
    return Difference(what, protocol, 100 * main, interval(100 * splits) if splits.size else None)


def _points(part: Interval | None) -> str:
    if part is None:
        return "-"
    return f"{part.mean:+.2f}" if np.isnan(part.half) else f"{part.mean:+.2f} ± {part.half:.2f}"


def _sentence(differences: Sequence[Difference], protocol: Protocol) -> str:
    if not differences:
        return ""
    name = protocol.capitalize()
    if any(d.verdict == "no interval" for d in differences):
        parts = ", ".join(f"{d.what} = {d.main:+.1f}" for d in differences)
        return f"{name}, main split only, so without intervals: {parts} points of MiAP."
    parts = ", ".join(f"{d.what} = {_points(d.splits)}" for d in differences)
    count = {verdict: sum(d.verdict == verdict for d in differences) for verdict in ("above", "below")}
    n = len(differences)
    if count["above"] == n:
        verdict = "holds here in every comparison"
    elif count["below"] == n:
        verdict = "is contradicted here in every comparison"
    else:
        open_ = n - count["above"] - count["below"]
        holds, fails = count["above"], count["below"]
        verdict = f"holds in {holds} of {n} comparisons, is contradicted in {fails} and left open in {open_}"
    assert differences[0].splits is not None
    splits = counted(differences[0].splits.n, "random split")
    return f"{name}: this {verdict} ({splits}; {parts} points of MiAP)."
