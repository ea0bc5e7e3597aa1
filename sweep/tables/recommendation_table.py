"""A recommended integrator: a few sentences, and a table with the runners-up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sweep.campaign.recommend import HELD_BACK, SEARCHED
from sweep.tables.base import Column, Table, scientific_cell, table_of_rows
from sweep.text import count_with_noun, format_number

if TYPE_CHECKING:
    from sweep.campaign.recommend import Bound, Choice, Recommendation

FAR_BELOW = 100.0  # ratio of bound to error from which on a sentence warns of it


def recommendation_in_sentences(found: Recommendation) -> list[str]:
    """Say which integrator is recommended, how it was verified, and how many were tried.

    Parameters
    ----------
    found : sweep.campaign.recommend.Recommendation

    Returns
    -------
    list of str
        One or two sentences each; the first names the integrator.
    """
    return [
        _recommendation_sentence(found),
        *_verification_sentences(found),
        *_remark_sentences(found),
        _search_sentence(found),
    ]


def recommendation_as_table(found: Recommendation) -> Table:
    """The recommended integrator and its runners-up, the cheapest first.

    Parameters
    ----------
    found : sweep.campaign.recommend.Recommendation

    Returns
    -------
    Table
    """
    best, rows = found.best, (found.best, *found.others)
    columns: list[Column] = [
        ("integrator", lambda own: own.integrator),
        ("order", lambda own: str(own.order)),
        ("step size", lambda own: "–" if own.adaptive else format_number(own.size)),
        ("tolerance", lambda own: scientific_cell(own.size) if own.adaptive else "–"),
        ("CPU time", lambda own: _seconds_text(own.seconds)),
        ("times", lambda own: _cost_ratio_cell(own, best)),
        *map(_error_column, found.bounds),
    ]
    if not any(own.adaptive for own in rows):
        columns = [column for column in columns if column[0] != "tolerance"]
    together = f", {found.together} side by side" if found.together > 1 else ", each by itself"
    notes = [
        f"CPU time is that of a run until t = {_time_text(found, found.until)}{together}, the "
        "least of repeats; errors are the largest of all runs."
    ]
    if not all(own.is_apart for own in found.others):
        notes.append("=: CPU times scatter too much to tell it from the first")
    return table_of_rows(rows, columns, ["CPU time"], notes=notes)


def _error_column(bound: Bound) -> Column:
    return bound.in_words, lambda own: scientific_cell(own.errors[bound.error])


def _recommendation_sentence(found: Recommendation) -> str:
    best = found.best
    what = "tolerance" if best.adaptive else "step size"
    units = "" if best.adaptive or found.time_units == "1" else f" {found.time_units}"
    verb = "does not always keep" if found.above else "keeps"
    size = f"{best.size:.1e}" if best.adaptive else format_number(best.size)
    text = f"{best.integrator} with {what} {size}{units} {verb} "
    text += " and ".join(
        f"the {own.in_words} below {own.in_units(own.most)}" for own in found.bounds
    )
    text += f" until t = {_time_text(found, found.until)}, "
    text += f"in {_seconds_text(best.seconds)} of CPU time a run"
    same = [own.integrator for own in found.others if not own.is_apart]
    if same:
        text += f"; {', '.join(same)} may be as cheap: these CPU times scatter too much to tell"
    elif found.others:
        dearer = found.others[0]
        text += f", {_cost_ratio_cell(dearer, best)} times cheaper than {dearer.integrator}"
    return f"{text}."


def _verification_sentences(found: Recommendation) -> Iterator[str]:
    if not found.held_back and not found.in_time:
        yield "Not verified with initial conditions that were held back: the budget was used up."
    elif not found.held_back:
        count = count_with_noun(found.searched, "initial condition")
        yield (
            f"This holds for the study's {count}; nothing is known about others: give the study a "
            f"random one, {{ around = …, random = 1, spread = …, seed = 1 }}, of which "
            f"{SEARCHED + HELD_BACK} are drawn."
        )
    else:
        largest = " and ".join(
            bound.in_units(found.best.errors[bound.error], ".1e") for bound in found.bounds
        )
        verdict = "Not verified" if found.above else "Verified"
        yield (
            f"{verdict}: {found.above} of {found.held_back} initial conditions that were held back "
            f"exceed it; at least {100 * math.floor(100 * found.share) / 100:.0f} % of new ones "
            f"keep it ({100 * found.confidence:.0f} % confidence). The largest was {largest}."
        )


def _remark_sentences(found: Recommendation) -> Iterator[str]:
    best = found.best
    if not best.at_largest:
        return
    samples = f" with {found.samples} samples" if found.samples > 1 else ""
    text = "No larger tolerance was tried." if best.adaptive else ""
    text = text or f"No larger step is possible{samples}."
    is_far = all(best.errors[own.error] < own.most / FAR_BELOW for own in found.bounds)
    if is_far and all(bound.quantities for bound in found.bounds):  # no bound on states
        text += " So small an error says little of trajectories: bound the global error as well."
    yield text


def _search_sentence(found: Recommendation) -> str:
    said = [
        f"{own.kept} of {own.tried} until t = {_time_text(found, own.until)}"
        for own in found.stages
    ]
    return (
        f"Integrators that kept it: {', '.join(said)}; the cheapest of them went on. All runs of "
        f"its store took {_seconds_text(found.search_seconds)} of CPU time."
    )


def _cost_ratio_cell(own: Choice, best: Choice) -> str:
    """The CPU time of a choice relative to the best; ``=`` if they cannot be told apart."""
    if own is best:
        return "1"
    return f"{own.seconds / best.seconds:.2g}" if own.is_apart else "="


def _time_text(found: Recommendation, time: float) -> str:
    return f"{format_number(time)} {found.time_units}".removesuffix(" 1")


def _seconds_text(seconds: float) -> str:
    """A CPU time with two digits, in a suitable unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            break
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 10.0 else f"{value:.2g} {unit}"
