"""What the site is made of."""

from pathlib import Path

from apps.config import env

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
    "billing",
    "reports",
]

SECRET_KEY = env.text("SECRET_KEY")
DEBUG = env.flag("DEBUG", default=False)
SITE_URL = env.text("SITE_URL", "http://127.0.0.1:8000").rstrip("/")

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
    "axes",
    *[f"apps.{room}" for room in ROOMS],
    "apps.config",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "apps.config.middleware.request_log",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.config.middleware.SignInRequired",
    "apps.config.middleware.ProblemPages",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
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
            ],
        },
    },
]

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True
