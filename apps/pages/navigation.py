"""What the side bar lists, and for whom."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Entry:
    """One link. `prefix` is the part of the address under which it is the current one, `more` are further such parts."""

    label: str
    icon: str
    route: str
    prefix: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """An entry as the page shows it."""

    label: str
    icon: str
    url: str
    is_current: bool


PROCESSORS = Entry("Processors", "cpu", "fleet:target_list", "/targets")
BUILD = (
    Entry("Overview", "layout-dashboard", "home", "/"),
    Entry("Models", "box", "registry:model_list", "/models", ("/versions", "/compiles", "/programs")),
    Entry("Tasks", "adjustments", "planner:task_list", "/tasks"),
    Entry("Plans", "route", "planner:plan_list", "/plans", ("/places",)),
    Entry("Quotes", "calculator", "sales:quote_list", "/quotes"),
    Entry("Contracts", "file-invoice", "sales:contract_list", "/contracts"),
    Entry("Standing requests", "hourglass", "sales:standing_list", "/standing"),
    Entry("Jobs", "player-play", "dispatch:job_list", "/jobs"),
    PROCESSORS,
)
MONEY = (
    Entry("Portal", "chart-bar", "portal:portal", "/portal"),
    Entry("Invoices", "receipt", "invoicing:invoice_list", "/invoices"),
    Entry("Commitments", "calendar-time", "sales:commitment_list", "/commitments"),
    Entry("Quotas", "gauge", "sales:quota_tree", "/quotas"),
    Entry("Price book", "book-2", "pricing:book", "/prices"),
)
ADMINISTRATION = (
    Entry("Platform", "layout-dashboard", "reports:home", "/administration"),
    Entry("Capacity", "gauge", "reports:capacity", "/capacity"),
    Entry("Reports", "table", "reports:report_list", "/reports"),
    Entry("Revenue", "chart-bar", "reports:revenue", "/revenue"),
    Entry("Costs", "receipt-2", "reports:cost_list", "/costs"),
    Entry("Reconciliation", "scale", "reports:reconciliation_list", "/reconciliations"),
    Entry("Fleet", "server", "fleet:fleet", "/fleet"),
    Entry("New prices", "book-2", "reports:draft_list", "/prices/drafts", ("/prices/new",)),
    Entry("Customers", "users", "portal:customer_list", "/customers"),
    Entry("Buying limits", "scale", "sales:buying", "/buying"),
    Entry("Payments", "credit-card", "invoicing:payments", "/payments"),
    Entry("Stripe", "credit-card", "collection:stripe_overview", "/stripe"),
    Entry("Outbox", "inbox", "notifications:outbox", "/outbox"),
)
HELP = (Entry("Documents", "book", "docs", "/docs"),)


def _links(entries: tuple[Entry, ...], path: str) -> list[Link]:
    """The entries whose pages exist in this installation, with the current one marked."""
    links = []
    for entry in entries:
        try:
            url = reverse(entry.route)
        except NoReverseMatch:
            continue
        is_current = path == "/" if entry.prefix == "/" else path.startswith((entry.prefix, *entry.more))
        links.append(Link(entry.label, entry.icon, url, is_current))
    return links


def groups(*, path: str, is_member: bool, is_platform_admin: bool) -> list[tuple[str, list[Link]]]:
    """Headed groups of links, for whom they are; a group without links is left out."""
    chosen = [("Build and run", BUILD), ("Money", MONEY)] if is_member else []
    if is_platform_admin:
        chosen.append(("Administration", ADMINISTRATION if is_member else (*ADMINISTRATION, PROCESSORS)))
    chosen.append(("Help", HELP))
    found = [(title, _links(entries, path)) for title, entries in chosen]
    return [(title, links) for title, links in found if links]
