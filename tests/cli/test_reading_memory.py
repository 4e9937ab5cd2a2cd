"""Reading needs little more memory than the table, and batches need none that grows."""

import json
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from Linux's /proc"),
]

ROWS = 200_000
READER = """
import json, sys
import pandas, pyarrow.csv, pyarrow.compute, pyarrow.parquet
from credibly.cli.reading import read_batches, read_table

def memory(field):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(field))

before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
if sys.argv[2] == "table":
    frame = read_table(sys.argv[1]).frame
    size = int(frame.memory_usage(deep=True).sum())
else:
    size = sum(len(batch) for batch in read_batches(sys.argv[1], types={f"x{i}": "number" for i in range(8)}))
print(json.dumps({"size": size, "peak": memory("VmHWM") - before}))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same kind of table with few and with many rows: numbers, a category, an identifier."""
    folder = tmp_path_factory.mktemp("memory")
    row = ",".join(f"{0.123456789 * i:.9f}" for i in range(8))
    for name, rows in {"small": ROWS, "large": 5 * ROWS}.items():
        with (folder / name).open("w") as file:
            file.write(",".join(f"x{i}" for i in range(8)) + ",town,id\n")
            file.writelines(f"{row},a rather long name of town {i % 300},customer-{i}\n" for i in range(rows))
    return folder


def read(path, how):
    done = subprocess.run([sys.executable, "-c", READER, path, how], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_table_needs_less_than_three_times_its_size(files):
    read_ = read(files / "large", "table")
    assert read_["peak"] < 3 * read_["size"]  # 2.2 to 2.6: how far the parser reads ahead depends on its threads


def test_batches_of_five_times_the_rows_need_hardly_more(files):
    small, large = read(files / "small", "batches"), read(files / "large", "batches")
    assert (small["size"], large["size"]) == (ROWS, 5 * ROWS)
    assert large["peak"] < 1.5 * small["peak"]  # what the parser reads ahead fills up at the beginning
