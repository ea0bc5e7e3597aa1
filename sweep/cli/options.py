"""Commands made of functions, and the options that several commands share.

The documentation of the function is the help of the command, and its section ``Options:`` says the
names of options, what a value is called, and what they do. Types and defaults are those of the
parameters; one that is no option is an argument, unless it is in `Shared`, or in `MADE`: then it is
what the function of that name makes of its own parameters, which are found in the same way.
"""

import functools
import importlib.resources
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

import sweep
from integrators.errors import InputError
from sweep.cli.selection import open_experiments
from sweep.clusters.spec import ClusterSpec
from sweep.clusters.stop_request import process_age

if TYPE_CHECKING:
    import xarray as xr

    from sweep.plugins.registry import Library

MOST_SECONDS = 1e9  # of a time that is given: no clock waits for much longer
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


class Duration(click.ParamType[float, str | float]):
    """Seconds, as a number or with units, at most 30 years: 3600, 90s, 55m, 2h, 1h30m."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds as a float; fails for anything but a positive duration that can be waited."""
        if isinstance(value, float):
            return value
        number = r"(\d+\.?\d*|\.\d+)"
        parts = re.fullmatch("".join(rf"(?:{number}{unit})?" for unit in UNITS), value)
        if re.fullmatch(number, value):
            seconds = float(value)
        else:
            counts = parts.groups(default="0") if parts else ()
            seconds = sum(float(n) * unit for n, unit in zip(counts, UNITS.values(), strict=False))
        if not 0.0 < seconds <= MOST_SECONDS:
            self.fail(f"{value!r} is no time; expected seconds, or such as 90s, 55m, 2h or 1h30m")
        return seconds


def packaged_studies() -> dict[str, Traversable]:
    """Files of the packaged studies by their names, in alphabetical order; nothing is imported."""
    files = importlib.resources.files("sweep").joinpath("studies").iterdir()
    found = {file.name.removesuffix(".toml"): file for file in files if ".toml" in file.name}
    return dict(sorted(found.items()))


def complete_study(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Shell completions of a STUDY argument: packaged studies and files."""
    packaged = [CompletionItem(name) for name in packaged_studies() if name.startswith(incomplete)]
    return [*packaged, CompletionItem(incomplete, type="file")]


class Click:
    """What click is told of a parameter besides its type; hashable, as types have to be."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


# Types of parameters, with what else click is told of them.
Seconds = Annotated[float, Click(type=Duration())]
Count = Annotated[int, Click(type=click.IntRange(min=1))]
Files = Annotated[tuple[str, ...], Click(type=click.Path())]
OptionalStore = Annotated[str | None, Click(type=click.Path())]

# Options that functions of Python call otherwise; others by their name, or by that and an s.
RENAMED = {"cluster": "profile", "json": "as_json", "format": "layout", "study": "study_file"}
RENAMED |= {"all": "everything", "body": "bodies", "status": "among"}


@dataclass(kw_only=True)
class Shared:
    """Options and arguments of several commands.

    Options:
      -e, --experiment NAME  Only this experiment; repeatable.
      --where EXPR  Only runs for which this holds; an EXPRESSION of sweep query.
      --at [end|sup]  Error at the end of a run, or its supremum over time.
      --max-time TIME  Stop within this time from the start: 3600 (seconds), 55m, 2h, 1h30m.
      --checkpoint-every SECONDS  Time between checkpoints of a task; the task of a killed worker
          resumes from the last.  [default: 30.0]
      --budget TIME  Largest CPU time of the runs added to decide verdicts: 600 (seconds), 10m, 2h.
          [default: 10m]
      --summary/--no-summary  Tables and plots at the end.
      --trust-plugins  Approve the plugins that a store brings, for this command and from now on.
      --json  Print JSON instead of text.
    """

    study: Annotated[str, Click(shell_complete=complete_study)]
    store: Annotated[str, Click(type=click.Path())]
    experiment: tuple[str, ...]
    where: str | None
    at: Literal["end", "sup"] = "end"
    max_time: Seconds | None
    checkpoint_every: Annotated[float, Click(type=click.FloatRange(min=0.0, min_open=True))] = 30.0
    budget: Seconds = 600.0
    summary: bool = True
    trust_plugins: bool
    as_json: bool


def cluster(profile: str | None, workers: Count | None, scheduler: str | None) -> ClusterSpec:
    """Where to compute.

    Options:
      --cluster PROFILE  Where to start workers: local (the default of sweep run), slurm, pbs, lsf,
          sge, kubernetes, or a profile in geosweep.clusters of Dask's configuration.
      --workers N  Number of workers to start. By default one per core locally, but no more than
          there are tasks; elsewhere as the profile says.
      --scheduler ADDRESS  Address of a running Dask scheduler: tcp://host:8786.
    """
    return ClusterSpec(profile, workers, scheduler)


def options(
    cluster: ClusterSpec, max_time: float | None, checkpoint_every: float
) -> dict[str, Any]:
    """Arguments of `sweep.run`, of all commands that compute."""
    time = remaining_max_time(max_time)
    return {"cluster": cluster, "max_time": time, "checkpoint_every": checkpoint_every}


def library(study_file: str | None, trust_plugins: bool) -> "Library":
    """What is built in, and what the plugins of a study add.

    Options:
      --study STUDY  Include what the plugins of this study add; a file or a store.
    """
    found: Library = sweep.plugins.BUILT_IN
    if study_file is not None:
        found = sweep.store.resolve_study_and_store(study_file, None, trust_plugins)[0].library
    return found


def datasets(store: str, experiment: tuple[str, ...], where: str | None) -> "dict[str, xr.Dataset]":
    """The run tables of a store by experiment, of the runs for which an expression holds."""
    return open_experiments(store, experiment, where)


def form(layout: Literal["text", "json", "csv", "latex"] | None, as_json: bool) -> str:
    """The format of an answer.

    Options:
      --format [text|json|csv|latex]  csv: a row for each result; latex: tables for a paper, with
          booktabs.  [default: text]
    """
    if as_json and layout not in (None, "json"):
        raise InputError(f"--json and --format {layout} are two formats: give one", key="format")
    return "json" if as_json else layout or "text"


MADE: dict[str, Callable[..., Any]] = {
    made.__name__: made for made in (cluster, options, library, datasets, form)
}


def remaining_max_time(max_time: float | None) -> float | None:
    """Seconds that are left of ``--max-time``, which counts from the start of the process."""
    return None if max_time is None else max(max_time - process_age(), 1e-3)


# --- commands --------------------------------------------------------------------------------


def command(function: Callable[..., None]) -> click.Command:
    """Decorator that makes a command of a function, whose documentation is the help."""

    @functools.wraps(function)
    def callback(**given: Any) -> None:
        _call(function, given)

    text, _, _ = (inspect.getdoc(function) or "").partition(OPTIONS)
    parameters = dict(_parameters(function))
    return click.Command(
        function.__name__, params=[*parameters.values()], help=text, callback=callback
    )


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, click.Parameter]]:
    """The options and arguments that a function needs, by name, in its order."""
    documented = _documented_options(function)
    for name, (annotation, default) in _annotations(function).items():
        if name in MADE:
            yield from _parameters(MADE[name])
        elif name in SHARED and name not in documented and get_origin(annotation) is not Annotated:
            yield name, SHARED[name]
        else:
            settings = _settings_of_type(annotation)
            if default is not inspect.Parameter.empty:
                settings |= {"default": default, "required": False}
            if name in documented:
                names, metavar, text = documented[name]
                yield name, click.Option([*names, name], metavar=metavar, help=text, **settings)
            else:
                several = {"nargs": -1} if settings.pop("multiple", False) else {}
                yield name, click.Argument([name], **({"required": True} | several | settings))


