"""Which integrators for a system: those with the least work for an error, and the least drift."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import integrators
from sweep.analysis.drift import estimators as drifts
from sweep.analysis.efficiency.pareto import LeastWork
from sweep.analysis.rows import grouped
from sweep.reports.certificates import Cell, Certificate, Evidence
from sweep.tables import scientific_cell
from sweep.tables.answers import LOOKS

ERRORS = (1e-6, 1e-9)  # at which work is compared
MOST = 3  # integrators with the least work for each error
APART = 10.0  # an integrator that costs more is listed if it has so many times less drift
GOOD = (drifts.NONE, drifts.AT_ROUND_OFF)


@dataclass(frozen=True)
class Choice:
    """A row of the table of a system: an integrator, its page, and what is known of it.

    Attributes
    ----------
    integrator, page : str
    cells : list of (str, Cell or None)
        Cells with the section of the page that they lead to: order, drift, its cost, and work for
        each of `ERRORS`.
    """

    integrator: str
    page: str
    cells: list[tuple[str, Cell | None]]


@dataclass(frozen=True)
class Choices:
    """The table of a system.

    Attributes
    ----------
    system, title : str
    rate, time : str
        The units of drifts, and the unit of time.
    run : str
        The time that a run whose work is compared takes; empty if none is.
    rows : list of Choice
    """

    system: str
    title: str
    rate: str
    time: str
    run: str
    rows: list[Choice]


@dataclass(frozen=True)
class _Drift:
    """A drift of the energy, and the evaluations per unit of time that it cost."""

    row: Any
    cost: float
    one: Evidence


def choices_by_system(pages: Mapping[str, Certificate]) -> list[Choices]:
    """The table of each system, from certificates by the name of their page without suffix."""
    by_system = grouped(pages.items(), lambda item: item[1].system)
    return [_choices(system, dict(items)) for system, items in by_system.items()]


def _choices(system: str, pages: Mapping[str, Certificate]) -> Choices:
    drift = _drifts(pages)
    work = {error: _work(pages, error) for error in ERRORS}
    least = {name for found in work.values() for name in [*found][:MOST]}
    chosen = least | _least_drifts(drift) | {name for name in pages if _is_own(pages[name])}
    first = work[ERRORS[0]]
    by_work = sorted(
        (name for name in pages if name in chosen),
        key=lambda name: first[name][0].work if name in first else math.inf,
    )
    rows = []
    for name in by_work:
        cells: list[tuple[str, Cell | None]] = [("order", pages[name].cells.get("order"))]
        cells += [("drift", cell) for cell in _drift_cells(drift.get(name))]
        cells += [("work", _work_cell(found, name)) for found in work.values()]
        rows.append(Choice(pages[name].integrator, f"{name}.html", cells))
    experiment = next(iter(pages.values())).evidence[0].experiment
    rate = experiment.words(next((found.row.rate for found in drift.values()), ""))
    units = experiment.runs["time"].attrs.get("units", "1")
    time = "unit time" if units == "1" else units
    return Choices(system, experiment.title, rate, time, _time_of_runs(work), rows)


def _is_own(certificate: Certificate) -> bool:
    """Whether the integrator is not built in, but a plugin's."""
    base = str(certificate.evidence[0].description["name"]).partition("+")[0]
    return base not in {method.name for method in integrators.ALL_INTEGRATORS}


# --- drift ------------------------------------------------------------------------------------


def _drifts(pages: Mapping[str, Certificate]) -> dict[str, _Drift]:
    """The drift of the energy by page, in the experiments of the problem with most integrators.

    Of several step sizes or scanned values the largest bound counts.
    """
    found: dict[str, dict[str, _Drift]] = {}
    for name, one in _evidence(pages):
        costs = {_setting(row): row.evaluations for row in one.rows("work")}
        for row in one.rows("drift"):
            cost = costs.get(_setting(row), math.nan) / float(one.experiment.runs.attrs["duration"])
            if row.verdict and row.quantity.startswith("energy") and cost > 0:
                of = found.setdefault(one.problem, {})
                if name not in of or of[name].row.bound < row.bound:
                    of[name] = _Drift(row, cost, one)
    return max(found.values(), key=lambda of: (len(of), _duration(of)), default={})


def _duration(found: Mapping[str, _Drift]) -> float:
    return max((each.row.duration for each in found.values()), default=0.0)


def _setting(row: Any) -> tuple[str, ...]:
    """Integrator, size and scanned values, as a key in which NaN equals NaN."""
    return tuple(map(str, (row.integrator, row.step_size, row.tolerance, row.parameters)))


def _least_drifts(found: Mapping[str, _Drift]) -> set[str]:
    """Pages of integrators that no other one beats in drift at equal or less cost.

    Of those that are as good within `APART`, only the cheapest; and none that surely drifts, if
    there are others.
    """
    good = {name: each for name, each in found.items() if each.row.verdict in GOOD} or dict(found)
    chosen, least = set[str](), math.inf
    for name, each in sorted(good.items(), key=lambda item: (item[1].cost, item[1].row.bound)):
        if each.row.bound < least / APART or not chosen:
            chosen, least = chosen | {name}, each.row.bound
    return chosen


def _drift_cells(found: _Drift | None) -> tuple[Cell | None, Cell | None]:
    """The bound of a drift, and what it cost."""
    if found is None:
        return None, None
    row = found.row
    said = found.one.experiment.words(row.in_words)
    meaning = f"{row.quantity.replace('_', ' ')}: {said}; {found.one.name}"
    bound = Cell(scientific_cell(row.bound), meaning, row.verdict, LOOKS.get(row.verdict, ""))
    cost = f"{found.cost:,.0f}" if found.cost >= 100 else f"{found.cost:.3g}"
    return bound, Cell(cost, f"evaluations per unit of time; {found.one.name}")


# --- work -------------------------------------------------------------------------------------


def _work(pages: Mapping[str, Certificate], error: float) -> dict[str, tuple[LeastWork, Evidence]]:
    """The least work of each page for an error, the smallest first, where most are known."""
    found: dict[tuple[str, str], dict[str, tuple[LeastWork, Evidence]]] = {}
    for name, one in _evidence(pages):
        for where, levels in one.work.items():
            for mine in levels.get(error, ()):
                if mine.integrator == one.label:
                    of = found.setdefault((one.problem, where), {})
                    if name not in of or mine.work < of[name][0].work:
                        of[name] = mine, one
    most = max(found.values(), key=len, default={})
    return dict(sorted(most.items(), key=lambda item: item[1][0].work))


def _work_cell(found: Mapping[str, tuple[LeastWork, Evidence]], name: str) -> Cell | None:
    if name not in found:
        return None
    mine, one = found[name]
    bounded = "" if mine.interpolated else "≤ "
    meaning = (
        f"{bounded}{mine.work:,.0f} evaluations a run for a global error of {mine.level:g}; "
        f"{one.name}"
    )
    first = next(iter(found))
    return Cell(f"{bounded}{mine.work:,.0f}", meaning, look="good" if name == first else "")


def _time_of_runs(work: Mapping[float, Mapping[str, tuple[LeastWork, Evidence]]]) -> str:
    for _, one in itertools.chain.from_iterable(found.values() for found in work.values()):
        attributes = one.experiment.runs.attrs
        units = one.experiment.runs["time"].attrs.get("units", "1")
        return f"{attributes['duration']:g} {'' if units == '1' else units}".rstrip()
    return ""


def _evidence(pages: Mapping[str, Certificate]) -> Iterator[tuple[str, Evidence]]:
    for name, certificate in pages.items():
        for one in certificate.evidence:
            yield name, one
