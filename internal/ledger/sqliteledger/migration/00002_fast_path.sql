-- What the fast path adds: where a sale sells and by whose right its counter is
-- loaded, why an order was rejected, what the counter must learn of, and the
-- slips that could not be judged.

-- +goose Up

-- build_token is the newest right to load the fast counter, given at build_at; 0
-- for none. salts holds a big-endian number of four bytes for each lane.
ALTER TABLE sales ADD COLUMN preferred_path TEXT NOT NULL DEFAULT 'direct' CHECK (preferred_path IN ('direct', 'fast'));
ALTER TABLE sales ADD COLUMN build_token INTEGER NOT NULL DEFAULT 0 CHECK (build_token >= 0);
ALTER TABLE sales ADD COLUMN build_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sales ADD COLUMN salts BLOB NOT NULL DEFAULT x'' CHECK (length(salts) % 4 = 0);

ALTER TABLE orders ADD COLUMN reason TEXT NOT NULL DEFAULT '' CHECK ((reason <> '') = (state = 'rejected'));

-- The rows that a lane of the fast counter must learn of. A birth is none, so a
-- crowd writes nothing here.
CREATE INDEX journal_lane ON journal (sale, seq)
    WHERE kind <> 'order.reserved' AND kind <> 'order.paid' AND kind <> 'refund.required' AND kind <> 'refund.done';

-- Slips that could not be judged. row counts them in the order they were parked.
-- order_id and what follows it tell what an authentic slip was about; without
-- one order_id is NULL and the rest is empty. Nothing is demanded of these, nor
-- of the length of a text: a slip that no other table takes must find a place here.
CREATE TABLE dead_letters (
    row       INTEGER PRIMARY KEY,
    id        BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    sale      INTEGER NOT NULL REFERENCES sales (number),
    place     TEXT    NOT NULL,
    cause     TEXT    NOT NULL,
    raw       BLOB    NOT NULL CHECK (length(raw) <= 65536),
    order_id  BLOB    CHECK (length(order_id) = 16),
    user      TEXT    NOT NULL,
    sku       TEXT    NOT NULL,
    quantity  INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    terms     INTEGER NOT NULL,
    taken_at  INTEGER NOT NULL,
    presented INTEGER NOT NULL CHECK (presented IN (0, 1)),
    state     TEXT    NOT NULL CHECK (state IN ('open', 'replayed', 'dropped')),
    parked_at INTEGER NOT NULL,
    closed_at INTEGER NOT NULL
) STRICT;

CREATE INDEX dead_letters_sale ON dead_letters (sale);
CREATE INDEX dead_letters_state ON dead_letters (state);
CREATE INDEX dead_letters_order ON dead_letters (order_id) WHERE order_id IS NOT NULL;
