"""``purgatorio completion``: scripts that complete commands, flags, topics and groups in bash, zsh and fish.

A script has the table of commands, made from the parser; where a topic or a group comes, it asks the cluster, which has
little time to answer (``purgatorio complete``, not for users). bash's function serves zsh, too.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from purgatorio.admin.cli.command import CommandRefused, Parser, add_parser
from purgatorio.admin.cli.wire_command import by_wire

SHELLS: Final = ("bash", "zsh", "fish")
KINDS: Final = {"TOPIC": "topics", "GROUP": "groups", "GROUP|TOPIC": "names"}
"""Names that a cluster is asked for, by the word that stands for them in help."""
OF_WORDS: Final = ("brokers", "resources", "configs", "settings")
"""Others: brokers, the names of a kind of resource, and configs of a resource, `settings` with ``=`` behind them."""
WHERE: Final = "earliest latest"
PATIENCE_SECONDS: Final = 0.7
"""A key that does nothing for longer seems to be broken."""
MAX_NAMES: Final = 1_000
_EPILOG: Final = """\
For this shell: source <(purgatorio completion bash), or zsh in its place; in fish: purgatorio completion fish | source.
For each new one put that into ~/.bashrc or ~/.zshrc (after compinit), or the script into
~/.config/fish/completions/purgatorio.fish.
"""


class Command(NamedTuple):
    """A row of the table.

    Attributes:
        words: the command, such as ``topics delete``; "" for the program itself.
        does: its summary.
        subcommands: what may follow, with summaries.
        flags: with what their value is: words with blanks between them, ``:topics``, ``:files`` or else "" ; None: they
            take none; and their help.
        places: what each of the arguments without a flag is, in the same form.
        is_list: whether the last one may come again.
    """

    words: str
    does: str
    subcommands: Sequence[tuple[str, str]]
    flags: Sequence[tuple[str, str | None, str]]
    places: Sequence[str]
    is_list: bool


def add_completion(commands: Any, build: Callable[[], argparse.ArgumentParser]) -> None:
    """Add `purgatorio completion`, and what its scripts ask; `build` makes the whole command line."""
    parser = add_parser(commands, "completion", "print a script that completes commands in bash, zsh or fish", _EPILOG)
    parser.set_defaults(run=_print_script, build=build)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    complete = commands.add_parser("complete")  # for the scripts: without help it is not listed
    complete.set_defaults(run=_print_names, command_config=None, timeout=PATIENCE_SECONDS)
    complete.add_argument("kind", choices=(*KINDS.values(), *OF_WORDS))
    complete.add_argument("words", nargs="*")
    complete.add_argument("--bootstrap")
    complete.add_argument("--admin")
    complete.add_argument("--command-config")


def _print_script(args: argparse.Namespace) -> int:
    table = list(table_of(args.build()))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](table), end="")
    return 0


def _print_names(args: argparse.Namespace) -> int:
    """Print the topics, groups or the like of the cluster; nothing if it does not answer at once."""
    with contextlib.suppress(CommandRefused, KeyboardInterrupt):
        for name in by_wire(f"completing.{args.kind}")(args)[:MAX_NAMES]:
            print(name)
    return 0


# --- the table ---


def table_of(parser: argparse.ArgumentParser, words: str = "", does: str = "") -> Iterator[Command]:
    """Yield the rows of a parser and of all parsers below it."""
    if isinstance(parser, Parser) and parser.fill is not None:
        fill, parser.fill = parser.fill, None
        fill()
    below: dict[str, argparse.ArgumentParser] = {}
    summaries: dict[str, str] = {}
    flags: list[tuple[str, str | None, str]] = []
    places: list[str] = []
    is_list = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {each.dest: each.help or "" for each in action._choices_actions}
            below = {name: action.choices[name] for name in summaries}
        elif action.option_strings:
            value = None if action.nargs == 0 else _values(action, words)
            flags += [(flag, value, action.help or "") for flag in action.option_strings]
        else:
            places.append(_values(action, words))
            is_list = action.nargs in ("*", "+")
    yield Command(words, does, list(summaries.items()), flags, places, is_list)
    for name, each in below.items():
        yield from table_of(each, f"{words} {name}".strip(), summaries[name])


def _values(action: argparse.Action, words: str) -> str:
    """Return what an argument's value is, as the table has it."""
    if action.choices is not None:
        return " ".join(map(str, action.choices))
    if found := _OF_COMMANDS.get((words, action.dest)):
        return found
    if words.startswith("broker ") and action.dest == "id":
        return ":brokers"
    metavar = action.metavar if isinstance(action.metavar, str) else (action.dest or "").upper()
    if metavar in KINDS:
        return f":{KINDS[metavar]}"
    return ":files" if metavar in ("FILE", "DIR") else ""


