"""Files appear whole or not at all."""

import os
import stat
import threading

import pytest

from credibly.data.files import written_whole
from credibly.errors import InputError


def test_the_name_is_taken_at_the_end(tmp_path):
    final = tmp_path / "out.txt"
    final.write_text("old")
    with written_whole(final) as part:
        part.write_text("new")
        assert final.read_text() == "old"
    assert final.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_fails_leaves_nothing(tmp_path, error):
    final = tmp_path / "out.txt"
    with pytest.raises(error), written_whole(final) as part:
        part.write_text("half")
        raise error
    assert os.listdir(tmp_path) == []


def test_names_that_cannot_be_written_to(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for path, message in ((taken, "exists already"), (tmp_path / "no" / "x", "does not exist"), (tmp_path, "a folder")):
        with pytest.raises(InputError, match=message), written_whole(path, overwrite=False):
            pytest.fail("the block must not run")
    assert taken.read_text() == "mine"


def test_a_name_taken_meanwhile_is_not_overwritten(tmp_path):
    final = tmp_path / "out.txt"
    with pytest.raises(InputError, match="exists already"), written_whole(final, overwrite=False) as part:
        part.write_text("mine")
        final.write_text("theirs")
    assert final.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    with written_whole(tmp_path / "whole") as part:
        part.write_text("")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "whole")}
    assert len(modes) == 1


def test_of_many_writers_one_wins_whole(tmp_path):
    final = tmp_path / "out.txt"

    def write(letter):
        with written_whole(final) as part:
            part.write_text(letter * 10_000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(final.read_text())) == 1
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_link_stays_and_a_private_file_stays_private(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with written_whole(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_what_is_no_ordinary_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"), written_whole(tmp_path / "pipe"):
        pytest.fail("the block must not run")
