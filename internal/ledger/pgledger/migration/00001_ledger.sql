-- The ledger that several instances share.
--
-- Money is minor units, instants and durations are milliseconds (0 for none). Ids
-- are uuid: sixteen bytes held by the type itself, without a length to store or to
-- check, and compared as bytes. The first four name the sale, so the orders,
-- payments and refunds of a sale are a range of ids. Texts are compared byte for
-- byte (COLLATE "C"), so that nothing is folded and no index depends on the
-- machine's language.
--
-- The CHECKs are the last line of defence: the rules above never let it come to
-- them, and a mistake there fails here instead of overselling.
--
-- Orders, holders and journal do not refer to sales: a foreign key is asked for
-- each row of a crowd, and whoever writes them holds the lock of the sale and moves
-- the end of its journal, so it is there; nothing ever deletes it.

-- +goose Up

-- number is never used again. seq and head are the end of the sale's journal.
-- build_token is the newest right to load the fast counter, given at build_at; 0
-- for none. salts holds a big-endian number of four bytes for each lane.
CREATE TABLE sales (
    number           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (number BETWEEN 1 AND 4294967295),
    slug             text   COLLATE "C" NOT NULL,
    key              bytea  NOT NULL CHECK (octet_length(key) = 32),
    title            text   COLLATE "C" NOT NULL,
    starts_at        bigint NOT NULL,
    ends_at          bigint NOT NULL,
    per_user_limit   bigint NOT NULL CHECK (per_user_limit >= 1),
    limit_rule       text   COLLATE "C" NOT NULL CHECK (limit_rule IN ('live', 'ever_paid')),
    hold_ms          bigint NOT NULL CHECK (hold_ms >= 0),
    max_unpaid_holds bigint NOT NULL CHECK (max_unpaid_holds >= 0),
    cool_down_ms     bigint NOT NULL CHECK (cool_down_ms >= 0),
    currency         text   COLLATE "C" NOT NULL CHECK (octet_length(currency) = 3),
    preferred_path   text   COLLATE "C" NOT NULL CHECK (preferred_path IN ('direct', 'fast')),
    state            text   COLLATE "C" NOT NULL CHECK (state IN ('draft', 'published', 'paused', 'closed', 'deleted')),
    terms            bigint NOT NULL CHECK (terms >= 1),
    version          bigint NOT NULL CHECK (version >= 1),
    path             text   COLLATE "C" NOT NULL CHECK (path IN ('direct', 'fast')),
    epoch            bigint NOT NULL CHECK (epoch >= 1),
    build_token      bigint NOT NULL CHECK (build_token >= 0),
    build_at         bigint NOT NULL,
    salts            bytea  NOT NULL CHECK (octet_length(salts) % 4 = 0),
    created_at       bigint NOT NULL,
    updated_at       bigint NOT NULL,
    seq              bigint NOT NULL CHECK (seq >= 0),
    head             bytea  NOT NULL CHECK (octet_length(head) = 32)
) WITH (fillfactor = 50);

-- A deleted sale gives its slug free.
CREATE UNIQUE INDEX sales_slug ON sales (slug) WHERE state <> 'deleted';

-- position is the item's place in its sale, from 0. The counter of a hot item is
-- written by every batch, so its page has room for that.
CREATE TABLE items (
    sale     bigint NOT NULL REFERENCES sales (number),
    position bigint NOT NULL CHECK (position >= 0),
    sku      text   COLLATE "C" NOT NULL,
    title    text   COLLATE "C" NOT NULL,
    stock    bigint NOT NULL CHECK (stock >= 0),
    sold     bigint NOT NULL CHECK (sold BETWEEN 0 AND stock),
    price    bigint NOT NULL CHECK (price >= 0),
    PRIMARY KEY (sale, position),
    UNIQUE (sale, sku)
) WITH (fillfactor = 50);

-- What attempts were promised: currency and hold here, prices below.
CREATE TABLE terms (
    sale     bigint NOT NULL REFERENCES sales (number),
    number   bigint NOT NULL CHECK (number >= 1),
    currency text   COLLATE "C" NOT NULL CHECK (octet_length(currency) = 3),
    hold_ms  bigint NOT NULL CHECK (hold_ms >= 0),
    PRIMARY KEY (sale, number)
);

CREATE TABLE prices (
    sale     bigint NOT NULL,
    terms    bigint NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    price    bigint NOT NULL CHECK (price >= 0),
    PRIMARY KEY (sale, terms, position),
    FOREIGN KEY (sale, terms) REFERENCES terms (sale, number)
);

-- Columns of fixed width come first, so that none is padded.
CREATE TABLE orders (
    id          uuid   PRIMARY KEY,
    replaces    uuid,
    sale        bigint NOT NULL,
    quantity    bigint NOT NULL CHECK (quantity > 0),
    terms       bigint NOT NULL,
    amount      bigint NOT NULL CHECK (amount >= 0),
    epoch       bigint NOT NULL,
    version     bigint NOT NULL,
    reserved_at bigint NOT NULL,
    expires_at  bigint NOT NULL,
    ended_at    bigint NOT NULL,
    user_id     text   COLLATE "C" NOT NULL,
    sku         text   COLLATE "C" NOT NULL,
    currency    text   COLLATE "C" NOT NULL,
    state       text   COLLATE "C" NOT NULL CHECK (state IN ('reserved', 'paid', 'cancelled', 'expired', 'rejected', 'refunded')),
    reason      text   COLLATE "C" NOT NULL,
    payment_id  text   COLLATE "C" NOT NULL,
    CHECK ((reason <> '') = (state = 'rejected'))
);

