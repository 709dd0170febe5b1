"""The administrator's pages of customers: tax, credits, refunds and credit notes."""
