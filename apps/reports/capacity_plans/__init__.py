"""The administrator's plan: how few devices would hold what is sold, if programs lived side by side."""
