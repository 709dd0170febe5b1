"""Settings for mail. Mail is sent through EMAIL_HOST; without EMAIL_HOST, mail is written to a folder or to the log."""

from apps.config import env

EMAIL_HOST = env.text("EMAIL_HOST", "none")
EMAIL_PORT = env.integer("EMAIL_PORT", 587)
EMAIL_HOST_USER = env.text("EMAIL_USER", "none")
EMAIL_HOST_PASSWORD = env.text("EMAIL_PASSWORD", "none")
if EMAIL_HOST_USER == "none":
    EMAIL_HOST_USER = EMAIL_HOST_PASSWORD = ""
EMAIL_USE_TLS = env.flag("EMAIL_TLS", default=True)
EMAIL_TIMEOUT = 20
# Without a mail server: a folder whose messages the page /mail shows. `make run` sets it; never on a site that others reach,
# since the links in the messages sign people in.
MAIL_FOLDER = env.text("MAIL_FOLDER", "none") if EMAIL_HOST == "none" else "none"
MAIL_FOLDER = EMAIL_FILE_PATH = "" if MAIL_FOLDER == "none" else MAIL_FOLDER
_KIND = "smtp" if EMAIL_HOST != "none" else "filebased" if MAIL_FOLDER else "console"
EMAIL_BACKEND = f"django.core.mail.backends.{_KIND}.EmailBackend"
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.text("EMAIL_FROM", "Takt <takt@localhost>")
