"""Every command of README and the guide: the program knows all of them, and those of a page run.

They run in the order of their page, on small studies of the names that the page uses.
"""

import re
import shlex
import shutil

import dask
import entry_point
import pytest
from documents import DOCUMENTS, ROOT, command_lines, fenced
from output_blocks import lines_of_shown_studies

PAGE_OF = {line: path.stem for path in reversed(DOCUMENTS) for line in command_lines(path)}
LINES = list(dict.fromkeys(line for path in DOCUMENTS for line in command_lines(path)))
COMMANDS = [line for line in LINES if line.startswith("sweep ")]
# What is run elsewhere: papers and shown studies by output_blocks, which compares what they print;
# the pages, clusters, buckets, recommendations and plugins by the tests of these.
ELSEWHERE = ("sweep reproduce", "sweep serve", "sweep submit", "sweep cancel", "sweep atlas")
ELSEWHERE += ("sweep recommend", "sweep report", " bead.", "my_leapfrog", "s3://")
ELSEWHERE += ("--cluster ", *lines_of_shown_studies())
# What compiles many kernels or draws many pictures, and what is shown in other words too.
LATER = ("recipes.", "structure.", "my_bead.toml", "--format pdf", "plot order quickstart")
LATER += ("round-off", "--duration 1e6", "tcp://", "run all-orders", "--across", "--samples 100")
LATER += ("--members 128", " again.zarr")
CHECKS = (".ci/run", ".venv/bin/ruff", ".venv/bin/python -m pytest", ".venv/bin/python tests/")
SETTINGS = ("export AWS_", "source .venv")
TO_FILE = re.compile(r" > ([\w.-]+)$")
INSTALLS = ("python3 -m venv", ".venv/bin/pip install")  # the site too: tests/deploy/test_docs

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
initial_condition = { lattice = 1 }
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
    "round-off.zarr": "quickstart.zarr",
    "celledoni-top.zarr --across formulation": "scanned.zarr --across gravity",
    "global_error@2 ": "global_error@1 ",
    "my-study.zarr -e drift": "my-study.zarr -e order",
}


def small(name, experiment="pendulum"):
    return STUDY.format(name=name, experiment=experiment)


@pytest.fixture(scope="module")
def shared(tmp_path_factory, command):
    """A directory with the studies that the pages name, and the stores that they begin with."""
    path = tmp_path_factory.mktemp("guide")
    # A file wins over the packaged study.
    for name in ("quickstart", "round-off", "all-properties", "solvers"):
        (path / name).write_text(small(name))
    (path / "mclachlan-sections").write_text(SECTIONS)
    (path / "my-study.toml").write_text(small("my-study", "order"))
    for block in fenced("toml"):
        if block.name:
            few = re.sub(r"random = \d+", "random = 2", block.text)
            (path / f"{block.name}.toml").write_text(few)
    for study in ("quickstart", "my-study.toml"):
        command(path, "run", study, "--no-summary")
    return path


@pytest.fixture
def folder(shared, tmp_path):
    """A copy of it: pages write into its stores."""
    return shutil.copytree(shared, tmp_path / "guide")


def certificate(security):
    """Dask's settings for who has the certificate of a local cluster."""
    tls = "distributed.comm.tls"
    own = {"cert": security.tls_client_cert, "key": security.tls_client_key}
    return {f"{tls}.ca-file": security.tls_ca_file} | {
        f"{tls}.client.{name}": text for name, text in own.items()
    }


def commands_run_here(page, later):
    """The lines that stand on a page and on none before it, of one of the stages."""
    return [
        line
        for line in COMMANDS
        if PAGE_OF[line] == page
        and not any(text in line for text in ELSEWHERE)
        and any(text in line for text in LATER) == later
    ]


def pages(later):
    return [path.stem for path in DOCUMENTS if commands_run_here(path.stem, later)]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_program_knows_what_is_shown(line):
    """The subcommand, its arguments and options, whatever they need to run."""
    entry_point.answer(*shlex.split(TO_FILE.sub("", line))[1:])


@pytest.mark.parametrize("page", pages(later=False))
def test_the_commands_of_a_page_run(page, folder, command, cluster):
    """Those that are cheap: at least one of each subcommand."""
    run_all(commands_run_here(page, later=False), folder, command, cluster)


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(later=True))
def test_the_other_commands_of_a_page_run(page, folder, command, cluster):
    run_all(commands_run_here(page, later=True), folder, command, cluster)


def run_all(lines, folder, command, cluster):
    for line in lines:
        for written, here in INSTEAD.items():
            line = line.replace(written, here)
        line = re.sub(r"tcp://[\w.:]+", str(cluster.scheduler.address), line)
        target = TO_FILE.search(line)
        line = TO_FILE.sub("", line)
        arguments = shlex.split(line)[1:]
        prepare(line, folder, command)
        if arguments[0] in ("run", "extend"):  # tests of the command line read summaries
            arguments.append("--no-summary")
        with dask.config.set(certificate(cluster.security)):
            done = command(folder, *arguments)
        assert done.stdout, line
        if target:
            (folder / target[1]).write_text(done.stdout)
        for made in re.findall(r" (?:-o|export \S+) (\S+)", line):
            assert (folder / made).exists(), line


def prepare(line, folder, command):
    """Have what a line is shown with, where no line before it makes that."""
    study, store = folder / "my-study.toml", folder / "my-study.zarr"
    if line == "sweep init my-study.toml":
        study.unlink()
    elif line == "sweep run my-study.toml":  # a smaller one, from the beginning
        study.write_text(small("my-study", "order"))
        shutil.rmtree(store)
    elif line == "sweep status shared.zarr":
        shutil.copytree(store, folder / "shared.zarr")
    elif "copied.zarr" in line:
        shutil.copytree(store, folder / "copied.zarr")
    elif "scanned.zarr" in line:
        (folder / "scanned").write_text(small("scanned") + "scan = { gravity = [1.0, 2.0] }\n")
        command(folder, "run", "scanned", "--no-summary")
    elif line == "sweep run my_bead.toml":
        command(folder, "new", "mechanical-system", "my_bead")
    elif "merge" in line:
        for name in ("laptop", "cluster"):
            shutil.copytree(store, folder / f"{name}.zarr")


def test_at_least_one_of_each_subcommand_runs():
    """Here or, as the lines `ELSEWHERE`, by the tests that its comment names."""
    here = {line.split()[1] for page in pages(False) for line in commands_run_here(page, False)}
    elsewhere = {text.split()[1] for text in ELSEWHERE if text.startswith("sweep ")}
    assert here | elsewhere == {line.split()[1] for line in COMMANDS} and len(here) >= 20
    for line in LINES:
        assert line in COMMANDS or line.startswith((*INSTALLS, *CHECKS, *SETTINGS)), line


def test_what_it_says_to_install_and_to_run_is_there():
    for line in LINES:
        for script in re.findall(r"tests/\w+/\w+\.py", line):
            assert (ROOT / script).exists(), script
    told = " ".join(line for line in LINES if line.startswith(INSTALLS))
    assert "pip install -e . && .venv/bin/sweep run quickstart" in told
    checks = (ROOT / ".ci" / "run").read_text()
    assert "'.[test]'" in told and "python -m pytest" in told and "python -m pytest" in checks
    for line in LINES:
        if line.startswith(".venv/bin/ruff"):
            assert all(part.replace(".venv/bin/", "") in checks for part in line.split(" && "))
