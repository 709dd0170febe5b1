"""Mail: through the server that EMAIL_HOST names; without one, messages are written to the log's terminal."""

from apps.config import env

EMAIL_HOST = env.text("EMAIL_HOST", "none")
EMAIL_PORT = env.integer("EMAIL_PORT", 587)
EMAIL_HOST_USER = env.text("EMAIL_USER", "none")
EMAIL_HOST_PASSWORD = env.text("EMAIL_PASSWORD", "none")
if EMAIL_HOST_USER == "none":
    EMAIL_HOST_USER = EMAIL_HOST_PASSWORD = ""
EMAIL_USE_TLS = env.flag("EMAIL_TLS", default=True)
EMAIL_TIMEOUT = 20
EMAIL_BACKEND = f"django.core.mail.backends.{'console' if EMAIL_HOST == 'none' else 'smtp'}.EmailBackend"
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.text("EMAIL_FROM", "Takt <takt@localhost>")
