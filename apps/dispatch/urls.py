from django.urls import URLPattern, URLResolver, path

from apps.dispatch import views
from apps.dispatch.fleet import views as fleet

app_name = "dispatch"

urlpatterns: list[URLPattern | URLResolver] = [
    path("jobs", views.job_list, name="job_list"),
    path("jobs/new", views.job_new, name="job_new"),
    path("jobs/<uuid:pk>", views.job_detail, name="job_detail"),
    path("jobs/<uuid:pk>/name", views.job_rename, name="job_rename"),
    path("jobs/<uuid:pk>/outputs", views.job_outputs, name="job_outputs"),
    path("jobs/<uuid:pk>/cancel", views.job_cancel, name="job_cancel"),
    path("jobs/<uuid:pk>/labels", views.job_labels, name="job_labels"),
    path("fleet/devices/<uuid:pk>/state", fleet.device_state, name="fleet_device_state"),
    path("fleet/processors", fleet.processor, name="fleet_processor"),
    path("fleet/pools/new", fleet.pool_new, name="fleet_pool_new"),
    path("fleet/pools/<slug:slug>", fleet.pool_edit, name="fleet_pool"),
    path("fleet/pools/<slug:slug>/devices", fleet.devices_add, name="fleet_devices_add"),
    path("fleet/sites/new", fleet.site_new, name="fleet_site_new"),
    path("fleet/sites/<slug:slug>", fleet.site_edit, name="fleet_site"),
    path("fleet/file", fleet.fleet_file, name="fleet_file"),
    path("fleet/apply", fleet.fleet_apply_file, name="fleet_apply"),
    path("fleet/changes", fleet.change_list, name="fleet_changes"),
    path("fleet/changes/undo", fleet.change_undo, name="fleet_undo"),
    path("fleet/changes/<int:pk>", fleet.change_detail, name="fleet_change"),
]
