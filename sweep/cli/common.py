"""Arguments and lookups that several subcommands share."""

import functools
import json
import os
import re

import click

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


class Duration(click.ParamType):
    """Seconds, as a number or with units: 3600, 90s, 55m, 2h, 1h30m."""

    name = "duration"

    def convert(self, value, param, ctx):
        """The seconds as a float; refuses what is none, or not positive."""
        if isinstance(value, float):
            return value
        number = r"(\d+\.?\d*|\.\d+)"
        parts = re.fullmatch("".join(rf"(?:{number}{unit})?" for unit in UNITS), value)
        if re.fullmatch(number, value):
            seconds = float(value)
        elif parts is not None:
            counts = zip(parts.groups(default="0"), UNITS.values(), strict=True)
            seconds = sum(float(count) * unit for count, unit in counts)
        else:
            seconds = 0.0
        if not 0.0 < seconds < float("inf"):
            self.fail(f"{value!r} is no time; expected seconds, or such as 90s, 55m, 2h or 1h30m")
        return seconds


max_time_option = click.option(
    "--max-time",
    type=Duration(),
    metavar="TIME",
    help="End before so much time has passed since the start: 3600, 55m, 2h, 1h30m.",
)

_SCHEDULER_OPTIONS = (
    click.option(
        "--scheduler", metavar="ADDRESS", help="A running Dask scheduler, tcp://host:8786."
    ),
    click.option(
        "--scheduler-file", metavar="FILE", type=click.Path(), help="Written by a running one."
    ),
    click.option(
        "--tls-ca-file",
        metavar="FILE",
        type=click.Path(),
        help="For tls://: the authority's certificate; else as in Dask's configuration.",
    ),
    click.option(
        "--tls-cert", metavar="FILE", type=click.Path(), help="The own one, signed by it."
    ),
    click.option(
        "--tls-key", metavar="FILE", type=click.Path(), help="Unless that file holds the key too."
    ),
)

_RUN_OPTIONS = (
    click.option(
        "--cluster",
        metavar="PROFILE",
        help="local (unless given), slurm, pbs, lsf, sge, kubernetes, or what is in "
        "geosweep.clusters of Dask's configuration.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="So many; one a core if local, else what the profile says.",
    ),
)

_PACE_OPTIONS = (
    max_time_option,
    click.option(
        "--checkpoint-every",
        type=click.FloatRange(min=0.0, min_open=True),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="A killed worker's task is done again from its last checkpoint, at most so much.",
    ),
)

_REACHING = ("scheduler", "scheduler_file", "tls_ca_file", "tls_cert", "tls_key")
_STARTING = ("profile", "workers")


def scheduler_options(command):
    """Add the options of a running scheduler: they become one argument, `cluster`.

    It is a `sweep.clusters.ClusterSpec`, without any scheduler if none was named.
    """

    @functools.wraps(command)
    def called(**given):
        return command(cluster=_take_spec(given, _REACHING), **given)

    return _with_options(called, _SCHEDULER_OPTIONS)


def run_options(command):
    """Add the options of all commands that compute: they become one argument, `options`.

    It is a dict of arguments of `sweep.runner.run`.
    """

    @functools.wraps(command)
    def called(cluster, max_time, checkpoint_every, **given):
        given["profile"] = cluster
        options = {
            "cluster": _take_spec(given, (*_STARTING, *_REACHING)),
            "max_time": time_left(max_time),
            "checkpoint_every": checkpoint_every,
        }
        return command(options=options, **given)

    return _with_options(called, (*_RUN_OPTIONS, *_SCHEDULER_OPTIONS, *_PACE_OPTIONS))


def _take_spec(given, names):
    """The `ClusterSpec` of some of the options, which are taken out of `given`."""
    from sweep.clusters import ClusterSpec

    return ClusterSpec(**{name: given.pop(name) for name in names})


def _with_options(command, options):
    for option in reversed(options):
        command = option(command)
    return command


