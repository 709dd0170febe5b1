from django.urls import URLPattern, URLResolver, path

from apps.registry import views

app_name = "registry"

urlpatterns: list[URLPattern | URLResolver] = [
    path("models", views.model_list, name="model_list"),
    path("models/upload", views.model_upload, name="model_upload"),
    path("models/samples", views.sample_add, name="sample_add"),
    path("uploads/<uuid:pk>", views.upload_detail, name="upload_detail"),
    path("models/<uuid:pk>", views.model_detail, name="model_detail"),
    path("versions/<uuid:pk>/delete", views.version_delete, name="version_delete"),
    path("versions/<uuid:pk>/file", views.version_file, name="version_file"),
    path("versions/<uuid:pk>/evaluation", views.evaluation_add, name="evaluation_add"),
]
