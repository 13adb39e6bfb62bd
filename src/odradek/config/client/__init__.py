"""Options of Kafka 3.9's clients: ``PRODUCER``, ``CONSUMER`` and ``ADMIN``.

Each option is a constant of the same name, in the module of its client or, if all clients have it, in
``connection``: ``linger.ms`` is ``producer.LINGER_MS``, ``bootstrap.servers`` is
``connection.BOOTSTRAP_SERVERS``.
"""

from odradek.config.client.admin import ADMIN as ADMIN
from odradek.config.client.consumer import CONSUMER as CONSUMER
from odradek.config.client.producer import PRODUCER as PRODUCER
