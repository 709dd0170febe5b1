"""The administrator's pages of customers: tax, credits, and what is taken back of invoices."""
