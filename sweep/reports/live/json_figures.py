"""Figures as JSON, with panels of curves or spheres that the page draws, and their data as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.tables.answers import LOOKS
from sweep.text import value_for_json

if TYPE_CHECKING:
    from sweep.tables import Table

Values = Sequence[float] | NDArray[np.floating[Any]]  # along a curve
Style = Mapping[str, Any]  # keyword arguments of Matplotlib, and ``dash``
Cell = Mapping[str, str]  # see `cell_as_texts`

COLUMNS = ("panel", "curve", "x_quantity", "x", "y_quantity", "y", "low", "high", "mark")
SPATIAL_COLUMNS = ("panel", "curve", "part", "e1", "e2", "e3")


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    Attributes
    ----------
    text : str
        Its label, with units.
    log : bool
        Whether its scale is logarithmic.
    """

    text: str
    log: bool = False


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve of a panel, or points of one colour.

    Attributes
    ----------
    name : str
        Its entry in the legend.
    style : dict
        ``color`` and perhaps ``marker`` as in Matplotlib; ``dash``, one of solid, dash, dot,
        dashdot.
    x, y : sequence or ndarray of float, shape (points,)
    z : sequence or ndarray of float, shape (points,), optional
        The third coordinate on a sphere.
    low, high : sequence or ndarray of float, shape (points,), optional
        Ends of error bars, or of a band.
    marks : sequence of {"filled", "open", "large"}, optional
        How each point is drawn; by default a line without marks.
    cells : sequence of dict of str to str, optional
        The coordinates of the runs of each point, or of all points if there is only one:
        ``integrator``, ``step_size``, ….
    line, band : bool, optional
        Whether points on a sphere are joined, and whether `low` and `high` are ends of a band.
    part : str, optional
        Distinguishes the curve from others with the same name; for example a body.
    """

    name: str
    style: Style
    x: Values
    y: Values
    z: Values = ()
    low: Values = ()
    high: Values = ()
    marks: Sequence[str] = ()
    cells: Sequence[Cell] = ()
    line: bool = True
    band: bool = False
    part: str = ""

    def for_json(self) -> dict[str, Any]:
        """The curve as plain values, with None for NaN."""
        of_curve = vars(self) | {
            "colour": self.style["color"],
            "marker": self.style.get("marker", ""),
            "dash": self.style.get("dash", "solid"),
        }
        del of_curve["style"]
        return {name: _values_for_json(value) for name, value in of_curve.items()}


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of a figure."""

    title: str
    x: Axis
    y: Axis
    curves: list[Curve]
    subtitle: str = ""


@dataclass(frozen=True, eq=False)
class Figure:
    """The figure of a view, with tables of the same results.

    Attributes
    ----------
    kind : {"curves", "strips", "spheres"}
        Strips are flat panels, each with its own scale.
    panels : list of Panel
    tables : list of sweep.tables.Table
    remark : str
        How to read it.
    """

    kind: str
    panels: list[Panel]
    tables: "list[Table]" = field(default_factory=list)
    remark: str = ""

    def for_json(self) -> dict[str, Any]:
        """The figure as plain values, with None for NaN."""
        return {
            "kind": self.kind,
            "panels": [
                vars(panel)
                | {"x": vars(panel.x), "y": vars(panel.y)}
                | {"curves": [curve.for_json() for curve in panel.curves]}
                for panel in self.panels
            ],
            "sentences": [table.summary for table in self.tables if table.summary],
            "tables": [vars(table) | {"notes": list(table.notes)} for table in self.tables],
            "remark": self.remark,
            "verdict_styles": LOOKS,
        }

    def as_csv(self) -> str:
        """The plotted numbers as CSV, with a row for each point."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(SPATIAL_COLUMNS if self.kind == "spheres" else COLUMNS)
        for panel in self.panels:
            for curve in panel.curves:
                if self.kind == "spheres":
                    points = zip(curve.x, curve.y, curve.z, strict=True)
                    writer.writerows((panel.title, curve.name, curve.part, *p) for p in points)
                    continue
                blank = [""] * len(curve.x)
                more = [v if len(v) else blank for v in (curve.low, curve.high, curve.marks)]
                writer.writerows(
                    (panel.title, curve.name, panel.x.text, x, panel.y.text, y, *of_point)
                    for x, y, *of_point in zip(curve.x, curve.y, *more, strict=True)
                )
        return text.getvalue()


def _values_for_json(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        plain = values.astype(object)
        plain[~np.isfinite(values)] = None
        return plain.tolist()
    return value_for_json(values)


def cell_as_texts(cell: Mapping[str, Any]) -> dict[str, str]:
    """Coordinates of runs as texts, as in an address of the page; NaN is left out.

    The keys of scanned axes are ``axis:NAME``.
    """
    fixed = ("integrator", "step_size", "tolerance")
    return {
        name if name in fixed else f"axis:{name}": str(value)
        for name, value in cell.items()
        if value == value
    }
