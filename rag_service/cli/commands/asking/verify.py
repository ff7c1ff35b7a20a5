"""`rag verify "…"`: answers a question with and without speculation and compares the two token by token."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from rag_service.cli.answers import follow
from rag_service.cli.api import Api
from rag_service.cli.choice import choose
from rag_service.cli.console import CliError, count, err, out, print_json
from rag_service.cli.options import (
    ApiKey,
    Collections,
    Compared,
    Exact,
    Json,
    MaxTokens,
    Seed,
    Temperature,
    Url,
    joined,
    sentence,
    without_none,
)
from rag_service.cli.stack.connect import connect
from rag_service.client import calls
from rag_service.stack.exit_status import FAILED, USAGE

QUOTED_CHARS = 60
"""Characters shown of each answer from the first difference on."""
KEPT = 2.0
"""Times as long as the second answer's that the first one's prefill takes if the second found its rows kept."""
WARM_UP_TOKENS = 4
"""Length of the answer that comes before those compared, so that none of them pays for a worker that just started; too
short to teach a drafter what the answer says."""
ROUNDS = 3
SHORT_MS = 8000.0
"""Answers that together decode no longer are asked for in several rounds, which takes a reader no great patience."""
STEADY = 1.5
"""Times as long as the fastest run's that the slowest one's decoding takes on a machine with nothing else to do."""


def verify(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="Question to ask.")],
    collection: Collections = None,
    drafter: Compared = "auto",
    max_tokens: MaxTokens = None,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    exact: Exact = "default",
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Check that speculation changes no token.

    Asks with and without speculation, and three times in turns where answers are short: times are medians then. The
    exit status is 0 if all answers are identical, else 1; and 2 where a model server answers, as it decodes in its own
    way.
    """
    asked = sentence(question)
    options = without_none(max_tokens=max_tokens, temperature=temperature, seed=seed, exact=exact)
    with connect(url, api_key, asking=True) as api:
        _check_engine(api)
        name = joined(collection) if collection else choose(api)[0]
        options |= without_none(collection=name)
        pairs = _ask_in_turns(api, asked, options, drafter)
        report = {
            "question": asked,
            "drafter": drafter,
            "exact": exact,
            "temperature": temperature,
            **report_of(pairs),
        }
    if as_json:
        print_json(report)
    else:
        show(report, out())
    if not report["identical"]:
        raise typer.Exit(FAILED)


def _check_engine(api: Api) -> None:
    """Raises CliError if a model server answers."""
    model: dict[str, Any] = {}
    with contextlib.suppress(CliError):  # a service that is not ready says so when it is asked
        model = api.request("GET", "/readyz").get("model") or {}
    if model.get("engine") == "openai":
        raise CliError(
            f"There is nothing to compare: {model['name']} runs on a model server, which decodes in its own way, and "
            "`rag verify` checks the speculation of this service's own engine (RAG_ENGINE=decoder).",
            USAGE,
        )


