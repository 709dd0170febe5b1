"""Accounts as people expect them: confirmed addresses, new passwords, sessions, leaving; and nothing told to strangers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.core import mail
from django.test import Client
from django.utils import timezone

from apps.accounts import guards, mails, services
from apps.accounts.models import AuditEntry, Mail, Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Role, Scope
from tests.accounts.mail import links_to, plain, sent
from tests.cast import PASSWORD, Cast

AsUser = Callable[[User], Client]
NEW = "another correct horse"
FORM = {"name": "Ada", "email": "ada@example.com", "password1": PASSWORD, "organisation_name": "Engines"}


def actions(user: User) -> list[str]:
    return list(AuditEntry.objects.filter(actor=user).order_by("id").values_list("action", flat=True))


def sign_in(email: str, password: str = PASSWORD, client: Client | None = None) -> Client:
    client = client or Client()
    client.post("/sign-in", {"login": email, "password": password})
    return client


def sure(email: str) -> Client:
    """Signed in, with the password entered once more, as changes of security ask for."""
    client = sign_in(email)
    client.post("/settings/confirm", {"password": PASSWORD})
    return client


def is_in(client: Client) -> bool:
    return client.get("/settings/account").status_code == 200


def test_one_click_on_the_mailed_link_confirms_the_address_and_signs_in(db: None) -> None:
    client = Client()
    assert client.post("/sign-up", FORM | {"email": "ADA@example.com"})["Location"] == "/confirm-email"
    assert not is_in(client)
    assert client.get(links_to("ada@example.com")[0]).status_code == 302
    assert client.get("/settings/organisation").context["organisation"].name == "Engines"
    user = User.objects.get()
    assert services.email_is_confirmed(user)
    assert actions(user) == ["organisation.create", "email.confirm", "session.start"]


def test_a_scanner_that_opens_the_link_elsewhere_confirms_nothing(db: None) -> None:
    Client().post("/sign-up", FORM)
    link = links_to("ada@example.com")[0]
    scanner = Client()
    assert b"Confirm that" in scanner.get(link).content
    assert not services.email_is_confirmed(User.objects.get())
    assert scanner.post(link).status_code == 302
    assert services.email_is_confirmed(User.objects.get())
    assert not is_in(scanner), "the link confirms an address; it is no key to the account"


def test_an_unconfirmed_address_does_not_sign_in_and_is_sent_the_link_again(db: None) -> None:
    Client().post("/sign-up", FORM)
    client = sign_in("ada@example.com")
    assert not is_in(client)
    client.post("/confirm-email")
    assert len(links_to("ada@example.com")) == 3
    client.get(links_to("ada@example.com")[0])
    assert is_in(client)


@pytest.mark.parametrize("password", ["short", "password123", "ada@example.com"])
def test_a_weak_password_is_refused_with_the_reason(db: None, password: str) -> None:
    response = Client().post("/sign-up", FORM | {"password1": password})
    assert response.context["form"].errors["password1"]
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("path", "form", "known"),
    [
        ("/sign-up", FORM, "owner@example.com"),
        ("/password/reset", {"email": "ada@example.com"}, "owner@example.com"),
        ("/sign-in", {"login": "ada@example.com", "password": "wrong"}, "owner@example.com"),
    ],
)
def test_no_answer_says_whether_an_address_has_an_account(
    cast: Cast, path: str, form: dict[str, str], known: str
) -> None:
    field = "login" if "login" in form else "email"
    answers = []
    for email in (form[field], known):
        client = Client()
        answer = client.post(path, form | {field: email}, follow=True)
        again = client.post("/confirm-email", follow=True) if path == "/sign-up" else answer
        shown = [plain(page.content).replace(email, "EMAIL") for page in (answer, again)]
        answers.append((answer.redirect_chain, sorted(client.cookies), shown))
    assert answers[0] == answers[1]
    assert User.objects.filter(email=known).count() == 1


def test_who_signs_up_again_is_told_by_mail_alone(cast: Cast) -> None:
    Client().post("/sign-up", FORM | {"email": cast.owner.email})
    assert sent()[-1].subject == "You have an account already"
    assert sign_in(cast.owner.email).get("/settings/account").context["user"] == cast.owner


def test_a_password_is_reset_by_a_mailed_link_that_works_once(cast: Cast, as_user: AsUser) -> None:
    elsewhere = sign_in(cast.owner.email)
    client = Client()
    client.post("/password/reset", {"email": cast.owner.email})
    link = links_to(cast.owner.email)[0]
    form = client.get(link)["Location"]
    client.post(form, {"password1": NEW, "password2": NEW})
    assert is_in(client)
    assert is_in(sign_in(cast.owner.email, NEW))
    assert not is_in(sign_in(cast.owner.email))
    assert not is_in(elsewhere), "other sessions end"
    assert b"used or has expired" in Client().get(link).content
    assert sent()[-1].subject == "Your password was changed"
    assert "password.reset" in actions(cast.owner)


def test_a_new_password_ends_the_other_sessions_and_is_told(cast: Cast) -> None:
    here, elsewhere = sign_in(cast.owner.email), sign_in(cast.owner.email)
    here.post("/settings/password", {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW})
    assert (is_in(here), is_in(elsewhere)) == (True, False)
    assert actions(cast.owner)[-1] == "password.change"
    assert sent()[-1].subject == "Your password was changed"


def test_an_address_changes_when_the_new_one_is_confirmed_and_the_old_one_is_told(cast: Cast) -> None:
    client = sure(cast.owner.email)
    client.post("/settings/email", {"email": "new@example.com", "action_add": ""})
    cast.owner.refresh_from_db()
    assert cast.owner.email == "owner@example.com"
    client.get(links_to("new@example.com")[0])
    cast.owner.refresh_from_db()
    assert cast.owner.email == "new@example.com"
    assert [message.to for message in sent() if message.subject == "Your e-mail address was changed"] == [
        ["owner@example.com"]
    ]
    assert is_in(sign_in("new@example.com"))
    assert not is_in(sign_in("owner@example.com"))
    assert AuditEntry.objects.get(action="email.change").detail == {
        "before": "owner@example.com",
        "after": "new@example.com",
    }


def test_an_address_of_somebody_else_is_never_taken_over(cast: Cast) -> None:
    client = sure(cast.owner.email)
    page = client.post("/settings/email", {"email": cast.stranger.email, "action_add": ""}, follow=True)
    free = client.post("/settings/email", {"email": "free@example.com", "action_add": ""}, follow=True)
    assert plain(page.content).replace(cast.stranger.email, "X") == plain(free.content).replace("free@example.com", "X")
    for link in links_to(cast.stranger.email):
        client.get(link)
        client.post(link)
    cast.owner.refresh_from_db()
    assert cast.owner.email == "owner@example.com"


def test_an_unconfirmed_sign_up_with_the_new_address_does_not_break_the_change(cast: Cast) -> None:
    Client().post("/sign-up", FORM)
    client = sure(cast.owner.email)
    client.post("/settings/email", {"email": "ada@example.com", "action_add": ""})
    assert client.get(links_to("ada@example.com")[0]).status_code == 409
    cast.owner.refresh_from_db()
    assert cast.owner.email == "owner@example.com"
    assert EmailAddress.objects.get(user=cast.owner, primary=True).email == "owner@example.com"


def test_sessions_are_listed_and_ended(cast: Cast) -> None:
    here, there, far = (sign_in(cast.owner.email) for _ in range(3))
    assert here.get("/settings/sessions").context["session_count"] == 3
    one = UserSession.objects.get(session_key=there.session.session_key)
    here.post(f"/settings/sessions/{one.pk}/end")
    assert (is_in(here), is_in(there), is_in(far)) == (True, False, True)
    here.post("/settings/sessions")
    assert (is_in(here), is_in(far)) == (True, False)
    assert actions(cast.owner)[-2:] == ["session.end", "session.end-others"]


def test_a_change_of_security_asks_for_the_password_again(cast: Cast, as_user: AsUser) -> None:
    old = as_user(cast.owner)  # a session that nobody has authenticated in the last quarter of an hour
    for path in ("/settings/two-factor/app", "/settings/passkeys/new", "/settings/account/delete"):
        assert old.get(path)["Location"].startswith("/settings/confirm")
    old.post("/settings/confirm", {"password": PASSWORD})
    assert old.get("/settings/two-factor/app").status_code == 200


def test_the_last_owner_cannot_leave_and_others_can(cast: Cast, as_user: AsUser) -> None:
    assert as_user(cast.owner).post("/settings/organisation/leave").status_code == 409
    assert as_user(cast.viewer).post("/settings/organisation/leave").status_code == 302
    assert not Membership.objects.filter(user=cast.viewer).exists()
    assert actions(cast.viewer) == ["membership.leave"]


def test_a_deleted_account_is_gone_and_what_must_stay_has_no_name(cast: Cast) -> None:
    Membership.objects.filter(user=cast.engineer).update(role=Role.OWNER)
    client = sure(cast.engineer.email)
    _, secret = services.token_create(
        user=cast.engineer, organisation=cast.organisation, name="b", scopes=[Scope.READ], now=timezone.now()
    )
    assert client.post("/settings/account/delete", {"email": "typo@example.com"}).status_code == 422
    assert client.post("/settings/account/delete", {"email": "Engineer@example.com"}).status_code == 302
    assert not is_in(sign_in("engineer@example.com"))
    assert Client(headers={"authorization": f"Bearer {secret}"}).get("/api/v1/me").status_code == 401
    left = User.objects.get(pk=cast.engineer.pk)
    assert "engineer" not in f"{left.email} {left.name}".lower()
    assert not EmailAddress.objects.filter(user=left).exists()
    Client().post("/sign-up", FORM | {"email": "engineer@example.com"})
    assert User.objects.filter(email="engineer@example.com").exists(), "the address is free again"


def test_the_last_owner_cannot_delete_the_account(cast: Cast) -> None:
    with pytest.raises(Problem, match="Make somebody else an owner"):
        services.person_delete(user=cast.owner, now=timezone.now())
    assert User.objects.get(pk=cast.owner.pk).is_active


def test_a_mail_server_that_is_away_loses_no_mail(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Client().post("/sign-up", FORM)

    def away(*args: object) -> None:
        raise ConnectionRefusedError

    with monkeypatch.context() as patched:
        patched.setattr(mails, "send_mail", away)
        assert mails.mails_send_due(now=timezone.now()) == 0
    waiting = Mail.objects.get()
    assert waiting.attempts == 1
    assert mails.mails_send_due(now=waiting.due_at) == 1
    assert mail.outbox[0].to == ["ada@example.com"]
    assert not Mail.objects.exists(), "the secret in it is kept no longer than needed"


def test_a_stranger_cannot_fill_a_mailbox(cast: Cast) -> None:
    for number in range(12):
        Client(REMOTE_ADDR=f"192.0.2.{number}").post("/password/reset", {"email": cast.owner.email})
    assert len(links_to(cast.owner.email)) == guards.MAILS.amount


def test_organisations_of_new_people_are_their_own(db: None) -> None:
    for email in ("a@example.com", "b@example.com"):
        Client().post("/sign-up", FORM | {"email": email})
    assert Organisation.objects.count() == 2
