import re

import sweep
from integrators import bibliography
from integrators.registry import ALL_INTEGRATORS, names, sources
from integrators.tableaux import compositions
from systems import ALL_SYSTEMS

MANY = {**compositions.COMPOSITIONS, **compositions.ADJOINT_COMPOSITIONS}
MANY |= compositions.PROCESSED_COMPOSITIONS
ANALYSES = (bibliography.PROJECTIONS, bibliography.DOUBLE_DOUBLE, bibliography.EXPONENTS)
REQUIRED = {
    "article": ("author", "title", "journal", "year"),
    "book": ("author", "title", "publisher", "year"),
    "inproceedings": ("author", "title", "booktitle", "year"),
}


def test_every_integrator_and_system_has_a_source_in_the_bibliography():
    for one in (*ALL_INTEGRATORS, *ALL_SYSTEMS):
        assert one.sources, one.name
        for source in one.sources:
            assert bibliography.entry_of_source(source)[1], (one.name, source)


def test_every_name_and_composition_has_sources():
    for name in names():
        assert all(sources(name).values())
    for composition in MANY.values():
        assert composition.sources and all(
            key in bibliography.entries() for key in composition.sources
        )


def test_every_entry_is_whole_and_is_cited():
    cited = {key for one in (*ALL_INTEGRATORS, *ALL_SYSTEMS, *MANY.values()) for key in one.sources}
    cited |= set(sum((*ANALYSES, bibliography.MEGNO), ()))
    assert cited == set(bibliography.entries())
    for key, entry in bibliography.entries().items():
        kind = re.match(r"@(\w+)", entry)[1]
        fields = re.findall(r"^  (\w+) = \{.+\},$", entry, re.MULTILINE)
        assert len(fields) == len(set(fields)) == entry.count("\n") - 1, key
        assert set(REQUIRED[kind]) <= set(fields), key
        assert entry.count("{") == entry.count("}") and entry.isascii(), key


def test_a_study_cites_what_it_has_each_once():
    found = sweep.citations("quickstart")
    keys = [one.key for one in found]
    assert keys[0] == "geosweep" and len(keys) == len(set(keys))
    of = {one.key: one.of for one in found}
    assert of["kahanli1997"] == ("kahan_li6",) and of["virtanen2020"] == ("dop853",)
    assert of["kutta1901"] == ("rk4",) and "nbody_sphere" in of["kozlovharin1992"]
    assert "moserveselov1991" not in of


def test_a_plugin_may_give_its_own_entry(tmp_path):
    entry = "@misc{own2024,\n  title = {Own},\n}"
    (tmp_path / "own.py").write_text(
        "from dataclasses import replace\n"
        "from integrators.plugin import Tableau, explicit_method\n"
        "EULER = Tableau(a=((),), b=(1.0,), order=1)\n"
        f"INTEGRATORS = [explicit_method('own', 'Euler', 1, EULER, ({entry!r}, 'unknown2024'))]\n"
    )
    (tmp_path / "study.toml").write_text(
        'format = 1\nname = "s"\nplugins = ["own.py"]\n[[experiment]]\nname = "e"\n'
        'system = "precession"\nintegrators = ["own"]\nstep_size = [0.1]\nduration = 1.0\n'
        "samples = 1\ninitial_condition = { random = 1, seed = 1 }\n"
    )
    found = {one.key: one for one in sweep.citations(tmp_path / "study.toml")}
    assert found["own2024"].entry == entry and found["own2024"].of == ("own",)
    assert found["unknown2024"].entry == "" and "no entry" in str(found["unknown2024"])
