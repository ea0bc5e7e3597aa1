"""Symplectic defects and reversal errors of runs, as a table says them."""

import json

import numpy as np
import pytest
from run_tables import run_table

from integrators.errors import InputError
from sweep import tables
from sweep.analysis import structure_table

DEFECTS = {  # of two starts each at one step size, with a resolution of 1e-15
    "kept": ([1e-16, 2e-15], "no defect seen"),
    "lost": ([1e-16, 3e-14], "not symplectic"),
    "near": ([1e-16, 5e-15], "undecided"),
    "nan": ([np.nan, np.nan], ""),
}


def measured(defects=DEFECTS, step_sizes=(0.5,)):
    table = run_table(dict.fromkeys(defects, 2), step_sizes, ("a", "b"))
    repeated = [np.tile(values, len(step_sizes)) for values, _ in defects.values()]
    described = json.loads(table.attrs["integrators"])
    described["kept"]["symmetric"] = True
    table.attrs["integrators"] = json.dumps(described)
    return table.assign(
        symplectic_defect=("run", np.concatenate(repeated)),
        symplectic_resolution=("run", np.full(table.sizes["run"], 1e-15)),
        reversal_error=("run", 1e-14 * (1.0 + np.arange(table.sizes["run"]))),
    )


def test_a_defect_is_told_by_its_resolution():
    rows = {row.integrator: row for row in structure_table(measured())}
    assert {name: row.verdict for name, row in rows.items()} == {
        name: verdict for name, (_, verdict) in DEFECTS.items()
    }
    kept = rows["kept"]
    assert (kept.defect.low, kept.defect.high, kept.largest_resolved) == (1e-16, 2e-15, 1e-15)
    assert kept.reversal.median == pytest.approx(1.5e-14) and kept.symmetric
    assert rows["lost"].symmetric is None and rows["nan"].starts == 2
    (text,) = map(str, tables.structure_as_tables(list(rows.values())))
    assert "no defect seen" in text and "as many steps back from t = 1 s" in text
    said = "lost is not symplectic; kept shows no symplectic defect; near is undecided."
    assert text.startswith(f"{said}\n")
    assert json.dumps(tables.table_rows_for_json(list(rows.values())))


def test_what_is_measured_and_what_is_declared_stand_apart():
    table = measured({"kept": ([1e-16, 1e-16], ""), "lost": ([1e-16, 1e-16], "")})
    kept, lost = structure_table(table)  # two starts each, of 2 steps there and 2 back
    assert kept.largest_rounding == 2 * 2 * np.finfo(float).eps
    assert (kept.returned, kept.symmetric, kept.disputed) == ("no", True, True)
    assert (lost.returned, lost.symmetric, lost.disputed) == ("no", None, False)
    (text,) = tables.structure_as_tables([kept, lost])
    measured_and_declared = [row[-2:] for row in text.rows]
    assert text.headers[-2:] == ["returned", "declared"]
    assert measured_and_declared == [["no", "symmetric ≠"], ["no", "–"]]
    assert any(note.startswith("≠ kept: declared symmetric, but") for note in text.notes)
    table["reversal_error"][:] = 1e-15
    kept, _ = structure_table(table)
    assert (kept.returned, kept.disputed) == ("to round-off", False)
    assert "≠" not in str(tables.structure_as_tables([kept])[0])


def test_runs_that_do_not_count_are_left_out():
    table = measured()
    table["status"][0], table["sample_count"][3] = 1, 1  # one failed, one is not finished
    kept, lost, *_ = structure_table(table)
    assert (kept.starts, kept.left_out, kept.defect.low) == (1, 1, 2e-15)
    assert (lost.left_out, lost.verdict) == (1, "no defect seen")
    assert "Left out" in str(tables.structure_as_tables([kept])[0])


def test_the_smallest_step_sizes_and_one_measure_alone():
    table = measured(step_sizes=(0.5, 0.25))
    assert len(structure_table(table)) == 8
    rows = structure_table(table.drop_vars("reversal_error"), "smallest")
    assert [row.step_size for row in rows] == [0.25] * 4
    (made,) = tables.structure_as_tables(rows)
    headers = made.headers
    assert "symplectic defect" in headers and "reversal error" not in headers
    rows = structure_table(table.drop_vars(["symplectic_defect", "symplectic_resolution"]))
    assert "verdict" not in tables.structure_as_tables(rows)[0].headers


def test_nothing_recorded_is_said():
    with pytest.raises(InputError, match="record ="):
        structure_table(run_table({"a": 2}))


def test_a_declared_symplectic_form_that_is_lost_is_marked():
    table = measured()
    described = json.loads(table.attrs["integrators"])
    for label, declared in (("kept", True), ("lost", True), ("near", False)):
        described[label]["symplectic"] = declared
    table.attrs["integrators"] = json.dumps(described)
    rows = structure_table(table)
    (shown,) = tables.structure_as_tables(rows)
    column = shown.headers.index("declared to be")
    assert [row[column] for row in shown.rows] == ["symplectic", "symplectic ≠", "no", "–"]
    assert [row.symplectic_disputed for row in rows] == [False, True, False, False]
    assert "≠ lost: declared symplectic, and measured not to be" in shown.notes


def test_kept_quantities_stand_beside_what_is_declared(monkeypatch):
    """To round-off is 4 √N roundings; ten times as many as there are steps are none."""
    table = run_table({"good": 2, "bad": 2}, (0.01,), ("a", "b"), (0.0, 1.0))  # 100 steps
    one = np.finfo(float).eps
    error = np.where(table["integrator"] == "good", 30 * one, 2000 * one)
    table = table.assign(
        energy=(("run", "time"), np.ones((4, 2))),
        energy_error=(("run", "time"), np.stack([0 * error, error], axis=1), {"units": "J"}),
    )
    described = json.loads(table.attrs["integrators"])
    described["good"]["preserves"] = described["bad"]["preserves"] = ["energy"]
    table.attrs["integrators"] = json.dumps(described)
    good, bad = structure_table(table)
    for row, kept, disputed in ((good, "to round-off", False), (bad, "no", True)):
        (quantity,) = row.quantities
        assert (quantity.quantity, quantity.kept, quantity.declared) == ("energy", kept, True)
        assert quantity.disputed == disputed and quantity.rounding == 100 * one
    (shown,) = tables.structure_as_tables([good, bad])
    assert [row[-2:] for row in shown.rows] == [["to round-off", "yes"], ["no", "yes ≠"]]
    assert json.dumps(tables.table_rows_for_json([good, bad]))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    assert "quantity  largest |error|  kept          declared" in str(shown)


def test_a_quantity_that_vanishes_at_a_start_is_judged_by_the_others():
    """And where it vanishes at all of them, its roundings are not known."""
    table = run_table({"good": 2}, (0.01,), ("still", "turning"), (0.0, 1.0))
    momentum = np.array([[1e-17, 1e-17], [0.1, 0.1]])
    table = table.assign(
        momentum=(("run", "time"), momentum),
        momentum_error=(("run", "time"), np.full((2, 2), 1e-16), {"units": "1"}),
    )
    (row,) = structure_table(table)
    assert [own.kept for own in row.quantities] == ["to round-off"]
    (row,) = structure_table(table.isel(run=[0]))
    assert [own.kept for own in row.quantities] == ["undecided"]
