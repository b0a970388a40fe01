-- The ledger of one machine.
--
-- Money is minor units, instants and durations are milliseconds (0 for none),
-- ids are 16 bytes of which the first four name the sale, so the orders,
-- payments and refunds of a sale are a range of ids.
--
-- The CHECKs are the last line of defence: the rules above never let it come to
-- them, and a mistake there fails here instead of overselling.

-- +goose Up

-- number is never used again, also when the newest sale is put away.
-- seq and head are the end of the sale's journal.
CREATE TABLE sales (
    number           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (number BETWEEN 1 AND 4294967295),
    slug             TEXT    NOT NULL,
    key              BLOB    NOT NULL CHECK (length(key) = 32),
    title            TEXT    NOT NULL,
    starts_at        INTEGER NOT NULL,
    ends_at          INTEGER NOT NULL,
    per_user_limit   INTEGER NOT NULL CHECK (per_user_limit >= 1),
    limit_rule       TEXT    NOT NULL CHECK (limit_rule IN ('live', 'ever_paid')),
    hold_ms          INTEGER NOT NULL CHECK (hold_ms >= 0),
    max_unpaid_holds INTEGER NOT NULL CHECK (max_unpaid_holds >= 0),
    cool_down_ms     INTEGER NOT NULL CHECK (cool_down_ms >= 0),
    currency         TEXT    NOT NULL CHECK (length(currency) = 3),
    state            TEXT    NOT NULL CHECK (state IN ('draft', 'published', 'paused', 'closed', 'deleted')),
    terms            INTEGER NOT NULL CHECK (terms >= 1),
    version          INTEGER NOT NULL CHECK (version >= 1),
    path             TEXT    NOT NULL CHECK (path IN ('direct', 'fast')),
    epoch            INTEGER NOT NULL CHECK (epoch >= 1),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    seq              INTEGER NOT NULL DEFAULT 0 CHECK (seq >= 0),
    head             BLOB    NOT NULL DEFAULT (zeroblob(32)) CHECK (length(head) = 32)
) STRICT;

-- A deleted sale gives its slug free.
CREATE UNIQUE INDEX sales_slug ON sales (slug) WHERE state <> 'deleted';

-- position is the item's place in its sale, from 0.
CREATE TABLE items (
    sale     INTEGER NOT NULL REFERENCES sales (number),
    position INTEGER NOT NULL CHECK (position >= 0),
    sku      TEXT    NOT NULL,
    title    TEXT    NOT NULL,
    stock    INTEGER NOT NULL CHECK (stock >= 0),
    sold     INTEGER NOT NULL CHECK (sold BETWEEN 0 AND stock),
    price    INTEGER NOT NULL CHECK (price >= 0),
    PRIMARY KEY (sale, position),
    UNIQUE (sale, sku)
) STRICT, WITHOUT ROWID;

-- What attempts were promised: currency and hold here, prices below.
CREATE TABLE terms (
    sale     INTEGER NOT NULL REFERENCES sales (number),
    number   INTEGER NOT NULL CHECK (number >= 1),
    currency TEXT    NOT NULL CHECK (length(currency) = 3),
    hold_ms  INTEGER NOT NULL CHECK (hold_ms >= 0),
    PRIMARY KEY (sale, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE prices (
    sale     INTEGER NOT NULL,
    terms    INTEGER NOT NULL,
    position INTEGER NOT NULL CHECK (position >= 0),
    price    INTEGER NOT NULL CHECK (price >= 0),
    PRIMARY KEY (sale, terms, position),
    FOREIGN KEY (sale, terms) REFERENCES terms (sale, number)
) STRICT, WITHOUT ROWID;

-- Orders are appended, so a crowd's rows lie side by side; only the narrow index
-- of ids is written all over. previous is the row of the same buyer's order
-- before this one in this sale: with holders.newest it is the list of a buyer's
-- orders, which spares an index by user, written all over by every new order.
-- The states are compared one by one since IN would build a table for each row.
CREATE TABLE orders (
    row         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL CHECK (length(id) = 16),
    sale        INTEGER NOT NULL REFERENCES sales (number),
    user        TEXT    NOT NULL,
    sku         TEXT    NOT NULL,
    quantity    INTEGER NOT NULL CHECK (quantity > 0),
    terms       INTEGER NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    currency    TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state = 'reserved' OR state = 'paid' OR state = 'cancelled' OR state = 'expired'
                                        OR state = 'rejected' OR state = 'refunded'),
    epoch       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    reserved_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    payment_id  TEXT    NOT NULL,
    replaces    BLOB    CHECK (length(replaces) = 16),
    previous    INTEGER CHECK (previous < row)
) STRICT;

CREATE UNIQUE INDEX orders_id ON orders (id);
CREATE INDEX orders_sale ON orders (sale, reserved_at);
CREATE INDEX orders_due ON orders (expires_at, sale) WHERE state = 'reserved';

-- What one user counts for in one sale. newest is the row of the user's last
-- order; whoever has an order in the sale has a row here.
CREATE TABLE holders (
    sale       INTEGER NOT NULL REFERENCES sales (number),
    user       TEXT    NOT NULL,
    live       INTEGER NOT NULL CHECK (live >= 0),
    refunded   INTEGER NOT NULL CHECK (refunded >= 0),
    unpaid     INTEGER NOT NULL CHECK (unpaid >= 0),
    cap        INTEGER NOT NULL,
    cool_until INTEGER NOT NULL,
    newest     INTEGER,
    PRIMARY KEY (sale, user),
    CHECK (live <= cap)
) STRICT, WITHOUT ROWID;

CREATE TABLE payments (
    id         TEXT    PRIMARY KEY,
    order_id   BLOB    NOT NULL REFERENCES orders (id),
    status     TEXT    NOT NULL CHECK (status IN ('succeeded', 'failed')),
    amount     INTEGER NOT NULL CHECK (amount >= 0),
    currency   TEXT    NOT NULL,
    outcome    TEXT    NOT NULL CHECK (outcome IN ('paid', 'already_paid', 'recorded', 'refund_required')),
    paid_order BLOB    CHECK (length(paid_order) = 16),
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX payments_order ON payments (order_id);

-- row counts refund records in the order they came to be.
CREATE TABLE refunds (
    row        INTEGER PRIMARY KEY,
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    payment_id TEXT    NOT NULL,
    order_id   BLOB    NOT NULL REFERENCES orders (id),
    amount     INTEGER NOT NULL CHECK (amount >= 0),
    currency   TEXT    NOT NULL,
    reason     TEXT    NOT NULL CHECK (reason IN ('amount_mismatch', 'duplicate', 'late', 'refunded')),
    state      TEXT    NOT NULL CHECK (state IN ('required', 'done')),
    created_at INTEGER NOT NULL,
    done_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX refunds_state ON refunds (state);
CREATE INDEX refunds_order ON refunds (order_id);

-- The journal and outbox: numbers without gaps per sale, each row's hash over
-- the one before.
CREATE TABLE journal (
    sale     INTEGER NOT NULL REFERENCES sales (number),
    seq      INTEGER NOT NULL CHECK (seq >= 1),
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    order_id BLOB    CHECK (length(order_id) = 16),
    body     BLOB    NOT NULL,
    hash     BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (sale, seq)
) STRICT, WITHOUT ROWID;

-- scopes is a JSON array of names.
CREATE TABLE api_keys (
    id         TEXT    PRIMARY KEY,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    scopes     TEXT    NOT NULL CHECK (json_type(scopes) = 'array'),
    label      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
