"""How a line of the log is written, as text or as JSON. Shell.

Log lines contain group ids, client ids and paths from untrusted clients. One line is one record, so
anything that could start a new line or move a terminal's cursor is escaped here, for all loggers.
"""

import json
import logging
import re
from typing import Final

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
# Control characters, Unicode line ends, and characters that change the direction of text.
_ODD: Final = "\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE: Final = re.compile(f"[\x00-\x1f{_ODD}]")
# Tracebacks span lines.
_UNSAFE_IN_TRACE: Final = re.compile(f"[\x00-\x09\x0b-\x1f{_ODD}]")


def formatter(log_format: str) -> logging.Formatter:
    return _JsonFormatter() if log_format == "json" else _TextFormatter(_TEXT)


class _TextFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = _UNSAFE.sub(_escaped, record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        """Indented: an exception may contain a client's text, which must not pass for a log
        line."""
        trace = super().formatException(ei)  # type: ignore[arg-type]
        return "    " + _UNSAFE_IN_TRACE.sub(_escaped, trace).replace("\n", "\n    ")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # Everything but ASCII is escaped, so nothing can end the line.
        return json.dumps(fields)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
