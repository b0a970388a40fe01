-- What the doorkeepers of all instances share: listings, settings and the keys that
-- they sign with.

-- +goose Up

-- The gate's own row, the only one, and the lock of all that follows. version counts
-- its changes; settings are none of ours to look into, and settings_version is the
-- version that they made, 0 for none so far.
CREATE TABLE gate (
    one              bigint PRIMARY KEY CHECK (one = 1),
    version          bigint NOT NULL CHECK (version >= 0),
    settings_version bigint NOT NULL CHECK (settings_version BETWEEN 0 AND version),
    settings_at      bigint NOT NULL,
    settings         bytea  NOT NULL CHECK (octet_length(settings) <= 65536),
    settings_author  text   COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

INSERT INTO gate (one, version, settings_version, settings_at, settings, settings_author) VALUES (1, 0, 0, 0, '', '');

-- One listing for a subject. version is the gate's version that its last change
-- made. A dropped listing ended at expires_at; 0 is never.
CREATE TABLE gate_listings (
    version    bigint  PRIMARY KEY CHECK (version >= 1),
    created_at bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    level      bigint  NOT NULL CHECK (level >= 0),
    dropped    boolean NOT NULL,
    kind       text    COLLATE "C" NOT NULL CHECK (kind IN ('user', 'device', 'network')),
    value      text    COLLATE "C" NOT NULL,
    effect     text    COLLATE "C" NOT NULL CHECK (effect IN ('deny', 'allow', 'challenge')),
    reason     text    COLLATE "C" NOT NULL,
    author     text    COLLATE "C" NOT NULL,
    CHECK (NOT dropped OR expires_at > 0)
);

CREATE UNIQUE INDEX gate_listings_subject ON gate_listings (kind, value);
CREATE INDEX gate_listings_end ON gate_listings (expires_at, dropped);

-- Secrets are stored as they are, since the gate signs with them.
CREATE TABLE gate_keys (
    id         bigint PRIMARY KEY CHECK (id BETWEEN 1 AND 4294967295),
    created_at bigint NOT NULL,
    retired_at bigint NOT NULL,
    secret     bytea  NOT NULL CHECK (octet_length(secret) = 32)
);
