"""The example scenarios that come with the package."""

from importlib import resources


def list_examples() -> dict[str, str]:
    """Names and YAML texts, in the order of the names. Each needs no file besides."""
    folder = resources.files("voicebench.scenario").joinpath("examples")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".yaml"): file.read_text("utf-8") for file in files if file.name.endswith(".yaml")}
