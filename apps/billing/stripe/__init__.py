"""Collection through Stripe: it is told what is due and answers with what came in; it never decides an amount."""
