"""Rows of answers: as data frames of flat columns, as HTML, as text."""

import dataclasses
import math
import pickle

from sweep.analysis.rows import Rows
from sweep.tables.base import Table


@dataclasses.dataclass(frozen=True)
class Spread:
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Answer:
    integrator: str
    parameters: dict
    error: Spread
    best: tuple
    points: tuple

    @property
    def width(self):
        return self.error.high - self.error.low


def answer(name, gravity, points=()):
    return Answer(name, {"gravity": gravity}, Spread(1.0, 3.0), ("steps", "cpu_time"), points)


def test_columns_are_flat_and_points_of_curves_are_left_out():
    rows = Rows([answer("rk4", 9.81), answer("<b>", math.nan, (Spread(0.0, 1.0),))])
    frame = rows.to_dataframe()
    assert list(frame) == ["integrator", "gravity", "error_low", "error_high", "best", "width"]
    assert frame.iloc[0].tolist() == ["rk4", 9.81, 1.0, 3.0, "steps, cpu_time", 2.0]


def test_rows_of_several_experiments_say_which():
    rows = Rows([answer("rk4", 1.0), answer("rk4", 2.0)], experiments=["one", "two"])
    assert rows.to_dataframe()["experiment"].tolist() == ["one", "two"]
    rows.sort(key=lambda row: -row.parameters["gravity"])
    assert pickle.loads(pickle.dumps(rows)).experiments == rows.experiments == ["two", "one"]


def test_text_is_escaped_and_no_colour_is_set():
    page = Rows([answer("<script>", 1.0)])._repr_html_()
    assert "&lt;script&gt;" in page and "<script>" not in page
    assert "color" not in page and "background" not in page


def test_rows_with_tables_of_their_own_show_these():
    rows = Rows(
        [answer("rk4", 1.0)], lambda own: [Table(["a & b"], [["1"]], "title")], ["one"], ["n"]
    )
    assert str(rows) == "one\ntitle\na & b\n─────\n    1\n\nn"
    page = rows._repr_html_()
    assert "a &amp; b" in page and page.index("one") < page.index("title") < page.index(">n<")


def test_no_rows():
    assert str(Rows()) == "none" and "none" in Rows()._repr_html_()
    assert Rows().to_dataframe().empty and Rows() == []


def test_rows_of_dicts_and_many_of_them():
    rows = Rows({"run": i, "status": "not_finite"} for i in range(100))
    assert list(rows.to_dataframe()) == ["run", "status"]
    assert "… and 40 more" in rows._repr_html_() and str(rows).endswith("… and 40 more")
