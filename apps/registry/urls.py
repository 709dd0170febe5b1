from django.urls import URLPattern, URLResolver

app_name = "registry"

urlpatterns: list[URLPattern | URLResolver] = []
