"""A formula may come from a stranger: nothing in it is ever run, and none takes long to refuse.

Python's audit hook sees every evaluation, import and file that the interpreter touches, whoever asks for it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credibly.errors import TableError
from credibly.tables.formula import FormulaDesign
from credibly.tables.formula_safety import LONGEST_FORMULA, parsed, pieces, quoted, spelt

WATCHED = ("exec", "import", "open", "os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pickle.", "marshal.")


class Watch:
    """What was seen; None while nobody is looking."""

    events: list[str] | None = None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if Watch.events is not None and event.startswith(WATCHED):
        Watch.events.append(f"{event}{arguments!r:.200}")


sys.addaudithook(_hook)  # it stays for the life of the process, and does nothing while nobody looks


@contextmanager
def watched() -> Iterator[list[str]]:
    Watch.events = found = []
    try:
        yield found
    finally:
        Watch.events = None


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    table = pd.DataFrame(
        {"y": [0, 1] * 10, "age": np.arange(20.0), "dose": np.arange(20.0) ** 2 + 1, "sex": ["f", "m"] * 10, "a b": 1.5}
    )
    FormulaDesign.of("y ~ age*dose + C(sex) + poly(dose, 2) + bs(age, 4) + ns(age, 2)", table).matrix(table)
    with pytest.raises(TableError):  # what errors need is imported now, not under observation
        FormulaDesign.of("y ~ age dose", table)
    return table


CALL = "__import__('os').system('touch /tmp/credibly-was-here')"
ATTACKS = [
    # running something
    CALL, f"I({CALL})", f"C({CALL})", f"poly({CALL}, 2)", f"poly(dose, {CALL})", f"C(sex, {CALL})",
    f"C(sex, reference={CALL})", f"bs(age, knots=[{CALL}])", f"bs(age, knots={CALL})", f"age:{CALL}",
    f"log(age) + {CALL}", "eval('1')", "exec('1')", "open('/etc/passwd')", "compile('1', '', 'eval')",
    "getattr(age, 'values')", "breakpoint()", "input()", "I(eval('1'))", "np.load('x.npy', allow_pickle=True)",
    "I(np.load('x.npy'))", "np.fromfile('x')", "pd.read_pickle('x')", "os.system('true')", "sys.exit()", "exit()",
    "globals()", "locals()", "vars()", "help()", "print(age)", "type('X', (), {})",
    # reaching from an object to everything
    "().__class__", "I(().__class__.__bases__[0].__subclasses__())", "I(''.__class__)", "I((1).__class__)",
    "I(age.__class__)", "age.__class__", "I(age.values)", "I(age.to_pickle('x'))", "age.to_pickle('x')",
    "I(age.dtype)", "I('{0.__class__}'.format(age))", "I(f'{age.__class__}')", 'I(f"{__import__(\'os\')}")',
    "I('%s' % age)", "__builtins__", "I(__builtins__)", "__name__", "I(__file__)", "C.__globals__",
    "I(C.__globals__)", "poly.__wrapped__", "C(sex).__class__", "C(sex)(1)", "I(I)(age)", "I(log)(age)",
    "C(sex, contr.treatment)", "C(sex, contr.__class__)", "contr.treatment.__init__",
    "C(sex, Treatment(reference='m'))",
    # Python that is more than arithmetic
    "{age}", "{" + CALL + "}", "I({1: 2})", "I({age})", "I([age for age in age])", "I((x for x in age))",
    "I({x for x in age})", "I(lambda: 1)", "I((lambda: 1)())", "I((x := 1))", "I(age if age else dose)",
    "I(age and dose)", "I(not age)", "I(age[0])", "I(age[::-1])", "age[0]", "age[{}]", "I(*[age])", "I(**{})",
    "poly(*age)", "poly(dose, **{'degree': 2})", "I(await age)", "I(yield)", "I((yield age))", "I(age @ dose)",
    "I(age | dose)", "I(age & dose)", "I(age ^ 1)", "I(~age)", "I(age << 2)", "I(age // 2)", "I(age in dose)",
    "I(age is dose)", "I(None)", "I(...)", "I(b'x')", "I(1j)", "I([1, 2])", "I((1, 2))", "I(...) + age",
    "poly(dose, [2])", "bs(age, knots=['a'])", "bs(age, knots=[age])", "bs(age, knots=[[1]])",
    "C(sex, reference=sex)",
    # quotes, backticks, comments, separators
    "`age", "age`", "`", "``", "log(`age)", "log(age`)", "`age`.__class__", "`age`(1)", "log(`age`.values)",
    "`__import__('os')`", "`a b`[0]", "log(``)", "'age'", '"age"', "'''age'''", "I('''a)''')", "I(\"a\\\")\")",
    "I('a' 'b')", "I('a') # age", "I(age # )\n)", "age; " + CALL, "age, dose", "age\n;import os", "age \x00",
    "I(\x00)", "age \\\n + " + CALL, "I(age\\)", "@age", "$age", "`age`" + CALL, "log(`age` if 1 else `dose`)",
    "log(`q0`.`q1`)", "log(q0(`age`))", "%s", "age %in% dose", "%" + CALL + "%", "age | dose", "[age ~ dose]",
    "(age ~ dose)", "age = dose", "log(age := 1)", "I(age\u202e)", "ｅｖａｌ('1')", "I(ｅｖａｌ('1'))", 
    "I(age．values)",
    # sizes
    "(age + dose + sex)**9", "(age + dose + sex)**99999999999", "age**9", "age**10**10", "(age + dose)**-1",
    "(age + dose)**(2)**9", "((((age + dose)**9)**9)**9)**9",
    "*".join(["age", "dose", "C(sex)", *(f"I(age + {i})" for i in range(30))]),
    ":".join(f"(age + I(age * {i}))" for i in range(2, 40)), "I(10**10**10)", "I(age * 10**10**10)",
    "I(9**9**9**9**9)", "poly(dose, 10**9)", "poly(dose, 1000000000)", "bs(age, 1000000000)",
    "bs(age, degree=1000000000)", "ns(age, df=1000000)", "I('a' * 10**10)", "I('a' + 'b')", "I(1e999)",
    f"I({'9' * 450})", f"I(0x{'f' * 450})", f"I({'-' * 450}age)", f"I({'-' * 10_000}age)",
    f"I({'(' * 200}age{')' * 200})", f"{'I(' * 160}age{')' * 160}", f"I({'+'.join(['age'] * 100)})", "log(" * 5000,
    "(" * 5000, "`" * 5001, "'" * 5001, "+" * 5000 + "(", f"I(age{'[0]' * 100})", f"I(age{'.a' * 200})",
    f"{'age+' * 10_000}age", "\u0000" * 100, "I(" + "`a`," * 100 + ")",
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda it: ascii(it[:40]))
@pytest.mark.parametrize("place", ["y ~ {}", "{} ~ age", "~ 0 + age + {}"])
def test_no_attack_is_run(table, attack, place):
    formula = place.format("\0").replace("\0", attack, 1)
    with watched() as events, pytest.raises(TableError):
        FormulaDesign.of(formula, table)
    assert events == []


def test_the_watch_bites():
    with watched() as events:
        eval("1 + 1")
        open(__file__).close()
    assert [event.partition("(")[0] for event in events] == ["exec", "open"]


def test_a_formula_that_is_fine_runs_nothing_either(table):
    with watched() as events:
        design = FormulaDesign.of("y ~ C(sex)*poly(dose, 3) + log(`a b`) + bs(age, 5)", table)
        design.matrix(table)
    assert events == []


def test_a_design_from_a_hostile_file_runs_nothing(table):
    design = FormulaDesign.of("y ~ age", table)
    hostile = replace(design, products=(((f"I({CALL})", True),),))
    with watched() as events, pytest.raises(TableError):
        hostile.matrix(table)
    assert events == []


def test_names_that_look_like_code_are_columns_where_they_are_quoted():
    names = [
        "__import__('os')",
        "().__class__",
        "a.b",
        "lambda",
        "log",
        "1",
        "x + y",
        "__dunder__",
        "{}",
        "",
        "'",
        "t0",
        "q0",
        "# b",
    ]
    table = pd.DataFrame(np.arange(3.0 * len(names)).reshape(3, -1) + 1, columns=names)
    with watched() as events:
        design = FormulaDesign.of(" + ".join(["~ 0", *(f"`{name}` + log(`{name}`)" for name in names)]), table)
        X = design.matrix(table)
    assert events == []
    assert design.sources == tuple(names)
    for name in names:
        np.testing.assert_array_equal(X[name], table[name])
        np.testing.assert_array_equal(X[f"log({quoted(name)})"], np.log(table[name].to_numpy()))


def test_long_formulas_are_refused_at_once_and_long_sums_are_read():
    with pytest.raises(TableError, match=f"at most {LONGEST_FORMULA} characters"):
        pieces("a" * (LONGEST_FORMULA + 1))
    assert len(pieces("~ " + " + ".join(f"x{i}" for i in range(2000)))) == 4000


ALPHABET = [
    "age", "dose", "sex", "`a b`", "C(", "log(", "poly(", "I(", "bs(", "(", ")", "[", "]", "{", "}", "+", "-", "*",
    "**", ":", "/", "~", ".", ",", "=", "==", "<", "%", "'", '"', "`", "\\", "#", "\n", " ", "0", "1", "2", "9",
    "x", "_", "__", "os", "µ", "knots=",
]  # fmt: skip


@given(st.lists(st.sampled_from(ALPHABET), max_size=14).map("".join))
@settings(max_examples=300)
def test_any_text_is_a_design_or_a_table_error(text):
    table = pd.DataFrame(
        {"y": [0, 1] * 6, "age": np.arange(12.0), "dose": np.arange(12.0) + 1, "sex": ["f", "m"] * 6, "a b": range(12)}
    )
    with watched() as events:
        try:
            design = FormulaDesign.of(f"y ~ {text}", table)
        except TableError:
            pass
        else:
            assert design.matrix(table).shape == (12, len(design.names))
            assert spelt(parsed(spelt(parsed(quoted(design.sources[0]))))) == quoted(design.sources[0])
    assert [event for event in events if not event.startswith(("import", "open", "os."))] == []
