"""Behaviour when processes are killed, connections cut or messages late."""

from __future__ import annotations
