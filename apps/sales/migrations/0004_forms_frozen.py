"""What the database refuses of commitments and quotas, and that a quote's share link may be revoked and made anew."""

from django.db import migrations

FORWARD = """
DROP TRIGGER quote_frozen ON sales_quote;
CREATE TRIGGER quote_frozen BEFORE UPDATE OR DELETE ON sales_quote
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'share_token');
CREATE TRIGGER commitment_frozen BEFORE UPDATE OR DELETE ON sales_commitment
FOR EACH ROW EXECUTE FUNCTION sales_frozen('');
CREATE TRIGGER contractquota_frozen BEFORE UPDATE OR DELETE ON sales_contractquota
FOR EACH ROW EXECUTE FUNCTION sales_frozen('taken');
"""
BACKWARD = """
DROP TRIGGER contractquota_frozen ON sales_contractquota;
DROP TRIGGER commitment_frozen ON sales_commitment;
DROP TRIGGER quote_frozen ON sales_quote;
CREATE TRIGGER quote_frozen BEFORE UPDATE OR DELETE ON sales_quote
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state');
"""


class Migration(migrations.Migration):
    dependencies = [("sales", "0003_forms_and_commitments")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
