"""Reads scenario files. Every error names the file, the line, the YAML path and what to do."""

import difflib
from pathlib import Path
from typing import Any

import soundfile
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from voicebench.scenario.assertions import parse_assertion
from voicebench.scenario.models import Scenario

Path_ = tuple[str | int, ...]

MAX_BYTES = 1 << 20  # of a scenario's text; parsing one of this size takes half a minute
MAX_AUDIO_S = 3600


class ScenarioError(ValueError):
    """A scenario that cannot be played. The message is one line that names the place."""


def load_scenario(path: str | Path) -> Scenario:
    """Read and check one scenario file.

    Audio paths are taken relative to the file. Raises ScenarioError.
    """
    path = Path(path)
    try:
        text = _read(path)
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ScenarioError(f"{where}: not valid YAML: {problem}") from None
    except RecursionError:
        raise ScenarioError(f"{path}: not valid YAML: nested too deeply") from None
    except (ValueError, KeyError, AttributeError) as error:  # PyYAML lets those of a malformed value through
        raise ScenarioError(f"{path}: not valid YAML: {_oneline(error)}") from None
    lines = _Lines(root)
    try:
        lines.refuse_repeated_keys()
        scenario = parse_scenario(data, base_dir=path.parent)
    except _MisplacedError as error:
        line = lines.of(error.where)
        raise ScenarioError(f"{path}:{line}: {error}" if line else f"{path}: {error}") from None
    scenario._source = path
    return scenario


def parse_scenario(data: Any, base_dir: Path | None = None) -> Scenario:
    """Check a scenario that is already parsed from YAML. Raises ScenarioError."""
    if not isinstance(data, dict):
        raise _MisplacedError((), "a scenario is a mapping with at least 'name' and 'turns'")
    _unique_ids(data)
    try:
        scenario = Scenario.model_validate(data)
    except ValidationError as error:
        raise _explain(error) from None
    for key, limit in scenario.assertions.items():
        try:
            parse_assertion(key, limit)
        except ValueError as problem:
            raise _MisplacedError(("assert", key), str(problem)) from None
    frame = scenario.frame_ms * scenario.sample_rate / 1000
    if abs(frame - round(frame)) > 1e-6:
        raise _MisplacedError(
            ("frame_ms",),
            f"{scenario.frame_ms:g} ms is no whole number of samples at {scenario.sample_rate} Hz; change either",
        )
    return _with_files(scenario, base_dir or Path())


