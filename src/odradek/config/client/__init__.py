"""Every option of Kafka 3.9's clients, by kind: ``PRODUCER``, ``CONSUMER`` and ``ADMIN``.

Each option is a constant named like it, in the module of its kind or in ``connection`` if all clients share
it: ``linger.ms`` is ``producer.LINGER_MS``, ``bootstrap.servers`` is ``connection.BOOTSTRAP_SERVERS``.
"""

from odradek.config.client.admin import ADMIN as ADMIN
from odradek.config.client.consumer import CONSUMER as CONSUMER
from odradek.config.client.producer import PRODUCER as PRODUCER
