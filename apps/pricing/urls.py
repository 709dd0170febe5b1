"""URLs of the price book pages."""

from django.urls import URLPattern, URLResolver, path

from apps.pricing import views

app_name = "pricing"

urlpatterns: list[URLPattern | URLResolver] = [
    path("prices", views.book, name="book"),
    path("prices/derivation", views.derivation, name="derivation"),
    path("prices/compare", views.compare, name="compare"),
    path("prices/<int:version>/price-book.json", views.book_json, name="book_json"),
]
