"""Files that appear under their name whole, or not at all."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from credibly.errors import FileWriteError, InputError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def write_errors(
    path: str | os.PathLike[str], kind: type[InputError] = FileWriteError, more: str = ""
) -> Iterator[None]:
    """Translate what goes wrong while `path` is written, such as a full disk, into one readable error.

    Parameters
    ----------
    path : path
        For the message.
    kind : type, default FileWriteError
        Of the error.
    more : str
        Further advice.

    Notes
    -----
    A reader of a pipe that has gone away is no error of the writer: `BrokenPipeError` goes on as it is.
    """
    try:
        yield
    except (BrokenPipeError, FileWriteError):
        raise
    except OSError as error:
        advice = "Free some space or choose" if error.errno in FULL else "Choose"
        raise kind(
            f"Cannot write {os.fspath(path)}: {error.strerror or error}. {advice} another place.{more}"
        ) from error


@contextmanager
def written_whole(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it takes the name when the block ends well, and is removed otherwise.

    Parameters
    ----------
    path : path
        The final name; its folder must exist.
    overwrite : bool, default True
        False: refuse a name that is taken, before anything is written and again at the end.

    Yields
    ------
    Path
        To be opened and closed by the block, which may also replace it.

    Notes
    -----
    An error and Ctrl-C leave nothing. A process that is killed cannot tidy up: what it leaves is hidden and called
    ``.NAME.….part``, is never read, and may be deleted.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> final = pathlib.Path(tempfile.mkdtemp(), "answer.txt")
    >>> with written_whole(final) as part:
    ...     _ = part.write_text("42")
    ...     print(final.exists())
    False
    >>> final.read_text()
    '42'
    """
    with write_errors(path):
        check_name(Path(path), overwrite)
        final = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    part = final.with_name(f".{final.name[:50]}.{secrets.token_hex(8)}.part")  # 50 letters may be 200 bytes
    try:
        with write_errors(path):
            part.touch(exist_ok=False)  # with the permissions of any new file, where tempfile's are the owner's only
        yield part
        with write_errors(path):
            _flush(part)
            if final.exists():
                part.chmod(stat.S_IMODE(final.stat().st_mode))  # a file that only its owner may read stays so
            _take_name(part, final, overwrite)
    finally:
        try:
            part.unlink(missing_ok=True)
        finally:  # Ctrl-C may have come between the line above and the system call
            part.unlink(missing_ok=True)


def check_name(final: Path, overwrite: bool) -> None:
    """Refuse a name that cannot be written to."""
    if "\0" in str(final):
        raise InputError(f"Cannot write {str(final)!r}: file names cannot contain a null character. Choose another.")
    if not final.parent.is_dir():
        raise InputError(f"Cannot write {final}: the folder {final.parent} does not exist. Create it first.")
    if final.is_dir():
        raise InputError(f"Cannot write {final}: it is a folder. Give the name of a file.")
    loops = Path(os.path.realpath(final)).is_symlink()  # a link that leads back to itself
    if loops or (final.exists() and not final.is_file()):
        raise InputError(f"Cannot write {final}: it is not a regular file. Give the name of a file.")
    if not overwrite and final.exists():
        raise InputError(
            f"{final} exists already. Choose another name, or allow overwriting (overwrite=True; --force on the "
            "command)."
        )


def _take_name(part: Path, final: Path, overwrite: bool) -> None:
    if overwrite:
        part.replace(final)
        return
    try:
        os.link(part, final)  # fails when the name was taken meanwhile, where a check and a rename could not
    except FileExistsError:
        check_name(final, overwrite)
        raise
    except OSError:  # a file system without hard links
        check_name(final, overwrite)
        part.replace(final)


def _flush(part: Path) -> None:
    """Put what was written on the disk before the name is taken: a power cut leaves the old file or the new."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
