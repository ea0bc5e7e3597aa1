"""`sweep.atlas`: what stores show of every integrator on every system, as static pages.

The pages are in one directory and link to each other by relative addresses, so that any web server
can serve them, and a browser can open them from the disk::

    index.html                 which integrators for each system: order, drift, work
    certificates.html          a table for each measure: integrators × systems
    SYSTEM/INTEGRATOR.html     a certificate: orders, drifts, defects, work, and the runs
    STORE.html, STORE.toml     the report of each store, and its study
    certificates.json          the cells of the tables, and the names of all files
"""

import contextlib
import datetime
import itertools
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from integrators.errors import InputError
from sweep.clusters.connect import local_cluster_client
from sweep.reports.certificates import MEASURES, Cell, Certificate, gather_certificates
from sweep.reports.gather import StoreReport, date_in_utc, gather_report
from sweep.reports.integrator_choices import ERRORS, choices_by_system
from sweep.reports.report_page import read_stylesheet, render_page, report_as_html
from sweep.store import provenance
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store
from sweep.tables.drift_tables import MEANINGS
from sweep.text import count_with_noun, escape_controls_in_lines

CELLS = "certificates.json"
MOST_RUNS = 200  # runs of an experiment that a certificate lists


def atlas(
    stores: Sequence[str | Path | Store],
    directory: str | Path = "atlas",
    workers: int | None = None,
    watch: Callable[[str, float], object] = lambda text, share: None,
) -> Path:
    """Write what stores show about each integrator on each system as static pages.

    Parameters
    ----------
    stores : sequence of (str, Path or Store)
        Findings of several stores about the same integrator and system go to one page.
    directory : str or Path, optional
        The directory to write. An existing atlas is replaced once the new one is complete.
    workers : int, optional
        Number of local processes that draw; by default one per core. With 1 it is this one.
    watch : callable, optional
        Called with what is being drawn, and the share of its store that is done.

    Returns
    -------
    Path
        The first page, ``index.html``.

    Raises
    ------
    InputError
        If no store is given or one cannot be read, if no experiment has an answer, or if the
        directory holds files other than those of an atlas, or cannot be written.

    Examples
    --------
    >>> sweep.atlas(["all-orders.zarr", "round-off.zarr"])   # doctest: +SKIP
    PosixPath('atlas/index.html')
    """
    directory = check_atlas_directory(directory)
    distinct = {str(store.absolute()): store for store in map(Store.at, stores)}
    with contextlib.ExitStack() as stack:
        executor = None
        if workers != 1:
            client = stack.enter_context(local_cluster_client(workers))
            executor = client.get_executor(pure=False)
        reports = _reports_by_page(list(distinct.values()), executor, watch)
    certificates = gather_certificates(reports)
    if not certificates:
        raise InputError(
            "no experiment has an answer to certify: no orders, drifts, defects or work",
            key="stores",
        )
    try:
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".atlas-", dir=directory.absolute().parent))
        try:
            _write_pages(scratch / "new", reports, certificates)
            if directory.exists():
                os.replace(directory, scratch / "old")
            os.replace(scratch / "new", directory)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}", key="output") from None
    return directory / "index.html"


def check_atlas_directory(directory: str | Path) -> Path:
    """Check a directory for an atlas, before any store is read, and return its path.

    Parameters
    ----------
    directory : str or Path

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If it is not a directory, cannot be made, or holds anything other than an atlas.
    """
    path = require_local_path(directory)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        kind = "a symbolic link" if path.is_symlink() else "no directory"
        raise InputError(f"{path} is {kind}; give a directory for the pages", key="output")
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise InputError(f"{path} cannot be made: {above} is not writable", key="output")
    others = sorted(_files_below(path) - _files_of_atlas(path))
    if others:
        raise InputError(
            f"{path} has files that are no pages of an atlas, such as {others[0]}; move them, or "
            "give a new directory",
            key="output",
        )
    return path


def _files_below(directory: Path) -> set[str]:
    found = directory.rglob("*") if directory.is_dir() else ()
    return {path.relative_to(directory).as_posix() for path in found if not path.is_dir()}


