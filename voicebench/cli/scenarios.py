"""``voicebench validate``, ``example`` and ``schema``: everything about scenario files but playing them."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from voicebench.cli.options import UsageError
from voicebench.exits import Exit


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``validate``, ``example`` and ``schema``."""
    validate = commands.add_parser("validate", parents=[common], help="check scenario files without playing them")
    validate.add_argument("files", nargs="+", metavar="FILE", type=Path, help="scenario file (YAML)")
    validate.set_defaults(handler=validate_command)

    example = commands.add_parser("example", parents=[common], help="print or save an example scenario")
    example.add_argument("name", nargs="?", metavar="NAME", help="which one; without it they are listed")
    example.add_argument("-O", "--output", metavar="FILE", type=Path, help="save it there")
    example.set_defaults(handler=example_command)

    schema = commands.add_parser("schema", parents=[common], help="print the JSON Schema of scenario files")
    schema.set_defaults(handler=schema_command)


def validate_command(args: argparse.Namespace) -> int:
    """Print a line per file: OK, or its error."""
    from voicebench.audio.files import AudioFileError
    from voicebench.runner.prompts import Prompts
    from voicebench.scenario import ScenarioError, load_scenario

    failed = False
    for path in args.files:
        try:
            scenario = load_scenario(path)
            Prompts.of(scenario)
        except (ScenarioError, AudioFileError) as error:
            failed = True
            place = f"{path}: " if isinstance(error, AudioFileError) else ""
            print(f"ERROR {place}{error}", file=sys.stderr)
        else:
            turns = len(scenario.turns)
            print(
                f"OK    {path}: {scenario.name} ({turns} {'turn' if turns == 1 else 'turns'}, "
                f"adapter {scenario.adapter.type})"
            )
    return Exit.USAGE if failed else Exit.OK


def example_command(args: argparse.Namespace) -> int:
    """List, print or save the example scenarios."""
    from voicebench.scenario import list_examples

    examples = list_examples()
    if args.name is None:
        if args.output:
            raise UsageError(f"name the example to save: one of {', '.join(examples)}")
        width = max(map(len, examples))
        for name, text in examples.items():
            print(f"{name:<{width}}  {_description(text)}")
        return Exit.OK
    if args.name not in examples:
        raise UsageError(f"no example {args.name!r}; use one of {', '.join(examples)}")
    if args.output is None:
        print(examples[args.name], end="")
        return Exit.OK
    args.output.write_text(examples[args.name], "utf-8")
    print(f"wrote {args.output}")
    return Exit.OK


def _description(text: str) -> str:
    import yaml

    return str(yaml.safe_load(text).get("description", ""))


def schema_command(args: argparse.Namespace) -> int:
    """Print the JSON Schema, for editors and for other programs."""
    from voicebench.scenario import schema

    print(json.dumps(schema(), indent=2))
    return Exit.OK
