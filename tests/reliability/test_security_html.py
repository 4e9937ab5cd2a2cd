"""Names of strangers in HTML: notebooks and reports show them, whatever markup they try to be.

The rule is that the markup is the same, element by element, as that of a model with harmless names; a browser then
confirms that nothing runs.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from typer.testing import CliRunner

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    GaussianProcessClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    Normal,
    compare,
)
from credibly.cli.main import app
from credibly.kernels import RBF
from credibly.report import About, Settings, report
from helpers import load_by_path

pages = load_by_path(Path(__file__).parents[1] / "report" / "pages.py")

RUN = "window.broken=1"
HOSTILE = [
    f"<script>{RUN}</script>",
    f'"><img src=x onerror={RUN}>',
    f"</script><script>{RUN}</script>",
    f"' onmouseover='{RUN}",
    f"javascript:{RUN}",
    "</td></tr></table><b id=evil>",
    f"<svg/onload={RUN}>",
    "{{7*7}}{%x%}",
    "<!-- ]]> <![CDATA[",
    "&lt;b id=evil&gt;&#60;b&#62;",
    f"</iframe></style></title><iframe srcdoc='<script>parent.{RUN}</script>'>",
]
HARMLESS = [f"name {i:02d}" for i in range(len(HOSTILE))]


def table(names):
    """Sixty rows of as many columns as there are names, and labels of two and of three classes."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, len(names))), columns=names)
    score = X.iloc[:, 0] + rng.normal(size=60)
    return X, np.where(score > 0, names[0], names[1]), np.array(names[:3])[np.digitize(score, [-0.7, 0.7])]


def do_nothing(X):
    return X


def markup(names):
    """Everything that shows itself as HTML, made with these names."""
    X, two, three = table(names)
    logit = BayesianLogisticRegression(prior=Normal()).fit(X, two)
    softmax = BayesianLogisticRegression(prior=Normal()).fit(X, three)
    kernel = RBF(1.0, columns=[names[0], names[5]])
    process = GaussianProcessClassifier(kernel, optimize=False).fit(X, two)
    bayes = NaiveBayes(features="gaussian").fit(X, three)
    glm = BayesianGLM(prior=Normal(), dispersion=1.0).fit(X, X[names[2]] + X[names[3]])
    average = ModelAverage({names[0]: logit, names[5]: LinearDiscriminant()}).fit(X, two)
    pipeline = make_pipeline(FunctionTransformer(do_nothing, kw_args=None), logit)
    found = compare({name: BayesianLogisticRegression(prior=Normal()) for name in names[:4]}, X, two)
    shown = {
        "estimator": logit, "process": process, "naive Bayes": bayes, "regression": glm, "average": average,
        "pipeline": pipeline, "summary": logit.summary(), "summary of three classes": softmax.summary(),
        "summary of a process": process.summary(), "summary of naive Bayes": bayes.summary(),
        "summary of a regression": glm.summary(), "comparison": found,
        "certificate": logit.certify(X, two, random_state=0),
    }  # fmt: skip
    return {name: it._repr_html_() for name, it in shown.items() if hasattr(it, "_repr_html_")}


@pytest.fixture(scope="module")
def both():
    return markup(HARMLESS), markup(HOSTILE)


def outline(html):
    """Elements and the names of their attributes; numbers that scikit-learn gives to elements left out."""
    return [(tag, sorted(attributes)) for tag, attributes in pages.Page(html).elements]


def test_every_repr_has_the_markup_of_one_with_harmless_names(both):
    harmless, hostile = both
    assert len(hostile) >= 10 and hostile.keys() == harmless.keys()
    for name in hostile:
        assert outline(hostile[name]) == outline(harmless[name]), name


def test_names_are_shown_as_they_are(both):
    _, hostile = both
    words = re.sub(r"\s+", " ", pages.Page(hostile["summary"]).words)
    for name in HOSTILE:
        assert name in words, name
    classes = re.sub(r"\s+", " ", pages.Page(hostile["summary of three classes"]).words)
    assert all(name in classes for name in HOSTILE[:3])


@pytest.fixture(scope="module")
def written(tmp_path_factory, both):
    """A notebook, more or less, and the report of a file with a hostile name, columns, levels and labels."""
    folder = tmp_path_factory.mktemp("pages")
    X, two, _ = table(HOSTILE)
    frame = X[HOSTILE[:3]].assign(**{HOSTILE[3]: np.where(X[HOSTILE[3]] > 0, HOSTILE[4], HOSTILE[8]), HOSTILE[5]: two})
    data = folder / f'"><img src=x onerror={RUN}>.csv'
    frame.to_csv(data, index=False)
    out = folder / "report.html"
    options = ("--target", HOSTILE[5], "--title", HOSTILE[10], "--model", "logistic", "--no-compare", "--out", str(out))
    made = CliRunner().invoke(app, ["report", str(data), *options])
    assert made.exit_code == 0, made.output
    inner = report(
        BayesianLogisticRegression(prior=Normal()).fit(X, two), X, two,
        about=About(title=HOSTILE[10], target=HOSTILE[2], notes=tuple(HOSTILE)), settings=Settings(folds=3),
    )  # fmt: skip
    body = "\n".join([*both[1].values(), inner._repr_html_()])
    (folder / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
    return folder


def test_a_report_of_a_hostile_file_has_one_script_and_no_handler(written):
    page = pages.Page((written / "report.html").read_text(encoding="utf-8"))
    assert len(page.all("script")) == 1 and not page.all("img") and not page.all("iframe")
    assert not [key for _, them in page.elements for key in them if key.startswith("on")]
    links = [them.get("href") or "" for _, them in page.elements if "href" in them]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links), links
    assert page.texts_in("title") == [HOSTILE[10]]
    assert "49" not in page.texts_in("title")[0] and "{{7*7}}" not in page.words  # the column was not in this file


@pytest.mark.browser
def test_in_a_browser_nothing_of_it_runs(written, chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for name in ("notebook.html", "report.html"):
            page, heard = browser.new_page(), []
            page.on("dialog", lambda dialog, heard=heard: (heard.append(dialog.message), dialog.dismiss()))
            page.on("request", lambda request, heard=heard: heard.append(request.url))
            page.goto((written / name).as_uri())
            page.wait_for_timeout(300)
            foreign = [url for url in heard if url != page.url and not url.startswith("about:srcdoc")]
            assert foreign == [], name
            for frame in page.frames:
                assert frame.evaluate("window.broken") is None, name
                assert frame.evaluate("document.querySelectorAll('#evil, img[src=x]').length") == 0, name
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.broken=1>')")
        page.wait_for_timeout(300)
        assert page.evaluate("window.broken") is None  # the report's own policy
        page.goto((written / "notebook.html").as_uri())
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.broken=1>')")
        page.wait_for_timeout(300)
        assert page.evaluate("window.broken") == 1  # a page without one would have run it: the test bites
        browser.close()