_OF_COMMANDS: Final = {
    ("configs describe", "name"): ":resources",
    ("configs set", "name"): ":resources",
    ("configs set", "set"): ":settings",
    ("configs set", "unset"): ":configs",
    ("topics alter", "set"): ":settings",
    ("topics alter", "unset"): ":configs",
    ("groups reset-offsets", "to"): WHERE,
    ("share-groups reset-offsets", "to"): WHERE,
}
"""Values of arguments whose word in help does not say which they are, by command and attribute."""


# --- scripts ---

_BASH: Final = """\
# Completion of purgatorio, made by: purgatorio completion {shell}
_purgatorio() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command="" asked=() given=() next="" kind="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
{commands}
            *) case "${{COMP_WORDS[i]}}" in
                -* | [:=]*) ;;
                *) case "$command ${{COMP_WORDS[i-1]}}" in
{switches}
                    *" "-* | *" "[:=]) ;;  # the value of a flag, or the rest of a word
                    *) given+=("${{COMP_WORDS[i]}}") ;;
                esac ;;
            esac ;;
        esac
        case "${{COMP_WORDS[i]}}" in
            --bootstrap | --admin | --command-config)
                asked+=("${{COMP_WORDS[i]}}" "${{COMP_WORDS[i+1]}}")
                while [[ ${{COMP_WORDS[i+2]}} == : ]]; do  # bash takes a colon for a word
                    asked[-1]+=":${{COMP_WORDS[i+3]}}"
                    ((i += 2))
                done ;;
        esac
    done
    COMPREPLY=()
    case "$command $before" in
{values}
        *) case "$command ${{#given[@]}}" in
{places}
        esac ;;
    esac
    case "$kind" in
        :files) COMPREPLY=($(compgen -f -- "$word")); return ;;
        :*) next=$("${{COMP_WORDS[0]}}" complete "${{kind#:}}" "${{given[@]}}" "${{asked[@]}}" 2>/dev/null) ;;
        *) next=$kind ;;
    esac
    if [[ $word == -* ]]; then
        case "$command" in
{flags}
        esac
    fi
    next=${{next//$'\\n'/ }}
    COMPREPLY=($(compgen -W "$next" -- "$word"))
    if [[ $kind == :settings ]]; then compopt -o nospace 2>/dev/null; fi
}}
complete -F _purgatorio purgatorio
"""


def _bash(table: Sequence[Command], shell: str = "bash") -> str:
    aliases = _aliases(table)
    commands = [
        _case(
            f'"{each.words}"'
            if " " in each.words
            else " | ".join(f'" {name}"' for name in (each.words, aliases.get(each.words)) if name),
            f"command={shlex.quote(each.words)}",
        )
        for each in table
        if each.words
    ]
    switches = [
        _case(" | ".join(f'"{each.words} {flag}"' for flag in flags), 'given+=("${COMP_WORDS[i]}")')
        for each in table
        if (flags := [flag for flag, value, _ in each.flags if value is None])
    ]
    values = [
        _case(
            " | ".join(f'"{each.words} {flag}"' for flag, of, _ in each.flags if of == value),
            f"kind={shlex.quote(value)}",
        )
        for each in table
        for value in dict.fromkeys(of for _, of, _ in each.flags if of is not None)
    ]
    places = [
        _case(f'"{each.words} "{nth}', f"kind={shlex.quote(place)}") for each in table for nth, place in _places(each)
    ]
    flags = [
        _case(f'"{each.words}"', f"next={shlex.quote(' '.join(flag for flag, _, _ in each.flags))}") for each in table
    ]
    parts = {"commands": commands, "switches": switches, "values": values, "places": places, "flags": flags}
    return _BASH.format(
        shell=shell, **{name: "\n".join(f"            {each}" for each in lines) for name, lines in parts.items()}
    )


