"""Collection through Stripe. Without a key invoices are paid by bank transfer, and nothing else changes."""

from apps.config import env

STRIPE_API_KEY = env.text("STRIPE_API_KEY", "none")
if STRIPE_API_KEY == "none":
    STRIPE_API_KEY = ""
# Another server that speaks Stripe's API: a sandbox or a proxy. Empty: Stripe itself.
STRIPE_API_BASE = env.text("STRIPE_API_BASE", "none").replace("none", "")
STRIPE_WEBHOOK_SECRET = env.text("STRIPE_WEBHOOK_SECRET", "none")
