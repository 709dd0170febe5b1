"""The sandbox of `make run`: Stripe's side on this machine.

python -m tests.stripe.double --port 8100 --webhook http://127.0.0.1:8000/stripe/webhook --secret whsec_... --state FILE
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from tests.stripe.double.keeping import loaded, saved
from tests.stripe.double.server import running

SAVE_SECONDS = 2.0


def main() -> None:
    """Serve until told to end; what it holds is in the file from time to time, and at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.stripe.double")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--webhook", required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--state", type=Path, required=True)
    given = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    store, count = loaded(given.state), -1
    with running(store, port=given.port, webhook=given.webhook, secret=given.secret) as serving:
        print(f"sandbox at {serving}", flush=True)
        if serving.deliverer is not None:
            serving.deliverer.done = len(store.events)  # those were delivered when they were told
        while not ended.wait(SAVE_SECONDS):
            if store.count != count:
                count = store.count
                saved(store, given.state)
    saved(store, given.state)


if __name__ == "__main__":
    main()
