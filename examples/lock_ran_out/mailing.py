"""Workers of a share group that send mails: once with a bug that shows when a mail takes long, once without it."""

from collections.abc import Callable
from typing import Any

Send = Callable[[bytes], None]
Job = tuple[str, int, int]


def send_mails_broken(worker: Any, send: Send, sent: set[Job]) -> None:
    """Sends some mails twice: when a mail takes longer than its lock, the group gives it to another worker, too."""
    for mail in worker.poll(5):
        send(mail.value())
        worker.acknowledge(mail)
    worker.commit_sync()


def send_mails(worker: Any, send: Send, sent: set[Job]) -> None:
    """Sends each once: notes the mail, in a store that all workers have, before it is sent."""
    for mail in worker.poll(5):
        job = mail.topic(), mail.partition(), mail.offset()
        if job not in sent:
            sent.add(job)
            send(mail.value())
        worker.acknowledge(mail)
    worker.commit_sync()
