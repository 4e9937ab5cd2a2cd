"""Every Python block and command of the guide runs, warns of nothing, and prints what the guide says it prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import REPOSITORY, load_by_path, some

RUNNER = Path(__file__).with_name("guide.py")
guide = load_by_path(RUNNER)


def pages() -> list[Path]:
    everywhere = [
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        *(REPOSITORY / "docs").rglob("*.md"),
    ]
    written = sorted(page for page in everywhere if page.is_file() and "_build" not in page.parts)
    return [page for page in written if any(guide.examples(page.read_text(encoding="utf-8")))]


def run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page in an empty folder, where it may write what it likes."""
    path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-W", "error", str(RUNNER), str(page)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg"},
        check=False,
    )


FIRST_READ = (REPOSITORY / "README.md", REPOSITORY / "docs" / "start.md")


@pytest.mark.parametrize("page", some(pages(), *FIRST_READ), ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_a_page_runs_and_prints_what_it_says(page, tmp_path):
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stderr


# --- the runner bites ---------------------------------------------------------------------------------------


def test_blocks_are_found_with_their_output():
    code = "```python\nx = 1\nprint(x)\n```\n"
    text = f"a\n\n{code}\n```output\n1\n```\n\n```{{note}} b\nc\n```\n\n```python\ny\n```\n"
    first, second = guide.examples(text)
    assert first == ("x = 1\nprint(x)\n", 3, "1\n")
    assert second == ("y\n", 16, None)


def test_commands_are_found_with_their_output():
    body = "$ credibly fit a.csv \\\n    --out b\nnoted\n\nsaved\n$ make demo\n$ credibly show b\n"
    first, second = guide.examples(f"a\n\n```console\n{body}```\n")
    assert first == ("credibly fit a.csv \\\n    --out b", 3, "noted\n\nsaved")
    assert second == ("credibly show b", 9, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\nimport warnings\nwarnings.warn('careful')\n```\n", "UserWarning: careful"),
        ("```python\nprint(2)\n```\n\n```output\n3\n```\n", "but printed"),
        ("```python\nx = 1\n```\nwords\n```python\nassert x == 2\n```\n", 'page.md", line 6'),
        ("```console\n$ cat nothing.csv\n```\n", "failed with"),
        ("words\n```console\n$ make demo\n$ head -c 0 page.md && false\nsomething\n```\n", "page.md:4: stated"),
    ],
)
def test_a_wrong_page_fails(tmp_path, text, complaint):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    done = run(page, tmp_path)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_a_right_page_passes(tmp_path):
    page = tmp_path / "page.md"
    code = "```python\nx = open('file', 'w').write('17')\n```\n\n```python\nprint(x, 2.34567)\n```\n"
    page.write_text(f"{code}\n```output\n2 2.3...\n```\n\n```console\n$ cat file\n1...\n$ cat file | cat\n```\n")
    assert run(page, tmp_path).returncode == 0


@pytest.mark.parametrize(("stated", "got", "same"), [("9... % of", "90\xa0% of\n", True), ("9 0", "90", False)])
def test_spaces_are_not_counted_but_must_be_there(stated, got, same):
    assert guide.same(stated, got) == same
