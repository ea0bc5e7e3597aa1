"""Which wrong plugins `sweep check` refuses: each has one word, or one line, that is wrong.

    python tests/benchmarks/plugins.py [--only TEXT] [--json]

The right plugins are those of the guide, and ``right_systems.py`` and ``right_steps.py`` in
``tests/helpers``. The wrong ones are in ``wrong_plugins.py``. Some are right ones with a text in
place of another: each is checked as `sweep check` does it, compiled anew, on a warm cache of the
kernels that are not a plugin's. Others have the kernels of a right one, and declare something else.
The table says what is wrong, whether it is refused, the seconds of CPU, and what is said first;
then come the right ones, and every system and every integrator that is built in, checked as if a
plugin had it. A few minutes on two cores. Exit code 3: more than two wrong plugins are accepted, or
a right one refused, or the check of a plugin takes over 5 s.
"""

import argparse
import json
import secrets
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "helpers"))
from variants import MILD, VARIANTS
from wrong_plugins import DECLARED, WRONG, right_plugins

import integrators
import sweep
import systems
from integrators.errors import InputError
from sweep.plugins.method_checks import check_method
from sweep.plugins.system_checks import check_system
from sweep.text import format_table

ACCEPTED = 2  # wrong ones
SECONDS = 5.0


def told(work):
    """What `work()` is refused with, or "", and the seconds that it took."""
    begin = time.process_time()
    try:
        work()
        message = ""
    except InputError as error:
        message = str(error)
    return message, time.process_time() - begin


def check_plugin(text, study, directory):
    """As `told`, of `sweep.load_study`; the plugin is compiled anew."""
    (directory / "plugin.py").write_text(f"{text}\n# {secrets.token_hex()}\n")
    (directory / "plugin.toml").write_text(study)
    message, seconds = told(lambda: sweep.load_study(directory / "plugin.toml"))
    return message.replace(f"{directory}/", ""), seconds


def built_in():
    """Every system with its variants, and every integrator with a fixed step: name and check."""
    for cls in systems.ALL_SYSTEMS:
        for parameters in ({}, *VARIANTS.get(cls.name, ())):
            made = cls(**(parameters or MILD.get(cls.name, {})))
            yield f"{cls.name} {parameters or ''}", lambda made=made: check_system(made)
    for name in integrators.names():
        made = integrators.get(name)
        if not made.modifier:
            yield name, lambda made=made: check_method(made)


def main():
    """Check them all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those with this text in what is wrong")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []

    def note(kind, what, message, seconds):
        found.append({"kind": kind, "what": what, "said": message, "seconds": seconds})
        if not arguments.json:
            print(f"{kind:8} {seconds:5.1f} s  {what}: {message or 'accepted'}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for wrong in WRONG:
            if arguments.only in wrong.what:
                said = check_plugin(wrong.text, wrong.study, Path(folder))
                note("wrong", wrong.what, *said)
        for what, (check, _) in DECLARED.items():
            if arguments.only in what:
                note("wrong", what, *told(check))
        for name, text, study in right_plugins():
            if arguments.only in name:
                note("right", name, *check_plugin(text, study, Path(folder)))
    for name, work in built_in():
        if arguments.only in name:
            note("built in", name, *told(work))
    accepted = [row for row in found if row["kind"] == "wrong" and not row["said"]]
    refused = [row for row in found if row["kind"] != "wrong" and row["said"]]
    plugins = [row for row in found if row["kind"] != "built in"]
    slow = [row for row in plugins if row["seconds"] > SECONDS]
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        rows = [
            (row["what"], "no" if not row["said"] else "yes", f"{row['seconds']:.1f}")
            for row in found
        ]
        print("\n" + format_table(["what", "refused", "seconds"], rows))
        print(
            f"{len(accepted)} of {sum(row['kind'] == 'wrong' for row in found)} wrong ones are "
            f"accepted, {len(refused)} right ones refused, {len(slow)} take over {SECONDS:g} s"
        )
    sys.exit(3 if len(accepted) > ACCEPTED or refused or slow else 0)


if __name__ == "__main__":
    main()
