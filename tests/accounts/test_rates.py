"""How often something may be done, counted in the real Valkey."""

from __future__ import annotations

import threading

import pytest
from django.test import RequestFactory
from pytest_django import Settings as SettingsWrapper

from apps.accounts import rates
from apps.accounts.problems import Problem
from apps.accounts.rates import Rate, client_address, client_key, rate_check, rate_forget, rate_take

THREE = Rate("three", 3, 60)


def test_the_fourth_within_the_window_is_refused_with_the_seconds_to_wait() -> None:
    for _ in range(3):
        rate_take(THREE, "one")
    with pytest.raises(Problem) as refused:
        rate_take(THREE, "one")
    assert refused.value.status == 429
    assert 0 < int(refused.value.headers["Retry-After"]) <= 60
    rate_take(THREE, "another")


def test_checking_counts_nothing_and_forgetting_begins_again() -> None:
    for _ in range(9):
        rate_check(THREE, "one")
    for _ in range(3):
        rate_take(THREE, "one")
    with pytest.raises(Problem):
        rate_check(THREE, "one")
    rate_forget(THREE, "one")
    rate_take(THREE, "one")


def test_requests_at_the_same_moment_never_pass_the_limit() -> None:
    passed: list[bool] = []

    def take() -> None:
        try:
            rate_take(Rate("many", 5, 60), "one")
        except Problem:
            return
        passed.append(True)

    threads = [threading.Thread(target=take) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 5


def test_without_valkey_each_process_counts_for_itself(settings: SettingsWrapper) -> None:
    settings.REDIS_CLIENT_URL = "unix:///nowhere/valkey.sock?db=0"
    rates._shared.cache_clear()
    try:
        for _ in range(3):
            rate_take(THREE, "while away")
        with pytest.raises(Problem):
            rate_take(THREE, "while away")
    finally:
        rates._shared.cache_clear()
        rates._own.cache_clear()


@pytest.mark.parametrize(
    ("trusted", "forwarded", "address"),
    [
        (0, "203.0.113.9", "192.0.2.1"),  # nobody stands in front: what a client wrote is ignored
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "10.9.8.7, 203.0.113.9", "203.0.113.9"),  # the client wrote the first
        (2, "10.9.8.7, 203.0.113.9, 198.51.100.2", "203.0.113.9"),
        (2, "203.0.113.9", "192.0.2.1"),  # came past the proxies
        (1, "nonsense", "unknown"),
    ],
)
def test_the_address_is_the_one_that_our_own_proxies_saw(
    settings: SettingsWrapper, trusted: int, forwarded: str, address: str
) -> None:
    settings.TRUSTED_PROXIES = trusted
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.1", headers={"x-forwarded-for": forwarded})
    assert client_address(request) == address


def test_one_network_of_ipv6_is_one_client() -> None:
    keys = {client_key(RequestFactory().get("/", REMOTE_ADDR=f"2001:db8:1:2::{host}")) for host in ("1", "ffff")}
    assert keys == {"2001:db8:1:2::"}
