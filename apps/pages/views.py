"""The landing page, the dashboard, the search and the documents."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from apps.accounts.access import Principal, organisation_get, principal_get
from apps.accounts.problems import Problem
from apps.pages import documents as papers
from apps.pages import saved_filters
from apps.pages.dashboard import dashboard
from apps.pages.problem_types import problem_types
from apps.pages.search import Query, everything_search

RESULTS = 10  # hits of each kind on the page of results


@login_not_required
def home(request: HttpRequest) -> HttpResponse:
    """Show the landing page, the overview or the platform page, according to the caller's role."""
    if not request.user.is_authenticated:
        return render(request, "pages/landing.html")
    principal = principal_get(request)
    if principal.current is None and principal.is_platform_admin:
        return redirect("reports:home")
    if principal.current is None:
        return render(request, "pages/no_organisation.html")
    return render(request, "pages/dashboard.html", dashboard(organisation_get(request), now=timezone.now()))


@login_not_required
def documents(request: HttpRequest) -> HttpResponse:
    """Show the list of documents or, for a query, the search results."""
    query = request.GET.get("q", "").strip()[:200]
    hits = papers.search(query) if query else []
    return render(request, "pages/documents.html", {"query": query, "hits": hits, "sections": papers.sections()})


@login_not_required
def document(request: HttpRequest, name: str) -> HttpResponseBase:
    """Show a document, redirect from an old address, or send a picture."""
    found = papers.documents().get(name)
    if found is None:
        return _elsewhere(name)
    body, headings = papers.as_html(found)
    previous, following = papers.neighbours(found)
    values = {
        "document": found,
        "section": papers.section_of(found),
        "body": body,
        "headings": headings,
        "previous": previous,
        "following": following,
    }
    return render(request, "pages/document.html", values)


def _elsewhere(name: str) -> HttpResponseBase:
    moved = papers.moved_to(name)
    if moved is not None:
        return redirect("doc", moved, permanent=True)
    picture = papers.picture(name)
    if picture is None:
        raise Http404
    return FileResponse(picture.open("rb"))


@login_not_required
def search(request: HttpRequest) -> HttpResponse:
    """Show the search page. Visitors find no objects."""
    query = Query.read(request.GET.get("q", ""))
    groups = everything_search(query, principal=_principal(request), limit=RESULTS)
    return render(request, "pages/search.html", {"query": query.text, "groups": groups})


@login_not_required
def search_palette(request: HttpRequest) -> HttpResponse:
    """Show the results below the search box while a person types."""
    query = Query.read(request.GET.get("q", ""))
    groups = everything_search(query, principal=_principal(request))
    values = {"query": query.text, "groups": groups, "count": sum(len(group.hits) for group in groups)}
    return render(request, "pages/_palette.html", values)


def _principal(request: HttpRequest) -> Principal | None:
    return principal_get(request) if request.user.is_authenticated else None


@require_POST
def filter_save(request: HttpRequest) -> HttpResponse:
    """Save the filter of a list under a name."""
    values = {name: request.POST.get(name, "") for name in ("page", "name", "query")}
    organisation = organisation_get(request)
    try:
        saved = saved_filters.filter_save(
            organisation=organisation, user=principal_get(request).user, now=timezone.now(), **values
        )
    except Problem as problem:
        back = saved_filters.filter_url(values["page"], "") if values["page"] in saved_filters.PAGES else "/"
        context = {**values, "problem": problem, "back": back}
        return render(request, "pages/filter_save.html", context, status=problem.status)
    messages.success(request, f"Filter saved: {saved.name}.")
    return redirect(saved_filters.filter_url(saved.page, saved.query))


@require_POST
def filter_delete(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Delete one of the person's own saved filters."""
    gone = saved_filters.filter_delete(organisation=organisation_get(request), user=principal_get(request).user, pk=pk)
    messages.success(request, f"Filter deleted: {gone.name}.")
    return redirect(gone.page)


@login_not_required
def problem_type(request: HttpRequest, code: str) -> HttpResponse:
    """Show what a problem code means, and what to do."""
    found = problem_types().get(code)
    if found is None:
        raise Http404
    return render(request, "pages/problem_type.html", {"problem": found})
