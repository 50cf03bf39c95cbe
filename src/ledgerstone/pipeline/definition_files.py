"""Definitions from files: YAML, or a Python file that has a `pipeline`. Shell.

Paths in a definition are relative to its directory, so that a pipeline does the same wherever it is
started. `${NAME}` is replaced from the environment, which keeps passwords out of the file.
"""

import hashlib
import os
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_reading import read_definition
from ledgerstone.pipeline.errors import DefinitionError

_YAML: Final = (".yaml", ".yml")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_IS_REMOTE: Final = re.compile(r"[a-z][a-z0-9+.-]*://")


def load_definition(path: str | Path, environment: Mapping[str, str] | None = None) -> Pipeline:
    file = Path(path)
    try:
        content = _content(file)
    except OSError as error:
        raise DefinitionError(str(file), None, cannot_be_read(error)) from error
    if isinstance(content, Pipeline):
        return content
    try:
        filled = _filled(content, os.environ if environment is None else environment, "")
    except RecursionError:
        raise DefinitionError(str(file), None, "a part of it contains itself") from None
    return define(filled, directory=file.parent)


def definitions_in(directory: Path) -> dict[str, str]:
    """Files with YAML, and what tells whether one has changed. A Python file could be anything."""
    found = {}
    for path in sorted(directory.iterdir()):
        if path.suffix in _YAML and path.is_file():
            try:
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            except FileNotFoundError:
                continue  # It has gone since.
            except OSError as error:
                # Whoever starts it is told; the others go on.
                found[str(path)] = cannot_be_read(error)
    return found


def define(content: object, *, directory: Path) -> Pipeline:
    """From a mapping, as Python code has it."""

    def read_file(name: str) -> bytes:
        return (directory / name).read_bytes()

    pipeline = read_definition(content, read_file=read_file)
    target = pipeline.target
    if not target.type.has_connection:
        target = replace(target, location=_placed(target.location, directory))
    source = pipeline.source
    if source.command_config is not None:
        source = replace(source, command_config=_placed(source.command_config, directory))
    work = _placed(pipeline.work, directory)
    return replace(pipeline, source=source, target=target, work=work)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Refuses a key that comes twice: YAML would take the last and say nothing."""

    def compose_mapping_node(self, anchor: Any) -> Any:  # noqa: ANN401 - as PyYAML has them
        node = super().compose_mapping_node(anchor)
        said = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in said:
                raise yaml.composer.ComposerError(
                    None, None, f"{key.value} is there twice", key.start_mark
                )
            said.add((key.tag, key.value))
        return node


def read_yaml(text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """Raises YAMLError or RecursionError."""
    # A subclass of the safe one.
    return yaml.load(text, Loader=_Loader)


def _content(file: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    if file.suffix == ".py":
        found = runpy.run_path(str(file)).get("pipeline")
        if found is None:
            raise DefinitionError(str(file), None, "the file has nothing named pipeline")
        return found
    try:
        return read_yaml(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DefinitionError(str(file), None, f"not YAML: {yaml_said(error)}") from error


def cannot_be_read(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def yaml_said(error: Exception) -> str:
    """What is wrong, and where, in one line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    words = (getattr(error, "context", None), getattr(error, "problem", None))
    said = ", ".join(word for word in words if word)
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}"


def _filled(content: Any, environment: Mapping[str, str], key: str) -> Any:  # noqa: ANN401
    if isinstance(content, dict):
        return {name: _filled(each, environment, f"{key}.{name}") for name, each in content.items()}
    if isinstance(content, list):
        return [_filled(each, environment, key) for each in content]
    if not isinstance(content, str):
        return content

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise DefinitionError(key.lstrip("."), content, f"there is no variable {found[1]}")
        return environment[found[1]]

    return _VARIABLE.sub(value, content)


def _placed(location: str, directory: Path) -> str:
    return location if _IS_REMOTE.match(location) else str((directory / location).absolute())
