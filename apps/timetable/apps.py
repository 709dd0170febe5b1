from django.apps import AppConfig


class TimetableConfig(AppConfig):
    name = "apps.timetable"
    label = "timetable"
