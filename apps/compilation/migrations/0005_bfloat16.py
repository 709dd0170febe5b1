from django.db import migrations, models

PRECISIONS = [("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("int8", "int8")]


class Migration(migrations.Migration):
    dependencies = [("compilation", "0004_requests")]

    operations = [
        migrations.AlterField(
            model_name="compilejob",
            name="precision",
            field=models.CharField(choices=PRECISIONS, default="float32", max_length=10),
        ),
        migrations.AlterField(
            model_name="program", name="precision", field=models.CharField(choices=PRECISIONS, max_length=10)
        ),
    ]
