-- Which cluster these records are of, version 2. Made once; machines hold a
-- scheduler to it.
CREATE TABLE cluster (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id  TEXT NOT NULL CHECK (id <> '')
) STRICT;
