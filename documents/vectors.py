"""One writer of vectors in a process: whoever writes to or deletes from the vector store holds this lock.

Concurrent writers lost deletes (Milvus Lite); and the row is checked under the lock, so that a deletion never removes
the vectors of an upload that came after it.
"""

from __future__ import annotations

import threading

vector_writer = threading.RLock()
# Set where something was written that is not flushed yet: unflushed rows are searched slowly.
unflushed = threading.Event()
