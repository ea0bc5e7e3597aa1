"""The atlas: every cell says what the commands say, every address leads somewhere."""

import json
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import sweep
from integrators.errors import InputError

pytestmark = pytest.mark.slow

LABEL = 'rk4 <b>&"$h$/..'  # as a user may call it
ORDERS = f"""\
format = 1
name = "orders"

[[experiment]]
name = "spin"
system = "free_rigid_body"
integrators = [
    "spherical_midpoint", "rk2_midpoint", "rk45", {{ name = "rk4", step_size = [0.05, 0.025] }},
    {{ name = "rk4", label = '{LABEL}', step_size = 0.1 }},
    {{ name = "rk4", arithmetic = "double-double", step_size = 0.05 }},
]
step_size = [0.2, 0.05, 0.04, 0.025]
tolerance = [1e-4, 1e-8]
initial_condition = {{ random = 3, seed = 1 }}
duration = 8.0
samples = 4
record = ["energy"]
reference = {{ integrator = "dop853" }}
"""
LONG = """\
format = 1
name = "long"

[[experiment]]
name = "defects"
system = "free_rigid_body"
integrators = ["spherical_midpoint", "rk2_midpoint"]
step_size = 0.2
initial_condition = { random = 4, seed = 2 }
duration = 400.0
samples = 40
record = ["energy", "unit_length", "symplectic_defect", "reversal_error"]
"""
MIDPOINT = "free_rigid_body/spherical_midpoint.html"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    path = tmp_path_factory.mktemp("atlas")
    (path / "orders.toml").write_text(ORDERS)
    (path / "long.toml").write_text(LONG)
    for study in ("orders.toml", "long.toml"):
        command(path, "run", study, "--workers", "1", "--no-summary")
    said = command(path, "atlas", "orders.zarr", "long.zarr", "-o", "site", "--workers", "2")
    assert said.stdout == "site/index.html\n"
    return path


@pytest.fixture(scope="module")
def cells(folder):
    rows = json.loads((folder / "site" / "certificates.json").read_text())["certificates"]
    return {(row["integrator"], row["system"]): row for row in rows}


class Addresses(HTMLParser):
    """Addresses that a page refers to, and those of its own parts."""

    def __init__(self, page):
        super().__init__()
        self.leads, self.parts = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.leads += [given["href"]] if "href" in given else []
        self.parts |= {given["id"]} if "id" in given else set()


def test_a_certificate_stands_for_each_integrator_on_each_system(cells):
    assert {integrator for integrator, _ in cells} == {
        "spherical_midpoint", "rk4", LABEL, "rk45", "rk2_midpoint"
    }  # fmt: skip  # the arithmetic makes no other integrator
    assert cells["rk4", "free_rigid_body"]["experiments"] == ["orders, spin"] * 2
    both = ["orders, spin", "long, defects"]
    assert cells["spherical_midpoint", "free_rigid_body"]["experiments"] == both


def test_cells_are_the_answers_of_the_analysis(folder, cells):
    spin = sweep.open_study(folder / "orders.zarr")["spin"].to_dataset()
    long = sweep.open_study(folder / "long.zarr")["defects"].to_dataset()
    found = cells["spherical_midpoint", "free_rigid_body"]["cells"]
    order = next(r for r in sweep.order_table(spin) if r.integrator == "spherical_midpoint")
    assert found["order"]["text"] == f"{order.order:.2f}"
    assert found["order"]["verdict"] == order.verdict == "confirmed"
    assert f"{order.low:.3f} to {order.high:.3f}" in found["order"]["meaning"]
    drifts = [r for r in sweep.drift_table(long) if r.integrator == "rk2_midpoint"]
    for measure, quantity in (("energy drift", "energy"), ("other drift", "unit_length")):
        row = next(row for row in drifts if row.quantity == quantity)
        cell = cells["rk2_midpoint", "free_rigid_body"]["cells"][measure]
        assert cell["verdict"] == row.verdict == "linear" and "over t = 400" in cell["meaning"]
        assert f"|drift| at most {max(abs(row.low), abs(row.high)):.2g} " in cell["meaning"]
    defects = {row.integrator: row for row in sweep.structure_table(long)}
    for integrator, row in defects.items():
        mine = cells[integrator, "free_rigid_body"]["cells"]
        assert mine["symplectic defect"]["text"] == f"{row.defect.high:.1e}"
        assert mine["symplectic defect"]["verdict"] == row.verdict
        assert mine["reversal error"]["text"] == f"{row.reversal.high:.1e}"
    assert defects["spherical_midpoint"].verdict != defects["rk2_midpoint"].verdict
    error = min(
        (r for r in sweep.tolerance_table(spin) if r.integrator == "rk45"),
        key=lambda r: r.tolerance,
    )
    assert cells["rk45", "free_rigid_body"]["cells"]["order"]["text"] == f"{error.value:.1e}"


