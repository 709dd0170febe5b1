"""Badges. A badge is a word with a colour and usually an icon."""

from __future__ import annotations

from dataclasses import dataclass

from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString


@dataclass(frozen=True)
class Badge:
    """The appearance of one kind of badge."""

    label: str
    tone: str
    icon: str = ""
    title: str = ""


_OK, _WAIT, _BUSY, _BAD, _NOTE, _PLAIN = "ok", "wait", "busy", "bad", "note", "plain"

KINDS: dict[str, Badge] = {
    # how a figure is known
    "exact": Badge("exact", _OK, "check", "Exact at compile time, and confirmed by running the binary"),
    "bound": Badge("bound", _NOTE, "arrow-up-right", "A proven upper bound; the cost depends on the data"),
    "measured": Badge("measured", _NOTE, "ruler-measure", "Measured, not proven"),
    "estimated": Badge("estimated", _NOTE, "circle-dashed", "An estimate, not a promise"),
    "not priced": Badge("not priced", _PLAIN, "circle-dashed", "The price book has no price for this program"),
    # does it fit
    "fits": Badge("fits", _OK, "check"),
    "does not fit": Badge("does not fit", _BAD, "x"),
    "feasible": Badge("feasible", _OK, "check"),
    "infeasible": Badge("infeasible", _BAD, "x"),
    "chosen": Badge("chosen", _OK, "circle-check"),
    # states of work
    "draft": Badge("draft", _PLAIN, "pencil"),
    "checking": Badge("checking", _BUSY, "circle-dashed"),
    "ready": Badge("ready", _OK, "check"),
    "refused": Badge("refused", _BAD, "x"),
    "queued": Badge("queued", _WAIT, "clock"),
    "offered": Badge("offered", _WAIT, "clock"),
    "running": Badge("running", _BUSY, "player-play"),
    "done": Badge("done", _OK, "check"),
    "failed": Badge("failed", _BAD, "alert-triangle"),
    "cancelled": Badge("cancelled", _PLAIN, "x"),
    "revoked": Badge("revoked", _PLAIN, "x"),
    "expired": Badge("expired", _PLAIN, "hourglass"),
    # states of devices
    "draining": Badge(
        "draining", _WAIT, "hourglass", "Gets no new windows; windows that could not be moved stay until they end"
    ),
    "spare": Badge("spare", _PLAIN, "box", "Goes into service when another device of its pool fails"),
    # states of agreements
    "open": Badge("open", _BUSY, "circle-dashed"),
    "accepted": Badge("accepted", _OK, "check"),
    "active": Badge("active", _OK, "check"),
    "used": Badge("used up", _PLAIN, "check"),
    "ended": Badge("ended", _PLAIN, "x"),
    # promises
    "kept": Badge("kept", _OK, "check"),
    "missed": Badge("missed", _BAD, "alert-triangle"),
    "within chance": Badge(
        "within chance", _WAIT, "info-circle", "Below the promised value, but within the statistical error"
    ),
    "not known yet": Badge("not known yet", _PLAIN, "hourglass"),
    "not judged": Badge("not judged", _PLAIN, "info-circle", "The items were submitted too late for the promised time"),
    "held": Badge("held", _BUSY, "lock"),
    "released": Badge("released", _PLAIN, "x"),
    "issued": Badge("issued", _WAIT, "receipt"),
    "paid": Badge("paid", _OK, "check"),
    "void": Badge("void", _PLAIN, "x"),
    "credited": Badge("credited", _PLAIN, "check"),
    "waiting": Badge("waiting", _WAIT, "clock"),
    "disputed": Badge("disputed", _BAD, "alert-triangle"),
    "mismatch": Badge("totals differ", _BAD, "alert-triangle"),
    "not yet available": Badge("not yet available", _PLAIN, "lock"),
}


def render(kind: str, label: str = "") -> SafeString:
    """Return the badge of a kind. An unknown kind gets a neutral badge that shows the name of the kind."""
    known = KINDS.get(str(kind).replace("_", " ").lower(), Badge(str(kind), _PLAIN))
    symbol = SafeString("")
    if known.icon:
        address = f"{static('vendor/icons.svg')}#{known.icon}"
        symbol = format_html('<svg class="icon" aria-hidden="true" focusable="false"><use href="{}"/></svg>', address)
    return format_html(
        '<span class="tag tag-{}"{}>{}{}</span>',
        known.tone,
        format_html(' title="{}"', known.title) if known.title else "",
        symbol,
        label or known.label,
    )
