"""An account in a real browser: the mailed link, an authenticator app, a passkey, and a new password by mail."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e import walk
from tests.e2e.visit import Watched
from tests.totp import code_of

NEW = "another correct horse"
# What a laptop with a fingerprint reader offers: it keeps passkeys and recognises its owner.
READER = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def live(visit: Watched, *, name: str, email: str) -> None:
    """Sign up, add a passkey and an app, and sign in by each way there is."""
    walk.sign_up(visit, name=name, email=email)
    page = visit.page
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": READER})
    add_passkey(visit)
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("body.with-rail")).to_be_visible()
    secret = add_app(visit)
    sign_out(page)
    with_password(visit, email, walk.PASSWORD)
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.locator("body.with-rail")).to_be_visible()
    sign_out(page)
    new_password(visit, email)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.locator("body.with-rail")).to_be_visible()


def add_passkey(visit: Watched) -> None:
    """Ends on the recovery codes, which the first factor brings."""
    visit.open("/settings/passkeys/new")
    page = visit.page
    page.get_by_label("Password").fill(walk.PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()


def add_app(visit: Watched) -> str:
    """Its secret."""
    visit.open("/settings/two-factor/app")
    page = visit.page
    if page.get_by_label("Password").count():
        page.get_by_label("Password").fill(walk.PASSWORD)
        page.get_by_role("button", name="Confirm").click()
    secret = page.locator(".totp-key").inner_text()
    page.get_by_label("Authenticator code").fill(code_of(secret))
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_text("The authenticator app is on.")).to_be_visible()
    return secret


def new_password(visit: Watched, email: str) -> None:
    """By the mailed link; the second factor is asked for all the same."""
    page = visit.page
    visit.open("/sign-in")
    page.get_by_role("link", name="Forgot your password?").click()
    page.get_by_label("E-mail address").fill(email)
    page.get_by_role("button", name="Send the link").click()
    expect(page.get_by_role("heading", name="Check your mail")).to_be_visible()
    walk.follow_mail(page, email, "Set a new password")
    page.get_by_label("New password", exact=True).fill(NEW)
    page.get_by_label("New password, again").fill(NEW)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("heading", name="Second step")).to_be_visible()


def with_password(visit: Watched, email: str, password: str) -> None:
    """To the second step."""
    page = visit.page
    visit.open("/sign-in")
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Second step")).to_be_visible()


def sign_out(page: Page) -> None:
    page.locator("button[aria-label='Sign out']").first.click()
    page.wait_for_url(re.compile("/sign-in"))
