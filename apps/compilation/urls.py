from django.urls import URLPattern, URLResolver, path

from apps.compilation import views

app_name = "compilation"

urlpatterns: list[URLPattern | URLResolver] = [
    path("versions/<uuid:pk>", views.version_detail, name="version_detail"),
    path("versions/<uuid:pk>/compile", views.version_compile, name="version_compile"),
    path("compiles/requests/<uuid:pk>", views.request_detail, name="request_detail"),
    path("compiles/requests/<uuid:pk>/cancel", views.request_cancel, name="request_cancel"),
    path("compiles", views.job_list, name="job_list"),
    path("compiles/<uuid:pk>", views.job_detail, name="job_detail"),
    path("compiles/<uuid:pk>/cancel", views.job_cancel, name="job_cancel"),
    path("compiles/<uuid:pk>/retry", views.job_retry, name="job_retry"),
    path("processors", views.processor_list, name="processor_list"),
    path("processors/<uuid:pk>", views.processor_detail, name="processor_detail"),
    path("processors/<uuid:pk>/remove", views.processor_remove, name="processor_remove"),
    path("programs/<uuid:pk>/compare", views.compare, name="compare"),
]
