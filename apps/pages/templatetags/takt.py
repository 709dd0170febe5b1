# ruff: noqa: A002 - arguments are named as a page writes them
"""The template tags and filters for all pages: `{% load takt %}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import count
from typing import Any

from django import template
from django.forms import BoundField
from django.forms.widgets import CheckboxInput, ClearableFileInput, RadioSelect, Select, Textarea
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import conditional_escape, format_html, strip_tags
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from apps import figures
from apps.accounts.browsers import browser_name
from apps.accounts.paging import Page
from apps.pages import amounts, badges, copying, definitions, navigation
from apps.pages import saved_filters as filters

register = template.Library()
LONG_VALUE, LONGER_VALUE, LONG_WORD = 13, 18, 18  # characters; longer figures are set smaller rather than broken
_numbers = count(1)  # an id for each popover of a page

register.filter("bytes", figures.bytes_format)
register.filter("count", figures.count_format)
register.filter("short", figures.short_format)
register.filter("cycles", figures.cycles_format)
register.filter("duration", figures.duration_format)
register.filter("shape", figures.shape_format)
register.filter("energy", figures.energy_format)
register.filter("elapsed", figures.elapsed_format)
register.filter("money", amounts.money)
register.filter("money_exact", amounts.money_exact)
register.filter("price", amounts.price)
register.simple_tag(amounts.unit_price)

register.simple_tag(copying.copy)
register.simple_tag(copying.digest)
register.simple_tag(copying.identifier)
register.simple_tag(copying.snippet)


@register.filter
def percent(share: figures.Number | None, places: int = 1) -> str:
    """{{ row.share|percent }}: a share as a percentage, such as 31.4 % for 0.314."""
    return figures.percent_format(share, places)


@register.filter
def item(mapping: Mapping[str, Any] | None, key: str) -> Any:
    """{{ mapping|item:"key" }}: the value for the key; None if the key is missing."""
    return mapping.get(key) if mapping else None


@register.simple_tag(takes_context=True)
def when(context: template.Context, at: datetime | None, seconds: bool = False) -> SafeString:
    """{% when job.submitted_at %}: a time in the organisation's time zone, followed by UTC if different."""
    if at is None:
        return mark_safe('<span class="text-secondary">-</span>')
    zone = getattr(context.get("organisation"), "time_zone", None) or "UTC"
    utc = figures.instant_format(at, "UTC", seconds=seconds)
    local = figures.instant_format(at, zone, seconds=seconds)
    if local == utc:
        return format_html('<time datetime="{}">{}</time>', at.isoformat(), utc)
    return format_html(
        '<time datetime="{}" title="{}">{} <span class="time-utc">{}</span></time>',
        at.isoformat(),
        utc,
        local,
        utc[11:],
    )


@register.simple_tag(takes_context=True)
def period(context: template.Context, start: datetime | None, end: datetime | None) -> SafeString:
    """{% period quote.window_start quote.window_end %}: start and end in the organisation's time zone."""
    zone = getattr(context.get("organisation"), "time_zone", None) or "UTC"
    title = figures.period_format(start, end, "UTC")
    return format_html('<span class="text-nowrap" title="{}">{}</span>', title, figures.period_format(start, end, zone))


@register.simple_tag
def ago(at: datetime | None, now: datetime) -> str:
    """{% ago pool.measured_at now %}: the time elapsed, such as "12 s ago"; "never" for None."""
    return "never" if at is None else f"{figures.duration_format(max(now - at, timedelta(0)))} ago"


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """{% icon "upload" %}: an icon listed in static/icons.txt, hidden from screen readers."""
    source = f"{static('vendor/icons.svg')}#{name}"
    return format_html('<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}"/></svg>', css, source)


@register.simple_tag
def badge(kind: str, label: str = "") -> SafeString:
    """{% badge "exact" %}, {% badge job.state %}: a word with a colour and usually an icon."""
    return badges.render(kind, label)


@register.simple_tag
def bar(share: figures.Number | None, label: str = "", *, limit: bool = False) -> SafeString:
    """{% bar row.share %}: a thin bar for a share from 0 to 1. Show the number next to the bar. `limit=True` gives the
    bar the colour of a warning above 1.
    """
    number = figures.fraction(share) or Fraction(0)
    width = figures.fixed(min(max(number, Fraction(0)), Fraction(1)) * 100, 2)
    return format_html(
        '<svg class="share-bar{}" aria-hidden="true" focusable="false" preserveAspectRatio="none" viewBox="0 0 100 6">'
        '<rect class="share-bar-rest" width="100" height="6"/><rect class="share-bar-part" width="{}" height="6"/>'
        "<title>{}</title></svg>",
        " share-bar-over" if limit and number > 1 else "",
        width,
        label or f"{width} %",
    )


