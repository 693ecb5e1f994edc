"""Enqueues a message inside a transaction, without an event loop: python transaction.py postgresql://…"""

from __future__ import annotations

import sys

import psycopg

import laneway.sync

with laneway.sync.connect(sys.argv[1]) as broker, psycopg.connect(sys.argv[1]) as connection:
    connection.execute("create temporary table invoice (id int)")
    connection.execute("insert into invoice values (99)")
    broker.producer("orders").enqueue_in(connection, {"id": 99, "total": 1})
    connection.commit()
    print("the invoice and its order exist, or neither does")
