"""`rag feedback`: what people say of their answers, from the Redis of the running stack."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rag_service.access.principal import NAME
from rag_service.cli.console import CliError, count, err, local_time, out, print_json
from rag_service.cli.options import Json
from rag_service.cli.stack.connect import stack_redis
from rag_service.stack.exit_status import USAGE

if TYPE_CHECKING:
    from workers.sessions.feedback import OwnedFeedback

DAY_S = 24 * 3600
ANSWER_CHARS = 300
"""Characters of an answer that the list shows."""
MARKS = {"up": "+", "down": "-"}


def feedback(
    tenant: Annotated[
        str | None, typer.Option("--tenant", "-t", metavar="NAME", help="Only this tenant.  [default: all]")
    ] = None,
    rating: Annotated[
        Literal["up", "down"] | None, typer.Option("--rating", help="Only these.  [default: both]")
    ] = None,
    days: Annotated[
        int, typer.Option("--days", metavar="N", help="Only that of the last N times 24 hours.", min=1, max=3660)
    ] = 30,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="The latest N at most.", min=1)] = 100,
    as_json: Json = False,
) -> None:
    """Show what people say of their answers, the latest first, with question, answer and documents."""
    from workers.sessions.feedback import FeedbackStore

    if tenant is not None and not NAME.fullmatch(tenant):
        raise CliError(f"{tenant[:80]!r} is no name of a tenant; `rag keys list` shows the tenants of keys.", USAGE)
    since = time.time() - days * DAY_S
    with stack_redis("which keeps the feedback") as client:
        wanted = (
            one
            for one in FeedbackStore(client).all()
            if one["created"] >= since and tenant in (None, one["tenant"]) and rating in (None, one["rating"])
        )
        found = list(itertools.islice(wanted, limit))
    if as_json:
        print_json(found)
        return
    for one in found:
        _print(one)
    if not found:
        if tenant is None and rating is None:
            err().print(f"There is no feedback of the last {count(days, 'day')}. `rag rate ID up|down` gives some.")
        else:
            err().print("There is no such feedback.")


def _print(one: OwnedFeedback) -> None:
    screen = out()
    giver = f"{one['tenant']}/{one['person']}" if one["person"] else one["tenant"]
    support = "" if one["support"] is None else f"  support {one['support']:.2f}"
    screen.print(
        f"{MARKS[one['rating']]} {local_time(one['created'])}  {giver}  {one['answer_id']}{support}", style="bold"
    )
    if one["comment"]:
        screen.print(f"  comment:   {_line(one['comment'])}")
    screen.print(f"  question:  {_line(one['question'])}")
    if one["instruction"]:
        screen.print(f"  edit:      {_line(one['instruction'])}")
    screen.print(f"  answer:    {_line(one['answer'], ANSWER_CHARS)}")
    titles = list(dict.fromkeys(passage["title"] for passage in one["passages"]))
    if titles:
        screen.print(f"  documents: {', '.join(titles)}")


def _line(text: str, most: int | None = None) -> str:
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else f"{line[:most]}…"
