"""What every area of the admin client stands on."""

from __future__ import annotations

from odradek.client.admin.api_driver import AdminApiDriver


class AdminApi:
    """A part of ``Admin``: its methods carry out their calls through the client's asker."""

    _driver: AdminApiDriver
