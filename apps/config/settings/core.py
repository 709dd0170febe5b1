"""Settings for apps, middleware and templates."""

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from apps.config import env
from apps.config.settings.people import PEOPLE_APPS

BASE_DIR = Path(__file__).resolve().parent.parent.parent.parent

# Lowest first: a room imports only rooms before it.
ROOMS = [
    "accounts",
    "fleet",
    "registry",
    "compilation",
    "pricing",
    "planner",
    "timetable",
    "ledger",
    "sales",
    "dispatch",
    "invoicing",
    "collection",
    "notifications",
    "portal",
    "reports",
    "pages",
    "demo",
]

SITE_URL = env.text("SITE_URL", "http://127.0.0.1:8000").rstrip("/")
# A site is public if it is behind TLS, or if its address is not this machine's own.
IS_PUBLIC = env.flag("HTTPS", default=False) or not env.is_local(SITE_URL)
SECRET_KEY = env.secret("SECRET_KEY", is_public=IS_PUBLIC)
DEBUG = env.flag("DEBUG", default=False)
if DEBUG and IS_PUBLIC:
    raise ImproperlyConfigured(
        "DEBUG=1 shows source code and settings to everybody. Remove this setting if others can reach the site."
    )

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_prometheus",
    "django_htmx",
    "ninja",
    "csp",
    *PEOPLE_APPS,
    *[f"apps.{room}" for room in ROOMS],
    "apps.config",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "apps.config.middleware.request_log",
    "apps.config.middleware.api_rates",
    "apps.config.middleware.ApiProblems",
    "apps.config.middleware.nul_refused",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.demo.middleware.Visits",
    "apps.config.middleware.SignInRequired",
    "apps.config.middleware.ProblemPages",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

ROOT_URLCONF = "apps.config.urls"
WSGI_APPLICATION = "apps.config.wsgi.application"
ASGI_APPLICATION = "apps.config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.accounts.context.place",
                "apps.accounts.context.sign_in",
                "apps.notifications.notices.context.bell",
                "apps.demo.context.demo",
            ],
        },
    },
]

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True