study_argument = click.argument("study")
store_argument = click.argument("store", type=click.Path())
optional_store = click.argument("store", required=False, type=click.Path())
library_option = click.option(
    "--study", "source", metavar="STUDY", help="Also what its plugins add; a file, or a store."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
experiment_option = click.option(
    "--experiment", "-e", multiple=True, metavar="NAME", help="Only this experiment; repeatable."
)


def study_or_store(name):
    """The study of a file or packaged study, or the one that a store keeps with its plugins."""
    from sweep.extending import is_store, stored_study
    from sweep.places import place_of
    from sweep.study import load

    return stored_study(place_of(name)) if is_store(name) else load(name)


def library_of(source):
    """What the study or store of ``--study`` can name; without one, what is built in."""
    from sweep.library import BUILT_IN

    return study_or_store(source).library if source is not None else BUILT_IN


def store_path(study, store):
    """The store's path: the one given, or ./NAME.zarr."""
    from sweep.places import place_of

    return place_of(store if store is not None else f"{study.name}.zarr").absolute()


def kept_store(study, store):
    """The path of a store that a study may have been run into; None if there is none."""
    import tomllib
    from pathlib import Path

    from sweep.extending import is_store

    if store is None:
        try:
            name = tomllib.loads(Path(study).read_text(encoding="utf-8-sig")).get("name")
        except (OSError, ValueError):
            return None  # a packaged study, or one with a mistake, which is said later
        store = f"{name}.zarr"
    from sweep.places import ObjectPlace, place_of

    place = place_of(store)
    if isinstance(place, ObjectPlace):
        return place if is_store(place) else None
    return place if os.path.isdir(place) else None  # also of a name that no file can have


def opened(store, experiments=(), everything=False):
    """The datasets of a store by experiment; only `experiments` if some are named.

    Runs that left the study are left out, and experiments that did, unless `everything` is
    asked for.
    """
    from integrators.errors import check_known
    from sweep.opening import open_study

    tree = open_study(store)
    for name in experiments:
        check_known(f"experiment of {store}", name, tree.children)
    datasets = {
        name: node.to_dataset()
        for name, node in tree.children.items()
        if not experiments or name in experiments
    }
    if everything:
        return datasets
    current = {name: data.isel(run=data["in_study"].values) for name, data in datasets.items()}
    return {name: data for name, data in current.items() if data.sizes["run"]}


def selected(store, experiments=(), expression=None):
    """The runs of a store for which an expression holds, and how many there are; by experiment.

    Of the experiments that have some; `InputError` if none has.
    """
    from integrators.errors import InputError
    from sweep.analysis.querying import query, refusals

    chosen, refused = {}, []
    for name, dataset in opened(store, experiments).items():
        try:
            runs = dataset if expression is None else query(dataset, expression)
            chosen[name] = runs, dataset.sizes["run"]
        except InputError as error:
            refused.append((name, error))
    if not chosen:
        raise InputError("\n".join(refusals(refused)) or f"{store} has no runs")
    return chosen


def echo_json(value):
    """Print a value as JSON; NaN as null, which JSON has not."""
    from sweep.text import jsonable

    click.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def save_plots(dataset, directory, name, ending=".png", kinds=None, skipped=None):
    """Write an experiment's plots, as `sweep.plots.save_all`. `InputError` if that cannot be."""
    from integrators import InputError
    from sweep.plots import save_all

    try:
        return save_all(dataset, directory, name, ending, kinds, skipped)
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}") from None


def warn_of_stability(table, among=None):
    """Print a line on stderr for each integrator and step size beyond a stability limit."""
    from sweep.stability import beyond_limit

    for found in beyond_limit(table, among):
        click.echo(str(found), err=True)


def time_left(max_time):
    """What is left of ``--max-time``, which counts from the start of the process."""
    if max_time is None:
        return None
    from sweep.draining import process_age

    return max(max_time - process_age(), 1e-3)
