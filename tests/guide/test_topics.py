"""`sweep guide` lists and prints every topic; tables and names of files in them are true."""

import re

import generated_tables
import pytest
from documents import GUIDE, ROOT, fenced

import sweep
from sweep.guide import PART_OF, TOPICS, text, topics


def test_every_topic_is_a_file_and_every_file_a_topic():
    assert sorted(f"{topic}.md" for topic in TOPICS) == sorted(p.name for p in GUIDE.glob("*.md"))


def test_topics_are_listed_with_a_line_each(command, tmp_path):
    printed = command(tmp_path, "guide").stdout.splitlines()
    assert len(topics()) == len(TOPICS) >= 14
    for line, (topic, title) in zip(printed, topics().items(), strict=False):
        assert re.fullmatch(rf"{topic} +{re.escape(title)}", line) and len(title) <= 70


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_printed_as_it_is(command, tmp_path, topic):
    assert text(topic).startswith("# ")
    assert command(tmp_path, "guide", topic).stdout == text(topic)


def test_what_is_part_of_a_topic_leads_to_it(command, tmp_path):
    assert command(tmp_path, "guide", "systems").stdout == text("integrators")
    assert not set(PART_OF) & set(TOPICS) and set(PART_OF.values()) <= set(TOPICS)


def test_an_unknown_topic_is_named_with_the_nearest(command, tmp_path):
    done = command(tmp_path, "guide", "order", code=2)
    assert done.stderr == "Error: unknown topic 'order'. Did you mean 'orders'?\n"
    assert not done.stdout


def test_studies_that_are_shown_are_valid(tmp_path):
    blocks = [block for block in fenced("toml") if block.document.stem != "plugins"]
    assert len(blocks) >= 3
    for block in blocks:
        top = "" if block.text.startswith("format = 1") else generated_tables.TOP
        (tmp_path / "shown.toml").write_text(top + block.text)
        assert sweep.load_study(tmp_path / "shown.toml").experiments


# --- what is made from the program ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "make"),
    [(topic, make) for topic, makers in generated_tables.TABLES.items() for make in makers],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_tables_are_what_the_program_knows(topic, make):
    made = make()
    assert generated_tables.shown(text(topic), made) == made


def test_every_kind_of_table_of_starts_is_probed():
    kinds = sweep.study.study_schema()["definitions"].items()
    tables = [one for kind, one in kinds if kind.endswith("Start") and one.get("required")]
    starts = {kind[0] for kind in generated_tables.GIVEN.values()}
    assert len(tables) >= 5 and {one["required"][0] for one in tables} <= starts


def test_a_key_that_the_reader_does_not_know_is_noticed(monkeypatch):
    monkeypatch.setitem(generated_tables.KEYS["`samples`"], "first_of_all", "")
    with pytest.raises(SystemExit, match="differ in the keys of `samples`: first_of_all"):
        generated_tables.study_keys()


def test_where_do_i_names_files_that_exist():
    table = text("contributing").partition("\n## Tests\n")[0]
    paths = re.findall(r"`((?:integrators|systems|sweep|tests|deploy)/[\w./-]*)`", table)
    assert len(paths) >= 40 and len(re.findall(r"^\| [a-z]", table, re.MULTILINE)) >= 20
    for path in paths:
        assert (ROOT / path).exists(), path
