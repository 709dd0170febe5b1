"""Customer invoices, credit notes, payments and credits, and the outbox."""
