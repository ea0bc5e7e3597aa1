"""`sweep serve`: what the server answers and refuses, and the page in a browser."""

import csv
import io
import json
import re
import signal
import sys
import urllib.error
import urllib.parse
import urllib.request

import browser
import numpy as np
import pytest
from waiting import in_turns, until

import sweep
from sweep.tables import orders_as_table

ODD = "rk4 <b>&\"ü$h$</script><img src=x onerror='document.title=1'>"
STUDY = """\
format = 1
name = "odd"
[[experiment]]
name = "scan"
system = "spherical_pendulum_chain"
scan = {{ gravity = [1.0, 9.81] }}
integrators = ["variational", {{ name = "rk4", label = {odd} }}, "rk45"]
step_size = [0.05, 0.025, 0.02, 0.0125]
tolerance = [1e-4, 1e-6]
initial_condition = ["lee", {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}]
duration = 5.0
samples = 50
record = ["energy", "state"]
reference = {{ integrator = "dop853" }}
[[experiment]]
name = "fails"
system = "free_rigid_body"
integrators = "spherical_midpoint"
step_size = [0.1, 25.0]
initial_condition = "figure3"
duration = 100.0
samples = 2
record = ["energy"]
"""


def study_text(starts):
    return STUDY.format(odd=json.dumps(ODD), starts=starts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    path = tmp_path_factory.mktemp("serve")
    (path / "odd.toml").write_text(study_text(3))
    command(path, "run", "odd.toml", "--workers", "1", "--no-summary", code=3)
    return path


class Served:
    """A page that `sweep serve` serves."""

    def __init__(self, line):
        found = re.fullmatch(r"Open (http://127\.0\.0\.1:\d+)/\?token=([\w-]{20,})  .*\n", line)
        self.base, self.token = found.groups()

    def address(self, **choices):
        query = urllib.parse.urlencode({"token": self.token, **choices}, doseq=True)
        return f"{self.base}/?{query}"

    def get(self, path, token=None, **choices):
        """Status, headers and text of an answer."""
        query = urllib.parse.urlencode(choices, doseq=True)
        headers = {"X-Token": self.token if token is None else token}
        asked = urllib.request.Request(f"{self.base}/{path}?{query}", headers=headers)
        try:
            with urllib.request.urlopen(asked) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def ask(self, name, **choices):
        """An answer that must be one."""
        status, _, text = self.get(f"api/{name}", store="odd.zarr", **choices)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(scope="module")
def served(folder, start_once):
    """What Ctrl-C ends."""
    process = start_once("sweep", "serve", "odd.zarr", "--port", "0", cwd=folder)
    yield Served(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert process.finish() == ("", "") and process.returncode == 0


# --- the command -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.zarr"], "none.zarr is not a store"),
        (["odd.zarr", "odd.toml"], "odd.toml is not a store"),
        (["odd.zarr", "--host", "192.0.2.1"], "192.0.2.1:8787 cannot be listened at"),
        (["odd.zarr", "--port", "70000"], "70000"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_refused_in_a_line(folder, called, arguments, said):
    done = called(folder, "serve", *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert not done.stdout


def test_a_taken_port_is_named(folder, called, served):
    port = served.base.rpartition(":")[2]
    done = called(folder, "serve", "odd.zarr", "--port", port)
    assert done.returncode == 2
    assert re.search(
        rf"127.0.0.1:{port} cannot be listened at: .*; give another --port", done.stderr
    )


def test_without_the_extra_it_says_what_to_install(folder, called, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    for name in [name for name in sys.modules if name.startswith("sweep.reports.live")]:
        monkeypatch.delitem(sys.modules, name)  # as in a process that has not imported it
    done = called(folder, "serve", "odd.zarr")
    assert done.returncode == 2 and "needs plotly, which is not here: pip install" in done.stderr


@pytest.mark.slow
def test_another_host_is_warned_of(folder, start):
    process = start("sweep", "serve", "odd.zarr", "--port", "0", "--host", "0.0.0.0", cwd=folder)
    assert process.stdout.readline().startswith("Open http://0.0.0.0:")
    process.send_signal(signal.SIGINT)
    out, errors = process.finish()
    assert process.returncode == 0 and not out
    assert errors.startswith("Warning: --host 0.0.0.0 lets") and len(errors.splitlines()) == 1


# --- the server ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["choices", "data", "figure", "progress", "run", "stores"])
def test_nothing_is_answered_without_the_token(served, name):
    for token in ("", "x" * len(served.token)):
        status, _, text = served.get(f"api/{name}", token=token, store="odd.zarr")
        assert status == 403 and json.loads(text).keys() == {"error"} and "odd" not in text


def test_the_page_is_protected_and_holds_nothing_of_stores(served):
    status, headers, text = served.get("", token="")
    assert status == 200 and "odd" not in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    for method in ("POST", "PUT", "DELETE"):
        asked = urllib.request.Request(f"{served.base}/api/figure", method=method, data=b"")
        asked.add_header("X-Token", served.token)
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(asked)


@pytest.mark.parametrize(
    ("name", "choices", "said"),
    [
        ("figure", {"store": "other.zarr"}, "store 'other.zarr' is not served here; odd.zarr"),
        ("figure", {"experiment": "scam"}, "unknown experiment 'scam'. Did you mean 'scan'?"),
        ("figure", {"view": "order"}, "unknown view 'order'. Did you mean 'orders'?"),
        ("figure", {"integrator": "rk"}, "unknown integrator 'rk'"),
        ("figure", {"axis:mass": "1"}, "unknown axis 'mass'"),
        ("figure", {"axis:gravity": "2"}, "unknown gravity '2'"),
        ("figure", {"starts": "nobody"}, "unknown start 'nobody'"),
        ("figure", {"quantity": "global"}, "'global'"),
        ("figure", {"view": "work", "against": "money"}, "unknown measure of work 'money'"),
        ("run", {"run": "999"}, "scan has no run 999 in its study"),
        ("run", {"run": "-1"}, "run = '-1'; expected the row of a run"),
        ("run", {"run": "1" * 5000}, "111'; expected the row of a run"),
        ("run", {"run": "1" * 18}, "scan has no run 111111111111111111 in its study"),
        ("run", {"run": "1", "series": "state"}, "unknown series 'state'"),
    ],
)
def test_choices_that_there_are_not_are_refused_in_a_line(served, name, choices, said):
    given = {"store": "odd.zarr", "experiment": "scan"} | choices
    status, _, text = served.get(f"api/{name}", **given)
    assert status == 400 and said in json.loads(text)["error"]


def test_progress_says_what_failed_runs_share(served):
    found = served.ask("progress")
    total = found["total"]
    assert total["runs"] == total["done"] == 82 and total["failed"] == 1
    (said,) = found["shared"]
    assert said.startswith("fails: the one run with status not_converged has step_size = 25")
    assert found["hosts"] and found["holder"] is None


def test_orders_are_those_of_the_analysis(served, folder):
    figure = served.ask("figure", experiment="scan", view="orders")
    rows = sweep.order_table(folder / "odd.zarr", experiment="scan")
    curves = {
        (panel["title"], curve["name"]): curve
        for panel in figure["panels"]
        for curve in panel["curves"]
    }
    assert len(curves) == len(rows) == 4
    for row in rows:
        curve = curves[f"gravity={row.parameters['gravity']:g}", row.integrator]
        assert curve["y"] == [point.error for point in row.points]
        assert curve["cells"][0]["axis:gravity"] == str(row.parameters["gravity"])
    assert figure["sentences"] == [orders_as_table(rows).summary] != [""]
    assert ODD in [row[0] for row in figure["tables"][0]["rows"]]


def test_a_choice_selects_what_is_answered(served):
    chosen = {"integrator": [ODD], "step_size": ["0.05", "0.025", "0.02"], "axis:gravity": "1.0"}
    figure = served.ask("figure", experiment="scan", view="work", **chosen)
    (panel,) = figure["panels"]
    (curve,) = panel["curves"]
    assert curve["name"] == ODD and len(curve["x"]) == 3
    steps = {cell["step_size"] for cell in curve["cells"]}
    assert steps == {"0.05", "0.025", "0.02"}


def test_the_first_quantity_of_a_view_is_shown_unless_another_is_asked_for(served):
    (quantities,) = (
        one["views"]["series"]
        for one in served.ask("choices")["experiments"]
        if one["name"] == "scan"
    )
    asked = {"experiment": "scan", "view": "series", "integrator": "variational"}
    first, second = (served.ask("figure", **asked, quantity=name) for name in quantities[:2])
    assert served.ask("figure", **asked)["panels"] == first["panels"] != second["panels"]


def test_a_scan_shows_any_result_against_any_axis(served):
    (own,) = (one for one in served.ask("choices")["experiments"] if one["name"] == "scan")
    assert own["axes"] == ["gravity", "step_size", "tolerance"]
    assert {"global_error@end", "evaluations"} <= set(own["views"]["scan"])
    (panel,) = served.ask("figure", experiment="scan", view="scan")["panels"]
    assert panel["x"]["text"].startswith("gravity") and len(panel["curves"]) == 3
    chosen = {"view": "scan", "against": "step_size", "quantity": "evaluations"}
    (panel,) = served.ask("figure", experiment="scan", **chosen)["panels"]
    assert [panel["x"]["text"], panel["y"]["text"]] == ["step size [s]", "evaluations"]
    chosen = {"view": "scan", "integrator": "rk45", "tolerance": "0.0001", "axis:gravity": "1.0"}
    assert served.ask("figure", experiment="scan", **chosen)["panels"]  # no axis varies


def test_an_answer_without_a_figure_has_its_tables(served, folder):
    (own,) = (one for one in served.ask("choices")["experiments"] if one["name"] == "scan")
    assert own["views"]["structure"] and not own["views"]["chaos"]
    found = served.ask("figure", experiment="scan", view="structure")
    rows = sweep.structure_table(folder / "odd.zarr", "smallest", experiment="scan")
    shown = [len(table["rows"]) for table in found["tables"]]
    assert found["panels"] == [] and shown == [sum(len(row.quantities) for row in rows)]


def test_numbers_of_a_figure_are_a_table(served):
    status, headers, text = served.get("api/data", store="odd.zarr", experiment="scan", view="work")
    assert status == 200 and headers["Content-Disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * (2 * 4 + 2) and {row["curve"] for row in rows} >= {ODD, "rk45"}
    assert all(float(row["y"]) > 0 for row in rows)


@pytest.mark.parametrize("row", [1, 78])
def test_a_run_is_computed_again_by_what_it_says(served, folder, row, monkeypatch):
    found = served.ask("run", experiment="scan", run=row)
    facts = dict(found["facts"])
    assert facts["System"] == "spherical_pendulum_chain" and facts["Status"] == "complete"
    monkeypatch.chdir(folder)
    exec(found["script"], names := {})
    states = names["run"]["state"].values
    assert facts["gravity"] == f"{names['run']['gravity'].item():.3g}"
    np.testing.assert_array_equal(names["result"].states, states)


def test_a_cell_leads_to_a_run_and_its_other_starts(served):
    cell = {"integrator": "variational", "step_size": "0.05", "axis:gravity": "9.81"}
    first = served.ask("run", experiment="scan", **cell)
    other = served.ask("run", experiment="scan", **cell, starts="lee-random[1]")
    assert first["cell"] == other["cell"] == cell
    assert (first["start"], other["start"]) == ("lee", "lee-random[1]")


MANY = """\
format = 1
name = "many"
[[experiment]]
name = "long"
system = "free_rigid_body"
integrators = "spherical_midpoint"
step_size = [0.01, 0.005]
initial_condition = { random = 20, seed = 1 }
duration = 1000.0
samples = 100_000
record = ["energy"]
statistics = "none"
"""


@pytest.mark.slow
def test_of_very_much_some_starts_are_shown_unless_all_are_asked_for(tmp_path, command, start):
    (tmp_path / "many.toml").write_text(MANY)
    command(tmp_path, "run", "many.toml", "odd.zarr", "--no-summary")
    process = start("sweep", "serve", "odd.zarr", "--port", "0", cwd=tmp_path)
    served = Served(process.stdout.readline())
    (experiment,) = served.ask("choices")["experiments"]
    assert (experiment["starts"]["shown"], experiment["starts"]["count"]) == (16, 20)
    asked = {"experiment": "long", "view": "series"}
    assert "Of 16 of 20 starts, spread evenly." in served.ask("figure", **asked)["remark"]
    assert "spread" not in served.ask("figure", **asked, starts="all")["remark"]


# --- in a browser ----------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(
    not browser.found(), reason="no Chromium: apt-get install chromium"
)
DRAWN = "document.querySelectorAll('#figure .main-svg').length && !document.querySelector('.busy')"
STARTS = "document.querySelectorAll('#choice-starts option')"
FAR = "document.querySelector('.far').textContent"
TITLE = "document.getElementById('sentence').textContent"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def window():
    with browser.Browser(browser.found()) as found:
        yield found


def complaints(window):
    """What stands in the console, but for what drawing says of its own speed."""
    texts = [json.dumps(one["params"]) for one in window.complaints()]
    return [t for t in texts if not re.search("GPU stall|WebGL|willReadFrequently|MathJax", t)]


@needs_browser
@pytest.mark.parametrize(
    "view",
    [
        "orders",
        *(pytest.param(v, marks=pytest.mark.slow) for v in ("drifts", "work", "series", "sphere")),
    ],
)
def test_each_view_is_drawn_and_fits(served, window, view):
    window.visit(served.address(view=view, experiment="scan"), 390, dark=True)
    window.eventually(DRAWN)
    panels = 6 if view in ("drifts", "sphere") else 2  # one of each integrator, or for all
    assert window.ask("document.getElementById('figure').found.panels.length") == panels
    assert window.ask(FITS) and window.ask("document.title") == "odd.zarr – Geosweep"
    assert not window.ask("document.getElementById('choices').open")
    window.resize(1400, mobile=False)
    window.eventually("document.querySelector('#figure .main-svg').clientWidth > 1000")
    assert window.ask(FITS) and window.ask("document.getElementById('trouble').hidden")
    assert not complaints(window)
    assert all(url.startswith((served.base, "data:", "blob:")) for url in window.requested())


@needs_browser
def test_text_of_a_store_stays_text(served, window):
    window.visit(served.address(view="orders", experiment="scan"), 1400)
    window.eventually(DRAWN)
    assert not window.ask("document.querySelectorAll('#answer img, #answer b').length")
    assert ODD in window.ask("document.querySelector('#tables').textContent")
    shown = "[...document.querySelectorAll('#figure .legendtext')].map((one) => one.textContent)"
    assert ODD in window.ask(shown)


@pytest.mark.slow
@needs_browser
def test_a_choice_stands_in_the_address_and_an_address_can_be_shared(served, window):
    window.visit(served.address(view="orders", experiment="scan"), 1400)
    window.eventually(DRAWN)
    box = "document.querySelector('#choices input[value=\"9.81\"]')"
    window.ask(f"{box}.click()")
    window.eventually("document.getElementById('figure').found.panels.length === 1")
    address = window.ask("location.href")
    assert "axis%3Agravity=1.0" in address
    with browser.Browser(browser.found()) as other:
        other.visit(address, 1400)
        other.eventually(DRAWN)
        assert other.ask("document.getElementById('figure').found.panels.length") == 1
        assert not other.ask(f"{box}.checked") and other.ask(TITLE) == window.ask(TITLE)
    window.ask("history.back()")
    window.eventually("document.getElementById('figure').found.panels.length === 2")
    window.visit(address.replace(served.token, "another"), 1400)
    said = window.eventually("document.getElementById('trouble').textContent")
    assert said == "the token is not that of this server: open the address that it printed"


@needs_browser
def test_a_click_on_a_point_shows_its_run(served, window):
    window.visit(served.address(view="orders", experiment="scan"), 1400)
    window.eventually(DRAWN)
    place = "document.querySelector('#figure .point').getBoundingClientRect()"
    window.click(
        *(
            window.ask(f"{place}.{a} + {place}.{b} / 2")
            for a, b in (("x", "width"), ("y", "height"))
        )
    )
    heading = window.eventually("document.querySelector('#run h2').textContent")
    assert re.fullmatch(r"Run \d+: variational, lee", heading)
    assert "run=" in window.ask("location.search")
    text = window.ask("document.getElementById('run').textContent")
    assert "Compute it again" in text and "integrators.integrate(" in text
    window.ask("document.querySelector('#run .close').click()")
    window.eventually("document.getElementById('run').hidden")
    assert "run=" not in window.ask("location.search")


@pytest.mark.slow
@needs_browser
def test_a_sphere_turns(served, window):
    window.visit(served.address(view="sphere", experiment="scan", integrator="variational"), 1400)
    window.eventually(DRAWN)
    eye = (
        "JSON.stringify(document.getElementById('figure')._fullLayout.scene._scene.getCamera().eye)"
    )
    before = window.eventually(eye)
    place = "document.querySelector('#figure canvas').getBoundingClientRect()"
    x, y = window.ask(f"{place}.x + 200"), window.ask(f"{place}.y + 200")
    window("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    for k in range(5):
        window(
            "Input.dispatchMouseEvent",
            type="mouseMoved",
            x=x + 20 * k,
            y=y,
            button="left",
            buttons=1,
        )
    window(
        "Input.dispatchMouseEvent", type="mouseReleased", x=x + 80, y=y, button="left", clickCount=1
    )
    window.eventually(f"{eye} !== {json.dumps(before)}")


@pytest.mark.slow
@needs_browser
def test_a_figure_is_saved_with_its_numbers(served, window, tmp_path):
    window("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    window.visit(served.address(view="work", experiment="scan"), 390)
    window.eventually(DRAWN)
    for label in ("Figure (SVG)", "Data (CSV)"):
        window.ask(
            "[...document.querySelectorAll('#actions > *')]"
            f".find((one) => one.textContent === '{label}').click()"
        )
    until(
        lambda: {p.name for p in tmp_path.iterdir()} == {"odd-scan-work.svg", "odd-scan-work.csv"}
    )
    assert "rk45" in until(lambda: (tmp_path / "odd-scan-work.svg").read_text())
    assert "rk45" in (tmp_path / "odd-scan-work.csv").read_text()


@pytest.mark.slow
@needs_browser
def test_a_running_study_is_followed_to_its_end(long_study, start, committed, window):
    running = start("sweep", "run", "long.toml", "--no-summary", cwd=long_study)
    # It stays suspended, so that there is time to look.
    in_turns([running], lambda: committed(long_study / "long.zarr", "pendulum"))
    server = start("sweep", "serve", "long.zarr", "--port", "0", cwd=long_study)
    window.visit(Served(server.stdout.readline()).address(), 390)
    done, *said = window.eventually(FAR).split()
    assert 0 < int(done) < 136 and said == ["of", "136", "runs", "are", "done"]
    text = "document.getElementById('progress').textContent"
    assert f"(process {running.pid}, `sweep run long.toml --no-summary`)" in window.ask(text)
    assert "Time leftnot known yet" in window.ask(text) and window.ask(FITS)
    running.signal_all(signal.SIGCONT)
    window.eventually(f"{text}.includes('runs/s')")
    window.eventually(f"{FAR} === '136 of 136 runs are done'")
    running.finish()
    window.eventually(f"{text}.includes('Writing to itnobody')")


@pytest.mark.slow
@needs_browser
def test_a_store_that_grows_is_followed(served, window, folder, command):
    window.visit(served.address(view="orders", experiment="scan"), 1400)
    window.eventually(f"{STARTS}.length === 5")
    (folder / "more.toml").write_text(study_text(7))
    command(folder, "run", "more.toml", "odd.zarr", "--no-summary", code=3)
    window.eventually(f"{STARTS}.length === 9")
