from django.urls import URLPattern, URLResolver

app_name = "compilation"

urlpatterns: list[URLPattern | URLResolver] = []
