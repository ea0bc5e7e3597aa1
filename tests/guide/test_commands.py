"""Every command of README and the guide is run, in their order, on small studies of their names."""

import re
import shlex
import shutil

import dask
import pytest
from documents import DOCUMENTS, ROOT, command_lines, fenced

LINES = list(dict.fromkeys(line for path in DOCUMENTS for line in command_lines(path)))
# What is run elsewhere: papers by test_reproduce*, clusters by test_clusters, test_tls and
# test_detached, buckets by test_bucket_stores, the plugin by test_plugins and
# test_foreign_stores; what installs; and what checks all of it, by .ci/run.
ELSEWHERE = ("sweep reproduce ", "sweep show plugins", "sweep show system bead", "export AWS_")
ELSEWHERE += ("sweep serve ",)  # by test_serve
ELSEWHERE += ("sweep recommend ",)  # by test_recommend: kernels of all integrators
ELSEWHERE += ("sweep submit", "sweep cancel", "sweep certificates", "sweep run bead.zarr")
OTHERS = ("--cluster ", "--scheduler-file ", "s3://")
INSTALLS = ("python3 -m venv", ".venv/bin/pip install")  # the site too: tests/deploy/test_docs
CHECKS = (".ci/run", ".venv/bin/ruff", ".venv/bin/python -m pytest", ".venv/bin/python tests/")

STUDY = """\
format = 1
name = "{name}"

[[experiment]]
name = "{experiment}"
system = "spherical_pendulum_chain"
integrators = ["variational", "variational+suzuki4"]
step_size = [0.02, 0.01, 0.005]
initial_condition = ["lee", {{ around = "lee", random = 7, spread = 0.1, seed = 1 }}]
duration = 1.0
samples = 10
reference = {{ integrator = "dop853" }}
"""
SECTIONS = """\
format = 1
name = "mclachlan-sections"

[[experiment]]
name = "forced-body"
system = "forced_rigid_body"
integrators = ["spherical_midpoint"]
step_size = 0.5
initial_condition = { lattice = 9 }
duration = 20.0
samples = 20
record = ["state"]
"""
# The studies that are shown would take minutes, and the addresses are not here.
INSTEAD = {
    "/shared/my-study.zarr": "shared.zarr",
    # No study can say such a time axis: a copy has it, so that later commands find what they show.
    "my-study.zarr --duration 1e6 --samples 100": "copied.zarr --duration 3 --samples 2",
    "my-study.toml --decide": "my-study.toml --decide --budget 0.0001",  # whose runs stay short
    "--duration 1e6": "--duration 2",
    "--members 128": "--members 9",
    "--step-size 0.01 ": "--step-size 0.025 ",
    "celledoni-top.zarr --across formulation": "weights.zarr --across gravity",
}


def commands():
    found = [line for line in LINES if not line.startswith((*INSTALLS, *CHECKS, *ELSEWHERE))]
    return [line for line in found if not any(text in line for text in OTHERS)]


def small(name, experiment="pendulum"):
    return STUDY.format(name=name, experiment=experiment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    path = tmp_path_factory.mktemp("guide")
    # A file wins over the packaged study.
    for name in ("quickstart", "round-off", "all-orders", "all-properties"):
        (path / name).write_text(small(name))
    (path / "mclachlan-sections").write_text(SECTIONS)
    for block in fenced("toml"):
        if block.name:
            (path / f"{block.name}.toml").write_text(block.text)
    command(path, "run", "round-off", "--no-summary")
    light, _, table = small("weights").partition("[[experiment]]")
    heavy = "[[experiment]]" + table.replace('"pendulum"', '"heavy"') + "parameters.gravity = 2.0\n"
    (path / "weights").write_text(f"{light}[[experiment]]{table}\n{heavy}")
    command(path, "run", "weights", "--no-summary")
    return path


def certificate(security):
    """Dask's settings for who has the certificate of a local cluster."""
    tls = "distributed.comm.tls"
    own = {"cert": security.tls_client_cert, "key": security.tls_client_key}
    return {f"{tls}.ca-file": security.tls_ca_file} | {
        f"{tls}.client.{name}": text for name, text in own.items()
    }


def test_every_command_runs(folder, command, cluster, monkeypatch):
    sorts = dict.fromkeys(line.split()[1] for line in commands() if line.startswith("sweep "))
    assert len(commands()) >= 30 and len(sorts) >= 16
    command(folder, "run", "quickstart", "--no-summary")  # the one in the line that installs
    summaries = 0
    for line in commands():
        assert line.startswith("sweep "), f"{line!r} is none that this test can run"
        for written, here in INSTEAD.items():
            line = line.replace(written, here)
        line = re.sub(r"tcp://[\w.:]+", str(cluster.scheduler.address), line)
        line, _, target = line.partition(" > ")
        arguments = shlex.split(line)[1:]
        if arguments[0] == "run":  # they differ in what is run, and the summary in nothing
            arguments += ["--no-summary"] * bool(summaries)
            summaries += 1
        if "copied.zarr" in line:
            shutil.copytree(folder / "my-study.zarr", folder / "copied.zarr")
        with dask.config.set(certificate(cluster.security)):
            done = command(folder, *arguments)
        assert done.stdout, line
        if target:
            (folder / target).write_text(done.stdout)
        if line == "sweep init my-study.toml":  # a smaller one of the same name
            (folder / "my-study.toml").write_text(small("my-study", "order"))
        if line == "sweep run my-study.zarr":  # what `merge` is shown with
            for name in ("laptop", "cluster"):
                (folder / f"{name}.zarr").parent.mkdir(exist_ok=True)
                text = small("both")
                text = text if name == "laptop" else text.replace("0.005]", "0.005, 0.004]")
                (folder / f"{name}.toml").write_text(text)
                command(folder, "run", f"{name}.toml", f"{name}.zarr", "--no-summary")
    for made in ("quickstart.nc", "order.pdf", "report.html", "both.zarr", "figures"):
        assert (folder / made).exists(), made


def test_what_it_says_to_install_and_to_run_is_there():
    for line in LINES:
        for script in re.findall(r"tests/\w+/\w+\.py", line):
            assert (ROOT / script).exists(), script
    told = " ".join(line for line in LINES if line.startswith(INSTALLS))
    assert "pip install -e . && .venv/bin/sweep run quickstart" in told
    checks = (ROOT / ".ci" / "run").read_text()
    assert "'.[test]'" in told and "python -m pytest" in told and "python -m pytest" in checks
    for install in ("--require-hashes", "deploy/lock/test.txt", "--no-build-isolation"):
        assert install in told and install in checks
    for line in LINES:
        if line.startswith(".venv/bin/ruff"):
            assert all(part.replace(".venv/bin/", "") in checks for part in line.split(" && "))