def _files_of_atlas(directory: Path) -> set[str]:
    """The files of an atlas in a directory, by its own list; empty if there is none."""
    try:
        return set(json.loads((directory / CELLS).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def _reports_by_page(
    stores: Sequence[Store], executor: Executor | None, watch: Callable[[str, float], object]
) -> dict[str, StoreReport]:
    """The report of each store, by a unique file name."""
    if not stores:
        raise InputError("no store is given; give one or more", key="stores")
    reports: dict[str, StoreReport] = {}
    for store in stores:
        taken = {*reports, "index", "certificates"}
        page = _distinct_name(_file_name(store.name.removesuffix(".zarr")), taken)
        reports[page] = gather_report(store, None, executor, watch)
    return reports


def _write_pages(
    directory: Path, reports: dict[str, StoreReport], certificates: Sequence[Certificate]
) -> None:
    directory.mkdir()
    _write_text(directory / "style.css", read_stylesheet())
    for page, report in reports.items():
        _write_text(directory / f"{page}.html", report_as_html(report, "index.html"))
        (directory / f"{page}.toml").write_text(report.study, encoding="utf-8")
    pages: dict[str, Certificate] = {}
    for certificate in certificates:
        stem = f"{_file_name(certificate.system)}/{_file_name(certificate.integrator)}"
        stem = _distinct_name(stem, pages)
        pages[stem] = certificate
        (directory / stem).parent.mkdir(exist_ok=True)
        text = render_page(
            "certificate.html",
            stylesheet="../style.css",
            certificate=certificate,
            measures=MEASURES,
            most_runs=MOST_RUNS,
        )
        _write_text(directory / f"{stem}.html", text)
    shared = {
        "stylesheet": "style.css",
        "made": date_in_utc(datetime.datetime.now(datetime.UTC)),
        "version": provenance.versions()["geosweep"],
    }
    index = render_page(
        "atlas.html",
        summary=_summary(certificates),
        choices=choices_by_system(pages),
        errors=[f"{error:g}".replace("e-0", "e-") for error in ERRORS],
        verdicts=MEANINGS,
        reports=reports,
        **shared,
    )
    _write_text(directory / "index.html", index)
    matrices = [(m, made) for m in MEASURES if (made := _matrix(m.name, pages))["systems"]]
    tables = render_page("certificates.html", matrices=matrices, **shared)
    _write_text(directory / "certificates.html", tables)
    data = {
        "files": sorted({CELLS, *_files_below(directory)}),
        "certificates": [_certificate_as_json(stem, one) for stem, one in pages.items()],
    }
    _write_text(directory / CELLS, json.dumps(data, indent=1, ensure_ascii=False))


def _write_text(file: Path, text: str) -> None:
    file.write_text(escape_controls_in_lines(text), encoding="utf-8")


def _file_name(name: str) -> str:
    """A name made suitable for file names on every operating system."""
    return re.sub(r"[^\w.+=-]+", "-", name, flags=re.ASCII).strip(".-") or "unnamed"


def _distinct_name(name: str, taken: Container[str]) -> str:
    """A name, followed by a number if it is taken."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)


def _matrix(measure: str, pages: dict[str, Certificate]) -> dict[str, Any]:
    """The table of a measure.

    Its systems, page and cell by family, integrator and system, and the number of each verdict.
    """
    families: dict[str, dict[str, dict[str, tuple[str, Cell]]]] = {}
    verdicts = Counter[str]()
    for stem, one in pages.items():
        if cell := one.cells.get(measure):
            line = families.setdefault(one.family, {}).setdefault(one.integrator, {})
            line[one.system] = f"{stem}.html", cell
            verdicts.update([cell.verdict] if cell.verdict else [])
    there = {system for lines in families.values() for line in lines.values() for system in line}
    systems = dict.fromkeys(one.system for one in pages.values() if one.system in there)
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.most_common())
    return {"families": families, "systems": list(systems), "counts": counts}


def _summary(certificates: Sequence[Certificate]) -> str:
    """Say how many certificates there are."""
    integrators = {certificate.integrator for certificate in certificates}
    systems = {certificate.system for certificate in certificates}
    return (
        f"{count_with_noun(len(certificates), 'certificate')} of "
        f"{count_with_noun(len(integrators), 'integrator')} on "
        f"{count_with_noun(len(systems), 'system')}"
    )


def _certificate_as_json(stem: str, certificate: Certificate) -> dict[str, object]:
    return {
        "integrator": certificate.integrator,
        "system": certificate.system,
        "family": certificate.family,
        "page": quote(f"{stem}.html"),
        "experiments": [one.name for one in certificate.evidence],
        "cells": {
            name: {"text": cell.text, "verdict": cell.verdict, "meaning": cell.meaning}
            for name, cell in certificate.cells.items()
        },
    }
