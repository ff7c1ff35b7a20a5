"""Dates of documents as texts write them → ISO 8601 dates of the precision given. Pure."""

from __future__ import annotations

import re

_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<month>0?[1-9]|1[0-2])", r"(?P<day>0?[1-9]|[12]\d|3[01])"
_FORMS = (
    re.compile(rf"(?:D:(?=\d{{8}})|(?=\d{{8}}(?!\d))){_YEAR}{_MONTH.replace('0?', '0')}{_DAY.replace('0?', '0')}"),
    re.compile(rf"{_YEAR}(?:[-/.]{_MONTH}(?:[-/.]{_DAY})?)?(?![-/.]?\d)"),
    re.compile(rf"{_DAY}\.\s?{_MONTH}\.\s?{_YEAR}(?!\d)"),
)
"""A PDF's or compact form; the year first; the day first, with dots."""


def iso_date(value: object) -> str | None:
    """`2025-03-01`, `2025-03` or `2025` from a text that begins with a date: ISO 8601, a PDF's, or `1.3.2025`.

    None for anything else: `3/1/2025` means two days.
    """
    text = str(value).strip().strip("\"'") if isinstance(value, str | int) else ""
    for form in _FORMS:
        if match := form.match(text):
            parts = match.groupdict()
            numbers = [int(parts[name]) for name in ("month", "day") if parts[name]]
            return "-".join([parts["year"], *(f"{number:02}" for number in numbers)])
    return None
