from django.urls import URLPattern, URLResolver

app_name = "billing"

urlpatterns: list[URLPattern | URLResolver] = []
