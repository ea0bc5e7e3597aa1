"""Figures as JSON: panels of curves or spheres, which the page draws; their numbers as CSV."""

import csv
import io
from dataclasses import dataclass, field

import numpy as np

from sweep.plots.style import units_with_superscripts
from sweep.reports.sections import LOOKS
from sweep.text import value_for_json

COLUMNS = ("panel", "curve", "x_quantity", "x", "y_quantity", "y", "low", "high", "mark")


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    Attributes
    ----------
    text : str
        What it shows, with units.
    log : bool
    """

    text: str
    log: bool = False

    @classmethod
    def of_array(cls, array, text, log=False):
        """Of an array, whose units stand behind the text."""
        units = units_with_superscripts(array.attrs.get("units", "1"))
        return cls(f"{text} [{units}]" if units else text, log)


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve of a panel, or points of one colour.

    Attributes
    ----------
    name : str
        In the legend.
    colour, marker, dash : str
        As Matplotlib has them, but dashes: ``solid``, ``dash``, ``dot`` or ``dashdot``.
    x, y : array_like
    z : array_like, optional
        On a sphere.
    low, high : array_like, optional
        Ends of bars, or of a band.
    marks : sequence of str, optional
        How each point is drawn, ``filled``, ``open`` or ``large``; none: a line.
    cells : sequence of dict, optional
        Whose runs each point is of, one for all if there is only one: ``integrator``,
        ``step_size``, ….
    line, band : bool, optional
        On a sphere whether points are joined; whether `low` and `high` are ends of a band.
    part : str, optional
        What of several that have the name it is, as a body.
    """

    name: str
    colour: str
    x: object
    y: object
    marker: str = ""
    dash: str = "solid"
    z: object = ()
    low: object = ()
    high: object = ()
    marks: object = ()
    cells: object = ()
    line: bool = True
    band: bool = False
    part: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of a figure.

    Attributes
    ----------
    title : str
    x, y : Axis
    curves : list of Curve
    said : str
        A line below its title.
    """

    title: str
    x: Axis
    y: Axis
    curves: list
    said: str = ""


@dataclass(frozen=True, eq=False)
class Figure:
    """What a view shows.

    Attributes
    ----------
    kind : str
        ``curves``, ``strips`` (low panels, each with a scale of its own) or ``spheres``.
    panels : list of Panel
    tables : list of sweep.tables.Table
    remark : str
        How to read it.
    """

    kind: str
    panels: list
    tables: list = field(default_factory=list)
    remark: str = ""

    @property
    def sentences(self):
        """The answer in words, of its tables."""
        return [table.summary for table in self.tables if table.summary]

    def for_json(self):
        """As plain values; NaN becomes None."""
        return {
            "kind": self.kind,
            "panels": [_panel_for_json(panel) for panel in self.panels],
            "sentences": self.sentences,
            "tables": [
                {"title": t.title, "headers": t.headers, "rows": t.rows, "notes": list(t.notes)}
                for t in self.tables
            ],
            "remark": self.remark,
            "looks": LOOKS,
        }

    def as_csv(self):
        """The numbers that it shows, a row for each point."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        spatial = self.kind == "spheres"
        writer.writerow(("panel", "curve", "part", "e1", "e2", "e3") if spatial else COLUMNS)
        for panel in self.panels:
            for curve in panel.curves:
                if spatial:
                    rows = zip(curve.x, curve.y, curve.z, strict=True)
                    writer.writerows((panel.title, curve.name, curve.part, *row) for row in rows)
                    continue
                blank = [""] * len(curve.x)
                columns = [c if len(c) else blank for c in (curve.low, curve.high, curve.marks)]
                writer.writerows(
                    (panel.title, curve.name, panel.x.text, x, panel.y.text, y, *more)
                    for x, y, *more in zip(curve.x, curve.y, *columns, strict=True)
                )
        return text.getvalue()


def _panel_for_json(panel):
    curves = [
        {name: _for_json(value) for name, value in vars(curve).items()} for curve in panel.curves
    ]
    return {
        "title": panel.title, "said": panel.said, "x": vars(panel.x), "y": vars(panel.y),
        "curves": curves,
    }  # fmt: skip


def _for_json(values):
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np.where(np.isfinite(values), values, None).tolist()
    return value_for_json(values.tolist() if isinstance(values, np.ndarray) else values)


def cell_as_texts(cell):
    """Values of coordinates as an address has them: those that are none left out."""
    fixed = ("integrator", "step_size", "tolerance")
    return {
        name if name in fixed else f"axis:{name}": str(value)
        for name, value in cell.items()
        if value == value
    }
