"""The page that shows the effect of a fleet document before it is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.dispatch.fleet.planning import fleet_preview
from apps.fleet.document import Document, write

SHOWN = 200  # changes of a difference that a page lists


class PageTexts(NamedTuple):
    """The texts around the list of changes.

    `note` is stored with the applied change. `action` is the address that applies the change; if empty, the fleet's own
    address is used.
    """

    title: str
    back: str
    back_label: str
    note: str
    action: str = ""


def difference_page(request: HttpRequest, make: Callable[[], Document], shown: PageTexts) -> HttpResponse:
    """Show the effect of applying the document that `make` returns, with a button to apply the document.

    If `make` raises Problem, the page shows the refusal.
    """
    try:
        document = make()
        plan = fleet_preview(document=document, now=timezone.now())
    except Problem as refusal:
        return render(request, "fleet/difference.html", {"refusal": refusal, "shown": shown}, status=refusal.status)
    changes = plan.difference.changes
    context = {
        "plan": plan,
        "changes": changes[:SHOWN],
        "more": len(changes) - SHOWN,
        "moves": plan.moves[:SHOWN],
        "moves_more": len(plan.moves) - SHOWN,
        "text": write(document),
        "digest": plan.before.digest,
        "shown": shown,
    }
    return render(request, "fleet/difference.html", context)