@register.simple_tag
def define(term: str, css: str = "") -> SafeString:
    """{% define "latency" %}: a `?` that opens a term's definition from the glossary."""
    known = definitions.find(term)
    if known is None:
        return mark_safe("")
    glossary = reverse("doc", args=["reference/glossary"])
    values = {"term": known, "css": css, "uid": f"{known.slug}-{next(_numbers)}", "glossary": glossary}
    return mark_safe(render_to_string("components/define.html", values))  # noqa: S308 - our own template


_IDS = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b")


@register.filter
def short_ids(text: str) -> SafeString:
    """{{ entry.detail_text|short_ids }}: text with digests and identifiers cut to their first characters."""

    def cut(match: re.Match[str]) -> str:
        whole = match[0]
        return format_html('<code title="{}">{}</code>', whole, whole[: 8 if "-" in whole else 12])

    return mark_safe(_IDS.sub(cut, conditional_escape(text)))  # noqa: S308 - escaped before the marks are put in


@register.inclusion_tag("components/empty.html")
def empty_state(
    text: str,
    url: str = "",
    label: str = "",
    icon: str = "inbox",
    sample_url: str = "",
    sample_label: str = "",
) -> dict[str, Any]:
    """{% empty_state "No models yet." url label %}: a sentence with a button, and optionally a second button for a sample."""
    return {
        "text": text,
        "url": url,
        "label": label,
        "icon": icon,
        "sample_url": sample_url,
        "sample_label": sample_label,
    }


@register.filter
def browser(user_agent: str) -> str:
    """{{ session.user_agent|browser }}: a readable name of the browser, such as "Firefox on Linux"."""
    return browser_name(user_agent)


@register.inclusion_tag("components/metric.html")
def metric(
    label: str, value: Any, kind: str = "", note: str = "", term: str = "", url: str = "", exact: Any = ""
) -> dict[str, Any]:
    """{% metric "Latency" value kind="exact" note="38,912 cycles" term="latency" %}: one figure in a card.

    `kind` is exact, bound, measured, estimated or "not priced". `term` is a glossary term. `exact` becomes the title.
    A note that says no more than the value is left out.
    """
    if strip_tags(str(note)) == strip_tags(str(value)):
        note = ""
    values = {"label": label, "value": value, "kind": kind, "note": note, "term": term, "url": url, "exact": exact}
    length = len(strip_tags(str(value)))
    longest = max(map(len, strip_tags(str(note)).split()), default=0)
    return {
        **values,
        "note_size": "metric-note-long" if longest > LONG_WORD else "",
        "size": " metric-longer" if length > LONGER_VALUE else " metric-long" if length > LONG_VALUE else "",
    }


@register.inclusion_tag("components/field.html")
def field(
    bound: BoundField, label: str = "", help: str = "", suffix: str = "", term: str = "", mark: str = "optional"
) -> dict[str, Any]:
    """{% field form.email %}: the label, control, help text and errors of a form field.

    `mark` is written beside the label of a field that is not required.
    """
    widget = bound.field.widget
    kind = "input"
    if isinstance(widget, CheckboxInput):
        kind = "check"
    elif isinstance(widget, RadioSelect):
        kind = "radio"
    css = {"check": "form-check-input", "radio": "form-check-input"}.get(kind, "form-control")
    if isinstance(widget, Select) and kind == "input":
        css = "form-select"
    if isinstance(widget, Textarea | ClearableFileInput):
        css = "form-control"
    if bound.errors:
        css += " is-invalid"
    shown_help = help or bound.help_text
    attributes: dict[str, Any] = {"class": f"{widget.attrs.get('class', '')} {css}".strip()}
    described = [f"{bound.auto_id}_help"] if shown_help else []
    if bound.errors:
        described.append(f"{bound.auto_id}_errors")
        attributes["aria-invalid"] = "true"
    if described:
        attributes["aria-describedby"] = " ".join(described)
    return {
        "bound": bound,
        "control": bound.as_widget(attrs=attributes),
        "label": label or bound.label,
        "help": shown_help,
        "kind": kind,
        "suffix": suffix,
        "term": term,
        "mark": mark,
    }


@register.inclusion_tag("components/form_errors.html")
def form_errors(form: Any) -> dict[str, Any]:
    """{% form_errors form %}: an alert with the errors that concern the form as a whole."""
    return {"errors": form.non_field_errors() if form else []}


@register.inclusion_tag("components/problem.html")
def problem(title: str, detail: str = "", items: Sequence[Any] = (), kind: str = "danger") -> dict[str, Any]:
    """{% problem "Upload refused" detail problems %}: an error and its remedy. `items` lists every fault."""
    return {"title": title, "detail": detail, "items": items, "kind": kind}


