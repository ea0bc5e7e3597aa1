"""`sweep new` writes plugins that work, each with a study that uses it."""

import re

import pytest

KINDS = (
    *("mechanical-system", "spin-system", "lie-group-system", "python-system"),
    *("integrator", "python-integrator", "observable", "plot"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_works_at_once(command, tmp_path, kind):
    scaffold, kind = kind, kind.rpartition("-")[2]
    name = "my_bead" if scaffold == "mechanical-system" else f"own_{kind}"  # as the guide has it
    assert f"sweep run {name}.toml" in command(tmp_path, "new", scaffold, name).stdout
    assert len((tmp_path / f"{name}.py").read_text().splitlines()) <= 40
    checked = command(tmp_path, "check", f"{name}.toml").stdout
    assert re.search(rf"^plugin {name}\.py, sha256 .*: {kind} {name}$", checked, re.M)
    assert "not tried" not in checked or kind == "plot"
    if kind in ("observable", "plot"):  # the others are run by other tests, with more kernels
        command(tmp_path, "run", f"{name}.toml", "--no-summary")
    if kind == "plot":
        command(tmp_path, "plot", "own_plot", "own_plot.zarr", "-o", "own.svg")
        assert (tmp_path / "own.svg").stat().st_size > 5000


def test_nothing_is_overwritten_and_names_are_checked(command, tmp_path):
    (tmp_path / "own.toml").write_text("mine")
    done = command(tmp_path, "new", "plot", "own", code=2)
    assert done.stderr.startswith("Error: own.toml exists;")
    assert not (tmp_path / "own.py").exists() and (tmp_path / "own.toml").read_text() == "mine"
    refused = command(tmp_path, "new", "spin-system", "heavy_top", code=2).stderr
    assert refused == "Error: the system 'heavy_top' is built in; give the plugin another name\n"
    refused = command(tmp_path, "new", "plot", "My-Plot", code=2).stderr
    assert "'My-Plot' is no name of a plugin; expected small letters" in refused
