"""Usage of a void invoice may be invoiced again: its claim ends, that it was there is kept, and no row is claimed twice.

A claim (`billing_invoicedusage`, one for each usage row) still never changes; it is deleted only when its invoice is void
and the row that says so is there. An invoice that becomes void keeps no claim, and none is ever made on one.
"""

import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION billing_claim_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    standing text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'rows of % are only ever added', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    SELECT invoice.state INTO standing FROM billing_invoice AS invoice
        JOIN billing_invoiceline AS line ON line.invoice_id = invoice.id
        WHERE line.id = CASE WHEN TG_OP = 'DELETE' THEN OLD.line_id ELSE NEW.line_id END;
    IF TG_OP = 'INSERT' THEN
        IF standing = 'void' THEN
            RAISE EXCEPTION 'a void invoice claims no usage' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF standing <> 'void' OR NOT EXISTS (
        SELECT FROM billing_releasedusage WHERE usage_id = OLD.usage_id AND line_id = OLD.line_id
    ) THEN
        RAISE EXCEPTION 'rows of % are only ever added, unless their invoice is void', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END;
$$;
DROP TRIGGER invoicedusage_append_only ON billing_invoicedusage;
CREATE TRIGGER invoicedusage_guard BEFORE INSERT OR UPDATE OR DELETE ON billing_invoicedusage
FOR EACH ROW EXECUTE FUNCTION billing_claim_guard();
CREATE TRIGGER releasedusage_append_only BEFORE UPDATE OR DELETE ON billing_releasedusage
FOR EACH ROW EXECUTE FUNCTION takt_append_only();

CREATE FUNCTION billing_void_claims_nothing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM billing_invoicedusage AS claim JOIN billing_invoiceline AS line ON line.id = claim.line_id
        WHERE line.invoice_id = NEW.id
    ) THEN
        RAISE EXCEPTION 'invoice % is void and still claims usage', NEW.number
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END;
$$;
CREATE CONSTRAINT TRIGGER invoice_void_claims_nothing AFTER UPDATE OF state ON billing_invoice
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'void' AND OLD.state <> 'void')
EXECUTE FUNCTION billing_void_claims_nothing();
"""
BACKWARD = """
DROP TRIGGER invoice_void_claims_nothing ON billing_invoice;
DROP FUNCTION billing_void_claims_nothing();
DROP TRIGGER releasedusage_append_only ON billing_releasedusage;
DROP TRIGGER invoicedusage_guard ON billing_invoicedusage;
DROP FUNCTION billing_claim_guard();
CREATE TRIGGER invoicedusage_append_only BEFORE UPDATE OR DELETE ON billing_invoicedusage
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0011_stripe_events_listed"), ("ledger", "0004_kept_by_triggers")]

    operations = [
        migrations.CreateModel(
            name="ReleasedUsage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "credit_note",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="released", to="billing.creditnote"
                    ),
                ),
                (
                    "line",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="released", to="billing.invoiceline"
                    ),
                ),
                (
                    "usage",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="released", to="ledger.usagerow"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("usage", "line"), name="releasedusage_once")],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
