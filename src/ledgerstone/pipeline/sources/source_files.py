"""Definitions of sources from YAML files. Shell; paths are relative to the file's directory."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.definition_files import cannot_be_read, read_yaml, yaml_said
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.sources.source_definition import (
    SourceDefinition,
    SourceType,
    read_source,
)

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load_source(path: str | Path, environment: Mapping[str, str] | None = None) -> SourceDefinition:
    file = Path(path)
    try:
        content = read_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DefinitionError(str(file), None, cannot_be_read(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DefinitionError(str(file), None, f"not YAML: {yaml_said(error)}") from error
    source = read_source(_filled(content, os.environ if environment is None else environment))
    directory = file.parent.absolute()
    location = source.location
    if source.type is not SourceType.POSTGRES:
        location = str(directory / location)
    config = source.command_config
    return replace(
        source,
        location=location,
        work=str(directory / source.work),
        command_config=None if config is None else str(directory / config),
    )


def _filled(content: Any, environment: Mapping[str, str]) -> Any:  # noqa: ANN401 - as YAML has it
    """`${NAME}` is a variable of the environment: that keeps passwords out of files."""
    if isinstance(content, dict):
        return {name: _filled(each, environment) for name, each in content.items()}
    if isinstance(content, list):
        return [_filled(each, environment) for each in content]
    if not isinstance(content, str):
        return content

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise DefinitionError(found[0], content, f"there is no variable {found[1]}")
        return environment[found[1]]

    return _VARIABLE.sub(value, content)