def _read(path: Path) -> str:
    """The file's text. Raises OSError, UnicodeDecodeError and ScenarioError."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ScenarioError(f"{path}: is over {MAX_BYTES >> 20} MiB; is this a scenario?")
    return data.decode("utf-8")


class _MisplacedError(ScenarioError):
    def __init__(self, where: Path_, problem: str) -> None:
        super().__init__(f"{_dotted(where)}: {problem}" if where else problem)
        self.where = where


def _with_files(scenario: Scenario, base: Path) -> Scenario:
    """Resolve the audio files and make sure that each can be decoded."""
    turns = []
    for number, turn in enumerate(scenario.turns):
        if turn.audio.file is not None:
            where = ("turns", number, "audio", "file")
            path = base / turn.audio.file
            problem = _audio_problem(path)
            if problem:
                raise _MisplacedError(where, f"{path} {problem}")
            turn = turn.model_copy(update={"audio": turn.audio.model_copy(update={"file": str(path)})})
        turns.append(turn)
    return scenario.model_copy(update={"turns": turns})


def _audio_problem(path: Path) -> str:
    """Why an audio file cannot be played; empty if it can, as far as its header tells."""
    try:
        if not path.is_file():
            return "is no file" if path.exists() else "does not exist"
        about = soundfile.info(str(path))
    except OSError as error:
        return f"cannot be read: {error.strerror or _oneline(error)}"
    except soundfile.SoundFileError as error:
        return f"cannot be read as audio: {_oneline(error)}"
    if not about.frames:
        return "holds no audio"
    if about.duration > MAX_AUDIO_S:
        return f"lasts {about.duration:.0f} s at {about.samplerate} Hz; the longest allowed is {MAX_AUDIO_S} s"
    return ""


def _unique_ids(data: dict[Any, Any]) -> None:
    turns = data.get("turns")
    seen: dict[Any, int] = {}
    for number, turn in enumerate(turns if isinstance(turns, list) else []):
        name = turn.get("id", f"turn-{number + 1}") if isinstance(turn, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            raise _MisplacedError(("turns", number, "id"), f"{name!r} is already the id of turns[{seen[name]}]")
        seen[name] = number


def _explain(error: ValidationError) -> _MisplacedError:
    """The first problem in full; the places of the others."""
    problems = error.errors(include_url=False)
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")  # a misspelt key explains the rest
    where = _place(problems[0]["loc"])
    text = _describe(where, problems[0])
    others = dict.fromkeys(_dotted(_place(problem["loc"])) for problem in problems[1:])
    others.pop(_dotted(where), None)
    if others:
        text += f" (and {len(others)} more: {', '.join(list(others)[:3])}{', ...' if len(others) > 3 else ''})"
    return _MisplacedError(where, text)


def _describe(where: Path_, problem: ErrorDetails) -> str:
    """What is wrong at ``where``, and what to do about it."""
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return _unknown_key(str(where[-1]), _known_keys(where[:-1]))
    if where == ("playout",):
        return "use 'ideal', 'none' or a block with jitter_buffer_ms and max_ms"
    if where[:1] == ("metadata",) and len(where) == 2:
        return f"must be text, a number, true or false, not {_shown(value)}"
    if kind == "missing":
        return "is missing; it has no default"
    if kind == "invalid_key" or problem["loc"][-1:] == ("[key]",):
        return "keys are text; put it in quotes"
    if kind == "literal_error":
        noun = {"after": "an anchor", "expect": "an expectation", "synth": "a signal"}.get(str(where[-1]), "allowed")
        allowed = problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return f"{_shown(value)} is not {noun}; use one of {allowed}"
    if kind == "too_short" and where == ("turns",):
        return "a scenario needs at least one turn"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind in ("model_type", "dict_type"):
        known = _known_keys(where)
        return f"must be a block{' with ' + ', '.join(known) if known else ''}, not {_shown(value)}"
    if kind == "string_type":
        return f"must be text, not {_shown(value)}" + (
            "" if isinstance(value, (dict, list)) else "; put it in quotes"
        )
    text = (
        problem["msg"]
        .replace("Input should be", "must be")
        .replace("a valid ", "a ")
        .replace("a integer", "a whole number")
    )
    return f"{text}, not {_shown(value)}"


def _unknown_key(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"unknown key; did you mean {near[0]!r}?" if near else f"unknown key; use one of {', '.join(known)}"


def _place(loc: Path_) -> Path_:
    """Where in the file a problem is: pydantic also names the member of a union that did not fit."""
    if loc[:1] == ("metadata",):
        return loc[:2]
    return tuple(part for part in loc if part not in ("[key]", "JitterBuffer", "literal['ideal','none']"))


def _shown(value: Any) -> str:
    """A value as its author knows it, on one line and not too long."""
    if isinstance(value, dict):
        return "a block"
    if isinstance(value, list):
        return "a list"
    for constant, name in ((None, "null"), (True, "true"), (False, "false")):
        if value is constant:
            return name
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_keys(where: Path_) -> list[str]:
    """The keys allowed in the block at ``where``, found by walking the models."""
    model: Any = Scenario
    for part in where:
        if isinstance(part, int):
            continue
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == part), None)
        if field is None:
            return []
        model = _model_in(field.annotation)
        if model is None:
            return []
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None


def _oneline(error: object) -> str:
    return " ".join(str(error).split())


def _dotted(where: Path_) -> str:
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


class _Lines:
    """Line numbers of the parsed YAML."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._root = root

    def refuse_repeated_keys(self) -> None:
        """YAML would silently keep the last of two ``assert`` blocks. Raises _MisplacedError."""
        waiting: list[tuple[Path_, yaml.Node]] = [((), self._root)] if self._root else []
        seen: set[int] = set()
        while waiting:
            where, node = waiting.pop()
            if id(node) in seen:  # an alias
                continue
            seen.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                waiting += [((*where, number), child) for number, child in enumerate(node.value)]
            elif isinstance(node, yaml.MappingNode):
                keys: set[str] = set()
                for key, child in node.value:
                    name = str(key.value)
                    if name in keys:
                        line = key.start_mark.line + 1
                        raise _MisplacedError((*where, name), f"is set again on line {line}; keep one of them")
                    keys.add(name)
                    waiting.append(((*where, name), child))

    def of(self, where: Path_) -> int | None:
        """The line of the deepest part of ``where`` that the file holds, from 1."""
        node, line = self._root, None
        if node is not None:
            line = node.start_mark.line + 1
        for part in where:
            if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            elif isinstance(node, yaml.MappingNode):
                pair = next(((k, v) for k, v in node.value if k.value == str(part)), None)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line + 1, pair[1]
            else:
                break
        return line
