"""What every command does alike: options, one line per error, notes for warnings, JSON or text, exit codes."""

import functools
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout, suppress
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
import typer

from credibly.cli import BAD_INPUT, DONE, INTERRUPTED, STOPPED, UNEXPECTED
from credibly.cli.printable import printable, printable_json
from credibly.data.files import write_errors
from credibly.errors import CrediblyError

OWN = {"json", "debug"}

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class Outcome(NamedTuple):
    """What a command found: once for scripts, once for people."""

    result: dict[str, Any]
    text: str


class Call(NamedTuple):
    """A command as it was called."""

    name: str
    inputs: dict[str, Any]
    as_json: bool
    debug: bool


def add_command(app: typer.Typer, name: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register a function as a command with --json and --debug; it returns an `Outcome`.

    A function that has a parameter `json` or `debug` is told, too. A parameter whose type is a NamedTuple stands for
    all its fields: each becomes an option of its own.
    """

    def register(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
        parameters = list(inspect.signature(function).parameters.values())
        asked_for = {it.name for it in parameters}
        groups = {it.name: it.annotation for it in parameters if hasattr(it.annotation, "_fields")}

        @functools.wraps(function)
        def command(**given: Any) -> None:
            as_json, debug = given["json"], given["debug"]
            said = {it: value for it, value in given.items() if it not in OWN and not (value is None or value is False)}
            inputs = plain(said)
            for option in OWN - asked_for:
                del given[option]
            for group, kind in groups.items():
                given[group] = kind(**{field: given.pop(field) for field in kind._fields})
            raise typer.Exit(run_command(lambda: function(**given), Call(name, inputs, as_json, debug)))

        options = [option for it in parameters for option in _options(it)]
        options += [
            _option(own, kind, False) for own, kind in (("json", Json), ("debug", Debug)) if own not in asked_for
        ]
        command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        command.__annotations__ = {it.name: it.annotation for it in options}
        app.command(name)(command)
        return function

    return register


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    kind = parameter.annotation
    if not hasattr(kind, "_fields"):
        return [_option(parameter.name, kind, parameter.default)]
    hints = get_type_hints(kind, include_extras=True)
    return [_option(field, hints[field], kind._field_defaults[field]) for field in kind._fields]


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def open_streams() -> None:
    """Streams that were closed before Python began (`>&-`) read and write nothing.

    Otherwise the next file that is opened would have the number of the stream, and be written to by whatever writes to
    that number; and `print` to an error stream that is None goes to standard output, among the results.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def run_app(app: typer.Typer, arguments: list[str]) -> int:
    """Run the command that the arguments name; wrong ones are told in one line, too."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    call = Call(name, {}, "--json" in arguments, "--debug" in arguments)
    try:
        return _flushed(int(app(arguments or ["--help"], standalone_mode=False) or DONE))
    except (KeyboardInterrupt, typer.Abort):
        return _flushed(_fail(STOPPED, INTERRUPTED, call))
    except OSError as error:  # of the help text
        return _flushed(_fail(_one_line(error), BAD_INPUT, call))
    except Exception as error:
        # Typer's own errors, which come from another package in older releases, know their message and exit code.
        if not hasattr(error, "format_message"):
            raise
        message = " ".join(error.format_message().split()) or "Nothing was asked: see credibly --help."
        return _flushed(_fail(message, BAD_INPUT, call._replace(debug=False)))


def run_command(function: Callable[[], Outcome], call: Call) -> int:
    """Run a command, print what it found or why not, and return the exit code."""
    try:
        # With --json standard output holds one object only: whatever a command prints meanwhile goes beside it.
        aside = redirect_stdout(sys.stderr) if call.as_json else nullcontext()
        with aside, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = function()
        said = list(dict.fromkeys(str(one.message) for one in caught if _concerns_user(one)))
        with write_errors("to standard output"):
            _print(outcome, said, call)
    except KeyboardInterrupt:
        return _fail(STOPPED, INTERRUPTED, call)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        return DONE
    except (CrediblyError, OSError) as error:
        return _fail(_one_line(error), BAD_INPUT, call)
    except ImportError as error:
        return _fail(f"{error}. Everything the command needs: pip install 'credibly[cli]'.", BAD_INPUT, call)
    except Exception as error:  # whatever it is, the user sees one line, and --debug the rest
        what = f"Unexpected {type(error).__name__}: {_one_line(error)}"
        return _fail(f"{what} (a fault of credibly; --debug shows where).", UNEXPECTED, call)
    return DONE


def _flushed(code: int) -> int:
    """What standard output still holds is written now, or given up: when Python ends it would fail with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _concerns_user(one: warnings.WarningMessage) -> bool:
    return not issubclass(one.category, DeprecationWarning | PendingDeprecationWarning | ResourceWarning)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    return " ".join(str(error).split())


def _fail(message: str, code: int, call: Call) -> int:
    if call.debug:
        print(printable(traceback.format_exc()), end="", file=sys.stderr)
    if call.as_json:
        with suppress(OSError):  # perhaps that is what failed; the line below tells it
            _print_json({"command": call.name, "inputs": call.inputs, "error": message})
    print(printable(f"{f'credibly {call.name}'.strip()}: {message}"), file=sys.stderr)
    return code


def _print(outcome: Outcome, said: list[str], call: Call) -> None:
    if call.as_json:
        result = plain(outcome.result) | ({"warnings": said} if said else {})
        _print_json({"command": call.name, "inputs": call.inputs, "result": result})
        return
    for note in said:
        print(printable(f"note: {note}"), file=sys.stderr)
    if outcome.text:
        print(printable(outcome.text))
    sys.stdout.flush()


def _print_json(answer: dict[str, Any]) -> None:
    print(printable_json(json.dumps(answer, ensure_ascii=False)), flush=True)


def plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)
