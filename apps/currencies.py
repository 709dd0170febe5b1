"""Currencies and the decimal places of their minor units.

Source: ISO 4217 list one ("current currency & funds"), edition of 1 January 2026. Precious metals, baskets and test
codes are omitted, because they have no minor unit. Locale data is unsuitable, because some currencies have fewer
decimal places there.
"""

from __future__ import annotations

EDITION = "2026-01-01"

_BY_PLACES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: """
        AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP
        COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR
        JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN
        NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
        THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG
    """,
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
PLACES: dict[str, int] = {code: places for places, codes in _BY_PLACES.items() for code in codes.split()}
"""Code -> decimal places of the smallest unit: EUR 2 (cents), JPY 0, KWD 3."""

USUAL_PLACES = 2


def places_of(code: str) -> int:
    """Return the number of decimal places of a currency's minor unit; 2 if ISO 4217 does not list the code."""
    return PLACES.get(code.upper(), USUAL_PLACES)
