"""Every statement that the cache knows, by name.

A job has a row of facts, with the positions up to which they hold, and a row for its outline, which
never changes. The store's id is part of every key: one cache serves all stores of a user.
"""

#: Raised with every change below; a file of another number is made anew.
SCHEMA = 2

CREATE_FACTS = """
CREATE TABLE IF NOT EXISTS job_facts (
    store      TEXT NOT NULL,
    job        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    positions  TEXT NOT NULL,
    facts      TEXT NOT NULL,
    digest     TEXT NOT NULL,
    PRIMARY KEY (store, job)
) WITHOUT ROWID
"""

CREATE_OUTLINES = """
CREATE TABLE IF NOT EXISTS job_outlines (
    store      TEXT NOT NULL,
    job        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    outline    TEXT NOT NULL,
    digest     TEXT NOT NULL,
    PRIMARY KEY (store, job)
) WITHOUT ROWID
"""

FIND_FACTS = """
SELECT positions, facts, digest FROM job_facts
WHERE store = :store AND job = :job AND version = :version
"""

KEEP_FACTS = """
INSERT INTO job_facts (store, job, version, positions, facts, digest)
VALUES (:store, :job, :version, :positions, :facts, :digest)
ON CONFLICT (store, job) DO UPDATE SET
    version = excluded.version, positions = excluded.positions, facts = excluded.facts,
    digest = excluded.digest
"""

FIND_OUTLINE = """
SELECT outline, digest FROM job_outlines
WHERE store = :store AND job = :job AND version = :version
"""

KEEP_OUTLINE = """
INSERT INTO job_outlines (store, job, version, outline, digest)
VALUES (:store, :job, :version, :outline, :digest)
ON CONFLICT (store, job) DO UPDATE SET
    version = excluded.version, outline = excluded.outline, digest = excluded.digest
"""

FORGET_FACTS = "DELETE FROM job_facts WHERE store = :store AND job = :job"
FORGET_OUTLINE = "DELETE FROM job_outlines WHERE store = :store AND job = :job"
