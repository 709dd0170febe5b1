"""Generated requests against every operation of a running product, by schemathesis: `python -m benchmarks.api [EXAMPLES]`.

Starts a product of its own, then sends to each operation EXAMPLES requests that fit the OpenAPI document and as many that do
not, with valid and invalid tokens, once as the demo's owner and once as the platform's administrator. No answer may be a
server error, or have a status, a content type, headers or a body that the document does not describe; a request that does not
fit must be refused, an undeclared method too, and one without a token is 401. Status 1 when anything is found.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from benchmarks.arguments import counts
from tests.e2e.product import Product, running_product

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
)
PATIENCE = 300  # seconds


def document_wait(product: Product) -> None:
    """Waits until the document may be read again: requests without a valid token, of which a pass sends many, use up the
    limit of this address."""
    for _ in range(PATIENCE):
        if httpx.get(f"{product.url}/api/v1/openapi.json").status_code != httpx.codes.TOO_MANY_REQUESTS:
            return
        time.sleep(1)


def run(product: Product, token: str, examples: int, *, who: str) -> int:
    """One pass over every operation with one token; answers schemathesis's exit status."""
    print(f"as the {who}, {examples} examples an operation", flush=True)
    document_wait(product)
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "run",
        f"{product.url}/api/v1/openapi.json",
        "--header",
        f"Authorization: Bearer {token}",
        "--checks",
        ",".join(CHECKS),
        "--phases",
        "examples,coverage,fuzzing",
        "--max-examples",
        str(examples),
        "--seed",
        "1",
        "--generation-deterministic",
        "--suppress-health-check",
        "all",
        "--warnings",
        "off",
        "--request-timeout",
        "60",
        "--continue-on-failure",
    ]
    return subprocess.run(command, cwd=product.folder, check=False).returncode


def main(arguments: list[str]) -> int:
    """Both passes; answers the exit status."""
    (examples,) = counts("api", __doc__ or "", arguments, examples=20)
    os.environ.setdefault("API_RATE", "1000000/minute")  # how it answers is asked here, not how often
    with running_product() as product:
        found = [
            run(product, product.demo["token"], examples, who="owner"),
            run(product, product.demo["admin_token"], examples, who="administrator"),
        ]
        errors = [line for line in product.log("web").splitlines() if "defect" in line]
    print("\n".join(errors[:20]))
    print("clean" if not any(found) and not errors else "WRONG")
    return 1 if any(found) or errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
