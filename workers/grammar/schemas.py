"""JSON schemas and tool calls as texts of grammars that llguidance reads.

Knows schemas and the form of calls; knows no tokens, so the API can reject a request before it reaches a worker.
"""

from __future__ import annotations

import json
from typing import Any

from llguidance import LLMatcher

from workers.broker.messages import Calls
from workers.tokens.call_form import CallForm

FORM = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON is written on one line: with free white space a small model can write nothing else."""


class BadSchema(ValueError):
    """An invalid or unsupported schema; the message says why."""


def check_schema(schema: dict[str, Any] | bool) -> None:
    """Raises BadSchema."""
    _check(json_text(schema))


def check_calls(calls: Calls, form: CallForm | None) -> None:
    """Raises BadSchema; the message names the function."""
    for function in calls.functions:
        try:
            check_schema(function.parameters)
        except BadSchema as error:
            raise BadSchema(f"{function.name}: {error}") from None
    _check(calls_text(calls, form))


def json_text(schema: dict[str, Any] | bool) -> str:
    """The grammar of a JSON schema. Raises BadSchema."""
    try:
        return LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=FORM)  # type: ignore[arg-type]
    except ValueError as error:
        raise BadSchema(str(error)) from None


def calls_text(calls: Calls, form: CallForm | None) -> str:
    """The grammar of calls in the form of a model's chat template; by default Qwen2.5's form. Raises BadSchema."""
    form = form or CallForm()
    functions = range(len(calls.functions))
    more = f" ({_literal(form.joint)} call)*" if calls.many else ""
    lines = [f"start: call{more}", f"call: {' | '.join(f'call{number}' for number in functions)}"]
    for number, function in enumerate(calls.functions):
        before = _literal(form.before + function.name + form.between)
        lines.append(f"call{number}: {before} arguments{number} {_literal(form.after)}")
        lines.append(f"arguments{number}: %json {json.dumps({**function.parameters, 'x-guidance': FORM})}")
    try:
        return LLMatcher.grammar_from_lark("\n".join(lines))
    except ValueError as error:
        raise BadSchema(str(error)) from None


def reason(matcher: LLMatcher) -> str:
    """Why a matcher failed."""
    return matcher.get_error().partition("\n<state>")[0].strip() or "this schema is too complex"


def _check(grammar: str) -> None:
    message = LLMatcher.validate_grammar(grammar)
    if message and not message.startswith("WARNING"):
        raise BadSchema(message)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
