from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('documents', '0008_aggregation_input_hash'),
    ]

    operations = [
        migrations.AddField(
            model_name='knowledgedomain',
            name='dirty_since',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
