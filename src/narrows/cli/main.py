"""Entry point: finds the language, loads the one command that is asked for, turns errors into one line and exit 2."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from narrows import __version__
from narrows.report.i18n import _, say, use_language
from narrows.text import BadInput, Text, printable

COMMANDS = {
    "fit": Text("Does it fit, and how much work fits beside it?"),
    "check": Text("What went wrong in this engine's log, and does reality agree?"),
    "roofline": Text("What bounds prefill, what bounds decode, and what would help?"),
    "load": Text("How long from storage to ready, and which stage decides?"),
    "explain": Text("Where does this number come from? The chapter's worked examples, computed."),
    "measure": Text("What can this machine really do, and a real decoder on it?"),
    "accuracy": Text("Why should I believe any of this? Predictions against public measurements."),
    "models": Text("Which models are known, and what is one made of?"),
    "calibration": Text("Which corrections are on record?"),
    "gpus": Text("Which accelerators are known, with memory, peaks, ridge points and prices?"),
}
"""Name → its line in `narrows --help`; the module `narrows.cli.<name>` is imported only when it is run."""


class LazyGroup(click.Group):
    """A group whose commands are modules, imported when run: `narrows --help` loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order a newcomer reads them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the module of a command."""
        if name not in COMMANDS:
            return None
        found: click.Command = import_module(f"narrows.cli.{name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from `COMMANDS`."""
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, say(text)) for name, text in COMMANDS.items()])


def _language_of(arguments: Sequence[str]) -> str | None:
    """The value of --lang, wherever it stands: help texts need it before anything is parsed."""
    for i, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument.startswith("--lang="):
            return argument[7:]
        if argument == "--lang" and i + 1 < len(arguments):
            return arguments[i + 1]
    return None


def build() -> click.Group:
    """The command group, in the language in use."""
    click.Context.formatter_class = WideTextFormatter
    from narrows.cli.options import lang

    return LazyGroup(
        name="narrows",
        help=_("Tells what limits a large language model on given hardware, and shows why."),
        epilog=_("Example: narrows fit llama-2-7b --gpu a10g --gpu l40s --max-len 4096"),
        params=[
            lang(),
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                help=_("Show the version and exit."),
                callback=lambda ctx, param, value: _version(ctx) if value else None,
            ),
        ],
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
        no_args_is_help=True,
    )


class WideTextFormatter(click.HelpFormatter):
    """Counts cells where click counts characters: a wide one is followed by a mark that is gone in the end."""

    MARK = "\0"

    def write_text(self, text: str) -> None:
        """A paragraph of the help."""
        super().write_text(self._marked(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Options, or commands, and what they mean."""
        super().write_dl([(self._marked(a), self._marked(b)) for a, b in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        """The help."""
        return super().getvalue().replace(self.MARK, "")

    def _marked(self, text: str) -> str:
        if text.isascii():
            return text
        from unicodedata import east_asian_width

        return "".join(char + self.MARK * (east_asian_width(char) in "WF") for char in text)


def _version(ctx: click.Context) -> None:
    click.echo(f"narrows {__version__}")
    ctx.exit()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. Exit 0: yes; 1: no (does not fit); 2: bad input, in one line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _usable_streams()
    code: Any = 0
    try:
        use_language(_language_of(given))
        group = build()
        # not group.main(): it would answer a reader that went away with exit 1, which here means "does not fit"
        with group.make_context("narrows", given) as context:
            code = group.invoke(context)
        sys.stdout.flush()
    except BadInput as error:
        _fail(say(error.text))
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
    except click.NoSuchOption as error:
        near = f" ({', '.join(error.possibilities)}?)" if error.possibilities else ""
        _fail(_("there is no option {name}").format(name=error.option_name) + near + _hint(error))
    except click.ClickException as error:
        _fail(error.format_message().rstrip(".") + (_hint(error) if isinstance(error, click.UsageError) else ""))
    except (KeyboardInterrupt, click.Abort):
        click.echo(_("interrupted"), err=True)
        code = 130
    except OSError as error:
        _lost_output(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        _lost_output(error)
    sys.exit(code if isinstance(code, int) else 0)


def _usable_streams() -> None:
    """Streams that were closed lead nowhere; characters that a stream cannot write are replaced, never an error."""
    for name, mode in (("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - stays open as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _lost_output(error: OSError) -> NoReturn:
    """A reader that went away (`| head`) is no error; a disk that is full is one."""
    try:
        # Python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open as long as the process
    if error.errno in (errno.EPIPE, errno.EINVAL):
        sys.exit(0)
    _fail(_("the answer cannot be written: {reason}").format(reason=error.strerror or str(error)))


def _hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "narrows"
    return "; " + _("see '{command} --help'").format(command=path)


_LONGEST_LINE = 380
"""An error quotes what the user gave, and that may be pages long."""


def _fail(sentence: str) -> NoReturn:
    line = printable(" ".join(sentence.split()))
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE - 120]} … {line[-110:]}"
    click.echo(_("narrows: error: {sentence}").format(sentence=line), err=True)
    sys.exit(2)
