"""The JSON Schema of scenario files, for editors and other programs."""

from typing import Any

from voicebench.scenario.assertions import DISTRIBUTIONS, FIGURES, STATISTICS, Assertion, known_keys, parse_assertion
from voicebench.scenario.models import Scenario


def schema() -> dict[str, Any]:
    """The schema of what an author may write.

    It differs from the models' own: a turn's ``id`` and ``start`` may be left out, audio comes either from a file
    or from a signal, and ``assert`` knows its keys.
    """
    made = Scenario.model_json_schema(by_alias=True)
    turn, audio, checks = made["$defs"]["Turn"], made["$defs"]["AudioSpec"], made["properties"]["assert"]
    turn["required"] = ["audio"]
    audio["oneOf"] = [{"required": ["file"]}, {"required": ["synth"]}]
    checks["description"] = (
        f"Limits on the results, as <statistic>_<metric>: number. Statistics {', '.join(STATISTICS)} of "
        f"{', '.join(DISTRIBUTIONS)}; min or max of {', '.join(FIGURES)}; max_wer limits the mean word error rate. "
        "min_ sets a floor, everything else a ceiling. A value that was never measured fails."
    )
    checks["properties"] = {
        key: {"type": "number", "description": _meaning(parse_assertion(key, 0))} for key in known_keys()
    }
    checks["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "voicebench scenario"}


def _meaning(assertion: Assertion) -> str:
    what = assertion.metric if assertion.statistic == "value" else f"the {assertion.statistic} of {assertion.metric}"
    return f"{what} must be at {'least' if assertion.is_floor else 'most'} this"