def test_work_is_compared_with_the_cheapest_of_the_experiment(cells):
    said = {
        name: row["cells"]["work"] for (name, _), row in cells.items() if "work" in row["cells"]
    }
    assert len([cell for cell in said.values() if cell["text"] == "1.00"]) == 1
    for cell in said.values():
        pattern = r"([\d,]+) evaluations.* measured: .*?, ([\d,]+);"
        mine, least = re.search(pattern, cell["meaning"]).groups()
        ratio = float(mine.replace(",", "")) / float(least.replace(",", ""))
        assert float(cell["text"].removeprefix("≤ ")) == pytest.approx(ratio, abs=0.01)
    # An integrator whose error is smaller at its coarsest step may need less than is known.
    bounded = {name for name, cell in said.items() if cell["text"].startswith("≤")}
    assert bounded == {"rk4", "rk45", LABEL}
    assert said[LABEL]["meaning"].startswith("at most ")
    assert all("more may need fewer" in cell["meaning"] for cell in said.values())


def test_every_address_leads_to_a_page_and_a_part_of_it(folder):
    site = folder / "site"
    pages = {page: Addresses(page.read_text()) for page in site.rglob("*.html")}
    assert len(pages) == 2 + 2 + 5
    for page, found in pages.items():
        for address in found.leads:
            assert "://" not in address
            file, _, part = address.partition("#")
            target = (page.parent / unquote(file)).resolve() if file else page
            assert target.is_file() and site in target.parents
            assert not part or part in pages[target].parts


def test_a_certificate_shows_the_runs_and_the_study(folder):
    page = (folder / "site" / MIDPOINT).read_text()
    runs = sweep.open_study(folder / "long.zarr")["defects"].to_dataset()
    mine = runs["run_id"].values[runs["integrator"].values == "spherical_midpoint"]
    assert len(mine) == 4 and all(str(run) in page for run in mine)
    assert (folder / "site" / "long.toml").read_text() == LONG
    for said in ("orders.toml", "long.toml", "sweep query long.zarr", "has its declared order"):
        assert said in page
    odd = next((folder / "site" / "free_rigid_body").glob("rk4-*.html")).read_text()
    assert "<b>&" not in odd and "rk4 &lt;b&gt;&amp;&#34;$h$/.." in odd.replace("<wbr>", "")


def test_a_command_of_a_certificate_shows_its_runs(folder, command):
    page = (folder / "site" / MIDPOINT).read_text()
    said = re.search(r"<code>sweep (query orders.zarr .*?)</code>", page)[1]
    assert said == "query orders.zarr &#39;integrator == &#34;spherical_midpoint&#34;&#39; -e spin"
    shown = command(
        folder, "query", "orders.zarr", 'integrator == "spherical_midpoint"', "-e", "spin", "--json"
    )
    assert len(json.loads(shown.stdout)["spin"]) == 12


def test_a_site_is_replaced_and_nothing_else_is(folder, tmp_path):
    site = shutil.copytree(folder / "site", tmp_path / "new" / "site")
    assert (site / MIDPOINT).exists() and (site / "long.html").exists()
    page = sweep.atlas([folder / "orders.zarr", folder / "orders.zarr"], site, workers=1)
    assert page == site / "index.html"
    second = {str(page.relative_to(site)) for page in site.rglob("*")}
    assert "orders.html" in second and "orders-2.html" not in second  # it is one store
    assert "long.html" not in second and MIDPOINT in second
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["site"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"mine has files that are no pages .* thesis.tex; move"):
        sweep.atlas([folder / "long.zarr"], tmp_path / "mine")
    (site / "free_rigid_body" / "notes.html").write_text("")
    with pytest.raises(InputError, match=r"such as free_rigid_body/notes.html; move them"):
        sweep.atlas([folder / "long.zarr"], site)
    with pytest.raises(InputError, match="thesis.tex is no directory"):
        sweep.atlas([folder / "long.zarr"], tmp_path / "mine" / "thesis.tex")


