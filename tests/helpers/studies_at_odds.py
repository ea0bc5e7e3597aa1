"""Studies that ask for what no machine has, and packaged ones that are changed at random."""

import contextlib
import resource
import signal
import tempfile
from pathlib import Path

import tomlkit
from hypothesis import strategies as st
from study_text import one_experiment

import sweep
from sweep.errors import InputError, StudyError

SECONDS = 10  # of CPU time
BYTES = 1_000_000_000  # beyond what the process has when it begins
HUGE = 10**12
LATTICE = "{{ lattice = {} }}"
NESTED = "[" * 300 + "1" + "]" * 300

# What one experiment says instead, and parts of the answer; None for a text of its own.
BOMBS = {
    "samples": ({"samples": str(HUGE)}, "10: experiment[0].samples: …1,000,000,000,000"),
    "bodies": ({"parameters": "{ count = 1000000000 }"}, "count = 1,000,000,000…200,000"),
    "bodies in pairs": (
        {"system": '"nbody_sphere"', "parameters": "{ count = 100000 }"},
        "count = 100,000…50,000",
    ),
    "scanned bodies": ({"scan": "{ count = [2, 1000000000] }"}, ".scan.count[1]: …count = "),
    "level": (
        {"system": '"lennard_jones_sphere"', "parameters": "{ level = 30 }"},
        "level = 30…at most 6",
    ),
    "repeats": ({"repeat": "10000000"}, "120,000,000 runs"),
    "random starts": ({"initial_condition": "{ random = 1000000000, seed = 1 }"}, "96 GB"),
    "spread": (
        {"initial_condition": '{ around = "lee", random = 2, seed = 1, spread = 1e300 }'},
        ".initial_condition.spread: …1e+300…not finite",
    ),
    "lattice": ({"initial_condition": LATTICE.format(10**9)}, ".lattice: …at most 50,000"),
    "exponents": (
        {"record": '[{ name = "lyapunov", count = 1000000000 }]'},
        ".record[0].count: 1000000000 exponents; expected 1 to ",
    ),
    "family": (
        {
            "system": '"point_vortices"',
            "initial_condition": '{ name = "invariant_manifold", theta = '
            "{ start = 0.1, stop = 1.0, count = 1000 }, phi = "
            "{ start = 0.1, stop = 1.0, count = 1000 } }",
        },
        "1,000,000 states",
    ),
    "range": (
        {"step_size": "{ start = 0.1, stop = 0.01, count = 1000000000 }"},
        "at most 100,000…1000000000",
    ),
    "samples that thin out": ({"samples": "{ per_decade = 1000000000 }"}, "at most 10,000"),
    "scanned values": (
        {
            "scan": "{ gravity = { start = 1.0, stop = 2.0, count = 10000 }, "
            "length = { start = 1.0, stop = 2.0, count = 10000 } }"
        },
        "100,000,000 systems",
    ),
    "pairs": (
        {
            "scan": "{ gravity = { start = 1.0, stop = 2.0, count = 500 } }",
            "integrators": "["
            + ", ".join(f'{{ name = "rk4", label = "{i}" }}' for i in range(500))
            + "]",
        },
        "pairs of a system",
    ),
    "no duration": (
        {"duration": None, "step_size": '"declared"'},
        "3: experiment[0]: …'duration'…missing",
    ),
    "duration": ({"duration": "1e99", "step_size": "1.0"}, "more than 2**53 steps"),
    "long duration": ({"duration": "1e300", "step_size": "1e299"}, "9: …duration: …1e+100"),
    "short unit": ({"time_unit": "1e-320"}, ".duration: …1e-320…1e-100"),
    "light body": ({"parameters": "{ count = 2, mass = [1e-300, 1.0] }"}, ".system: …inverse"),
    "light bodies": ({"parameters": "{ count = 6, mass = 1e-320 }"}, ".system: …inverse"),
    "long links": ({"parameters": "{ count = 2, length = 1e160 }"}, ".system: …inverse"),
    "heavy": ({"parameters": "{ count = 2, gravity = 1.7e308 }"}, ".system: …double precision"),
    "weak vortex": (
        {"system": '"point_vortices"', "parameters": "{ strengths = [1e-320, 1.0] }"},
        ".strengths: …divide by strengths",
    ),
    "nothing": ({"exclude": '[{ step_size = "< nan" }]'}, ".exclude[0].step_size: …'< nan'"),
    "integer": ({"duration": "1" + "0" * 400}, "9: experiment[0].duration: …number"),
    "digits": ({"duration": "1" + "0" * 5000}, "not valid TOML"),
    "number": ({"duration": "1e400"}, "9: experiment[0].duration: …finite…inf"),
    "nested": ({"parameters": f"{{ mass = {NESTED} }}"}, "11: …nested too"),
    "nested integrators": ({"integrators": '[["rk4"]]'}, "integrators[0]: …string"),
    "uneven mass": ({"parameters": "{ mass = [[1.0, 2.0], [1.0]] }"}, ".mass: …(1.0, 2.0)"),
    "mixed mass": ({"parameters": '{ mass = ["a", [1.0]] }'}, ".mass: …'a'…number"),
    "plugin": ({"plugins": '["/dev/zero"]'}, "/dev/zero is a device, a pipe or a socket"),
    "piped plugin": ({"plugins": '["pipe.py"]'}, "pipe.py is a device, a pipe or a socket"),
    "large plugin": ({"plugins": '["large.py"]'}, "large.py has 10,000,000,000 bytes"),
    "null plugin": ({"plugins": r'["a\u0000.py"]'}, "plugins[0]: …null characters"),
    "file": ({"initial_condition": '{ file = "zero.npy" }'}, "zero.npy is a device, a pipe or"),
    "piped file": ({"initial_condition": '{ file = "pipe.npy" }'}, "pipe.npy is a device, a pipe"),
    "claims": ({"initial_condition": '{ file = "claims.npy" }'}, "claims.npy is no array of num"),
    "hollow": ({"initial_condition": '{ file = "hollow.npy" }'}, "hollow.npy has 96,000,000,128"),
    "short": ({"initial_condition": '{ file = "short.npy" }'}, "short.npy is no array of num"),
    "packed": ({"initial_condition": '{ file = "packed.npz" }'}, "packed.npz is no array of num"),
    "store": (
        {"initial_condition": '{ store = "vast.zarr" }'},
        "describes no array that Geosweep writes",
    ),
    "keys": (None, "12: …nested too deeply"),
    "text": (None, "has 100,000,235 "),
}


