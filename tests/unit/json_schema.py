"""As much of JSON Schema as the scenario schema uses."""

from typing import Any

from voicebench.scenario import schema

KEYWORDS_WITHOUT_A_CHECK = {"$defs", "$schema", "title", "description", "default"}
TYPES: dict[str, Any] = {
    "string": str,
    "object": dict,
    "array": list,
    "null": type(None),
    "boolean": bool,
    "number": (int, float),
    "integer": int,
}


def problems(value: Any, rule: Any, root: dict[str, Any], at: str = "$") -> list[str]:
    """What the part of JSON Schema that our schema uses says of ``value``."""
    if rule is True:
        return []
    found: list[str] = []
    for keyword, argument in rule.items():
        if keyword in KEYWORDS_WITHOUT_A_CHECK:
            continue
        if keyword == "$ref":
            found += problems(value, root["$defs"][argument.removeprefix("#/$defs/")], root, at)
        elif keyword == "type":
            if not isinstance(value, TYPES[argument]) or (isinstance(value, bool) and argument != "boolean"):
                found.append(f"{at} is no {argument}")
        elif keyword == "enum":
            found += [] if value in argument else [f"{at} is none of {argument}"]
        elif keyword in ("anyOf", "oneOf"):
            good = sum(not problems(value, choice, root, at) for choice in argument)
            found += [] if good == 1 or (good and keyword == "anyOf") else [f"{at} fits {good} of {keyword}"]
        elif keyword == "required":
            found += [f"{at}.{key} is missing" for key in argument if key not in value]
        elif keyword == "properties":
            block = value if isinstance(value, dict) else {}
            for key in block.keys() & argument.keys():
                found += problems(block[key], argument[key], root, f"{at}.{key}")
        elif keyword == "additionalProperties":
            extra = value.keys() - rule.get("properties", {}).keys() if isinstance(value, dict) else set()
            for key in extra:
                more = [f"{at}.{key} is unknown"] if argument is False else problems(value[key], argument, root, at)
                found += more
        elif keyword == "items":
            for number, item in enumerate(value if isinstance(value, list) else []):
                found += problems(item, argument, root, f"{at}[{number}]")
        elif keyword == "minItems":
            found += [] if len(value) >= argument else [f"{at} is too short"]
        elif keyword in ("minimum", "maximum", "exclusiveMinimum"):
            limits = {
                "minimum": lambda x, y: x >= y,
                "maximum": lambda x, y: x <= y,
                "exclusiveMinimum": lambda x, y: x > y,
            }
            if isinstance(value, (int, float)) and not limits[keyword](value, argument):
                found.append(f"{at} is out of range")
        else:
            raise AssertionError(f"this check does not know {keyword}")
    return found


def faults(data: Any) -> list[str]:
    """What the scenario schema says of a scenario file's content."""
    made = schema()
    return problems(data, made, made)