def test_pictures_of_unchanged_runs_are_not_drawn_again(folder, tmp_path, monkeypatch):
    first = (folder / "site" / "orders.html").read_text()

    def draw(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr("sweep.reports.gather.draw_embedded_picture", draw)
    sweep.atlas([folder / "orders.zarr", folder / "long.zarr"], tmp_path / "again", workers=1)
    pictures = re.compile(r"<svg.*?</svg>|<img[^>]*>", re.DOTALL)
    again = pictures.findall((tmp_path / "again" / "orders.html").read_text())
    assert again == pictures.findall(first) and len(again) >= 2


def test_the_first_page_says_which_integrators_to_choose(folder):
    page = (folder / "site" / "index.html").read_text()
    (table,) = re.findall(r"<table.*?</table>", page, re.S)
    rows = [re.findall(r">([^<>]*)</a>", row.replace("<wbr>", "")) for row in table.split("<tr>")]
    named = {row[0]: row[1:] for row in rows if row}
    spin = sweep.open_study(folder / "orders.zarr")["spin"].to_dataset()
    work = sweep.least_work(sweep.work_table(spin, "global_error"))
    for one in (one for one in work if one.level in (1e-6, 1e-9) and one.least_of_all):
        assert f"{'' if one.interpolated else '≤ '}{one.work:,.0f}" in named[one.integrator]
    long = sweep.open_study(folder / "long.zarr")["defects"].to_dataset()
    (energy,) = (row for row in sweep.drift_table(long, "energy") if row.verdict == "at round-off")
    assert f"{energy.bound:.1e}" in named[energy.integrator]
    unreached = [name for name, *_, last in filter(None, rows) if last == "–"]
    ends = spin["global_error"].isel(time=-1).groupby("integrator").min()
    assert unreached and all(ends.sel(integrator=unescape(own)) > 1e-9 for own in unreached)
    for verdict in ("linear", "unsteady", "random walk", "at round-off", "no drift seen"):
        assert re.search(rf"<dt[^>]*>{verdict}</dt>", page)


def test_a_wrong_plugin_is_named_once(folder, command):
    (folder / "worse.py").write_text(
        "from integrators.plugin import python_method\n"
        "def step(f, t, y, h):\n    return y + h * f(t, y)\n"
        "INTEGRATORS = [python_method('mine', step, order=2)]\n"
    )
    (said,) = command(folder, "atlas", "--integrator", "worse.py", code=2).stderr.splitlines()
    assert "worse.py: 'mine' is declared to have order 2, and has order 1." in said


def test_own_integrators_have_a_row_beside_the_others(folder, command):
    """On the systems that it fits, which here is one: each would take seconds more."""
    command(folder, "new", "integrator", "my_leapfrog")
    text = (folder / "my_leapfrog.py").read_text()
    few = text.replace("form.diagonal", "form.diagonal and form.rows in (4, 6)")
    (folder / "my_leapfrog.py").write_text(few)
    command(folder, "atlas", "orders.zarr", "--integrator", "my_leapfrog.py", "-o", "mine")
    rows = json.loads((folder / "mine" / "certificates.json").read_text())["certificates"]
    own = {row["system"]: row["cells"] for row in rows if row["integrator"] == "my_leapfrog"}
    assert few != text and own.keys() == {"nbody_sphere"}
    for cells in own.values():
        assert cells["order"]["verdict"] == "confirmed" and "energy drift" in cells
    page = (folder / "mine" / "index.html").read_text().replace("<wbr>", "")
    assert page.count(">my_leapfrog</a>") == len(own)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["long.zarr", "lacking"], "lacking: there is no store; sweep run STUDY makes"),
        (["--integrator", "lacking.py"], "lacking.py"),
        ([], "kept.zarr holds the study all-orders, which would be run again into all-orders.zarr"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(folder, command, arguments, said):
    if not arguments:
        (folder / "small.toml").write_text(LONG.replace('"long"', '"all-orders"'))
        command(folder, "run", "small.toml", "kept.zarr", "--workers", "1", "--no-summary")
    assert said in command(folder, "atlas", *arguments, "-o", "other", code=2).stderr
    assert not (Path(folder) / "other").exists()
