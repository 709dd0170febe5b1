from django.urls import URLPattern, URLResolver

app_name = "sales"

urlpatterns: list[URLPattern | URLResolver] = []
