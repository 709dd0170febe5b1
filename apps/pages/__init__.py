"""The landing page, the dashboard, the documents, and the parts that all pages share."""
