"""The architecture: which part of the package may know which, and who may touch the outside world."""

import ast
from collections.abc import Iterator
from pathlib import Path

import voicebench

ROOT = Path(voicebench.__file__).parent

BOTTOM = frozenset({"scenario", "audio", "vad", "clock", "wire", "wer", "exits", "version"})
ABOVE_CALLS = BOTTOM | {"adapters", "runner", "metrics", "report"}

#: Part of the package -> what it may import besides itself. A dotted name allows that module alone.
ALLOWED: dict[str, frozenset[str]] = {
    **dict.fromkeys(BOTTOM, BOTTOM),
    "agents": BOTTOM,
    "adapters": BOTTOM | {"agents"},
    "runner": BOTTOM | {"adapters"},
    "metrics": BOTTOM | {"runner.record", "runner.health"},
    "report": BOTTOM | {"metrics"},
    "load": ABOVE_CALLS | {"bench"},
    "bench": ABOVE_CALLS,
    "calibrate": BOTTOM | {"adapters", "runner", "metrics", "agents"},
    "validation": ABOVE_CALLS | {"agents"},
    "cli": ABOVE_CALLS | {"agents", "bench", "load", "calibrate", "validation"},
    "__main__": frozenset({"cli"}),
    "": frozenset({"version", "bench", "scenario"}),  # voicebench/__init__.py
}

#: Outside modules that only some parts may import.
RESERVED: dict[str, frozenset[str]] = {
    "locust": frozenset({"load"}),
    "flask": frozenset({"load"}),
    "gevent": frozenset({"runner", "adapters", "agents", "load", "calibrate", "validation", "cli"}),
    "websocket": frozenset({"adapters"}),
    "asyncio": frozenset({"adapters", "agents"}),
    # clock.kernel uses only the numbers of socket options, load.worker only the name of this machine.
    "socket": frozenset({"adapters", "agents", "clock.kernel", "load.worker"}),
    "ssl": frozenset({"adapters", "agents", "clock.kernel", "cli.agent"}),
    "select": frozenset({"runner.pacer", "agents"}),
    "yaml": frozenset({"scenario", "load", "cli", "agents"}),
    "jinja2": frozenset({"report"}),
    "jiwer": frozenset({"wer"}),
}

MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def name_of(module: Path) -> str:
    """``runner/pacer.py`` is ``runner.pacer``, ``runner/__init__.py`` is ``runner``."""
    parts = module.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(module: Path) -> Iterator[str]:
    """Every absolute name that a module imports, at its top or inside a function."""
    for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports hide what is imported"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, allowed: frozenset[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in allowed)


def test_imports_point_downwards() -> None:
    wrong = []
    for module in MODULES:
        part = name_of(module).partition(".")[0]
        for target in imports_of(module):
            package, _, rest = target.partition(".")
            own = part and within(rest, frozenset({part}))
            if package == "voicebench" and not own and not within(rest, ALLOWED[part]):
                wrong.append(f"{module} must not import {target}")

    assert not wrong


def test_the_outside_world_is_reserved() -> None:
    wrong = []
    for module in MODULES:
        for target in imports_of(module):
            owners = RESERVED.get(target.partition(".")[0])
            if owners is not None and not within(name_of(module), owners):
                wrong.append(f"{module} must not import {target}")

    assert not wrong


def test_every_part_has_its_rule() -> None:
    parts = {name_of(module).partition(".")[0] for module in MODULES}

    assert parts <= ALLOWED.keys()
