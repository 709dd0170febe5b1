"""The sandbox: `python -m tests.stripe.double --port 8100 --webhook http://127.0.0.1:8000/stripe/webhook --secret whsec_...`."""

from __future__ import annotations

import argparse
import signal
import threading

from tests.stripe.double.server import running
from tests.stripe.double.store import Store


def main() -> None:
    """Serve until told to end. What it holds is gone then, as is fitting for a sandbox."""
    parser = argparse.ArgumentParser(prog="python -m tests.stripe.double", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--webhook", required=True)
    parser.add_argument("--secret", required=True)
    given = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with running(Store(), port=given.port, webhook=given.webhook, secret=given.secret) as serving:
        print(f"sandbox at {serving}", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
