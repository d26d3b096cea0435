-- Schema version 8: tokens of users, with a hash of the secret and the owner. A scheduler of the previous version
-- admits nobody by a token.
CREATE TABLE synapse.pass (
  id     text COLLATE "C" PRIMARY KEY,
  record bytea NOT NULL
);
