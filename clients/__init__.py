"""Everything that this program talks to. Implementations are chosen in settings.CLIENTS, as Django chooses CACHES."""
