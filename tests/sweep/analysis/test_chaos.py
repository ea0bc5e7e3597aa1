"""Order and chaos from recorded exponents and MEGNO: verdicts, and what they leave open."""

import numpy as np
import pytest
import xarray as xr
from study_text import one_experiment, study_of

import sweep
from integrators.errors import InputError

TIMES = np.linspace(0.0, 100.0, 51)
CHAOS = {"kind": "chaos", "units": "s-1"}
LATE = np.maximum(TIMES, 1e-9)
REGULAR = 2.0 - 1.0 / (1.0 + TIMES)
CHAOTIC = 0.25 * TIMES  # λ = 0.5
BETWEEN = 2.0 + 0.02 * TIMES


def dataset(megno, exponent=None, **more):
    """A run table of the starts of one integrator."""
    runs = len(megno)
    coords = {
        "run": np.arange(runs),
        "time": ("time", TIMES, {"units": "s"}),
        "integrator": ("run", np.array(["variational"] * runs, dtype=object)),
        "step_size": ("run", np.full(runs, 0.1)),
        "initial_condition": ("run", np.array([f"s{i}" for i in range(runs)], dtype=object)),
    }
    series = {"megno": (("run", "time"), np.array(megno), {"kind": "chaos", "units": "1"})}
    if exponent is not None:
        series["lyapunov"] = (("run", "time"), np.array(exponent), CHAOS)
    status = ("run", np.array(more.get("status", [0] * runs)))
    return xr.Dataset(series | {"status": status}, coords)


@pytest.mark.parametrize(
    ("series", "verdict"),
    [
        ([REGULAR], "no chaos seen"),
        ([0.0 * TIMES], "no chaos seen"),
        ([-0.1 * TIMES], "no chaos seen"),  # neighbours draw together
        ([CHAOTIC, CHAOTIC], "chaotic"),
        ([BETWEEN], "undecided"),
        ([8.0 - 8.0 / LATE], "undecided"),  # high, and at rest
        ([CHAOTIC, REGULAR, CHAOTIC], "2 chaotic, 1 no chaos seen"),
    ],
)
def test_verdicts(series, verdict):
    (row,) = sweep.chaos_table(dataset(series))
    assert row.verdict == verdict
    assert row.starts == len(series) == row.chaotic + row.regular + row.undecided
    assert row.megno.median == np.median([own[-1] for own in series])


def test_what_could_hide_is_what_was_seen():
    (row,) = sweep.chaos_table(dataset([REGULAR], [np.log(LATE) / LATE]))
    assert row.hidden == pytest.approx(max(2.0 * REGULAR[-1] / 100.0, np.log(100.0) / 100.0))
    assert f"exponents below {row.hidden:.2g} s-1 could hide" == row.in_words
    assert row.exponents[0].median == pytest.approx(np.log(100.0) / 100.0)


def test_a_chaotic_start_among_regular_ones_shows_its_exponent():
    """At an unstable equilibrium, say: the median over the starts is that of a regular one."""
    exponents = [0.01 + 0 * TIMES, 0.2887 + 0 * TIMES, 0.02 + 0 * TIMES]
    (row,) = sweep.chaos_table(dataset([REGULAR, CHAOTIC, REGULAR], exponents))
    assert row.exponents[0].median == 0.02 and row.chaotic_exponents.high == 0.2887
    assert row.hidden < 0.2887
    assert row.in_words == f"exponents below {row.hidden:.2g} s-1 could hide in the 2 starts " + (
        "without chaos"
    )
    table = sweep.tables.chaos_as_table([row])
    assert table.rows[0][table.headers.index("λ over the starts")] == "1.00e-02 – 2.89e-01"
    assert table.summary.startswith("1 of 3 runs is chaotic, with an exponent of 0.289 s-1; 2 show")


def test_less_than_one_over_the_duration_could_always_hide():
    (row,) = sweep.chaos_table(dataset([0.0 * TIMES], [0.0 * TIMES]))
    assert row.hidden == 1.0 / 100.0


