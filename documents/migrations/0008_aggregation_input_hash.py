from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('documents', '0007_aggregation'),
    ]

    operations = [
        migrations.AddField(
            model_name='domainaggregation',
            name='input_hash',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
    ]