def bomb(name):
    """The text of one of `BOMBS`."""
    changes, _ = BOMBS[name]
    if name == "keys":
        return one_experiment() + "\n" + ".".join(["a"] * 100_000) + " = 1\n"
    if name == "text":
        return one_experiment() + "# " + "x" * 10**8
    changes = dict(changes)
    top = changes.pop("plugins", None)
    text = one_experiment(**changes)
    return text if top is None else text.replace("[[", f"plugins = {top}\n[[", 1)


def checked(text):
    """The number of runs that `sweep.check` finds in a text, or `StudyError`: in its file, too."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "s.toml")
        file.write_bytes(text.encode(errors="surrogatepass"))
        try:
            return sum(table.size for table in sweep.check(file)[1])
        except StudyError:
            raise
        except InputError as error:  # of the file, which is too large
            raise StudyError(str(error)) from error


class TooSlow(BaseException):
    """Some study took too long."""


@contextlib.contextmanager
def bounded():
    """Within this, the process has so much CPU time and further memory."""

    def stop(*_):
        raise TooSlow

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, limits[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


# --- packaged studies, changed at random -----------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([10**3, 10**5, 10**7, 10**9, 2**31, 2**63 - 1, -(2**63), 10**400]),
    st.floats(),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e-12, 1e12, 1e300]),
)
WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["all", "declared", "lee", "rk4", "rk45", "variational+", ">= nan", "equilibrium"]
    ),
    st.sampled_from(
        ["\0", "\x1b[31m", "\u202e", "é" * 300, "𝕊", "a" * 20_000, "../..", "/dev/zero"]
    ),
)
NAMES = """
name system parameters scan zip exclude integrators step_size tolerance duration samples first label
initial_condition record statistics reference repeat time_unit start stop count spacing random seed
around spread lattice file normalize per_decade value mass level gravity steps_of formulation until
max_steps solver_tolerance tableau integrator
"""
KEYS = st.one_of(st.text(max_size=6), st.sampled_from(NAMES.split()))
SIMPLE = st.one_of(NUMBERS, WORDS, st.booleans(), st.dates(), st.datetimes(), st.times())
ANY = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=8,
)
TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["[", "]", "{", "}", "[[", '"', '"""', "'", "=", ".", ",", "\n", "#", "\\", "\0"]
    ),
    st.sampled_from(["[" * 2000, "a." * 500, "9" * 5000, "inf", "nan", "1e999", "0x" + "f" * 40]),
)


def places_in(value, path=()):
    """Every key path in nested tables and arrays."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, item in items:
        yield path + (key,)
        if isinstance(item, list | dict):
            yield from places_in(item, path + (key,))


@st.composite
def changed_studies(draw, texts):
    """A text among `texts` with values replaced, keys added or left out, or characters changed."""
    text = draw(st.sampled_from(texts))
    if draw(st.integers(0, 3)) == 0:
        for _ in range(draw(st.integers(1, 3))):
            at, size = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
            text = text[:at] + draw(TEXTS) + text[at + size :]
        return text
    data = tomlkit.parse(text).unwrap()
    for _ in range(draw(st.integers(1, 3))):
        *path, key = draw(st.sampled_from(list(places_in(data))))
        inside = data
        for part in path:
            inside = inside[part]
        match draw(st.integers(0, 9)):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, dict):
                inside[draw(KEYS)] = draw(ANY)
            case 2:
                inside[key] = [inside[key]]
            case 3 if isinstance(inside[key], list):
                inside[key] = inside[key] * draw(st.sampled_from([0, 2, 1000]))
            case 4 if isinstance(inside[key], int | float):
                inside[key] = inside[key] * draw(st.sampled_from([-1, 0, 1e-9, 10, 10**6, 1e300]))
            case _:
                inside[key] = draw(ANY)
        if not data:
            break
    return written(data)


def written(data):
    """TOML of what `tomlkit` cannot write, too: mixed arrays, and numbers of all sizes."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in data.items())


def _key(key):
    return tomlkit.string(key).as_string()


def _value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)  # also inf, nan and integers beyond 64 bits
    return tomlkit.item(value).as_string()
