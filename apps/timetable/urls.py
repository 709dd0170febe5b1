from django.urls import URLPattern, URLResolver

app_name = "timetable"

urlpatterns: list[URLPattern | URLResolver] = []
