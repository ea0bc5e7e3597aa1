"""Plugins that this user has approved, by the hash of their source; those of stores need it.

A store keeps the source of its plugins, which may be anything that its author wrote: it runs only
with the user's consent. That is ``--trust-plugins``, which approves the hashes of the store's
plugins, or an earlier approval: by that option, or by running a study whose file names them.
"""

import contextlib
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from integrators.compiler.ownership import make_private, why_shared
from integrators.errors import InputError
from sweep.plugins import loader

FILE = "approved-plugins"
DIGITS = 64  # of a hash, which each line begins with; the plugin's name follows for the reader


def approved_plugins_of_store(
    attributes: Mapping[str, Any], store: object, trust_plugins: bool = False
) -> dict[str, loader.Plugin]:
    """The plugins that a store brings, which may run.

    Parameters
    ----------
    attributes : mapping
        Of the store's root.
    store : sweep.Store
    trust_plugins : bool
        Whether to approve them.

    Returns
    -------
    dict of str to sweep.plugins.loader.Plugin
        By name.

    Raises
    ------
    InputError
        If they are not approved; with the hash, and how to look at their source.
    """
    found = loader.plugins_kept_in_store(attributes, store)
    if trust_plugins:
        approve_plugins(found)
    elif found and (unknown := [p for p in found if p.hash not in approved_plugin_hashes()]):
        show = shlex.join(["sweep", "show", "plugins", str(store)])
        names = ", ".join(f"{plugin.name!r} (sha256 {plugin.hash})" for plugin in unknown)
        raise InputError(
            f"{store} brings source that you have not approved to run, of the plugin"
            f"{'s' * (len(unknown) > 1)} {names}: `{show}` shows it, "
            "`trust_plugins=True` approves it"
        )
    return {plugin.name: dataclasses.replace(plugin, trusted=True) for plugin in found}


def approved_plugin_hashes() -> set[str]:
    """The hashes that this user has approved, as a set.

    Raises
    ------
    InputError
        If others could have written them.
    """
    file = _plugin_approvals_file()
    if file is None:
        return set()
    if why := why_shared(file.parent) or why_shared(file):
        raise InputError(
            f"{why}, and so what {file} approves could be another's: let nobody else write "
            "there, or remove it, and approve again with `trust_plugins=True`"
        )
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    return {line[:DIGITS] for line in lines}


def approve_plugins(found: Iterable[loader.Plugin]) -> None:
    """Remember the hashes of plugins; where that cannot be, it is said on stderr.

    Parameters
    ----------
    found : iterable of sweep.plugins.loader.Plugin
    """
    try:
        known = approved_plugin_hashes()
        if new := [plugin for plugin in found if plugin.hash not in known]:
            file = _plugin_approvals_file()
            if file is None:
                raise InputError("there is no home directory; set XDG_CONFIG_HOME")
            make_private(file.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with open(os.open(file, flags, 0o600), "a", encoding="ascii") as opened:
                opened.writelines(f"{plugin.hash}  {json.dumps(plugin.name)}\n" for plugin in new)
    except (InputError, OSError) as error:
        print(f"Warning: the approval of plugins is not remembered: {error}", file=sys.stderr)


def _plugin_approvals_file() -> Path | None:
    """Where approvals are kept; None where there is no home."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():  # which the specification ignores
        with contextlib.suppress(RuntimeError):
            return Path.home() / ".config" / "geosweep" / FILE
        return None
    return base / "geosweep" / FILE
