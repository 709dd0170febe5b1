"""Pages that belong to no single room: the landing page, the dashboard, the documents, and what all pages share."""
