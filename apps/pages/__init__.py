"""Pages that belong to no single app: the landing page, the dashboard and the documents. Also the parts that all pages
share.
"""
