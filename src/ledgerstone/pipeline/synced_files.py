"""Files that are whole and durable, or as they were before. Shell."""

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """By a rename: whoever reads the file, and whatever dies, finds the old text or the new one."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    # Crash here: the old text counts.
    temporary.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
