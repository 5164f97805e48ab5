"""Every statement that the cache knows, by name.

One row a job: what lists show of it, and its facts with the positions up to which they hold. The
store's id is part of every key: one cache serves all stores of a user.
"""

#: Raised with every change below; a file of another number is made anew.
SCHEMA = 1

CREATE = """
CREATE TABLE IF NOT EXISTS job_facts (
    store      TEXT NOT NULL,
    job        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    key        TEXT,
    state      TEXT NOT NULL,
    submitted_at TEXT NOT NULL,
    settled_at TEXT,
    positions  TEXT NOT NULL,
    facts      TEXT NOT NULL,
    digest     TEXT NOT NULL,
    PRIMARY KEY (store, job)
) WITHOUT ROWID
"""

FIND = """
SELECT positions, facts, digest FROM job_facts
WHERE store = :store AND job = :job AND version = :version
"""

KEEP = """
INSERT INTO job_facts
    (store, job, version, name, key, state, submitted_at, settled_at, positions, facts, digest)
VALUES
    (:store, :job, :version, :name, :key, :state, :submitted_at, :settled_at, :positions, :facts,
     :digest)
ON CONFLICT (store, job) DO UPDATE SET
    version = excluded.version, name = excluded.name, key = excluded.key, state = excluded.state,
    submitted_at = excluded.submitted_at, settled_at = excluded.settled_at,
    positions = excluded.positions, facts = excluded.facts, digest = excluded.digest
"""

FORGET = "DELETE FROM job_facts WHERE store = :store AND job = :job"

LISTED = """
SELECT job, name, key, state, submitted_at, settled_at FROM job_facts
WHERE store = :store ORDER BY job
"""
