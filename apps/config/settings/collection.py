"""Settings for collecting payments through Stripe. Without an API key, customers pay invoices by bank transfer."""

from apps.config import env

STRIPE_API_KEY = env.text("STRIPE_API_KEY", "none")
if STRIPE_API_KEY == "none":
    STRIPE_API_KEY = ""
# Another server that speaks Stripe's API: a sandbox or a proxy. Empty: Stripe itself.
STRIPE_API_BASE = env.text("STRIPE_API_BASE", "none").replace("none", "")
# Without it no event is accepted; events are fetched by listing instead.
STRIPE_WEBHOOK_SECRET = env.text("STRIPE_WEBHOOK_SECRET", "none").replace("none", "")
# The billing meter at Stripe to which usage is copied. Empty: none. Its sums are never used.
STRIPE_METER = env.text("STRIPE_METER", "none").replace("none", "")

# Days after the due date on which a customer is reminded.
DUNNING_DAYS = env.days("DUNNING_DAYS", (3, 10, 20))

# The maximum of one credit, in the smallest units of its currency: 10,000.00 EUR, 1,000,000 JPY.
CREDIT_LIMIT = env.integer("CREDIT_LIMIT", 1_000_000, at_least=1)
