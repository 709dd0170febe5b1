"""Settings for security: who may sign in, and what a browser may load."""

from csp.constants import NONE, SELF

from apps.config import env

ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", [])
# The number of our own proxies in front of the server. The outermost one sees the client's address.
TRUSTED_PROXIES = env.integer("TRUSTED_PROXIES", 0)

# How long the head of a request may take; its body has the grace, and then as long as it keeps to the rate.
HEAD_SECONDS = env.integer("HEAD_SECONDS", 10, at_least=1)
BODY_GRACE_SECONDS = env.integer("BODY_GRACE_SECONDS", 20, at_least=1)
BODY_BYTES_PER_SECOND_MIN = env.integer("BODY_BYTES_PER_SECOND_MIN", 10_000, at_least=1)

# Requests to the API in a minute and files announced in an hour, by account and by client address.
API_PER_MINUTE = env.integer("API_PER_MINUTE", 600, at_least=1)
API_PER_MINUTE_ADDRESS = env.integer("API_PER_MINUTE_ADDRESS", 1200, at_least=1)
UPLOADS_PER_HOUR = env.integer("UPLOADS_PER_HOUR", 120, at_least=1)
UPLOADS_PER_HOUR_ADDRESS = env.integer("UPLOADS_PER_HOUR_ADDRESS", 240, at_least=1)

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
# The first makes new hashes. Passwords with an older hash are hashed again at the next sign-in.
PASSWORD_HASHERS = ["apps.accounts.hashers.Argon2id", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# A form that leads to an identity provider is followed there, which a browser counts as the form's own aim.
_FORMS = env.words("OIDC_FORM_ORIGINS", [])

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF, *_FORMS],
        "frame-ancestors": [NONE],
    }
}
CSRF_FAILURE_VIEW = "apps.config.failures.form_expired"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"

# Behind TLS, production sets HTTPS=1; a proxy in front states the scheme in X-Forwarded-Proto.
HTTPS = env.flag("HTTPS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
# Only the operator knows whether all hosts of the domain use TLS.
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS and env.flag("HSTS_SUBDOMAINS", default=False)
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # which ask for just that
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"

# /metrics asks for it as a bearer token, and is closed without it; METRICS_LOCAL opens it to this machine itself.
METRICS_TOKEN = env.text("METRICS_TOKEN", "none")
METRICS_LOCAL = env.flag("METRICS_LOCAL", default=False)

# Webhooks go to public addresses over https alone; a test, or an installation within one network, may allow others.
WEBHOOK_PRIVATE_ADDRESSES = env.flag("WEBHOOK_PRIVATE_ADDRESSES", default=False)
