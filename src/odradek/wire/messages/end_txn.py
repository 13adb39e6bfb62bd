"""EndTxn, key 26: commit or abort a transaction. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import boolean, int16, int32, int64, message, string


@message(versions=range(0, 5), flexible=3)
class EndTxnRequest:
    """v2 clients handle PRODUCER_FENCED; v3 is flexible; v4 clients handle TRANSACTION_ABORTABLE."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(versions=range(0, 5), flexible=3)
class EndTxnResponse:
    """v3 is flexible; v2 and v4 have new errors only."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
