"""The classes of service of a price book in display order, and the default class."""

from __future__ import annotations

from decimal import Decimal

from apps.pricing.rating.book import PriceBookDocument, PriceClass
from apps.pricing.rating.decimals import multiply

STANDARD = "standard"


def classes_ordered(book: PriceBookDocument) -> list[PriceClass]:
    """Return all classes in display order. Offered classes come first."""

    def place(item: PriceClass) -> tuple[bool, bool, Decimal, str]:
        factor = _factor(item)
        return not item.offered, factor != 1, factor.copy_negate(), item.name

    return sorted(book.classes.values(), key=place)


def classes_offered(book: PriceBookDocument) -> list[PriceClass]:
    """Return the classes that can be bought, in display order."""
    return [one for one in classes_ordered(book) if one.offered]


def classes_plannable(book: PriceBookDocument) -> list[PriceClass]:
    """Return the offered classes that run at any hour, in display order."""
    return [one for one in classes_offered(book) if not one.off_peak_only]


def classes_cheaper(book: PriceBookDocument, klass: str) -> list[PriceClass]:
    """Return the offered classes with a lower price factor than this class, the cheapest first."""
    own = _factor(book.price_class(klass))
    return sorted(
        (one for one in classes_offered(book) if _factor(one) < own), key=lambda one: (_factor(one), one.name)
    )


def _factor(item: PriceClass) -> Decimal:
    return multiply(item.surcharge, item.discount)


def class_default(book: PriceBookDocument) -> str:
    """Return the name of the default class.

    Among the offered classes, those that run at any hour take precedence, then `standard`, then display order.
    """
    offered = classes_plannable(book) or classes_offered(book)
    return next((one.name for one in offered if one.name == STANDARD), offered[0].name)