def test_without_a_sample_halfway_nothing_is_decided():
    for few in ([0, -1], [0, 10, -1]):
        (row,) = sweep.chaos_table(dataset([CHAOTIC]).isel(time=few))
        assert row.verdict == "undecided" and not row.halved
        assert row.in_words == "needs a sample at half the time: 4 sample intervals or more"
    (row,) = sweep.chaos_table(dataset([CHAOTIC]).isel(time=[0, 24, -1]))
    assert row.verdict == "chaotic"


def test_a_longer_run_tells():
    (row,) = sweep.chaos_table(dataset([BETWEEN]))
    exponent = 2.0 * BETWEEN[-1] / 100.0
    assert row.longer == pytest.approx(20.0 / exponent)
    assert row.in_words == "a run of 300 s would decide, if the exponents last"  # whole multiples
    record = '["energy", "lyapunov", "megno"]'
    longer = {"duration": "300.0", "samples": str(len(TIMES) - 1), "record": record}
    assert study_of(one_experiment(integrators='["variational"]', **longer)).experiments


def test_runs_that_failed_or_have_no_derivative_do_not_count():
    lost = np.where(TIMES > 60.0, np.nan, CHAOTIC)
    (row,) = sweep.chaos_table(dataset([CHAOTIC, lost, REGULAR], status=[0, 0, 3]))
    assert (row.starts, row.left_out, row.verdict) == (1, 2, "chaotic")


def test_without_exponents_it_says_what_to_record():
    with pytest.raises(InputError, match=r'record = \["lyapunov", "megno"\]'):
        sweep.chaos_table(dataset([REGULAR]).drop_vars("megno"))


def test_without_megno_there_is_no_verdict():
    (row,) = sweep.chaos_table(dataset([REGULAR], [1.0 / LATE]).drop_vars("megno"))
    assert row.verdict == "" and np.isnan(row.megno.median)
    table = sweep.tables.chaos_as_table([row])
    assert "verdict" not in table.headers and table.headers[-1] == "λ"
    assert table.notes == ['Verdicts need "megno" in the record.']


def test_runs_that_fail_are_judged_until_the_first_of_them_does():
    table = dataset([CHAOTIC, CHAOTIC, BETWEEN], status=[1, 1, 1])
    table["sample_count"] = "run", [41, 31, 31]
    (row,) = sweep.chaos_table(table)
    assert (row.starts, row.stopped, row.duration) == (3, 3, 60.0)
    assert row.verdict == "2 chaotic, 1 undecided"
    assert row.in_words == "judged until t = 60 s, after which 3 of 3 runs fail"


def test_the_sentence_above_counts_runs():
    def summary(*tables):
        rows = [row for table in tables for row in sweep.chaos_table(table)]
        return sweep.analysis.summarize_chaos(rows)

    exponents = [0.1 + 0 * TIMES, 0.3 + 0 * TIMES]
    chaotic = dataset([CHAOTIC, CHAOTIC], exponents)
    assert summary(chaotic) == ["Both runs are chaotic, with exponents of 0.1 – 0.3 s-1."]
    mixed = dataset([CHAOTIC, REGULAR, REGULAR, BETWEEN], 4 * [0.0 * TIMES])
    (row,) = sweep.chaos_table(mixed)
    assert summary(chaotic, mixed) == [
        "3 of 6 runs are chaotic, with exponents of 0 – 0.3 s-1; 2 show no chaos (exponents below "
        f"{row.hidden:.2g} s-1 could hide in them); 1 is undecided."
    ]
    (text,) = summary(dataset([CHAOTIC]).isel(time=[0, -1]))
    assert text == "The only run is undecided."
    lost = dataset([BETWEEN], status=[1])
    lost["sample_count"] = "run", [31]
    assert summary(lost) == ["The only run is undecided."]
    bare = dataset([REGULAR], [1.0 / LATE]).drop_vars("megno")
    assert summary(bare) == ["Order and chaos cannot be judged: MEGNO is not recorded."]
    assert summary(dataset([CHAOTIC], status=[3]))[0].endswith(": no run is complete.")