@register.inclusion_tag("components/stages.html")
def stages(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """{% stages rows %}: a list of stages. A row is a mapping with the keys state, name, seconds and detail.

    The state is waiting, running, done, failed or skipped.
    """
    return {"rows": rows, "failed": any(row.get("state") == "failed" for row in rows)}


@register.inclusion_tag("components/tabs.html")
def tabs(items: Sequence[tuple[str, str]], current: str, label: str = "Views") -> dict[str, Any]:
    """{% tabs items current %}: tabs, given as (url, label). Each tab is a separate page."""
    return {"items": items, "current": current, "label": label}


@register.inclusion_tag("components/pagination.html")
def pagination(page: Page[Any]) -> dict[str, Any]:
    """{% pagination page %}: links to the first, previous and next page of a list."""
    return {"page": page}


@register.inclusion_tag("components/saved_filters.html", takes_context=True)
def saved_filters(context: template.Context, page: str) -> dict[str, Any]:
    """{% saved_filters "dispatch:job_list" %}: the saved filters of a list, and a form to save the current filter."""
    organisation, request = context.get("organisation"), context["request"]
    if organisation is None:
        return {}
    shown = filters.filters_shown(organisation=organisation, user=request.user, page=page, data=request.GET)
    return {**shown, "csrf_token": context.get("csrf_token")}


@register.inclusion_tag("components/as_api.html", takes_context=True)
def as_api(
    context: template.Context, path: str, method: str = "GET", body: Any = None, file: str = ""
) -> dict[str, Any]:
    """{% as_api "/api/v1/models" %}: the API call that does the same as the page.

    `body` is the JSON to send, as a mapping or text. `file` is the name of a file to send instead.
    """
    request = context.get("request")
    address = request.build_absolute_uri(path) if request else path
    lines = [f"curl{'' if method == 'GET' else f' -X {method}'} {address}", '-H "Authorization: Bearer $TAKT_TOKEN"']
    if method == "POST":
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if body is not None:
        text = body if isinstance(body, str) else json.dumps(body)
        lines += ['-H "Content-Type: application/json"', f"-d '{text}'"]
    if file:
        lines.append(f"--data-binary @{file}")
    return {"snippet": " \\\n  ".join(lines), "id": f"api-{slugify(f'{method} {path}')}"}


@register.inclusion_tag("components/keys.html", takes_context=True)
def keyboard_help(context: template.Context) -> dict[str, Any]:
    """{% keyboard_help %}: the dialog that lists the keyboard shortcuts."""
    return main_navigation(context)


@register.inclusion_tag("components/nav.html", takes_context=True)
def main_navigation(context: template.Context) -> dict[str, Any]:
    """{% main_navigation %}: the links in the side bar that this person may follow."""
    request = context.get("request")
    found = navigation.groups(
        path=request.path if request else "",
        is_member=context.get("organisation") is not None,
        is_platform_admin=bool(context.get("is_platform_admin")),
    )
    return {"groups": found}


@register.inclusion_tag("components/json.html")
def page_data(value: Any, id: str) -> dict[str, Any]:
    """{% page_data data "report-data" %}: data as JSON for a script in static/js."""
    return {"value": value, "id": id}


def _block(name: str, content: str, **values: Any) -> SafeString:
    # The template engine has already escaped `content`.
    return mark_safe(render_to_string(f"components/{name}.html", {**values, "content": content}))  # noqa: S308


@register.simple_block_tag
def page_header(
    content: str, heading: str, subtitle: str = "", pretitle: str = "", back_url: str = "", back_label: str = ""
) -> SafeString:
    """{% page_header "Models" subtitle="..." back_url=url back_label="All models" %}buttons{% endpage_header %}: the
    page's title.
    """
    values = {
        "heading": heading,
        "subtitle": subtitle,
        "pretitle": pretitle,
        "back_url": back_url,
        "back_label": back_label,
    }
    return _block("page_header", content, **values)


@register.simple_block_tag
def card(content: str, title: str = "", subtitle: str = "", id: str = "", term: str = "", css: str = "") -> SafeString:
    """{% card title="Bounds" %}...{% endcard %}: a card with a body."""
    return _block("card", content, title=title, subtitle=subtitle, id=id, term=term, css=css)


@register.simple_block_tag
def table_card(content: str, title: str = "", subtitle: str = "", id: str = "", term: str = "") -> SafeString:
    """{% table_card title="Models" %}<table class="table">...</table>{% endtable_card %}: a card with a scrolling table."""
    return _block("table_card", content, title=title, subtitle=subtitle, id=id, term=term)


@register.simple_block_tag
def why(content: str, summary: str = "Why this number?") -> SafeString:
    """{% why %}...{% endwhy %}: an explanation of a figure, collapsed at first."""
    return _block("why", content, summary=summary)


@register.simple_block_tag
def chart(
    content: str, id: str, title: str, kind: str, data: str = "", url: str = "", height: str = "md"
) -> SafeString:
    """{% chart id="ops" title="Share by operation" kind="bar" data="report-data" %}<table>...</table>{% endchart %}: a
    chart.

    The content is a table with the same data. `data` is the id of a `page_data` element, and `url` is an address that
    returns JSON. `height` is sm, md or lg.
    """
    return _block("chart", content, id=id, title=title, kind=kind, data=data, url=url, height=height)
