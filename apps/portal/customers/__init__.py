"""The customer pages for administrators: tax, credits, refunds and credit notes."""
