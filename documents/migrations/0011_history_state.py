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
        migrations.AlterField("documenthistory", "file_path", models.CharField(max_length=700, verbose_name="path")),
        migrations.AlterField("documenthistory", "revision", models.PositiveIntegerField(verbose_name="revision")),
        migrations.AlterField("documenthistory", "size", models.BigIntegerField(verbose_name="size in bytes")),
        migrations.AlterField(
            "documenthistory",
            "reason",
            models.CharField(
                choices=[("replaced", "replaced"), ("deleted", "deleted")], max_length=10, verbose_name="reason"
            ),
        ),
        migrations.AlterField(
            "documenthistory",
            "created_at",
            models.DateTimeField(auto_now_add=True, db_index=True, verbose_name="kept since"),
        ),
        migrations.AlterField(
            "documenthistory",
            "created_by",
            models.CharField(blank=True, default="", max_length=150, verbose_name="by"),
        ),
    ]
