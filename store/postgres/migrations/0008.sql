-- Tokens of people, version 8: of each a hash of its secret, and whose it is. A scheduler of the
-- version before lets nobody in by one.
CREATE TABLE synapse.pass (
  id     text COLLATE "C" PRIMARY KEY,
  record bytea NOT NULL
);
