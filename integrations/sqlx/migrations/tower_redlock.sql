-- The tables of tower-redlock-sqlx.

-- The greatest fencing token under which a transaction wrote to each resource.
CREATE TABLE IF NOT EXISTS tower_redlock_fences (
    resource text PRIMARY KEY,
    token bigint NOT NULL
);

-- The keys of each scope whose work is done.
CREATE TABLE IF NOT EXISTS tower_redlock_once (
    scope text NOT NULL,
    key text NOT NULL,
    done_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);

-- For the deletion of old records.
CREATE INDEX IF NOT EXISTS tower_redlock_once_done_at ON tower_redlock_once (done_at);
