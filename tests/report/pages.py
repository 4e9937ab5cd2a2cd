"""What the tests of reports share: small data, a reader of pages, names that nobody should have."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

HOSTILE = ['<script>alert("a")</script>', '"><img src=x onerror=alert(1)>', "cost in $ per $x^2$", "a & b --> ]]>"]
HOSTILE_LABELS = ["<b onclick=alert(2)>ill</b>", "{{ 7 * 7 }} </title>"]
VOID = {"meta", "link", "img", "br", "hr", "input"}


def cancer(n_rows: int = 150, n_columns: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    """Two classes that overlap, every column a measurement."""
    data = load_breast_cancer(as_frame=True)
    return data.data.iloc[:n_rows, :n_columns], np.asarray(data.target_names)[data.target][:n_rows]


def wine(n_columns: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    """Three classes."""
    data = load_wine(as_frame=True)
    return data.data.iloc[:, :n_columns], np.asarray(data.target_names)[data.target]


def hostile(n_rows: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose names and labels try to become markup."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=HOSTILE)
    ill = X.iloc[:, 0] + X.iloc[:, 1] + rng.normal(size=n_rows) > 0
    return X, np.where(ill, HOSTILE_LABELS[0], HOSTILE_LABELS[1])


class Page(HTMLParser):
    """Elements, attributes and texts of a page, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []  # the element it is in, and the text
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", " ".join(data.split())))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def texts_in(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    @property
    def words(self) -> str:
        """All text that is shown."""
        return " ".join(text for name, text in self.texts if name not in {"script", "style"}).replace("\u00a0", " ")
