from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("documents", "0010_reconcile_run")]

    operations = [
        migrations.AddField(
            model_name="documenthistory",
            name="state",
            field=models.JSONField(blank=True, default=dict, editable=False),
        ),
    ]
