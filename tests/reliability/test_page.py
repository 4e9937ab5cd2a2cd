"""The page that is committed is the one that the declarations make."""

from reliability.page import BEGIN, PAGE, with_table
from reliability.table import SECTIONS


def test_the_table_of_the_page_is_the_table_of_the_tests():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "run: PYTHONPATH=src:tests python -m reliability.page"


def test_a_page_with_another_table_is_noticed():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page.replace("| same |", "| fits |", 1)) == page
    assert page.count(BEGIN) == 1


def test_every_input_says_what_happens():
    assert all(given.says for inputs in SECTIONS.values() for given in inputs)