def _call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with what is given, and with what is made of that."""
    names = _annotations(function)
    return function(
        **{name: _call(MADE[name], given) if name in MADE else given[name] for name in names}
    )


def _annotations(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Annotations and defaults of parameters, and of fields of ``**given: Unpack[Fields]``."""
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        found[parameter.name] = parameter.annotation, parameter.default
        if parameter.kind is parameter.VAR_KEYWORD:
            del found[parameter.name]
            (fields,) = get_args(parameter.annotation)
            for name, annotation in inspect.get_annotations(fields).items():
                found[name] = annotation, parameter.empty
    return found


OPTIONS = "\nOptions:\n"


def _documented_options(
    documented: Callable[..., Any],
) -> dict[str, tuple[list[str], str | None, str]]:
    """Names of options, of their values, and help, by parameters; from a section ``Options:``."""
    if __doc__ is None:
        raise InputError(
            "Python runs without the docstrings that say which options commands have; expected it "
            "to run without -OO, and PYTHONOPTIMIZE below 2"
        )
    found, known = {}, _annotations(documented)
    section = (inspect.getdoc(documented) or "").partition(OPTIONS)[2]
    for entry in filter(None, re.split(r"\n(?=  -)", section)):
        head, _, text = entry.strip().partition("  ")
        words = head.replace(",", "").split()
        names = [word for word in words if word.startswith("-")]
        name = names[-1].partition("/")[0].strip("-").replace("-", "_")
        metavar = " ".join(words[len(names) :]) or None
        (own, *_) = (one for one in (RENAMED.get(name), name, f"{name}s") if one in known)
        found[own] = names, metavar, " ".join(text.split())
    return found


def _settings_of_type(kind: Any) -> dict[str, Any]:
    """What click is told of the type of a parameter."""
    if get_origin(kind) is Annotated:
        plain, *more = get_args(kind)
        settings = _settings_of_type(plain)
        for own in more:
            settings |= own.settings
        return settings
    if type(None) in get_args(kind):
        (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
        return {"required": False} | _settings_of_type(kind)
    if get_origin(kind) is tuple:
        first, *rest = get_args(kind)
        several = {"multiple": True} if rest == [...] else {"nargs": 1 + len(rest)}
        return _settings_of_type(first) | several
    if get_origin(kind) is Literal:
        return {"type": click.Choice(get_args(kind))}
    return {"is_flag": True} if kind is bool else {"type": kind}


SHARED: dict[str, click.Parameter] = {}
SHARED |= dict(_parameters(Shared))
