import pytest

from sweep.tables import Table, tables_as_latex, text_as_latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("variational+kahan_li6", r"variational+kahan\_li6"),
        ("-4.2e-13", r"$-4.2\times 10^{-13}$"),
        ("≥ 1e4× less", r"$\geq$ $10^{4}$$\times$ less"),
        ("±0.01", r"$\pm$0.01"),
        ("like √t – t^1.08", r"like $\sqrt{t}$ -- t$^{1.08}$"),
        ("kg m² s⁻¹", "kg m$^{2}$ s$^{-1}$"),
        ("95 % of {a} & \\b", r"95 \% of \{a\} \& \textbackslash{}b"),
        ("|drift| ≤ ε", r"$|$drift$|$ $\leq$ $\varepsilon$"),
        ("Çokaj λ 漢", r"Çokaj $\lambda$ \texttt{U+6F22}"),
        ("rk4-2 at t = -0.5", "rk4-2 at t = $-0.5$"),
    ],
)
def test_text_is_escaped_and_numbers_are_math(text, latex):
    assert text_as_latex(text) == latex


def test_a_table_has_rules_units_caption_and_notes():
    rows = [["rk4", "1.2e-09", "linear"], ["a_b", "–", "undecided"]]
    units = {"drift": "kg m2 s-1"}
    table = Table(["integrator", "drift", "verdict"], rows, "energy\nof 5 %", ["a_b: no"], units)
    text = tables_as_latex([table, table], "one", "one of two")
    assert text.count(r"\begin{tabular}{lrl}") == 2 and text.count(r"\toprule") == 2
    assert r"integrator & drift [kg m$^{2}$ s$^{-1}$] & verdict \\" in text
    assert r"\caption{one: energy; of 5 \%.}" in text and r"a\_b: no" in text
    assert r"\label{tab:one-of-two}" in text and r"\label{tab:one-of-two-2}" in text
    for name in ("table", "tabular", "minipage"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 2
    for line in text.splitlines():
        if line.endswith(r"\\"):
            assert line.count("&") == 2
    assert r"\begin{tabular}" in tables_as_latex(
        [Table(["integrator", "drift"], [])], "one", "none"
    )
