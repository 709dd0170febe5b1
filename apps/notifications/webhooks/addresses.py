"""Decides whether messages may be sent to a network address."""

from __future__ import annotations

import ipaddress

GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # RFC 4291: every other IPv6 prefix is special
# Prefixes that map to another address or to none; some versions of Python's `is_global` miss some of them.
SPECIAL = tuple(
    ipaddress.ip_network(prefix)
    for prefix in (
        "192.0.0.0/24",  # protocol assignments (RFC 6890)
        "192.88.99.0/24",  # the 6to4 relays' anycast (RFC 7526)
        "2001::/23",  # protocol assignments, with Teredo 2001::/32 (RFC 4380)
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: the IPv4 address that follows the prefix may be internal (RFC 3056)
        "3fff::/20",  # documentation
    )
)


def is_public(text: str) -> bool:
    """Return whether an address is on the public internet.

    Return False for an IPv6 address that embeds an IPv4 address, because a translator or a tunnel may route the address
    into a private network.
    """
    ip = ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    if ip.is_multicast or not ip.is_global or any(ip in prefix for prefix in SPECIAL):
        return False
    return ip.version == 4 or ip in GLOBAL_UNICAST
