"""Settings for user accounts with django-allauth."""

from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from apps.config import env
from apps.config.settings.security import HTTPS

PEOPLE_APPS = [
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]

LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "account_login"

ACCOUNT_ADAPTER = "apps.accounts.adapter.Adapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
# Sign-in needs a confirmed address: so sign-up can answer the same for known and unknown addresses.
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # a stranger who types an address causes no mail to it
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = True
ACCOUNT_LOGIN_ON_PASSWORD_RESET = True
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 900
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if HTTPS else "http"
ACCOUNT_RATE_LIMITS = False  # apps/accounts/guards.py counts, with the time to wait in the answer
ACCOUNT_FORMS = {
    "login": "apps.accounts.forms.SignInForm",
    "signup": "apps.accounts.forms.SignUpForm",
    "change_password": "apps.accounts.forms.PasswordChangeForm",
    "set_password": "apps.accounts.forms.PasswordSetForm",
    "reset_password": "apps.accounts.forms.PasswordForgottenForm",
    "reset_password_from_key": "apps.accounts.forms.PasswordResetForm",
    "add_email": "apps.accounts.forms.EmailChangeForm",
}

MFA_ADAPTER = "apps.accounts.adapter.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Takt"
MFA_TOTP_TOLERANCE = 1  # steps of 30 s, because clocks of phones differ
MFA_ALLOW_UNVERIFIED_EMAIL = True  # an unconfirmed new address does not replace the confirmed one
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS  # http://localhost on one machine
MFA_RATE_LIMITS = False

# Sign-in through a company's own identity provider: all four, or none.
OIDC_SERVER = env.text("OIDC_SERVER", "none")
OIDC_NAME = env.text("OIDC_NAME", "your organisation")
SOCIALACCOUNT_ADAPTER = "apps.accounts.provider.ProviderAdapter"
# The operator chose the provider, so its verified addresses are trusted.
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_EMAIL_VERIFICATION = "mandatory"
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {}
if OIDC_SERVER != "none":
    if not urlsplit(OIDC_SERVER).netloc:
        raise ImproperlyConfigured(f"OIDC_SERVER must be the issuer's address; it is {OIDC_SERVER!r}.")
    SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "company",
                    "name": OIDC_NAME,
                    "client_id": env.text("OIDC_CLIENT_ID"),
                    "secret": env.text("OIDC_CLIENT_SECRET"),
                    "settings": {"server_url": OIDC_SERVER},
                }
            ],
        }
    }
