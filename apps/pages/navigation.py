"""The navigation links for each role."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Entry:
    """A navigation entry, marked as current on pages whose address begins with `prefix` or a prefix in `more`.

    Typing `g` and then `key` opens the page.
    """

    label: str
    icon: str
    route: str
    prefix: str
    more: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True)
class Link:
    """A navigation entry as templates show it."""

    label: str
    icon: str
    url: str
    is_current: bool
    key: str = ""


PROCESSORS = Entry("Processors", "cpu", "fleet:target_list", "/targets")
BUILD = (
    Entry("Overview", "layout-dashboard", "home", "/", key="o"),
    Entry("Models", "box", "registry:model_list", "/models", ("/versions", "/compiles", "/programs"), key="m"),
    Entry("Tasks", "adjustments", "planner:task_list", "/tasks", key="t"),
    Entry("Plans", "route", "planner:plan_list", "/plans", ("/places",), key="p"),
    Entry("Quotes", "calculator", "sales:quote_list", "/quotes", key="q"),
    Entry("Contracts", "file-invoice", "sales:contract_list", "/contracts", key="c"),
    Entry("Standing requests", "hourglass", "sales:standing_list", "/standing"),
    Entry("Jobs", "player-play", "dispatch:job_list", "/jobs", key="j"),
    PROCESSORS,
)
MONEY = (
    Entry("Portal", "chart-bar", "portal:portal", "/portal", key="u"),
    Entry("Invoices", "receipt", "invoicing:invoice_list", "/invoices", key="i"),
    Entry("Commitments", "calendar-time", "sales:commitment_list", "/commitments"),
    Entry("Quotas", "gauge", "sales:quota_tree", "/quotas"),
    Entry("Price book", "book-2", "pricing:book", "/prices"),
)
ADMINISTRATION = (
    Entry("Platform", "layout-dashboard", "reports:home", "/administration", key="a"),
    Entry("Capacity", "gauge", "reports:capacity", "/capacity"),
    Entry("Reports", "table", "reports:report_list", "/reports"),
    Entry("Revenue", "chart-bar", "reports:revenue", "/revenue"),
    Entry("Costs", "receipt-2", "reports:cost_list", "/costs"),
    Entry("Reconciliation", "scale", "reports:reconciliation_list", "/reconciliations"),
    Entry("Fleet", "server", "fleet:fleet", "/fleet", key="f"),
    Entry("New prices", "book-2", "reports:draft_list", "/prices/drafts", ("/prices/new",)),
    Entry("Customers", "users", "portal:customer_list", "/customers"),
    Entry("Buying limits", "scale", "sales:buying", "/buying"),
    Entry("Payments", "credit-card", "invoicing:payments", "/payments"),
    Entry("Stripe", "credit-card", "collection:stripe_overview", "/stripe"),
    Entry("Outbox", "inbox", "notifications:outbox", "/outbox"),
)
# Pages that no side bar lists, for the search.
ELSEWHERE = (
    Entry("Upload a model", "upload", "registry:model_upload", "/models/upload"),
    Entry("Compiles", "cpu", "compilation:job_list", "/compiles"),
    Entry("Own processors", "cpu", "compilation:processor_list", "/processors"),
    Entry("New quote", "calculator", "sales:quote_new", "/quotes/new"),
    Entry("Other places", "server", "planner:places", "/places"),
    Entry("Usage", "chart-bar", "portal:usage", "/portal/usage"),
    Entry("Budgets", "gauge", "notifications:budget_list", "/portal/budgets"),
    Entry("Spend caps", "gauge", "portal:cap_list", "/portal/caps"),
    Entry("Webhooks", "share", "notifications:webhook_list", "/portal/webhooks"),
    Entry("Ledger", "receipt", "portal:ledger", "/portal/ledger"),
    Entry("Notifications", "bell", "notifications:notice_list", "/notices"),
    Entry("Organisation and members", "users", "accounts:organisation", "/settings/organisation"),
    Entry("API tokens", "key", "accounts:tokens", "/settings/tokens"),
)
OWNERS = (Entry("Audit log", "history", "accounts:audit", "/settings/audit"),)
PERSONAL = (
    Entry("Your account", "lock", "accounts:account", "/settings/account"),
    Entry("Two-factor sign-in", "shield", "mfa_index", "/settings/two-factor"),
    Entry("API reference", "code", "api:openapi-view", "/api/v1/docs"),
)
HELP = (Entry("Documents", "book", "docs", "/docs", key="d"),)


def _links(entries: tuple[Entry, ...], path: str) -> list[Link]:
    links = []
    for entry in entries:
        try:
            url = reverse(entry.route)
        except NoReverseMatch:
            continue
        is_current = path == "/" if entry.prefix == "/" else path.startswith((entry.prefix, *entry.more))
        links.append(Link(entry.label, entry.icon, url, is_current, entry.key))
    return links


def groups(*, path: str, is_member: bool, is_platform_admin: bool) -> list[tuple[str, list[Link]]]:
    """Return (heading, links) for each group in the side bar. Groups without links are left out."""
    chosen = [("Build and run", BUILD), ("Money", MONEY)] if is_member else []
    if is_platform_admin:
        chosen.append(("Administration", ADMINISTRATION if is_member else (*ADMINISTRATION, PROCESSORS)))
    chosen.append(("Help", HELP))
    found = [(title, _links(entries, path)) for title, entries in chosen]
    return [(title, links) for title, links in found if links]


def pages_of(*, is_member: bool, is_owner: bool, is_platform_admin: bool, is_person: bool = True) -> list[Link]:
    """Return every page that the caller may open, including pages that are not in the side bar."""
    entries = [*HELP]
    if is_person:
        entries += PERSONAL
    if is_member:
        entries += [*BUILD, *MONEY, *ELSEWHERE]
    if is_owner:
        entries += OWNERS
    if is_platform_admin:
        entries += [*ADMINISTRATION, *([] if is_member else [PROCESSORS])]
    return _links(tuple(entries), "")
