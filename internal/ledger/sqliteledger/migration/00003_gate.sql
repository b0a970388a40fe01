-- What the doorkeepers of all instances share: listings, settings and the keys that
-- they sign with.

-- +goose Up

-- The gate's own row, the only one. version counts its changes; settings are none
-- of ours to look into, and settings_version is the version that they made, 0 for
-- none so far.
CREATE TABLE gate (
    one              INTEGER PRIMARY KEY CHECK (one = 1),
    version          INTEGER NOT NULL CHECK (version >= 0),
    settings_version INTEGER NOT NULL CHECK (settings_version BETWEEN 0 AND version),
    settings         BLOB    NOT NULL CHECK (length(settings) <= 65536),
    settings_author  TEXT    NOT NULL,
    settings_at      INTEGER NOT NULL
) STRICT;

INSERT INTO gate (one, version, settings_version, settings, settings_author, settings_at) VALUES (1, 0, 0, x'', '', 0);

-- One listing for a subject. version is the gate's version that its last change
-- made. A dropped listing ended at expires_at; 0 is never.
CREATE TABLE gate_listings (
    version    INTEGER PRIMARY KEY CHECK (version >= 1),
    kind       TEXT    NOT NULL CHECK (kind IN ('user', 'device', 'network')),
    value      TEXT    NOT NULL,
    effect     TEXT    NOT NULL CHECK (effect IN ('deny', 'allow', 'challenge')),
    reason     TEXT    NOT NULL,
    author     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    level      INTEGER NOT NULL CHECK (level >= 0),
    dropped    INTEGER NOT NULL CHECK (dropped IN (0, 1)),
    CHECK (dropped = 0 OR expires_at > 0)
) STRICT;

CREATE UNIQUE INDEX gate_listings_subject ON gate_listings (kind, value);
CREATE INDEX gate_listings_end ON gate_listings (expires_at, dropped);

-- Secrets are stored as they are, since the gate signs with them.
CREATE TABLE gate_keys (
    id         INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 4294967295),
    secret     BLOB    NOT NULL CHECK (length(secret) = 32),
    created_at INTEGER NOT NULL,
    retired_at INTEGER NOT NULL
) STRICT;
