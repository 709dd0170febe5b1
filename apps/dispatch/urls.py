from django.urls import URLPattern, URLResolver, path

from apps.dispatch import views

app_name = "dispatch"

urlpatterns: list[URLPattern | URLResolver] = [
    path("jobs", views.job_list, name="job_list"),
    path("jobs/new", views.job_new, name="job_new"),
    path("jobs/<uuid:pk>", views.job_detail, name="job_detail"),
    path("jobs/<uuid:pk>/outputs", views.job_outputs, name="job_outputs"),
    path("jobs/<uuid:pk>/cancel", views.job_cancel, name="job_cancel"),
]