def _ask_in_turns(
    api: Api, question: str, options: dict[str, Any], drafter: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Answers with and without speculation, as many rounds as their length allows, up to one that differs.

    Sessions are erased, except those of answers that differ.
    """
    few = {"max_tokens": min(WARM_UP_TOKENS, options.get("max_tokens", WARM_UP_TOKENS))}
    _erase(api, [_answer(api, question, {**options, **few, "speculation": drafter}, "a little, to warm up")])
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    while len(pairs) < ROUNDS:
        on = _answer(api, question, {**options, "speculation": drafter}, f"with {drafter}")
        options = {**options, "seed": on["seed"]}
        off = _answer(api, question, {**options, "speculation": "off"}, "without speculation")
        pairs.append((on, off))
        if not compare(on, off)["identical"]:
            break
        _erase(api, (on, off))
        if on["timings"]["decode"] + off["timings"]["decode"] > SHORT_MS:
            break
    return pairs


def _erase(api: Api, answers: Iterable[dict[str, Any]]) -> None:
    for answer in answers:
        with contextlib.suppress(CliError):
            api.send(calls.erase_session(answer["session_id"]))


def _answer(api: Api, question: str, options: dict[str, Any], mode: str) -> dict[str, Any]:
    """A finished answer with its token ids, in a session of its own."""
    with err().status(f"Answering {mode} …"):
        answer_id = follow(api, calls.query(question, options), None)["answer_id"]
        answer: dict[str, Any] = api.json(calls.answer(answer_id, token_ids=True))
    if answer["finish_reason"] not in ("stop", "length", "repetition"):
        raise CliError(f"The answer {mode} ended with {answer['finish_reason']}, so there is nothing to compare.")
    return answer


def report_of(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """The comparison of pairs of answers, with speculation and without: the first one's, or that of the last if it
    differs, with the median times of all."""
    last = compare(*pairs[-1])
    report = compare(*pairs[0]) if last["identical"] else last
    decode: dict[str, list[float]] = {}
    for name, answers in zip(("on", "off"), zip(*pairs, strict=True), strict=True):
        report[name]["ms"] = {
            part: median(answer["timings"][part] for answer in answers) for part in ("prefill", "decode", "total")
        }
        decode[name] = [answer["timings"]["decode"] for answer in answers]
    with_, without = report["on"]["ms"]["decode"], report["off"]["ms"]["decode"]
    return {**report, "speedup": without / with_ if with_ > 0 else None, "decode_ms": decode}


def compare(on: dict[str, Any], off: dict[str, Any]) -> dict[str, Any]:
    """Compare two answers of `GET /v1/answers/{id}?token_ids=true`, with speculation (`on`) and without (`off`)."""
    index = first_difference(on["token_ids"], off["token_ids"])
    same = {f"{name}_identical": on[name] == off[name] for name in ("passages", "finish_reason")}
    same["citations_identical"] = _places(on) == _places(off)
    text = on["answer"] == off["answer"]
    difference = None
    if index is not None:
        start = first_difference(on["answer"], off["answer"])
        difference = {
            "index": index,
            **{
                name: {"id": _at(answer["token_ids"], index), "text": _text_from(answer["answer"], start)}
                for name, answer in (("on", on), ("off", off))
            },
        }
    decode = on["timings"]["decode"]
    return {
        "identical": index is None and text and same["citations_identical"] and same["finish_reason_identical"],
        "seed": on["seed"],
        "collection": on["collection"],
        "first_difference": difference,
        "text_identical": text,
        **same,
        "speedup": off["timings"]["decode"] / decode if decode > 0 else None,
        "on": _costs(on),
        "off": _costs(off),
    }


def first_difference(ours: Sequence[Any], theirs: Sequence[Any]) -> int | None:
    """Index of the first item that differs; the shorter length if one is a prefix of the other; None if equal."""
    if ours == theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def show(report: dict[str, Any], screen: Console) -> None:
    """Print the report as text."""
    on, off = report["on"], report["off"]
    if report["identical"]:
        citations = count(on["citations"], "citation")
        screen.print(f"Identical: {count(on['tokens'], 'token')}, text and {citations}.", style="green")
    else:
        screen.print("Not identical.", style="red")
    for line in _differences(report):
        screen.print(line)
    both = ((f"with {report['drafter']}", on), ("without", off))
    passes = ", ".join(f"{costs['steps']} {name} (MAT {costs['mat']:.2f})" for name, costs in both)
    screen.print(f"Passes of the model after the first: {passes}.")
    for name, costs in both:
        ties = f" · {costs['near_ties']} near-ties decided again" if costs["near_ties"] else ""
        tokens = "" if on["tokens"] == off["tokens"] else f"{count(costs['tokens'], 'token')} · "
        times = f"prefill {costs['ms']['prefill']:.0f} ms, decode {costs['ms']['decode']:.0f} ms"
        screen.print(f"  {name}: {tokens}{times}{ties}")
    screen.print(f"  {_trust(report['decode_ms'])}")
    if on["ms"]["prefill"] > KEPT * off["ms"]["prefill"]:
        screen.print("  The first answer read the prompt; the second found it in memory, so only decode times compare.")
    if report["speedup"] is not None:
        screen.print(f"  decode time without ÷ with: {report['speedup']:.2f}")
    if not report["identical"]:
        screen.print(f"  Seed of both answers, for --seed: {report['seed']}")


def _trust(decode: dict[str, list[float]]) -> str:
    """What the times rest on."""
    runs = len(decode["on"])
    if runs == 1:
        return "Times are of a single run, so load on the machine may decide them; the passes say what drafting saves."
    if any(max(times) > STEADY * min(times) for times in decode.values()):
        return f"Times are medians of {runs} runs that differed much: the machine is busy, so trust the passes more."
    return f"Times are medians of {runs} runs."


def _differences(report: dict[str, Any]) -> list[str]:
    if report["identical"]:
        return []
    lines = []
    if not report["passages_identical"]:
        lines.append("The passages differ: the collection changed between the answers. Run the command again.")
    difference = report["first_difference"]
    if difference is not None:
        lines.append(f"The first difference is at token {difference['index']} (from 0):")
        for name, label in (("on", f"with {report['drafter']}"), ("off", "without")):
            token = "the end" if difference[name]["id"] is None else f"id {difference[name]['id']}"
            lines.append(f"  {label}: {token}, “{difference[name]['text']}”")
        lines.append(
            "In half precision a near-tie can go either way. Try --exact strict, or run the worker with float32."
        )
    for name in ("text", "citations", "finish_reason"):
        if difference is None and not report[f"{name}_identical"]:
            field = name.replace("_", " ")
            lines.append(f"The tokens are equal, but the {field} differs. This is a bug; please report it.")
    lines.append(f"Both answers are kept: {report['on']['answer_id']} and {report['off']['answer_id']}.")
    return lines


def _costs(answer: dict[str, Any]) -> dict[str, Any]:
    speculation, timings = answer["speculation"], answer["timings"]
    return {
        "answer_id": answer["answer_id"],
        "tokens": len(answer["token_ids"]),
        "citations": len(answer["citations"]),
        "finish_reason": answer["finish_reason"],
        **{name: speculation[name] for name in ("steps", "mat", "drafted", "accepted", "near_ties", "extra_passes")},
        "ms": {name: timings[name] for name in ("prefill", "decode", "total")},
    }


def _places(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Its citations without their support: kept rows move the model's state, which that rests on, by a rounding."""
    return [{name: value for name, value in one.items() if name != "support"} for one in answer["citations"]]


def _at(ids: list[int], index: int) -> int | None:
    return ids[index] if index < len(ids) else None


def _text_from(text: str, start: int | None) -> str:
    shown = " ".join(text[start:].split()) if start is not None else ""
    return shown if len(shown) <= QUOTED_CHARS else shown[: QUOTED_CHARS - 1] + "…"