-- Orders of one batch share reserved_at, so the first of these grows at its end
-- and holds a time once for many rows.
CREATE INDEX orders_sale ON orders (sale, reserved_at);
CREATE INDEX orders_user ON orders (user_id, reserved_at);
CREATE INDEX orders_due ON orders (expires_at, id) WHERE state = 'reserved';

-- What one user counts for in one sale.
CREATE TABLE holders (
    sale       bigint NOT NULL,
    live       bigint NOT NULL CHECK (live >= 0),
    refunded   bigint NOT NULL CHECK (refunded >= 0),
    unpaid     bigint NOT NULL CHECK (unpaid >= 0),
    cap        bigint NOT NULL,
    cool_until bigint NOT NULL,
    user_id    text   COLLATE "C" NOT NULL,
    PRIMARY KEY (sale, user_id),
    CHECK (live <= cap)
) WITH (fillfactor = 90);

CREATE TABLE payments (
    id         text   COLLATE "C" PRIMARY KEY,
    order_id   uuid   NOT NULL REFERENCES orders (id),
    status     text   COLLATE "C" NOT NULL CHECK (status IN ('succeeded', 'failed')),
    amount     bigint NOT NULL CHECK (amount >= 0),
    currency   text   COLLATE "C" NOT NULL,
    outcome    text   COLLATE "C" NOT NULL CHECK (outcome IN ('paid', 'already_paid', 'recorded', 'refund_required')),
    paid_order uuid,
    at         bigint NOT NULL
);

CREATE INDEX payments_order ON payments (order_id);

-- place counts refund records in the order they came to be: it is given under a
-- lock that is kept until the commit, so a lower number never appears later.
CREATE TABLE refunds (
    id         uuid   PRIMARY KEY,
    place      bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    payment_id text   COLLATE "C" NOT NULL,
    order_id   uuid   NOT NULL REFERENCES orders (id),
    amount     bigint NOT NULL CHECK (amount >= 0),
    currency   text   COLLATE "C" NOT NULL,
    reason     text   COLLATE "C" NOT NULL CHECK (reason IN ('amount_mismatch', 'duplicate', 'late', 'refunded')),
    state      text   COLLATE "C" NOT NULL CHECK (state IN ('required', 'done')),
    created_at bigint NOT NULL,
    done_at    bigint NOT NULL
);

CREATE INDEX refunds_state ON refunds (state, place);
CREATE INDEX refunds_order ON refunds (order_id);

-- The journal and outbox: numbers without gaps per sale, each row's hash over
-- the one before.
CREATE TABLE journal (
    sale     bigint NOT NULL,
    seq      bigint NOT NULL CHECK (seq >= 1),
    at       bigint NOT NULL,
    order_id uuid,
    kind     text   COLLATE "C" NOT NULL,
    body     bytea  NOT NULL,
    hash     bytea  NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (sale, seq)
);

-- The rows that a lane of the fast counter must learn of. A birth is none, so a
-- crowd writes nothing here.
CREATE INDEX journal_lane ON journal (sale, seq)
    WHERE kind <> 'order.reserved' AND kind <> 'order.paid' AND kind <> 'refund.required' AND kind <> 'refund.done';

-- Slips that could not be judged. place counts them in the order they were parked,
-- as that of refunds does. order_id and what follows it tell what an authentic slip
-- was about; without one order_id is NULL and the rest is empty. Nothing is demanded
-- of these, and texts are bytes: what no other table takes, since it is too long or
-- holds a NUL, must find a place here.
CREATE TABLE dead_letters (
    id        uuid    PRIMARY KEY,
    place     bigint  GENERATED ALWAYS AS IDENTITY UNIQUE,
    sale      bigint  NOT NULL REFERENCES sales (number),
    origin    bytea   NOT NULL,
    cause     bytea   NOT NULL,
    raw       bytea   NOT NULL CHECK (octet_length(raw) <= 65536),
    order_id  uuid,
    user_id   bytea   NOT NULL,
    sku       bytea   NOT NULL,
    quantity  bigint  NOT NULL,
    epoch     bigint  NOT NULL,
    terms     bigint  NOT NULL,
    taken_at  bigint  NOT NULL,
    presented boolean NOT NULL,
    state     text    COLLATE "C" NOT NULL CHECK (state IN ('open', 'replayed', 'dropped')),
    parked_at bigint  NOT NULL,
    closed_at bigint  NOT NULL
);

CREATE INDEX dead_letters_sale ON dead_letters (sale, place);
CREATE INDEX dead_letters_state ON dead_letters (state, place);
CREATE INDEX dead_letters_order ON dead_letters (order_id, place) WHERE order_id IS NOT NULL;

-- scopes is a JSON array of names.
CREATE TABLE api_keys (
    id         text   COLLATE "C" PRIMARY KEY,
    hash       bytea  NOT NULL CHECK (octet_length(hash) = 32),
    scopes     jsonb  NOT NULL CHECK (jsonb_typeof(scopes) = 'array'),
    label      text   COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint NOT NULL
);
