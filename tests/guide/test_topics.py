"""`sweep guide` lists and prints every topic; tables and names of files in them are true."""

import re

import pytest
from documents import GUIDE, PAGES, ROOT, fenced

import sweep
from integrators.method import STEPS_OF
from integrators.precision import ARITHMETIC
from sweep.guide import KINDS, PART_OF, TOPICS, keys_of_tables, text, topics
from sweep.study import model

TOP = 'format = 1\nname = "shown"\n'
PLACES = text("contributing")
TERMS, MOST_WORDS = 20, 12_000
MOST_OF_KIND = {"Tutorial": 1000, "Explanation": 600, "How to": 400}


def test_every_topic_is_a_file_and_every_file_a_topic():
    assert sorted(f"{topic}.md" for topic in PAGES) == sorted(p.name for p in GUIDE.glob("*.md"))


def test_topics_are_listed_by_kind_with_a_line_each(command, tmp_path):
    printed = command(tmp_path, "guide").stdout.splitlines()
    assert [line[:-1] for line in printed if re.fullmatch(r"\w.*:", line)] == list(KINDS)
    lines = [line for line in printed if line.startswith("  ")]
    for line, (topic, title) in zip(lines, topics().items(), strict=True):
        assert re.fullmatch(rf"  {topic} +{re.escape(title)}", line) and len(line) <= 80


def test_pages_are_short():
    words = {topic: len(text(topic).split()) for topic in PAGES}
    assert sum(words.values()) <= MOST_WORDS
    for kind, names in KINDS.items():
        most = MOST_OF_KIND.get(kind.partition(":")[0], MOST_WORDS)
        assert {name: words[name] for name in names if words.get(name, 0) > most} == {}
    assert len(re.findall(r"^- \*\*", text("glossary"), re.M)) <= TERMS


def test_titles_of_how_tos_are_questions():
    titles = topics()
    for kind, names in KINDS.items():
        assert not kind.startswith("How to") or all(titles[name].endswith("?") for name in names)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_printed_as_it_is(command, tmp_path, topic):
    assert text(topic).startswith("# ")
    assert command(tmp_path, "guide", topic).stdout == text(topic)


def test_what_is_part_of_a_topic_leads_to_it(command, tmp_path):
    assert command(tmp_path, "guide", "systems").stdout == text("methods")
    assert not set(PART_OF) & set(TOPICS) and set(PART_OF.values()) <= set(TOPICS)


def test_an_unknown_topic_is_named_with_the_nearest(command, tmp_path):
    done = command(tmp_path, "guide", "drif", code=2)
    assert done.stderr == "Error: unknown topic 'drif'. Did you mean 'drift'?\n"
    assert not done.stdout


def test_studies_that_are_shown_are_valid(tmp_path):
    blocks = [block for block in fenced("toml") if "[[experiment]]" in block.text]
    assert len(blocks) >= 7
    for block in blocks:
        top = "" if block.text.startswith("format = 1") else TOP
        (tmp_path / "shown.toml").write_text(top + block.text)
        assert sweep.load_study(tmp_path / "shown.toml").experiments


# --- what keys mean -------------------------------------------------------------------------------


def test_every_key_of_a_study_has_a_meaning_and_is_required_where_it_says_so():
    tables = keys_of_tables()
    known = {table.__name__ for table in model.Table.__subclasses__()} - {"Defaults"}
    assert set(tables) == known
    for name, (title, *keys) in tables.items():
        fields = getattr(model, name).model_fields
        further = {STEPS_OF, ARITHMETIC} if name == "Entry" else set()
        assert title == "title" and set(keys) == fields.keys() | further, name
        told = {key for key in keys if tables[name][key].startswith("required: ")}
        assert told == {key for key, field in fields.items() if field.is_required()}, name


def test_what_may_stand_in_the_defaults_is_told(command, tmp_path):
    printed = command(tmp_path, "guide", "keys").stdout
    told = set(re.findall(r"`(\w+)`", printed[: printed.index("of an\n")]))
    assert told == model.ExperimentTable.model_fields.keys() - model.Defaults.model_fields.keys()


def test_editors_show_what_keys_mean():
    schema = sweep.study.study_schema()
    top, tables = schema["properties"], keys_of_tables()
    experiment = top["experiment"]["items"]["properties"]
    assert top["name"]["description"] == tables["StudyTable"]["name"]
    assert experiment["zip"]["description"] == tables["ExperimentTable"]["zip"]
    assert (
        top["defaults"]["properties"]["repeat"]["description"]
        == experiment["repeat"]["description"]
    )
    spacing = schema["definitions"]["Range"]["properties"]["spacing"]
    assert spacing["description"] == tables["Range"]["spacing"]


def test_where_do_i_names_files_that_exist():
    paths = re.findall(r"`((?:integrators|systems|sweep|tests|deploy)/[\w./-]*)`", PLACES)
    assert len(paths) >= 20
    for path in paths:
        assert (ROOT / path).exists(), path
