"""Approval of plugins that come with a store, by the hash of their source.

A store keeps the source of its plugins, which can be arbitrary code of the store's author. It runs
only if the user has approved it: with ``--trust-plugins``, now or earlier, or by running a study
whose file names the same plugins.
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
DIGITS = 64  # each line begins with a hash of this length; the plugin's name after it is a comment


def approved_plugins_of_store(
    attributes: Mapping[str, Any], store: object, trust_plugins: bool = False
) -> dict[str, loader.Plugin]:
    """Return the plugins of a store, marked as trusted, if the user has approved them.

    Parameters
    ----------
    attributes : mapping
        Attributes of the store's root group.
    store : sweep.Store
    trust_plugins : bool
        Whether to approve the plugins now.

    Returns
    -------
    dict of str to sweep.plugins.loader.Plugin
        The plugins by name.

    Raises
    ------
    InputError
        If a plugin is not approved. The message has its hash and the command that shows its source.
    """
    found = loader.plugins_kept_in_store(attributes, store)
    if trust_plugins:
        approve_plugins(found)
    elif found and (unknown := [p for p in found if p.hash not in approved_plugin_hashes()]):
        show = shlex.join(["sweep", "show", "plugins", str(store)])
        names = ", ".join(f"{plugin.name!r} (sha256 {plugin.hash})" for plugin in unknown)
        raise InputError(
            f"{store} contains source code that you have not approved to run, of the plugin"
            f"{'s' * (len(unknown) > 1)} {names}: `{show}` shows it, "
            "`trust_plugins=True` approves it"
        )
    return {plugin.name: dataclasses.replace(plugin, trusted=True) for plugin in found}


def approved_plugin_hashes() -> set[str]:
    """The set of source hashes that this user has approved.

    Raises
    ------
    InputError
        If other users can write to the file of approvals.
    """
    file = _plugin_approvals_file()
    if file is None:
        return set()
    if why := why_shared(file.parent) or why_shared(file):
        raise InputError(
            f"{why}, so that others could have written the approvals in {file}: make it writable "
            "for you alone, or remove it, and approve again with `trust_plugins=True`"
        )
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    return {line[:DIGITS] for line in lines}


def approve_plugins(found: Iterable[loader.Plugin]) -> None:
    """Remember the hashes of plugins as approved; print a warning if they cannot be stored.

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
    """The file of approvals; None if there is no home directory."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore relative paths
        with contextlib.suppress(RuntimeError):
            return Path.home() / ".config" / "geosweep" / FILE
        return None
    return base / "geosweep" / FILE
