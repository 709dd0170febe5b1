"""What customers are told: webhooks to their own servers, and budgets with their alerts."""