def _aliases(table: Sequence[Command]) -> dict[str, str]:
    """Return what else the first words may be: ``topic`` is taken for ``topics``."""
    first = [each.words for each in table if each.words and " " not in each.words]
    other = {each: each.removesuffix("s") if each.endswith("s") else f"{each}s" for each in first}
    return {each: alias for each, alias in other.items() if alias not in first}


def _places(command: Command) -> Iterator[tuple[str, str]]:
    """Yield what may come after so many arguments, as a pattern."""
    if command.subcommands:
        yield "0", " ".join(name for name, _ in command.subcommands)
    for nth, place in enumerate(command.places):
        is_last = command.is_list and nth == len(command.places) - 1
        if place:
            yield "*" if is_last else str(nth), place


def _case(pattern: str, does: str) -> str:
    return f"{pattern if pattern.startswith(chr(34)) else shlex.quote(pattern)}) {does} ;;"


def _zsh(table: Sequence[Command]) -> str:
    return (
        "# bash's function serves zsh by its own emulation.\n"
        "autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"
        + _bash(table, "zsh")
    )


_FISH: Final = """\
# Completion of purgatorio, made by: purgatorio completion fish
function __purgatorio_names
    set -l asked
    set -l words (commandline -opc)
    for i in (seq (count $words))
        if contains -- $words[$i] --bootstrap --admin --command-config; and test $i -lt (count $words)
            set -a asked $words[$i] $words[(math $i + 1)]
        end
    end
    set -l given (__purgatorio_words)
    set -e given[1..$argv[2]]
    $words[1] complete $argv[1] $given $asked 2>/dev/null
end
function __purgatorio_words
    set -l words (string match --invert -- '-*' (commandline -opc))[2..]
    switch "$words[1]"
ALIASES
    end
    for word in $words
        echo $word
    end
end
function __purgatorio_at
    set -l words (__purgatorio_words)
    set -l wanted (string split ' ' -- "$argv[1]")
    test -z "$argv[1]"; and test (count $words) -eq 0; and return 0
    test -n "$argv[1]"; or return 1
    test (count $words) -ge (count $wanted); or return 1
    test "$words[1..$(count $wanted)]" = "$argv[1]"; or return 1
    test -z "$argv[2]"; or test (count $words) -eq (math (count $wanted) + $argv[2])
end
complete -c purgatorio -f
"""


def _fish(table: Sequence[Command]) -> str:
    aliases = [f"        case {alias}\n            set words[1] {words}" for words, alias in _aliases(table).items()]
    lines = [_FISH.rstrip("\n").replace("ALIASES", "\n".join(aliases))]
    for each in table:
        at = f"__purgatorio_at {shlex.quote(each.words)}"
        start = f"complete -c purgatorio -n {shlex.quote(at)}"
        depth = len(each.words.split())
        for name, does in each.subcommands:
            lines.append(f"complete -c purgatorio -n {shlex.quote(f'{at} 0')} -a {name} -d {_described(does)}")
        for nth, place in enumerate(each.places):
            when = at if len(each.places) == 1 or (each.is_list and nth == len(each.places) - 1) else f"{at} {nth}"
            if place:
                lines.append(f"complete -c purgatorio -n {shlex.quote(when)} {_fish_values(place, depth)}")
        for flag, value, does in each.flags:
            named = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            takes = (
                "" if value is None else " -r -F" if value == ":files" else f" -x {_fish_values(value, depth)}".rstrip()
            )
            lines.append(f"{start} {named}{takes} -d {_described(does)}")
    return "\n".join(lines) + "\n"


def _fish_values(values: str, depth: int) -> str:
    if values == ":files":
        return "-F"
    if values.startswith(":"):
        return f"-a {shlex.quote(f'(__purgatorio_names {values[1:]} {depth})')}"
    return f"-a {shlex.quote(values)}" if values else ""


def _described(does: str) -> str:
    """Return the help of a command or flag for a list: its first part."""
    return shlex.quote(does.replace("%%", "%").partition(";")[0][:80])
