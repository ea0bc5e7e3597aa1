"""The line of every key: by hand, and as a law over generated texts."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.study.toml.positions import scan_key_positions

TEXT = '''\
top = 1
"quoted key" = "a # b"   # comment with ] and "
[table]   # header
inner.dotted = { x = 1, "y" = [
    1,
    { z = 2 },   # }
] }
text = """
[not.a.header]
key = "no key\\""""""
literal = \'\'\'it's
[[no]]\'\'\'
when = 1979-05-27 07:32:00

[[list]]
a = []
[list.sub]
b = -inf
[[list]]
[[list.deep]]
c = 'x\\'
'''


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_by_hand(newline):
    tomllib.loads(TEXT.replace("\n", newline))
    found = scan_key_positions(TEXT.replace("\n", newline))
    expected = {
        ("top",): 1,
        ("quoted key",): 2,
        ("table",): 3,
        ("table", "inner"): 4,
        ("table", "inner", "dotted", "x"): 4,
        ("table", "inner", "dotted", "y", 0): 5,
        ("table", "inner", "dotted", "y", 1, "z"): 6,
        ("table", "text"): 8,
        ("table", "literal"): 11,
        ("table", "when"): 13,
        ("list",): 15,
        ("list", 0): 15,
        ("list", 0, "a"): 16,
        ("list", 0, "sub"): 17,
        ("list", 0, "sub", "b"): 18,
        ("list", 1): 19,
        ("list", 1, "deep", 0): 20,
        ("list", 1, "deep", 0, "c"): 21,
    }
    assert expected.items() <= found.lines.items()
    assert not any("not" in path or "key" in path or "no" in path for path in found.lines)
    assert found.broken is None


@pytest.mark.parametrize(
    ("text", "path", "opened", "broken"),
    [
        ("a = {\n b = 1 }", ("a",), 1, 1),
        ("\na = { b = [\n1,\n], c = { d = 2, # why\n e = 3 } }", ("a", "c"), 4, 4),
        ("a = [\n { b = 1,\n c = 2 } ]", ("a", 0), 2, 2),
        ("a = { b = [\n1 ]\n}", ("a",), 1, 2),
    ],
)
def test_inline_table_over_several_lines(text, path, opened, broken):
    found = scan_key_positions(text).broken
    assert (found.path, found.opened, found.broken) == (path, opened, broken)


@given(st.text(st.sampled_from("a =[]{}\"'\n#.,1\\"), max_size=40))
def test_any_text_is_scanned_to_an_end(text):
    assert scan_key_positions(text).lines[()] == 1


class Writer:
    """Writes a value as TOML with arbitrary layout, and notes the line of every key."""

    def __init__(self, draw):
        self.draw = draw
        self.text = ""
        self.lines = {}

    def put(self, text):
        self.text += text

    def gap(self, breaks):
        gaps = ["", " ", "\t"] + (["\n", "\n\n  ", " # ], } = [[a]]\n"] if breaks else [])
        self.put(self.draw(st.sampled_from(gaps)))

    def note(self, path):
        self.lines[path] = self.text.count("\n") + 1

    def value(self, value, path):
        if isinstance(value, list):
            self.put("[")
            for index, item in enumerate(value):
                self.gap(breaks=True)
                self.note(path + (index,))
                self.value(item, path + (index,))
                self.gap(breaks=True)
                self.put(",")
            self.gap(breaks=True)
            self.put("]")
        elif isinstance(value, dict):
            self.put("{")
            for index, (key, item) in enumerate(value.items()):
                self.put("," if index else "")
                self.gap(breaks=False)
                self.pair(key, item, path)
                self.gap(breaks=False)
            self.put("}")
        elif isinstance(value, str):
            quotes = self.draw(st.sampled_from(["'", '"', "'''", '"""']))
            self.put(quotes + (value if len(quotes) == 3 else value.replace("\n", " ")) + quotes)
        else:
            self.put(str(value))

    def pair(self, key, value, path):
        self.note(path + (key,))
        self.put(f'"{key}"' if self.draw(st.booleans()) else key)
        self.gap(breaks=False)
        self.put("=")
        self.gap(breaks=False)
        self.value(value, path + (key,))


keys = st.sampled_from(["a", "b", "c-d", "1"])
leaves = st.integers(0, 9) | st.sampled_from(["", "x # y", "{ z = 1", "[[q]]\nk = 1"])
values = st.recursive(
    leaves, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3), max_leaves=8
)


@given(st.dictionaries(keys, values), st.lists(st.dictionaries(keys, values)), st.data())
def test_every_key_is_found_on_its_line(top, tables, data):
    writer = Writer(data.draw)
    for key, value in top.items():
        writer.pair(key, value, ())
        writer.put("\n")
        writer.gap(breaks=True)
    for index, table in enumerate(tables):
        writer.put("\n")
        writer.note(("tables", index))
        writer.put("[[ tables ]] # comment\n")
        for key, value in table.items():
            writer.pair(key, value, ("tables", index))
            writer.put("\n")
    tomllib.loads(writer.text)  # it is valid TOML
    found = scan_key_positions(writer.text)
    assert writer.lines.items() <= found.lines.items()
    assert len(found.lines) == len(writer.lines) + 1 + bool(tables)
    assert found.broken is None
